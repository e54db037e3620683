//! Starts and stops a server: builds it, opens resources, starts threads, handles signals.

// The server as a library: configures the content, addresses and routes.
mod builder;

// Opens everything that is needed before the sandbox is entered. After that, it starts all threads.
mod resources;

// Plans for the workers, with and without HTTP/3.
mod http3_resources;
mod worker_plans;

// The admin listener of a single process, and the admin process if there are several.
mod admin_process;
mod admin_server;

// SIGTERM, SIGHUP and others.
mod signals;

pub use admin_process::AdminProcess;
pub(crate) use admin_server::AdminServer;
pub use builder::{EmbeddedArchive, FolderReleases, Server, Settings};
pub(crate) use resources::Resources;
pub(crate) use signals::SignalHandler;
