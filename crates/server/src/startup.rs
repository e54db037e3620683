//! Start and stop of a server: opens what it needs, starts its threads, obeys signals.

pub(crate) mod admin_server;
pub(crate) mod operators;
pub(crate) mod resources;
pub(crate) mod signals;
