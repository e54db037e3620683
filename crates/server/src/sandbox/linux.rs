//! The sandbox of Linux: credentials, Landlock and seccomp.

pub(in crate::sandbox) mod filesystem;
mod filter;
pub(in crate::sandbox) mod privileges;
mod system_calls;

pub(in crate::sandbox) use filter::Filters;
