//! The native part of `qjam-spark`: what Spark's executors in Java call for the rounds of a descent.
//!
//! [`calls`] are the functions that `qjam.spark.Native` declares: arrays of Java in, arrays of Java out, and an exception of Java for
//! whatever is wrong. [`held`] is what an executor keeps between two of Spark's jobs: columns and coordinates of partitions, by the
//! descent that they belong to and the round they are at. The steps themselves are those of `qjam_algos::linear::local_steps`.
//!
//! It may not decide anything about a round: which one it is, what it begins with and what counts is said by the driver
//! (`scala/Descent.scala`).

pub mod calls;
pub mod held;
