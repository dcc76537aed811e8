//! Which solver: the one that costs least by counts of the data's shape and a table of prices, never by a clock.
//!
//! Comes in: what is to be learnt, and rows, columns and stored numbers of the data. Goes out: a solver, and why. Prices were measured once
//! (`docs/decisions/solvers.md`); that they are those of another machine costs time and no bits.

use super::error::LearnError;
use super::params::{Kind, Solver, Spec};
use super::solvers::coordinate::learners::Margin;
use super::solvers::coordinate::partition::PrepareError;
use super::solvers::direct;
use qjam::Rows;

/// What of the data decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: f64,
    pub(super) columns: usize,
    /// Stored numbers.
    pub(super) entries: f64,
    pub(super) is_sparse: bool,
}

impl Shape {
    /// That of some rows.
    pub(super) fn of(examples: &Rows) -> Result<Shape, LearnError> {
        Ok(Shape {
            rows: examples.records() as f64,
            columns: examples.cols().map_err(PrepareError::from)?,
            entries: examples.entries() as f64,
            is_sparse: examples.is_sparse(),
        })
    }
}

/// Prices in nanoseconds of one thread.
mod price {
    /// A product of two numbers of a dense row, added to a sum: many at a time.
    pub(super) const DENSE_PAIR: f64 = 0.06;
    /// One of a sparse row, which goes to a place of its own.
    pub(super) const SPARSE_PAIR: f64 = 1.0;
    /// A stored number of dense rows, read once and used twice.
    pub(super) const DENSE_ENTRY: f64 = 0.8;
    /// One of sparse rows.
    pub(super) const SPARSE_ENTRY: f64 = 2.5;
    /// A step of Cholesky's factors.
    pub(super) const FACTOR: f64 = 0.25;
    /// An element of the matrix that rounds sum up and the master reads, several times.
    pub(super) const ELEMENT: f64 = 20.0;
    /// A round, whatever is in it.
    pub(super) const ROUND: f64 = 40_000.0;
}

/// Steps of Newton's method that a loss other than squares takes.
const STEPS: f64 = 9.0;
/// Rounds of conjugate gradients that a step takes, for squares and for other losses.
const CG_ROUNDS_OF_SQUARES: f64 = 80.0;
const CG_ROUNDS: f64 = 12.0;
/// Most columns whose products are summed up without being asked for: the matrix has 32 MiB, and is there several times.
const PRODUCTS_MAX: usize = 2048;
/// Passes that CoCoA needs with an l1 penalty, and passes of the master's coordinate descent over its matrix.
const COCOA_PASSES: f64 = 60.0;
const DESCENT_PASSES: f64 = 60.0;

/// Which solver, and why. A function of the data's shape alone.
pub(super) fn choose(spec: &Spec, shape: &Shape) -> Result<(Solver, String), LearnError> {
    if spec.solver == Solver::Lbfgs {
        return Err(LearnError::NotApart);
    }
    if spec.positive {
        return positive(spec, shape.columns);
    }
    let has_direct = spec.kind != Kind::Svm || spec.margin != Margin::Hinge;
    let Shape { columns, is_sparse, .. } = *shape;
    match spec.solver {
        Solver::Auto => {}
        Solver::Direct if !has_direct => {}
        Solver::NewtonCg if !spec.is_smooth() => {}
        Solver::Direct if columns > direct::COLUMNS_MAX => {
            return Err(LearnError::TooWide { columns, most: direct::COLUMNS_MAX });
        }
        Solver::Direct | Solver::NewtonCg => return Ok((spec.solver, "it was asked for".into())),
        other if spec.lambda == 0.0 => return Err(LearnError::NoPenalty { solver: other.name() }),
        other => return Ok((other, "it was asked for".into())),
    }
    if !has_direct {
        return Ok((
            Solver::Cocoa,
            "a support vector machine with a plain hinge is found by its dual".into(),
        ));
    }
    let kind = if is_sparse { "sparse" } else { "dense" };
    let otherwise = if spec.is_smooth() { Solver::NewtonCg } else { Solver::Cocoa };
    let others_cost = match otherwise {
        Solver::NewtonCg => conjugate_gradients_ns(spec, shape),
        _ => cocoa_ns(spec, shape),
    };
    Ok(match columns <= PRODUCTS_MAX && direct_ns(spec, shape) <= others_cost {
        true => (Solver::Direct, format!("{columns} {kind} columns are few")),
        false => (otherwise, format!("{columns} {kind} columns are many")),
    })
}

/// Coefficients that may not be negative are found by the direct solver.
fn positive(spec: &Spec, columns: usize) -> Result<(Solver, String), LearnError> {
    match spec.solver {
        Solver::Auto | Solver::Direct if columns > direct::COLUMNS_MAX => {
            Err(LearnError::PositiveTooWide { columns, most: direct::COLUMNS_MAX })
        }
        Solver::Auto => Ok((Solver::Direct, "coefficients may not be negative".into())),
        Solver::Direct => Ok((Solver::Direct, "it was asked for".into())),
        other => Err(LearnError::NotPositive { solver: other.name() }),
    }
}

fn steps(spec: &Spec) -> f64 {
    if matches!(spec.kind, Kind::Logistic | Kind::Svm) { STEPS } else { 1.0 }
}

/// A pass over the data that multiplies it by a vector, and a vector by it.
fn pass_ns(shape: &Shape) -> f64 {
    shape.entries * if shape.is_sparse { price::SPARSE_ENTRY } else { price::DENSE_ENTRY } + price::ROUND
}

/// Products of all pairs of columns in rounds, and steps from them on the master.
fn direct_ns(spec: &Spec, shape: &Shape) -> f64 {
    let (columns, rows) = (shape.columns as f64, shape.rows.max(1.0));
    let products = match shape.is_sparse {
        // As if all rows were as long as their mean.
        true => 0.5 * shape.entries * (shape.entries / rows).max(1.0) * price::SPARSE_PAIR,
        false => 0.5 * rows * columns * columns * price::DENSE_PAIR,
    };
    let solved = match spec.eta < 1.0 {
        true => DESCENT_PASSES * columns * columns * price::FACTOR,
        false => columns.powi(3) / 3.0 * price::FACTOR,
    };
    let matrix = columns * columns * price::ELEMENT;
    pass_ns(shape) + steps(spec) * (pass_ns(shape) + products + solved + matrix)
}

/// A round for each step of conjugate gradients.
fn conjugate_gradients_ns(spec: &Spec, shape: &Shape) -> f64 {
    match steps(spec) > 1.0 {
        // Second derivatives take another product of each row.
        true => steps(spec) * (1.0 + 1.5 * CG_ROUNDS) * pass_ns(shape),
        false => (2.0 + CG_ROUNDS_OF_SQUARES) * pass_ns(shape),
    }
}

/// Coordinate descent on partitions of the columns.
fn cocoa_ns(spec: &Spec, shape: &Shape) -> f64 {
    let per_entry = if matches!(spec.kind, Kind::Logistic) { 2.0 } else { 1.0 };
    COCOA_PASSES * per_entry * pass_ns(shape)
}
