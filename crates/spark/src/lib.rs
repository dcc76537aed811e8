//! Rounds as jobs of a system that runs tasks: Spark.
//!
//! The master is the driver's process. A round becomes a job whose tasks are told numbers and nothing else, and give the roots of
//! their blocks. Beside each of Spark's Python workers runs a [worker](serve) process of ours, which has the data, the states and the
//! functions; the Python worker hands it what a task is told, and hands its answer back. Spark places tasks, starts them again
//! and brings their answers home; it decides nothing about bits.
//!
//! ```text
//!   master ── SparkCrew ── Cluster::run ──▶ driver (Python): broadcast, job over task numbers
//!                                              │ Spark
//!                                Python worker of an executor ── pipes ── worker process (`serve`)
//!   master ◀── parts, states, what is lacking ─┘
//! ```
//!
//! Comes in: orders from the master, and a [`Cluster`], which somebody who knows the system [offers](offer) under a name. Goes out:
//! outcomes. Nothing here knows Spark's interfaces; `python/qjam/_spark` does.

mod cluster;
mod crew;
mod held;
mod messages;
mod offer;
mod serve;
mod shares;

pub use cluster::{Answer, Cluster, Job, JobError, Task, TaskEnd};
pub use crew::SparkCrew;
pub use offer::offer;
