//! The machine: processors, descriptors, addresses and versions.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit};
use rustix::thread::CpuSet;

/// Returns model, number of processors and kernel.
pub(crate) fn description() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {} processors, Linux {}", processors(), kernel.trim())
}

/// Returns the number of processors that we may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the first line that a command prints about its version. Some exit with a failure afterwards.
pub(crate) fn version(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("version unknown").to_owned()
}

/// Returns a local address with an unused port.
///
/// A fixed port would be dangerous: with SO_REUSEPORT, a second server starts silently next to a forgotten one and
/// gets half of the load.
pub(crate) fn free_address() -> Result<SocketAddrV4> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("127.0.0.1")?;
    Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr()?.port()))
}

/// Runs the calling thread on the given processors, such as `2,3`.
pub(crate) fn pin_thread(processors: &str) -> Result<()> {
    let mut set = CpuSet::new();
    for number in processors.split(',') {
        set.set(number.parse()?);
    }
    rustix::thread::sched_setaffinity(None, &set).context("sched_setaffinity")
}

/// Gives the calling thread the lowest priority of the scheduler.
pub(crate) fn lower_priority() -> Result<()> {
    const LOWEST: i32 = 19;
    rustix::process::nice(LOWEST).context("nice")?;
    Ok(())
}

/// Calls `run` for each task in a thread of its own, all at the same time. Returns the results in the order of the tasks, or
/// the first error after all threads have ended.
pub(crate) fn in_threads<Task: Send, T: Send>(
    tasks: impl IntoIterator<Item = Task>,
    run: impl Fn(Task) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(move || run(task))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a task does not panic")).collect()
    })
}

/// Calls `run` and, in another thread, `background`, which ends once its flag is set. The flag is set when `run` returns. Fails
/// if one of them does.
pub(crate) fn during<T, B: Send>(
    background: impl FnOnce(&AtomicBool) -> Result<B> + Send,
    run: impl FnOnce() -> Result<T>,
) -> Result<(T, B)> {
    /// Sets the flag when it is dropped, so that the other thread ends even if `run` panics.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let should_stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let background = scope.spawn(|| background(&should_stop));
        let stop = Stop(&should_stop);
        let result = run();
        drop(stop);
        Ok((result?, background.join().expect("the other thread does not panic")?))
    })
}

/// Calls `has_happened` at intervals until it returns `true`. Fails after `limit`.
pub(crate) fn wait_until(
    limit: Duration,
    every: Duration,
    mut has_happened: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !has_happened()? {
        ensure!(started.elapsed() < limit, "timeout after {limit:?}");
        thread::sleep(every);
    }
    Ok(())
}

/// Raises the descriptor limit for this process and its children, as far as the machine allows it. Only root can raise
/// the hard limit. A server that needs more is left out.
pub(crate) fn raise_descriptor_limit() {
    /// One for each of 16,384 connections, and one for each of 250,000 files of a server that keeps files open.
    const WANTED: u64 = 300_000;
    let allowed = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    for limit in [WANTED.max(allowed), allowed] {
        let raised = Rlimit { current: Some(WANTED.min(limit)), maximum: Some(limit) };
        if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
            return;
        }
    }
}

pub(crate) fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Processors of the server and of the load generator, as taskset lists. They never overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) server: String,
    pub(crate) generator: String,
}

/// Returns the processors for a server with this number of threads and its load generator.
pub(crate) fn placement(threads: usize) -> Result<Placement> {
    distribute(processors(), threads).with_context(|| format!("too few processors for {threads} threads"))
}

/// Gives the first processors to the server's threads, and the last two, or the last one, to the load generator.
/// Returns `None` if no processor is left for the generator.
fn distribute(available: usize, threads: usize) -> Option<Placement> {
    let generators = available.checked_sub(threads).filter(|left| *left > 0)?.min(2);
    let list = |numbers: std::ops::Range<usize>| {
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
    };
    Some(Placement { server: list(0..threads), generator: list(available - generators..available) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_generator_never_share_a_processor() {
        let lists = |available, threads| {
            distribute(available, threads).map(|placement| (placement.server, placement.generator))
        };
        let owned = |server: &str, generator: &str| Some((server.to_owned(), generator.to_owned()));
        assert_eq!(lists(4, 1), owned("0", "2,3"));
        assert_eq!(lists(4, 2), owned("0,1", "2,3"));
        assert_eq!(lists(4, 3), owned("0,1,2", "3"));
        assert_eq!(lists(2, 1), owned("0", "1"));
        assert_eq!((lists(4, 4), lists(1, 1)), (None, None));
    }
}
