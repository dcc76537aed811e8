//! Linear learners that keep their coordinates with their data, exchange one vector a round and carry a certificate.
//!
//! The method is CoCoA (Smith, Forte, Ma, Takáč, Jordan, Jaggi): columns are dealt out to partitions ([`partition`]), each goes
//! downhill on its own ones ([`local`]), and the master puts the changes together ([`cocoa`], [`search`]). How much is done
//! between two exchanges, and how much a partition allows for the others, is chosen while it runs ([`tuner`]).
//! An objective is a [`Loss`] of all coordinates together and [`Separable`] terms; how it is scaled is in [`scaling`].
//!
//! ```
//! use qjam::{Csr, DataSet, Master};
//! use qjam_algos::linear::{Loss, Objective, Outcome, Params, Partitioned, Penalty, Scaling, fit};
//!
//! // 2 0      3
//! // 0 1  a ≈ 1
//! // 1 1      2
//! let x = Csr::from_vecs(vec![0, 1, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 1.0], 2, None)?;
//! let columns = Partitioned::columns_of(&DataSet::csr(&x)?, 2)?;
//! let ridge = Penalty::elastic_net(1.0, 1.0, Scaling::HalfSum, 3)?;
//! let objective = Objective {
//!     loss: Loss::Squares { targets: vec![3.0, 1.0, 2.0] },
//!     terms: ridge.into(),
//!     centred: false,
//!     free: false,
//! };
//! let params = Params::default().with_tolerance(1e-10)?;
//! let found = fit(&Master::connect("local:2")?, &columns, &objective, &params, |_| {})?;
//! assert_eq!(found.outcome, Outcome::Converged);
//! assert!((found.coordinates[0] - 21.0 / 17.0).abs() < 1e-4 && (found.coordinates[1] - 10.0 / 17.0).abs() < 1e-4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod baselines;
pub mod classes;
pub mod cocoa;
pub mod columns;
mod examples;
pub mod learners;
pub mod local;
pub mod loss;
pub mod model;
pub mod narrow;
pub mod params;
pub mod partition;
mod path;
pub mod plane;
pub mod rows;
pub mod scaled;
pub mod scaling;
pub mod search;
pub mod separable;
pub mod softmax;
#[cfg(test)]
mod softmax_tests;
pub mod spec;
mod steps;
pub mod tables;
#[cfg(test)]
mod tests;
mod train;
#[cfg(test)]
mod train_tests;
pub mod tuner;
pub mod whole;
mod wide;

pub use cocoa::{Fit, FitError, Objective, Outcome, Seen, Times, fit, fit_from};
pub use columns::{Columns, Value};
pub use examples::Examples;
pub use learners::{Given, LearnError, Learned, Margin, logistic, path, regress, svm};
pub use loss::Loss;
pub use model::{LinearModel, ModelError};
pub use params::{Combine, Local, Params, ParamsError};
pub use partition::{Partitioned, PrepareError};
pub use path::{grid, lambda_max, train_path};
pub use scaling::{Penalty, PenaltyError, Scaling};
pub use separable::Separable;
pub use spec::{Form, Kind, MultiClass, Spec, SpecError, Way};
pub use train::{Progress, Trained, train};
pub use tuner::{Choice, Reason};
pub use wide::{partitions_for, row_partitions_for};
