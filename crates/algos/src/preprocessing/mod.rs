//! What is done to rows before something is learnt from them: columns brought to one scale.
//!
//! ```text
//!   rows ── one round (columns) ──▶ means, variances, extremes ──▶ linear::affine: (x − shift) · factor + offset
//!                                                                     │
//!             a model of its own (ScalerModel) ◀──────────────────────┤
//!             in front of a model of any other learner ◀──────────────┘   registry::scaled
//! ```
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::preprocessing::{Kind, Params, fit};
//!
//! let rows = DataSet::dense(vec![0.0, 5.0, 1.0, 5.0, 2.0, 5.0], 2)?;
//! let model = fit(&Master::connect("local:1")?, &Params::new(Kind::MinMax), &rows, false, None)?;
//! assert_eq!(model.transform_of(&rows.chunk(0)?)?, [0.0, 0.0, 0.5, 0.0, 1.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod columns;
pub mod learner;
pub mod model;
pub mod params;

pub use model::ScalerModel;
pub use params::{Kind, Params};

use crate::clustering::kmeans::parts;
use crate::input::{InputError, Problem};
use crate::learner::Weights;
use crate::linear::rows::RowChunk;
use columns::{Columns, Weighing, columns};
use qjam::{DataSet, Master};

/// Fits a model. Weights are in the rows if `weighted`; `before` is a model of earlier rows that these are to be added to.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    weighted: bool,
    before: Option<&ScalerModel>,
) -> Result<ScalerModel, InputError> {
    let name = params.kind().name();
    if !C::IN_FULL && params.needs_full_rows() {
        return Err(Problem::Centre.of(name));
    }
    let weights = if weighted { Weights::InRows } else { Weights::None };
    let mut found = seen(master, data, weights, name)?;
    if let Some(before) = before {
        let mut all = before.seen(params.kind(), found.least.len()).map_err(|problem| problem.of(name))?;
        all.add(&found);
        found = all;
    }
    Ok(ScalerModel::new(*params, found))
}

/// What there is to know of the columns, from one round over all rows.
pub(crate) fn seen<C: RowChunk>(
    master: &Master,
    data: &DataSet<C>,
    weights: Weights<'_>,
    learner: &'static str,
) -> Result<Columns, InputError> {
    let rows = data.records();
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let weighing = Weighing::of(weights, rows, data.len() as u64).map_err(|problem| problem.of(learner))?;
    let found = master.run(columns::<C>, &weighing, &data)?;
    if let Some((row, column, value)) = found.bad {
        return Err(Problem::NotFinite { row, column, value }.of(learner));
    }
    if let Some((row, value)) = found.bad_weight {
        return Err(Problem::Weight { row: row as usize, value }.of(learner));
    }
    match found.moments.weight > 0.0 {
        true => Ok(found),
        false => Err(Problem::NoWeight.of(learner)),
    }
}
