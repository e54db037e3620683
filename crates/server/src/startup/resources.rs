//! Opens resources that the server will no longer be able to open in the sandbox.
//!
//! Threads must not be started before entering the sandbox because they would stay outside of it.

use std::sync::Arc;
use std::sync::mpsc::channel;

use cannery_eventloop::{Claim, Waker};

use super::operators::Operators;
use super::shared::Shared;
use super::sockets::Sockets;
use super::workers::Workers;
use crate::config::{CURRENT, Config, LogTarget, Responders};
use crate::context::MemoryLimits;
use crate::error::StartError;
use crate::housekeeper::{
    Archives, CertificateLoader, Housekeeper, ProcessSampler, Reporter, SiteOpener, WorkerNotices,
};
use crate::observe::{Counters, LogFile, Status};
use crate::pages::challenges::{self, Webroot};
use crate::routes::limits::BODY_THREADS_PER_HANDLER_THREAD;
use crate::routes::{Pools, Watchdog};
use crate::sandbox::{self, Sandbox, SandboxReport};
use crate::worker::BackendChoice;
use crate::{RunningServer, StopWhenDropped};

/// Open resources of a server.
pub(crate) struct Resources {
    io: BackendChoice,
    archives: Archives,
    site_opener: Option<SiteOpener>,
    certificates: Option<CertificateLoader>,
    webroot: Option<Webroot>,
    operators: Operators,
    sockets: Sockets,
    wakers: Vec<Waker>,
    counters: Vec<Arc<Counters>>,
    sampler: Option<ProcessSampler>,
    memory_limits: MemoryLimits,
}

impl Resources {
    /// Opens archives, certificates and logs, and binds the addresses.
    ///
    /// # Errors
    /// Returns an error if something cannot be opened or bound.
    pub(crate) fn open(config: &Config) -> Result<Resources, StartError> {
        let io = BackendChoice::make(config.io)?;
        let waker = |_| Waker::new().map_err(StartError::EventLoop);
        let wakers = (0..config.threads.get()).map(waker).collect::<Result<Vec<_>, _>>()?;

        let webroot = config.acme_webroot.as_deref().map(challenges::open).transpose()?;
        let (challenges, webroot) = webroot.unzip();
        let archives = Archives::open(config, challenges, wakers.clone())?;
        let site_opener = SiteOpener::open(config, &archives.current(), wakers.clone())?;
        let certificates = CertificateLoader::open(config)?;
        let log = config.access_log.as_ref().map(LogFile::open).transpose()?;

        // From here on, the listening sockets exist and the kernel may complete connections, so a signal
        // should no longer kill the process.
        if let Some(kept) = &config.kept_signals {
            kept.keep_stops().map_err(StartError::Signals)?;
        }
        let operators = Operators::open(config, log)?;
        let tls = certificates.as_ref().map(|certificates| &certificates.context);
        let sockets = Sockets::open(config, tls, wakers.clone())?;

        let patterns = || config.routes().map(|routes| routes.patterns());
        let make_counters = || Counters::with_routes(patterns().into_iter().flatten());
        let counters: Vec<_> = wakers.iter().map(|_| Arc::new(make_counters())).collect();
        let sampler = config.samples_process().then(|| ProcessSampler::open(counters.clone()));
        // This must come last because it measures the memory in use.
        let memory_limits = MemoryLimits::measure(config.threads, pool_threads(config));
        Ok(Resources {
            io,
            archives,
            site_opener,
            certificates,
            webroot,
            operators,
            sockets,
            wakers,
            counters,
            sampler,
            memory_limits,
        })
    }

    /// Returns a sandbox that allows everything the server needs to access later.
    pub(crate) fn sandbox(&self, config: &Config) -> sandbox::Plan {
        // Open files and embedded archives are not opened again.
        let archives = config.content.archives().iter();
        let by_path = archives.clone().filter(|named| named.is_opened_by_path());
        let of_releases = archives.filter(|named| named.releases().is_some());
        let profiler_file = config.profiler.iter().filter_map(|profiler| profiler.file.clone());

        // Everything below the directory may be read. No file of this name has to exist.
        let site_directory = config.site_directory.iter().map(|directory| directory.path.join(CURRENT));

        let read = by_path.map(|named| named.path().to_owned());
        let read = read.chain(self.certificates.iter().flat_map(CertificateLoader::paths));
        let append = config.access_log.iter().filter_map(|log| match &log.target {
            LogTarget::File(path) => Some(path.clone()),
            LogTarget::Stdout | LogTarget::Stderr => None,
        });
        let remove = self.sockets.claims().iter().chain(self.operators.claim());
        let remove = remove.filter_map(|claim| match claim {
            Claim::Local { path, .. } => Some(path.clone()),
            Claim::Internet { .. } => None,
        });

        sandbox::Plan {
            sandbox: config.sandbox(),
            account: config.account,
            read: read.chain(profiler_file.clone()).collect(),
            list: of_releases.map(|named| named.path().to_owned()).chain(site_directory).collect(),
            read_below: config.acme_webroot.iter().cloned().collect(),
            write: Vec::new(),
            receive: Vec::new(),
            compile: Vec::new(),
            issue: Vec::new(),
            // To read its file, the profiler opens it again (for writing as well as reading).
            append: append.chain(profiler_file.clone()).collect(),
            remove: remove.chain(profiler_file).collect(),
            rings: self.io.chosen.is_uring(),
            is_profiled: config.profiler.is_some(),
            deny_action: sandbox::DenyAction::default(),
        }
    }

