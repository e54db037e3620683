//! The commands that publish releases on other machines: `cannery push`, `rollback` and `status`.
//!
//! - [`push()`], [`rollback()`] and [`status()`]: the commands
//! - `fleet`: does the same on several targets at a time
//! - `connection`: starts `ssh`, or `cannery receive` on this machine, and explains what went wrong
//! - `target`: what users write for a target
//! - `preview`: the host and the settings of a preview, and its removal
//! - `stores`: the same commands with stores, from which nodes pull releases
//! - `compile`: compiles a folder after the newest release
//! - `cache`: makes the next push fast
//! - `signer`: signs releases, and trusts no statement that it did not sign
//! - `hooks`: the outcome of `--on-activate`
//! - `moment`: waits for the moment of a switch
//! - `transfer`: progress of a transfer

mod cache;
mod compile;
mod connection;
mod fleet;
mod hooks;
mod moment;
mod preview;
mod push;
mod rollback;
mod signer;
mod status;
mod stores;
mod target;
mod transfer;

pub(super) use fleet::reason;
pub use push::run as push;
pub use rollback::run as rollback;
pub use status::run as status;
