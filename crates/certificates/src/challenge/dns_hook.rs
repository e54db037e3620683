//! Sets and removes DNS records by a program of the user (DNS-01, RFC 8555 §8.4).

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::HOOK_TIMEOUT;

/// A program that is called as `PROGRAM set NAME VALUE` and `PROGRAM remove NAME VALUE`. It should return once all name servers
/// have the record.
#[derive(Clone, Debug)]
pub struct DnsHook {
    program: PathBuf,
    timeout: Duration,
}

/// A TXT record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl DnsHook {
    /// Calls this program.
    #[must_use]
    pub fn new(program: PathBuf) -> DnsHook {
        DnsHook { program, timeout: HOOK_TIMEOUT }
    }

    pub(crate) fn set(&self, record: &Record) -> Result<(), Error> {
        self.call("set", record)
    }

    pub(crate) fn remove(&self, record: &Record) -> Result<(), Error> {
        self.call("remove", record)
    }

    fn call(&self, action: &'static str, record: &Record) -> Result<(), Error> {
        let failed = |why: String| Error::Hook {
            program: self.program.clone(),
            action,
            record: record.name.clone(),
            why,
        };
        let mut command = Command::new(&self.program);
        command.arg(action).arg(&record.name).arg(&record.value);
        // A group of its own, so that programs that it has started end with it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;

        let started = Instant::now();
        loop {
            match child.try_wait().map_err(|error| failed(error.to_string()))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(failed(status.to_string())),
                None if started.elapsed() >= self.timeout => {
                    end(&mut child);
                    return Err(failed(format!("it was still running after {} s", self.timeout.as_secs())));
                }
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// Kills a process and those that it has started.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It fails if they have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// Writes a hook. A process of its own does so: a program can't be started while any process has it open for writing, and
    /// children of other tests inherit our descriptors for a moment.
    pub(in crate::challenge) fn hook(place: &tempfile::TempDir, script: &str) -> DnsHook {
        let program = place.path().join("hook");
        let script = format!("#!/bin/sh\ncd {}\n{script}\n", place.path().display());
        let mut writer = Command::new("sh");
        writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(&program).arg(script);
        assert!(writer.status().unwrap().success());
        DnsHook { program, timeout: Duration::from_secs(20) }
    }

    fn record() -> Record {
        Record { name: "_acme-challenge.example.com".into(), value: "-value_".into() }
    }

    #[test]
    fn hook_gets_its_arguments() {
        let place = tempfile::tempdir().unwrap();
        let hook = hook(&place, "echo \"$# $1 $2 $3\" >> calls");
        hook.set(&record()).unwrap();
        hook.remove(&record()).unwrap();
        let calls = fs::read_to_string(place.path().join("calls")).unwrap();
        assert_eq!(
            calls,
            "3 set _acme-challenge.example.com -value_\n3 remove _acme-challenge.example.com -value_\n"
        );
    }

    #[test]
    fn failures_name_the_hook_and_the_record() {
        let place = tempfile::tempdir().unwrap();
        let error = hook(&place, "exit 3").set(&record()).unwrap_err().to_string();
        for part in ["hook", "set", "_acme-challenge.example.com", "3"] {
            assert!(error.contains(part), "{error}");
        }
        let missing = DnsHook::new("/nowhere/at/all".into());
        assert!(missing.set(&record()).unwrap_err().to_string().contains("/nowhere/at/all"));
    }

    #[test]
    fn hook_that_hangs_is_killed_with_its_children() {
        let place = tempfile::tempdir().unwrap();
        let mut hook = hook(&place, "sleep 1000 & echo $! > child; wait");
        hook.timeout = Duration::from_secs(1);
        let error = hook.set(&record()).unwrap_err().to_string();
        assert!(error.contains("still running"), "{error}");
        // On a machine under load, the hook may not have come this far.
        let Ok(child) = fs::read_to_string(place.path().join("child")) else { return };
        let command = format!("/proc/{}/cmdline", child.trim());
        // A zombie has no command line.
        let is_gone = || fs::read(&command).map_or(true, |line| line.is_empty());
        while !is_gone() {
            thread::yield_now();
        }
    }
}
