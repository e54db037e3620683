//! The kernel's accounts of a server, over its process and all its descendants: CPU time, memory, descriptors, page faults
//! and context switches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::metric::Metric;
use crate::process::Server;
use crate::results::Sample;

/// Counts of a server's work, beyond CPU time.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Clock ticks in user mode and in the kernel.
    user_ticks: u64,
    kernel_ticks: u64,
    /// Page faults.
    faults: u64,
    /// Context switches because a thread waited, and because its time slice had ended.
    waits: u64,
    slices: u64,
}

impl Server {
    /// Returns user and system time of all threads and descendants since their start. The time of a thread that has ended
    /// is missing, so a later value may be smaller.
    ///
    /// It comes from the scheduler's account in nanoseconds; `/proc/PID/stat` has the same sum in hundredths of a
    /// second.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let has_children = Path::new("/proc/thread-self/children").exists();
        ensure!(has_children, "the kernel doesn't list child processes (CONFIG_PROC_CHILDREN)");
        Ok(Duration::from_nanos(sum(&self.threads(), "schedstat", "")?))
    }

    /// Returns the CPU time that was used since an earlier value of [`Server::cpu_time`], in seconds.
    pub(crate) fn cpu_seconds_since(&self, before: Duration) -> Result<f64> {
        Ok(self.cpu_time()?.saturating_sub(before).as_secs_f64())
    }

    /// Returns the anonymous memory of the process tree, in bytes. Pages that a process shares with its parent since
    /// the fork count for both.
    ///
    /// `smaps_rollup` counts page by page; the kernel's quick sums lag by some pages for each processor.
    pub(crate) fn anonymous_bytes(&self) -> Result<u64> {
        Ok(sum(&self.processes(), "smaps_rollup", "Anonymous:")? * 1024)
    }

    /// Returns the sum of the peak resident memory of the process tree, in bytes.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        Ok(sum(&self.processes(), "status", "VmHWM:")? * 1024)
    }

    /// Returns the number of open descriptors. Threads may have tables of their own; the largest counts.
    pub(crate) fn descriptors(&self) -> usize {
        let tables = self.threads().into_iter().map(|thread| thread.join("fd"));
        tables.map(|table| fs::read_dir(table).map_or(0, Iterator::count)).max().unwrap_or(0)
    }

    /// Returns the folders of the process and all its descendants in `/proc`.
    fn processes(&self) -> Vec<PathBuf> {
        let mut processes = vec![PathBuf::from(format!("/proc/{}", self.id()))];
        let mut next = 0;
        while let Some(process) = processes.get(next) {
            let lists = threads(process).map(|thread| fs::read_to_string(thread.join("children")));
            let children: String = lists.map(Result::unwrap_or_default).collect();
            processes.extend(children.split_whitespace().map(|id| PathBuf::from(format!("/proc/{id}"))));
            next += 1;
        }
        processes
    }

    fn threads(&self) -> Vec<PathBuf> {
        self.processes().iter().flat_map(|process| threads(process)).collect()
    }

    /// Returns counts since the start of all threads and descendants.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        for process in self.processes() {
            let stat = fs::read_to_string(process.join("stat"))?;
            let [minor, major, user, kernel] = accounts(&stat).with_context(|| format!("stat: {stat}"))?;
            counts.user_ticks += user;
            counts.kernel_ticks += kernel;
            counts.faults += minor + major;
        }
        let threads = self.threads();
        counts.waits = sum(&threads, "status", "voluntary_ctxt_switches:")?;
        counts.slices = sum(&threads, "status", "nonvoluntary_ctxt_switches:")?;
        Ok(counts)
    }

    /// Returns shares, and counts per thousand requests, since [`Server::counts`] was `before`. The switches of a thread that
    /// has ended are missing.
    pub(crate) fn counted_since(&self, before: &Counts, requests: f64) -> Result<Sample> {
        let now = self.counts()?;
        let since = |count: fn(&Counts) -> u64| count(&now).saturating_sub(count(before)) as f64;
        let (user, kernel) = (since(|counts| counts.user_ticks), since(|counts| counts.kernel_ticks));
        let (waits, slices) = (since(|counts| counts.waits), since(|counts| counts.slices));
        let faults = since(|counts| counts.faults);
        Ok(vec![
            (Metric::KernelShare, kernel / (kernel + user).max(1.0)),
            (Metric::Faults, faults * 1000.0 / requests),
            (Metric::Switches, (waits + slices) * 1000.0 / requests),
            (Metric::VoluntaryShare, waits / (waits + slices).max(1.0)),
        ])
    }
}

/// Returns the kernel's memory for all TCP sockets of the machine, in bytes.
pub(crate) fn kernel_tcp_bytes() -> Result<u64> {
    const PAGE_BYTES: u64 = 4096;
    let text = fs::read_to_string("/proc/net/sockstat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = line.and_then(|line| line.rsplit_once(" mem ")).context("sockstat: no TCP memory")?.1;
    Ok(pages.trim().parse::<u64>()? * PAGE_BYTES)
}

/// Returns the folders of a process's threads, or none if it has ended.
fn threads(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten();
    threads.flatten().map(|thread| thread.path())
}

/// Returns the sum of a field of a file in each of these folders. Threads and processes that have just ended have no files.
fn sum(folders: &[PathBuf], file: &str, field: &str) -> Result<u64> {
    let mut sum = 0;
    for folder in folders {
        let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse::<u64>().ok());
        sum += value.with_context(|| format!("{}: no {field}", folder.join(file).display()))?;
    }
    Ok(sum)
}

/// Returns minor and major page faults, user and kernel ticks of a line of `/proc/PID/stat`.
fn accounts(stat: &str) -> Option<[u64; 4]> {
    // The program's name may contain parentheses and spaces. The state follows it.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |place: usize| fields.get(place)?.parse().ok();
    Some([field(7)?, field(9)?, field(11)?, field(12)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_follow_the_program_name() {
        let stat = "812 (a) 3 b) S 77 812 812 0 -1 4194560 1093 21 5 2 300 40 1 1 20 0 1 0";
        assert_eq!(accounts(stat), Some([1093, 5, 300, 40]));
        assert_eq!(accounts("garbage"), None);
    }
}
