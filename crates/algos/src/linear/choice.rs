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
    pub(super) const DENSE_PAIR: f64 = 0.025;
    /// One of a sparse row, which goes to a place of its own.
    pub(super) const SPARSE_PAIR: f64 = 1.0;
    /// A stored number of dense rows, read once and used twice.
    pub(super) const DENSE_ENTRY: f64 = 0.3;
    /// One of sparse rows.
    pub(super) const SPARSE_ENTRY: f64 = 1.5;
    /// A stored number that CoCoA descends along.
    pub(super) const DENSE_DESCENT: f64 = 0.5;
    /// One of sparse columns.
    pub(super) const SPARSE_DESCENT: f64 = 1.2;
    /// A product of Cholesky's factors.
    pub(super) const FACTOR: f64 = 0.06;
    /// An element of the matrix that rounds sum up, combine and the master reads.
    pub(super) const ELEMENT: f64 = 12.0;
    /// An element of it that the master descends along.
    pub(super) const MASTER_DESCENT: f64 = 0.25;
    /// A round, whatever is in it.
    pub(super) const ROUND: f64 = 40_000.0;
}

/// How long solvers usually take. What columns depend on each other decides it, and that no shape tells: sparse columns hardly do,
/// dense ones mostly.
struct Usual {
    /// Steps of Newton's method for losses other than squares.
    steps: f64,
    /// Rounds of conjugate gradients in each.
    rounds_in_step: f64,
    /// Rounds of conjugate gradients for squares.
    rounds_of_squares: f64,
    /// How many times the cost of conjugate gradients the direct solver may cost: these may take many times as long as usual, it
    /// never does.
    risk: f64,
}

const DENSE: Usual = Usual { steps: 18.0, rounds_in_step: 40.0, rounds_of_squares: 150.0, risk: 3.0 };
const SPARSE: Usual = Usual { steps: 9.0, rounds_in_step: 4.0, rounds_of_squares: 25.0, risk: 1.0 };

/// Most columns whose products are summed up without being asked for: the matrix has 32 MiB, and is there several times.
const PRODUCTS_MAX: usize = 2048;
/// Passes that CoCoA needs with an l1 penalty, for squares and for a logistic loss.
const COCOA_PASSES: [f64; 2] = [60.0, 300.0];
/// Passes of the master's coordinate descent over its matrix: to the last digit for squares, to a better point for other losses.
const DESCENT_PASSES: [f64; 2] = [300.0, 30.0];

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
        Solver::NewtonCg => usual(shape).risk * conjugate_gradients_ns(spec, shape),
        _ => cocoa_ns(spec, shape),
    };
    Ok(match columns <= PRODUCTS_MAX && direct_ns(spec, shape) <= others_cost {
        true => (Solver::Direct, format!("{columns} columns are few")),
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

fn usual(shape: &Shape) -> &'static Usual {
    if shape.is_sparse { &SPARSE } else { &DENSE }
}

fn is_of_squares(spec: &Spec) -> bool {
    !spec.kind.classifies()
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
    let [of_squares, of_others] = DESCENT_PASSES;
    let passes = if is_of_squares(spec) { of_squares } else { of_others };
    let solved = match spec.eta < 1.0 {
        true => passes * columns * columns * price::MASTER_DESCENT,
        false => columns.powi(3) / 3.0 * price::FACTOR,
    };
    let matrix = columns * columns * price::ELEMENT;
    let steps = if is_of_squares(spec) { 1.0 } else { usual(shape).steps };
    pass_ns(shape) + steps * (pass_ns(shape) + products + solved + matrix)
}

/// A round for each step of conjugate gradients.
fn conjugate_gradients_ns(spec: &Spec, shape: &Shape) -> f64 {
    let usual = usual(shape);
    match is_of_squares(spec) {
        true => (2.0 + usual.rounds_of_squares) * pass_ns(shape),
        // Second derivatives take another product of each row.
        false => usual.steps * (1.0 + 1.5 * usual.rounds_in_step) * pass_ns(shape),
    }
}

/// Coordinate descent on partitions of the columns.
fn cocoa_ns(spec: &Spec, shape: &Shape) -> f64 {
    let entry = if shape.is_sparse { price::SPARSE_DESCENT } else { price::DENSE_DESCENT };
    let [of_squares, of_others] = COCOA_PASSES;
    let passes = if is_of_squares(spec) { of_squares } else { of_others };
    passes * (shape.entries * entry + price::ROUND)
}
