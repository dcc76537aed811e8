//! What people look at during a run and after it: pages of it, and the differences between two.
//!
//! Comes in: run files, through [`qjam::runs`]. Goes out: [`report::page`], one HTML file that needs no network;
//! [`live::Dashboard`], the same page served on the loopback interface while the run goes on; and [`compare::compare`], which names the
//! first round in which two runs differ. Nothing here starts a worker, asks a master or writes a file, and everything that a run file says is data: it is never put into a page as markup or as a script.

pub mod compare;
pub mod live;
pub mod report;
