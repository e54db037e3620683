//! Opens resources that the server will no longer be able to open in the sandbox.
//!
//! Threads must not be started before entering the sandbox because they would stay outside of it.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::mpsc::channel;

use cannery_eventloop::{Balancer, Claim, Listener, Waker};

use super::admin_server::AdminListener;
use super::http3_resources::{Http3Plans, Http3Resources};
use super::worker_plans::{OwnParts, WorkerPlans};
use crate::config::{Config, LogTarget, Responders, Standby};
use crate::connection::memory_budget::MemoryLimits;
use crate::content::{ArchiveResources, Content, Current};
use crate::error::StartError;
use crate::housekeeper::{self, Reloader, Served, WatchedCertificates};
use crate::observe::{Counters, LogFile, ProcessSampler, Report};
use crate::pages::admin::{Admin, Source, collect};
use crate::pages::challenges::{self, Webroot};
use crate::process::{DownProcesses, Handover, Listening};
use crate::routes::Pools;
use crate::sandbox::{self, Sandbox, SandboxReport};
use crate::worker::{self, BackendChoice, StopFlag};
use crate::{RunningServer, StopHandle};

/// Open resources of a server.
pub(crate) struct Resources {
    io: BackendChoice,
    reloader: Option<Reloader>,
    certificates: Option<WatchedCertificates>,
    content: Content,
    /// Passed to the reload thread.
    archives: Vec<ArchiveResources>,
    log: Option<LogFile>,
    admin: Option<AdminListener>,
    /// Socket on which the admin process queries our statistics.
    stats_socket: Option<UnixDatagram>,
    listening: Listening,
    http3: Option<Http3Resources>,
    /// Standby listeners of each worker.
    standby: Vec<Vec<Standby<Listener>>>,
    wakers: Vec<Waker>,
    balancers: Vec<Balancer>,
    webroot: Option<Webroot>,
    process: Option<ProcessSampler>,
    memory_limits: MemoryLimits,
}

impl Resources {
    /// Opens archives, certificates and logs, and binds the addresses.
    ///
    /// # Errors
    /// Returns an error if something cannot be opened or bound.
    pub(crate) fn open(config: &Config) -> Result<Resources, StartError> {
        let io = BackendChoice::make(config.io)?;
        let reloader = Reloader::new(config);
        let webroot = config.acme_webroot.as_deref().map(challenges::open).transpose()?;
        let (challenges, webroot) = webroot.unzip();
        let (content, archives) = Content::open(config, challenges)?;
        let certificates = WatchedCertificates::open(config)?;
        let log = config.access_log.as_ref().map(LogFile::open).transpose()?;

        // From here on, the listening sockets exist and the kernel may complete connections, so a signal
        // should no longer kill the process.
        if let Some(kept) = &config.kept_signals {
            kept.keep_stops().map_err(StartError::Signals)?;
        }
        let admin = config.admin.as_ref().map(|admin| AdminListener::open(&admin.address)).transpose()?;
        let stats_socket =
            config.inheritance.stats_sockets.first().copied().map(collect::inherit).transpose()?;

        let listening = Listening::open(config, config.threads.get())?;
        let standby = Listening::standby(config, config.threads.get())?;
        let open_http3 = |http3| {
            let certificates = certificates.as_ref().expect("HTTP/3 uses TLS, which needs certificates");
            Http3Resources::open(config, http3, &certificates.context)
        };
        let http3 = config.served_http3().map(open_http3).transpose()?;
        let waker = |_| Waker::new().map_err(StartError::EventLoop);
        let wakers = (0..config.threads.get()).map(waker).collect::<Result<Vec<_>, _>>()?;
        let balancers = Balancer::for_loops(&wakers).map_err(StartError::EventLoop)?;

        let process = config.samples_process().then(ProcessSampler::open);
        // This must come last because it measures the memory in use. Note that there is one pool for handlers
        // and another for bodies.
        let pool_threads = match &config.responders {
            Responders::Server { .. } => 0,
            Responders::Handlers { threads, .. } => 2 * threads.get(),
        };
        let memory_limits = MemoryLimits::measure(config.threads, pool_threads);
        Ok(Resources {
            io,
            reloader,
            certificates,
            content,
            archives,
            log,
            admin,
            stats_socket,
            listening,
            http3,
            standby,
            wakers,
            balancers,
            webroot,
            process,
            memory_limits,
        })
    }