    /// Starts all threads in the sandbox. By the time this returns, the server accepts connections.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub(crate) fn serve(
        self,
        config: &Config,
        sandbox: Sandbox,
        sandbox_report: SandboxReport,
    ) -> Result<RunningServer, StartError> {
        let (reports, stop_reports) = channel();
        let shared = Shared::new(config, self.archives.current(), self.counters, self.wakers, reports);
        let status = &shared.status;
        let sites = status.sites();

        // Threads that the workers depend on.
        let operators = self.operators.start(config, &shared, &sandbox)?;
        if let Some(webroot) = self.webroot {
            webroot.start(&sandbox)?;
        }
        let (pools, mut watchdog) = pools(config, &self.memory_limits, status).unzip();

        // Show operators the addresses and certificates.
        let mut addresses = self.sockets.addresses();
        addresses.admin = operators.admin_address();
        status.set_listeners(&addresses.listeners, &addresses.quic);
        let mut certificates = self.certificates;
        if let Some(certificates) = &mut certificates {
            certificates.report_to(status);
        }
        let tls = certificates.as_ref().map(|certificates| certificates.context.clone());

        let (notices, worker_notices) = channel();
        let workers = Workers {
            config,
            shared: &shared,
            log: operators.log.as_ref(),
            tls,
            memory_bytes_max: self.memory_limits.worker_bytes,
            pools,
            watchdog: watchdog.as_mut(),
            notices,
        };
        let (workers, claims) = workers.start(self.sockets, self.io.chosen, &sandbox)?;

        let reporter = || Reporter { status: Arc::clone(status), on_notice: config.on_notice.clone() };
        let site_directory = self.site_opener.as_ref().map(SiteOpener::summary);
        let site_opener = self.site_opener.map(|opener| opener.start(&sandbox, reporter())).transpose();
        let site_opener = site_opener.inspect_err(|_| shared.stop.stop())?;
        let housekeeper = Housekeeper {
            archives: self.archives,
            certificates,
            sampler: self.sampler,
            notices: WorkerNotices(worker_notices),
            watchdog,
            site_opener,
            reporter: reporter(),
        };
        let housekeeper = Some(housekeeper).filter(|_| Housekeeper::is_needed(config));
        let housekeeper = housekeeper.map(|housekeeper| housekeeper.start(&sandbox)).transpose();
        let housekeeper = housekeeper.inspect_err(|_| shared.stop.stop())?;

        Ok(RunningServer {
            addresses,
            workers,
            _stop_when_dropped: StopWhenDropped(shared.stop.clone()),
            stop: shared.stop,
            housekeeper,
            operators,
            down_processes: shared.down_processes,
            handover: shared.handover,
            _claims: claims,
            sandbox,
            sandbox_report,
            io: self.io,
            on_notice: config.on_notice.clone(),
            kept_signals: config.kept_signals.clone(),
            sites,
            site_directory,
            stop_reports,
            drain: config.drain,
        })
    }
}

/// Returns how many threads the pools have: there is one pool for handlers, one for bodies and one for uploads.
fn pool_threads(config: &Config) -> usize {
    match &config.responders {
        Responders::Server { .. } => 0,
        Responders::Handlers { threads, routes } => {
            let uploads = if routes.has_uploads() { BODY_THREADS_PER_HANDLER_THREAD } else { 0 };
            (1 + BODY_THREADS_PER_HANDLER_THREAD + uploads) * threads.get()
        }
    }
}

/// Returns the pools for handlers that may block.
fn pools(config: &Config, memory_limits: &MemoryLimits, status: &Arc<Status>) -> Option<(Pools, Watchdog)> {
    let Responders::Handlers { routes, threads } = &config.responders else { return None };
    let limit = config.timeouts.unwrap_or_default().handler;
    Some(Pools::new(threads.get(), memory_limits.handlers_content_bytes, routes, limit, status))
}
