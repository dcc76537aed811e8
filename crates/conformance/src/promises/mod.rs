//! What is promised, one file per subject.

use crate::program::Programs;

pub(crate) mod bits;
pub(crate) mod cancel;
pub(crate) mod deaths;
pub(crate) mod derived;
pub(crate) mod faults;
pub(crate) mod files;
pub(crate) mod kills;
pub(crate) mod leaks;
pub(crate) mod lifecycle;
pub(crate) mod limits;
pub(crate) mod logs;
pub(crate) mod mail;
pub(crate) mod pending;
pub(crate) mod reduction;
pub(crate) mod results;
pub(crate) mod states;
pub(crate) mod views;

/// Programs that promises start.
pub const PROGRAMS: &[Programs] = &[kills::PROGRAMS, leaks::PROGRAMS, lifecycle::PROGRAMS, limits::PROGRAMS];