    /// Returns a sandbox that allows everything the server needs to access later.
    pub(crate) fn sandbox(&self, config: &Config) -> sandbox::Plan {
        // Open files and embedded archives are not opened again.
        let archives = config.content.archives();
        let by_path = archives.iter().filter(|named| named.is_opened_by_path());
        let of_releases = archives.iter().filter(|named| named.releases().is_some());
        let profiler_file = config.profiler.iter().filter_map(|profiler| profiler.file.clone());

        let append = config.access_log.iter().filter_map(|log| match &log.target {
            LogTarget::File(path) => Some(path.clone()),
            LogTarget::Stdout | LogTarget::Stderr => None,
        });
        let certificates = self.certificates.iter().flat_map(WatchedCertificates::paths);
        let claims = self.listening.claims().iter().chain(self.admin.iter().filter_map(AdminListener::claim));
        let remove = claims.filter_map(|claim| match claim {
            Claim::Local { path, .. } => Some(path.clone()),
            Claim::Internet { .. } => None,
        });

        sandbox::Plan {
            sandbox: config.sandbox(),
            account: config.account,
            read: by_path
                .map(|named| named.path().to_owned())
                .chain(certificates)
                .chain(profiler_file.clone())
                .collect(),
            list: of_releases.map(|named| named.path().to_owned()).collect(),
            read_below: config.acme_webroot.iter().cloned().collect(),
            compile: Vec::new(),
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
        let Resources {
            io,
            reloader,
            certificates,
            content,
            archives,
            log,
            admin,
            stats_socket,
            listening,
            http3,
            standby,
            wakers,
            balancers,
            webroot,
            process,
            memory_limits,
        } = self;

        // State that is shared by several threads.
        let last = config.inheritance.standby.iter().map(|standby| standby.process).max();
        let down_processes = last.map(DownProcesses::with_last).unwrap_or_default();
        let handover = Handover::default();
        let status = Arc::new(content.status(config));
        let current = Arc::new(Current::new(Arc::new(content)));
        let counters: Vec<_> = wakers.iter().map(|_| Arc::new(Counters::default())).collect();

        // Auxiliary threads that the workers depend on, and threads for operators.
        let log = log
            .map(|log| log.start(wakers.len(), Arc::clone(&status), config.on_notice.clone(), &sandbox))
            .transpose()?;
        let source = || Source::Own { workers: counters.clone(), status: Arc::clone(&status) };
        let make_admin = |hosts: &[_]| Admin::new(source(), hosts);
        let admin = admin
            .zip(config.admin.as_ref())
            .map(|(listener, page)| listener.start(config, make_admin(&page.hosts), &sandbox))
            .transpose()?;
        webroot.map(|webroot| webroot.start(&sandbox)).transpose()?;
        if let Some(socket) = stats_socket {
            collect::answer(socket, counters.clone(), Arc::clone(&status), &sandbox)?;
        }

        // Show operators the addresses and certificates.
        let addresses = listening.addresses().to_vec();
        let quic_addresses = http3.as_ref().map(|http3| http3.addresses().to_vec()).unwrap_or_default();
        status.set_listeners(&addresses, &quic_addresses);
        let summaries = certificates.as_ref().map(|certificates| certificates.context.certificates());
        status.set_certificates(summaries.unwrap_or_default());

        // Threads for handlers that may block, and HTTP/3.
        let handler_limit = config.timeouts.unwrap_or_default().handler;
        let content_bytes_max = memory_limits.handlers_content_bytes;
        let (pools, mut watchdog) = match &config.responders {
            Responders::Server { .. } => (None, None),
            Responders::Handlers { routes, threads } => {
                let (pools, watchdog) =
                    Pools::start(threads.get(), content_bytes_max, routes, handler_limit, &status)?;
                (Some(pools), Some(watchdog))
            }
        };
        let (notices, worker_notices) = channel();
        let mut http3 = http3.map(|http3| http3.into_plans(&notices)).transpose()?;

        // The workers.
        let stop_flag = Arc::new(StopFlag::default());
        let (stop_reporter, stop_reports) = channel();
        let plans = WorkerPlans {
            config,
            current: Arc::clone(&current),
            stop: Arc::clone(&stop_flag),
            log: log.as_ref(),
            tls: certificates.as_ref().map(|certificates| certificates.context.clone()),
            down_processes: down_processes.clone(),
            handover: handover.clone(),
            https_port: config.https_redirect.map(|redirect| redirect.port(&addresses)),
            memory_bytes_max: memory_limits.worker_bytes,
            pools,
            watchdog: watchdog.as_mut(),
            stop_reporter: stop_reporter.clone(),
            notices,
        };

        let (by_worker, mut claims) = listening.into_parts();
        let own = counters.iter().zip(by_worker).zip(wakers.iter().zip(balancers).zip(standby));
        let own = own.map(|((counters, listeners), ((waker, balancer), standby))| OwnParts {
            counters: Arc::clone(counters),
            listeners,
            waker: waker.clone(),
            balancer,
            standby,
            http3: http3.as_mut().and_then(Http3Plans::next),
        });
        let plans = plans.into_plans(own);

        let stop = StopHandle {
            flag: stop_flag,
            wakers: wakers.clone(),
            status: Arc::clone(&status),
            reports: stop_reporter,
        };
        // If one worker cannot start, stop the others.
        let workers = worker::start_all("worker", io.chosen, plans, &sandbox).inspect_err(|_| stop.stop())?;

        // The workers' listeners reserve the addresses now. We only need to keep claims that remove Unix
        // sockets.
        claims.retain(|claim| matches!(claim, Claim::Local { .. }));

        // Threads that watch the workers and the files.
        let process = process.map(|process| process.with_workers(counters.clone()));
        let reloader = reloader.map(|reloader| {
            let reloader = reloader.with_certificates(certificates).with_process(process);
            let check = watchdog
                .map(|mut watchdog| -> housekeeper::Watchdog { Box::new(move |now| watchdog.check(now)) });
            reloader.with_worker_notices(worker_notices).with_watchdog(check)
        });

        let sites = status.sites();
        let served = Served { current, wakers };
        let reload = reloader.map(|reloader| reloader.start(archives, status, served, &sandbox)).transpose();
        let reload = reload.inspect_err(|_| stop.stop())?;
        let report = config
            .report
            .map(|interval| Report::start(interval, counters, config.on_notice.clone(), &sandbox));
        let report = report.transpose().inspect_err(|_| stop.stop())?;

        Ok(RunningServer {
            addresses,
            quic_addresses,
            workers,
            stop,
            reload,
            log,
            admin,
            report,
            down_processes,
            handover,
            _claims: claims,
            sandbox,
            sandbox_report,
            io,
            on_notice: config.on_notice.clone(),
            kept_signals: config.kept_signals.clone(),
            sites,
            stop_reports,
            drain: config.drain,
        })
    }
}
