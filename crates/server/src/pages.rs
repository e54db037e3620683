//! Pages of the server's own, which belong to no site.

pub(crate) mod builtin;
pub(crate) mod challenges;
pub(crate) mod page;
pub(crate) mod set;
