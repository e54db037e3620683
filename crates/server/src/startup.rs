//! Start and stop of a server: opens what it needs, starts its threads, obeys signals.

mod admin_server;
mod operators;
mod resources;
mod signals;

pub(crate) use admin_server::AdminServer;
pub use operators::Operators;
pub(crate) use resources::Resources;
pub(crate) use signals::obey as obey_signals;
