//! What a process uses: processor time and memory, of one that ends and of one that goes on.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use wait4::Wait4;

use crate::error::Error;

/// What a process has used from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    /// User and system time of all its threads, and of the processes it waited for.
    pub(crate) processor: Duration,
    /// The most memory it had resident at once, in bytes. Never below what this program itself has, a few
    /// MiB, because a new process starts as a copy of us.
    pub(crate) peak_bytes: u64,
}

/// How often we look whether a process has ended. Adds half of it to the wall time on average.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Runs a program to its end and says what it used; one that takes longer than allowed is ended.
pub(crate) fn measure(command: &mut Command, wall_max: Duration) -> Result<Used, Error> {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|source| Error::start(command, source))?;
    let ended = loop {
        if let Some(ended) = child.try_wait4().map_err(|source| Error::start(command, source))? {
            break ended;
        }
        if started.elapsed() > wall_max {
            // Its end is reported by the next look, as a failure.
            child.kill().map_err(|source| Error::start(command, source))?;
        }
        thread::sleep(LOOK_EVERY);
    };
    if !ended.status.success() {
        return Err(Error::failed(command, ended.status));
    }
    let usage = ended.rusage;
    Ok(Used { wall: started.elapsed(), processor: usage.utime + usage.stime, peak_bytes: usage.maxrss })
}

/// Processor time that a running process, its threads and its descendants have used so far.
///
/// From the scheduler's own account in nanoseconds: the clock ticks of `/proc/PID/stat` are the same sum
/// rounded to hundredths of a second.
pub(crate) fn processor_time_of_tree(root: u32) -> Result<Duration, Error> {
    tree(root)?.into_iter().map(processor_time).sum()
}

fn processor_time(process: u32) -> Result<Duration, Error> {
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    let entries = fs::read_dir(&tasks).map_err(|source| Error::file(&tasks, source))?;
    entries
        .flatten()
        .filter_map(|task| {
            let path = task.path().join("schedstat");
            // A thread that has just ended has nothing more to tell.
            let text = fs::read_to_string(&path).ok()?;
            Some((path, text))
        })
        .map(|(path, text)| {
            let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
            nanoseconds
                .map(Duration::from_nanos)
                .ok_or_else(|| unreadable(&path.display().to_string(), &text))
        })
        .sum()
}

/// The most memory that a running process had resident at once, in bytes; the sum over its descendants.
pub(crate) fn peak_bytes_of_tree(root: u32) -> Result<u64, Error> {
    tree(root)?
        .into_iter()
        .map(|process| {
            let path = format!("/proc/{process}/status");
            let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
            let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
            let kibibytes: Option<u64> = peak.and_then(|number| number.parse().ok());
            kibibytes.map(|number| number * 1024).ok_or_else(|| unreadable(&path, "no line VmHWM"))
        })
        .sum()
}

/// Memory that a running process has for itself now, in bytes: what is mapped from files does not count.
///
/// Counted page by page: the sums that the kernel keeps beside are late by some pages for each processor.
pub(crate) fn anonymous_bytes(process: u32) -> Result<u64, Error> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
    let size = text.lines().find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix(" kB"));
    let kibibytes: Option<u64> = size.and_then(|number| number.parse().ok());
    kibibytes.map(|number| number * 1024).ok_or_else(|| unreadable(&path, "no line Anonymous"))
}

/// The same of a process and all its descendants. What a process shares with its parent since it was made counts
/// for both.
pub(crate) fn anonymous_bytes_of_tree(root: u32) -> Result<u64, Error> {
    tree(root)?.into_iter().map(anonymous_bytes).sum()
}

/// Descriptors that are open in a running process: of the thread that has most, since each of its threads may
/// have a table of its own.
pub(crate) fn descriptors(process: u32) -> Result<usize, Error> {
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    let entries = fs::read_dir(&tasks).map_err(|source| Error::file(&tasks, source))?;
    let counts =
        entries.flatten().filter_map(|task| Some(fs::read_dir(task.path().join("fd")).ok()?.count()));
    Ok(counts.max().unwrap_or(0))
}

/// Waits until a running process has no more descriptors open than these, or has had the time to: a server lingers
/// for some seconds over an end that the peer has not seen.
pub(crate) fn await_descriptors(process: u32, count: usize) -> Result<(), Error> {
    const PATIENCE: Duration = Duration::from_secs(15);
    let started = Instant::now();
    while descriptors(process)? > count && started.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Memory that the kernel holds for the TCP sockets of the whole machine, in bytes.
pub(crate) fn kernel_tcp_bytes() -> Result<u64, Error> {
    const PAGE_BYTES: u64 = 4096;
    let path = "/proc/net/sockstat";
    let text = fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
    let line = text.lines().find(|line| line.starts_with("TCP:"));
    let pages: Option<u64> = line.and_then(|line| line.rsplit_once(" mem ")?.1.trim().parse().ok());
    pages.map(|pages| pages * PAGE_BYTES).ok_or_else(|| unreadable(path, &text))
}

/// A process and all its descendants, found by everybody's parent.
fn tree(root: u32) -> Result<Vec<u32>, Error> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = fs::read_dir("/proc").map_err(|source| Error::file("/proc", source))?;
    for entry in entries.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that has just ended is nobody's child any more.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(process).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// The parent in a line of `/proc/PID/stat`. The program's name may hold anything, so it is skipped from
/// the right.
fn parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

fn unreadable(path: &str, got: &str) -> Error {
    Error::Unexpected { what: path.into(), expected: "the kernel's figures".into(), got: got.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_parenthesis_does_not_hide_the_parent() {
        assert_eq!(parent("812 (a) 3 b) S 77 812 812 0"), Some(77));
        assert_eq!(parent("garbage"), None);
    }

    #[test]
    fn a_process_that_works_uses_time_and_memory() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        let used = measure(&mut busy, Duration::from_secs(60)).unwrap();
        assert!(used.processor > Duration::ZERO && used.wall >= used.processor / 2);
        assert!(used.peak_bytes > 100_000);
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended() {
        let used = measure(Command::new("sleep").arg("600"), Duration::from_millis(20));
        assert!(matches!(used, Err(Error::Failed { .. })));
    }

    #[test]
    fn a_process_that_goes_on_has_figures() {
        // Not ourselves: other tests start and end processes, which are then part of the tree or not.
        let mut waiting = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let process = waiting.id();
        assert!(processor_time_of_tree(process).unwrap() > Duration::ZERO);
        assert!(peak_bytes_of_tree(process).unwrap() > 0);
        assert!(anonymous_bytes(process).unwrap() > 0);
        assert!(descriptors(process).unwrap() > 2);
        assert!(kernel_tcp_bytes().is_ok());
        // Its input ends, and with it the process.
        drop(waiting.stdin.take());
        assert!(waiting.wait().unwrap().success());
    }
}
