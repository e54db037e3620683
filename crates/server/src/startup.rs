//! Start and shutdown of a server: builds it, opens its resources, starts its threads, handles signals.

// The server as a library: what it serves, where, and with which routes.
mod builder;

// Everything that must be open before the sandbox is entered, and the start of all threads.
mod resources;

// The plans of the workers, and HTTP/3's part of them.
mod http3_resources;
mod worker_plans;

// The admin listener of a single process, and the admin process of several.
mod admin_process;
mod admin_server;

// SIGTERM, SIGHUP and their like.
mod signals;

pub use admin_process::AdminProcess;
pub(crate) use admin_server::AdminServer;
pub use builder::{EmbeddedArchive, FolderReleases, Server};
pub(crate) use resources::Resources;
pub(crate) use signals::SignalHandler;
