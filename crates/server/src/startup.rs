//! Starts and stops a server: builds it, opens resources, starts threads, handles signals.

// The server as a library: configures the content, addresses and routes.
mod builder;

// Opens everything that is needed before the sandbox is entered. After that, it starts all threads.
mod resources;

// The workers, their sockets, and what they share with other threads.
mod http3_resources;
mod shared;
mod sockets;
mod workers;

// The access log, the admin listener of a single process, and the admin process if there are several.
mod admin_process;
mod admin_server;
mod operators;

// SIGTERM, SIGHUP and others.
mod signals;

pub use admin_process::AdminProcess;
pub use builder::{ReplaceableSite, Server, Settings, SiteSource};
pub(crate) use operators::RunningOperators;
pub(crate) use resources::Resources;
pub(crate) use signals::SignalHandler;
