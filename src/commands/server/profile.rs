//! `--profile-cpu` and `--profile-mem`: pprof profiles of the server's whole lifetime.
//!
//! The files are opened before the server enters its sandbox and written when it stops. Without these flags, none of this code
//! is run, and the system calls needed by the profiler are not allowed in the sandbox.
//!
//! The memory profile shows mappings instead of call stacks. For the latter, we would need an allocator that records each
//! allocation, at a cost in time and memory even when it is switched off. Moreover, a static server should not allocate much
//! anyway: most of its memory is used for archives, connection buffers and stacks, and all of these are separate mappings.

mod encode;
mod memory;

use std::fs::{self, File};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use self::encode::{Profile, Unit};
use self::memory::MemorySampler;
use crate::flags::server::ServerOptions;
use crate::output::{Exit, Failure};

/// Samples per second of CPU time. To avoid coinciding with timers, this should not be a divisor of common timer
/// frequencies.
const FREQUENCY_HZ: i32 = 99;

/// CPU time represented by a sample, in nanoseconds.
const PERIOD_NS: i64 = 1_000_000_000 / FREQUENCY_HZ as i64;

#[derive(Default)]
pub(super) struct Profilers {
    cpu: Option<CpuProfiler>,
    memory: Option<(ProfileFile, MemorySampler)>,
}

struct CpuProfiler {
    file: ProfileFile,
    /// Never dropped because then it would create another temporary file.
    guard: ManuallyDrop<ProfilerGuard<'static>>,
    /// The file in which the profiler collects samples, if we could find it.
    temporary: Option<PathBuf>,
}

struct ProfileFile {
    path: PathBuf,
    file: File,
}

impl Profilers {
    /// Opens the files and starts sampling CPU time.
    pub(super) fn start(options: &ServerOptions) -> Result<Profilers, Failure> {
        let memory = match &options.profile_mem {
            Some(path) => Some((ProfileFile::create(path)?, MemorySampler::open()?)),
            None => None,
        };
        let cpu = options.profile_cpu.as_deref().map(CpuProfiler::start).transpose()?;
        Ok(Profilers { cpu, memory })
    }

    /// Returns the CPU profiler's temporary file.
    pub(super) fn temporary_file(&self) -> Option<PathBuf> {
        self.cpu.as_ref().and_then(|cpu| cpu.temporary.clone())
    }

    /// Starts sampling memory. This must be called from inside the sandbox, since the new thread should be inside of it
    /// too.
    pub(super) fn sample(&self) -> Result<(), Failure> {
        self.memory.as_ref().map_or(Ok(()), |(_, sampler)| sampler.start())
    }

    /// Writes the profiles.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let cpu = self.cpu.map_or(Ok(()), CpuProfiler::finish);
        let memory = self.memory.map_or(Ok(()), |(mut file, sampler)| file.write(&sampler.profile()));
        cpu.and(memory)
    }
}

impl CpuProfiler {
    fn start(path: &Path) -> Result<CpuProfiler, Failure> {
        let file = ProfileFile::create(path)?;
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("`--profile-cpu`: cannot start the profiler: {error}"))
        };

        // The profiler collects samples in a temporary file. It must be in the profile's folder because this is where the
        // sandbox allows us to remove it again.
        let folder = fs::canonicalize(path).ok().and_then(|path| path.parent().map(Path::to_owned));
        let folder = folder.unwrap_or_default();
        let _ = tempfile::env::override_temp_dir(&folder);
        // This also loads the program's symbols, which will not be allowed in the sandbox later.
        let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY_HZ).build();
        let guard = guard.map_err(|error| failed(&error))?;
        Ok(CpuProfiler { file, guard: ManuallyDrop::new(guard), temporary: open_temporary(&folder) })
    }

    fn finish(mut self) -> Result<(), Failure> {
        let report =
            self.guard.report().build().map_err(|error| {
                Failure::failed(format!("`--profile-cpu`: cannot read the samples: {error}"))
            })?;

        let mut profile = Profile::new(&[("samples", Unit::Count), ("cpu", Unit::Nanoseconds)]);
        profile.set_period(("cpu", Unit::Nanoseconds), PERIOD_NS);
        profile.set_duration(report.timing.duration);
        for (stack, count) in &report.data {
            let names: Vec<_> = stack.frames.iter().flatten().map(pprof::Symbol::name).collect();
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let thread = ("thread", stack.thread_name.as_str());
            profile.push(&names, &[count, count.saturating_mul(PERIOD_NS)], Some(thread));
        }
        self.file.write(&profile)
    }
}

impl Drop for CpuProfiler {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            let _ = fs::remove_file(path);
        }
    }
}

/// Finds the temporary file in `folder` among this process's open files.
fn open_temporary(folder: &Path) -> Option<PathBuf> {
    let targets =
        fs::read_dir("/proc/self/fd").ok()?.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_temporary = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        path.parent() == Some(folder) && name.starts_with(".tmp")
    };
    targets.into_iter().find(is_temporary)
}

impl ProfileFile {
    fn create(path: &Path) -> Result<ProfileFile, Failure> {
        let file = File::create(path).map_err(|error| write_failure(path, &error))?;
        Ok(ProfileFile { path: path.to_owned(), file })
    }

    fn write(&mut self, profile: &Profile) -> Result<(), Failure> {
        self.file.write_all(&profile.encode()).map_err(|error| write_failure(&self.path, &error))
    }
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Output, format!("cannot write the profile {}: {error}", path.display()))
}
