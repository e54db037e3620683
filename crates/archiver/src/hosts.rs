//! Names of hosts, in rules and as folders.

pub(crate) mod host; // Hosts in rules.
pub(crate) mod punycode; // International host names.
pub(crate) mod site_path; // Paths of the folder as paths of sites.
