//! Linear learners, each of whose results carries a certificate: how far its objective is from the optimum at most.
//!
//! Ridge, lasso, elastic net, logistic regression and support vector machines share all of it. [`tables`] and [`params`] are what
//! can be chosen, [`train`](fn@train) makes classes ([`classes`]), weights and scales ([`scaled`]) ready and chooses one of the
//! [`solvers`] by what the shape of the data lets it cost, [`model`] is what comes out. How an objective is scaled is in [`scaling`].
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

pub mod affine;
mod choice;
pub mod classes;
mod error;
pub mod learner;
pub mod model;
pub mod params;
mod path;
pub mod rows;
pub mod scaled;
pub mod scaling;
pub mod solvers;
pub mod tables;
mod train;
#[cfg(test)]
mod train_tests;

pub use error::LearnError;
pub use model::{LinearModel, ModelError};
pub use params::{Form, Kind, MultiClass, Solver, Spec, SpecError};
pub use path::{grid, lambda_max, train_path};
pub use scaling::{Penalty, PenaltyError, Scaling};
pub use solvers::coordinate::cocoa::{CocoaRound, Fit, FitError, Objective, Outcome, Times, fit, fit_from};
pub use solvers::coordinate::columns::{Columns, Value};
pub use solvers::coordinate::drawn::{Drawing, DrawnRound, Draws, Steps, drawn, local_steps};
pub use solvers::coordinate::learners::{Given, Learned, Margin, logistic, path, regress, svm};
pub use solvers::coordinate::loss::Loss;
pub use solvers::coordinate::params::{Combine, Local, Params, ParamsError, Tuning};
pub use solvers::coordinate::partition::{Partitioned, PrepareError};
pub use solvers::coordinate::separable::Separable;
pub use solvers::coordinate::tuner::{Choice, Reason};
pub use solvers::coordinate::wide::{partitions_for, row_partitions_for};
pub use train::{Progress, Trained, train};

/// The name that [`CocoaRound`] had.
#[deprecated(note = "it is called CocoaRound")]
pub type Seen = CocoaRound;

/// The name that [`Solver`] had.
#[deprecated(note = "it is called Solver")]
pub type Way = Solver;
