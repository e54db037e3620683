//! Start and shutdown of a server: opens its resources, starts its threads, handles signals.

mod admin_process;
mod admin_server;
mod http3_resources;
mod resources;
mod signals;

pub use admin_process::AdminProcess;
pub(crate) use admin_server::AdminServer;
pub(crate) use resources::Resources;
pub(crate) use signals::SignalHandler;
