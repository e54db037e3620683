//! Start and shutdown of a server: opens its resources, starts its threads, handles signals.

mod admin_server;
mod operators;
mod resources;
mod signals;

pub(crate) use admin_server::AdminServer;
pub use operators::Operators;
pub(crate) use resources::Resources;
pub(crate) use signals::handle as handle_signals;
