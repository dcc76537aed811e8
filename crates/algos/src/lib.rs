//! Learners on the public interface of `qjam`.
//!
//! Each learner is a folder of one shape: `params` (its table of [`options`], and the values that were checked once), `mod`
//! (fit: functions that run on a chunk, and the master's part), `model` (what is asked of it, and its parts for a file,
//! [`models`]), and `learner`, which is what callers see that take any of them ([`learner`]). The rows of a data set go in chunk by chunk, sums come back, and the master turns the total into a step. Arithmetic that
//! must not depend on the processor is in [`kernels`]; drivers that need only a function and its gradient are in
//! [`optimize`]. [`graph`] has what is computed about graphs; its partitions send each other mail.

pub mod answers;
pub mod bayes;
pub mod clustering;
pub mod decomposition;
pub mod discriminant;
pub mod evaluate;
pub mod graph;
pub mod images;
pub mod input;
pub mod kernels;
pub mod learner;
pub mod linear;
pub mod local;
pub mod mixture;
pub mod models;
pub mod moments;
pub mod neural;
pub mod optimize;
pub mod options;
pub mod preprocessing;
pub mod projection;
pub mod registry;

/// The code in the book is run like any other example.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/book/k-means-start-to-finish.md")]
    struct KMeansStartToFinish;
    #[doc = include_str!("../../../docs/book/linear-models.md")]
    struct LinearModels;
    #[doc = include_str!("../../../docs/book/model-files.md")]
    struct ModelFiles;
}
