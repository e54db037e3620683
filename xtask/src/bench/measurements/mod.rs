//! What is compared without load: how soon a server answers after its start, what a connection costs that waits, what
//! an archive costs to build. In the order of the page.

mod archiver;
mod cold_start;
mod heads;
mod idle_memory;

use super::Plan;
use super::contenders::Contender;
use super::figures::{Figures, Quantity};
use super::report::Report;
use super::scenario::Extent;
use crate::error::Error;

/// One of them: what it is called and shows, and how it is done.
pub(crate) struct Measurement {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What it shows, for the page: sentences.
    pub(crate) says: &'static str,
    /// Whether it is about TLS.
    pub(crate) is_secured: bool,
    /// Whom it looks at.
    pub(crate) contenders: &'static [Contender],
    /// Its steps.
    pub(crate) points: &'static [&'static str],
    /// What it finds.
    pub(crate) quantities: &'static [Quantity],
    pub(crate) run: fn(&[Contender], Plan, Extent, &mut Report) -> Result<Figures, Error>,
}

/// All of them.
pub(crate) const ALL: [&Measurement; 5] = [
    &cold_start::MEASUREMENT,
    &idle_memory::MEASUREMENT,
    &idle_memory::OVER_TLS,
    &heads::MEASUREMENT,
    &archiver::MEASUREMENT,
];
