//! One iteration of Lloyd's algorithm: rows find their nearest centres, centres move to the mean of their rows.
//!
//! The first half runs on the chunks: [`assign`] sends home a sum of rows and of weights for every centre. The second,
//! [`Centres::moved_to`], is the master's. Rows are added in their order within a chunk, in doubles, and chunks along the
//! fixed tree, so the new centres have the same bits whoever did it. Centres without rows are looked after by
//! [`relocate`](super::relocate), or stay where they are.

use super::points::{ADD_IN_ORDER_MAX, Points, View, chained_square, squared_distance};
use super::targets::{self, Targets};
use super::touched::Touched;
use crate::kernels::nearest::{Panels, Real};
use qjam::{Csr, Dense, MergeError, Reduce};

/// Rows that are assigned and then added while they are still in a cache.
const BLOCK_ROWS: usize = 896;

/// What all rows of each centre come to.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Sums {
    /// Sum of the weights of its rows.
    pub weights: Vec<f64>,
    /// Weighted sum of its rows, centre after centre. Empty where `touched` has it.
    pub sums: Vec<f64>,
    /// The same where most of it is 0.
    pub(super) touched: Touched,
    /// Distances of a row and a centre that were computed.
    pub compared: u64,
    /// All there are.
    pub comparisons: u64,
}

impl Sums {
    pub(super) fn new(k: usize, dims: usize) -> Sums {
        Sums {
            weights: vec![0.0; k],
            sums: vec![0.0; k * dims],
            touched: Touched::default(),
            compared: 0,
            comparisons: 0,
        }
    }

    /// Adds one row to its centre.
    #[inline(always)]
    pub(super) fn add<T: Real>(&mut self, centre: usize, rows: impl View<T>, i: usize) {
        let dims = rows.dims();
        self.weights[centre] += rows.add(i, &mut self.sums[centre * dims..][..dims]);
    }

    /// With `sums` in full.
    pub(super) fn in_full(mut self) -> Sums {
        if !self.touched.is_unused() {
            self.sums = std::mem::take(&mut self.touched).full();
        }
        self
    }
}

impl Reduce for Sums {
    fn merge(&mut self, right: Self) {
        if let Err(error) = self.try_merge(right) {
            panic!("{error}");
        }
    }

    fn try_merge(&mut self, mut right: Self) -> Result<(), MergeError> {
        self.weights.try_merge(right.weights).map_err(|error| error.in_field("weights"))?;
        self.compared += right.compared;
        self.comparisons += right.comparisons;
        match (self.touched.is_unused(), right.touched.is_unused()) {
            (false, false) if !self.touched.overflows_with(&right.touched) => {
                self.touched = self.touched.merged(&right.touched);
                return Ok(());
            }
            (false, true) => {
                // The sum of two numbers is the same from either side.
                self.touched.add_to(&mut right.sums);
                self.touched = Touched::default();
                self.sums = right.sums;
                return Ok(());
            }
            (false, false) => self.sums = std::mem::take(&mut self.touched).full(),
            (true, _) => {}
        }
        match right.touched.is_unused() {
            true => self.sums.try_merge(right.sums).map_err(|error| error.in_field("sums")),
            false => {
                right.touched.add_to(&mut self.sums);
                Ok(())
            }
        }
    }
}

/// Centres as chunks get them.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Compared<T: Real> {
    pub(super) targets: Targets<T>,
    /// Whether rows have weights.
    pub(super) weighted: bool,
}

impl<T: Real> Compared<T> {
    /// The centres themselves.
    pub(super) fn centres(&self) -> Centres<T> {
        Centres { values: self.targets.values().to_vec(), dims: self.targets.dims() }
    }
}

/// The centres that rows are given to, with nothing remembered of rounds before.
#[qjam::map]
pub fn assign<C: Points>(with: &Compared<C::Number>, x: &C) -> Sums {
    let targets = &with.targets;
    let rows = x.view(with.weighted);
    let mut sums = Sums::new(targets.len(), targets.dims());
    // Sums beyond the caches are added to once a chunk: fetching them costs more than fetching the rows again.
    let at_once = C::View::AT_ONCE || sums.sums.len() > ADD_IN_ORDER_MAX;
    let mut nearest = vec![0; rows.len()];
    for (block, nearest) in nearest.chunks_mut(BLOCK_ROWS).enumerate() {
        let from = block * BLOCK_ROWS;
        let rows = rows.part(from..from + nearest.len());
        targets.nearest(rows, nearest);
        if !at_once {
            rows.add_all(nearest, &mut sums);
        }
    }
    if at_once {
        rows.add_all(&nearest, &mut sums);
    }
    sums.comparisons = (rows.len() * targets.len()) as u64;
    sums.compared = sums.comparisons;
    sums
}

/// What is needed to measure how well centres fit.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Measure<T: Real> {
    targets: Targets<T>,
    squares: Vec<f64>,
    pub(super) weighted: bool,
}

impl<T: Real> Measure<T> {
    /// The centres that it measures with.
    pub(super) fn centres(&self) -> Centres<T> {
        Centres { values: self.targets.values().to_vec(), dims: self.targets.dims() }
    }

    pub(super) fn new(centres: &Centres<T>, weighted: bool) -> Measure<T> {
        let squares = centres.values.chunks_exact(centres.dims).map(chained_square).collect();
        Measure { targets: centres.targets(true), squares, weighted }
    }

    /// The nearest centre of every row.
    pub(super) fn nearest(&self, rows: impl View<T>) -> Vec<u32> {
        let mut nearest = vec![0; rows.len()];
        self.targets.nearest(rows, &mut nearest);
        nearest
    }

    /// The coordinates of a centre, and its square as [`View::squared_distance`] wants it.
    pub(super) fn centre(&self, centre: u32) -> (&[T], f64) {
        let (centre, dims) = (centre as usize, self.targets.dims());
        (&self.targets.values()[centre * dims..][..dims], self.squares[centre])
    }

    /// The weighted squared distances of rows to their nearest centres, added in the order of the rows.
    pub(super) fn sum(&self, rows: impl View<T>) -> f64 {
        let mut sum = 0.0;
        for (i, centre) in self.nearest(rows).into_iter().enumerate() {
            let (coordinates, square) = self.centre(centre);
            sum += rows.weight(i) * rows.squared_distance(i, coordinates, square);
        }
        sum
    }

    /// The distances of rows to all centres, those of the first row first.
    pub(super) fn distances(&self, rows: impl View<T>) -> Vec<T> {
        let mut out = Vec::with_capacity(rows.len() * self.squares.len());
        if let Some(dense) = rows.dense() {
            let mut squares = vec![0.0; self.squares.len()];
            for i in 0..dense.len() {
                T::squared_distances(dense.row(i), self.targets.values(), &mut squares);
                out.extend(squares.iter().map(|square| T::from_f64(square.sqrt())));
            }
            return out;
        }
        for i in 0..rows.len() {
            let centres = self.targets.values().chunks_exact(self.targets.dims()).zip(&self.squares);
            out.extend(centres.map(|(c, square)| T::from_f64(rows.squared_distance(i, c, *square).sqrt())));
        }
        out
    }
}

/// The weighted sum of the squared distances of rows to their nearest centres, from differences in doubles.
#[qjam::map]
pub fn inertia<C: Points>(measure: &Measure<C::Number>, x: &C) -> f64 {
    measure.sum(x.view(measure.weighted))
}

/// Distances to all centres, row after row.
#[derive(Clone, Debug, PartialEq, Default, qjam::Wire)]
pub struct Distances<T: Real> {
    /// As many for each row as there are centres.
    pub distances: Vec<T>,
    /// Rows these belong to.
    pub rows: u64,
    /// Row, column and value of the first number that is not finite.
    pub bad: Option<(u64, u64, f64)>,
}

impl<T: Real> Reduce for Distances<T> {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (self.rows + row, column, value)));
        self.rows += right.rows;
        self.distances.extend_from_slice(&right.distances);
    }
}

/// The distances of the rows of a chunk to all centres.
#[qjam::map]
pub fn distances<C: Points>(measure: &Measure<C::Number>, x: &C) -> Distances<C::Number> {
    let rows = x.view(measure.weighted);
    Distances { distances: measure.distances(rows), rows: rows.len() as u64, bad: first_unusable(rows) }
}

/// Row, column and value of the first number that is not finite.
pub(super) fn first_unusable<T: Real>(rows: impl View<T>) -> Option<(u64, u64, f64)> {
    (0..rows.len()).find_map(|i| rows.unusable(i).map(|(column, value)| (i as u64, column, value)))
}

/// The nearest centre of every row, in the order of the rows.
#[derive(Clone, Debug, PartialEq, Default, qjam::Wire)]
pub struct Labels {
    /// Indices of centres.
    pub labels: Vec<u32>,
    /// Row, column and value of the first number that is not finite.
    pub bad: Option<(u64, u64, f64)>,
}

impl Reduce for Labels {
    fn merge(&mut self, right: Self) {
        let before = self.labels.len() as u64;
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (before + row, column, value)));
        self.labels.extend_from_slice(&right.labels);
    }
}

/// The label of a row that has a number that is not finite.
pub const NO_LABEL: u32 = u32::MAX;

/// The nearest centres of the rows of a chunk; [`NO_LABEL`] for rows that cannot have one.
#[qjam::map]
pub fn label<C: Points>(with: &Compared<C::Number>, x: &C) -> Labels {
    let rows = x.view(with.weighted);
    let mut labels = vec![0; rows.len()];
    with.targets.nearest(rows, &mut labels);
    let bad = first_unusable(rows);
    let clean = bad.map_or(rows.len(), |(row, ..)| row as usize);
    for (i, label) in labels.iter_mut().enumerate().skip(clean) {
        if rows.unusable(i).is_some() {
            *label = NO_LABEL;
        }
    }
    Labels { labels, bad }
}

qjam::register!(assign::<Dense<f32>>, assign::<Dense<f64>>, assign::<Csr<f32>>, assign::<Csr<f64>>);
qjam::register!(inertia::<Dense<f32>>, inertia::<Dense<f64>>, inertia::<Csr<f32>>, inertia::<Csr<f64>>);
qjam::register!(label::<Dense<f32>>, label::<Dense<f64>>, label::<Csr<f32>>, label::<Csr<f64>>);
qjam::register!(
    distances::<Dense<f32>>,
    distances::<Dense<f64>>,
    distances::<Csr<f32>>,
    distances::<Csr<f64>>
);

/// Row-major centres on the master.
#[derive(Clone, Debug, PartialEq)]
pub struct Centres<T> {
    pub(super) values: Vec<T>,
    pub(super) dims: usize,
}

impl<T: Real> Centres<T> {
    /// Centres of `dims` coordinates each; `None` if they are not whole or there is none.
    pub fn new(values: Vec<T>, dims: usize) -> Option<Centres<T>> {
        (dims > 0 && !values.is_empty() && values.len().is_multiple_of(dims))
            .then_some(Centres { values, dims })
    }

    /// Number of centres.
    pub fn len(&self) -> usize {
        self.values.len() / self.dims
    }

    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Coordinates of a centre.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// All coordinates, centre after centre.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub(super) fn panels(&self) -> Panels<T> {
        Panels::new(&self.values, self.dims)
    }

    /// For chunks to compare rows with. Products of bytes may sort centres out only if that is worth its while.
    pub(super) fn targets(&self, screening: bool) -> Targets<T> {
        let worthwhile = targets::worth_screening(self.len(), self.dims);
        Targets::new(&self.values, self.dims, screening && worthwhile)
    }

    pub(super) fn compared(&self, screening: bool, weighted: bool) -> Compared<T> {
        Compared { targets: self.targets(screening), weighted }
    }

    /// The means of the rows each centre was given. One without rows, or whose rows weigh nothing, stays.
    pub fn moved_to(&self, sums: &Sums) -> Centres<T> {
        let mut values = self.values.clone();
        let centres =
            values.chunks_exact_mut(self.dims).zip(sums.sums.chunks_exact(self.dims)).zip(&sums.weights);
        for ((centre, sum), weight) in centres.filter(|(_, weight)| **weight > 0.0) {
            centre.iter_mut().zip(sum).for_each(|(c, s)| *c = T::from_f64(s / weight));
        }
        Centres { values, dims: self.dims }
    }

    /// How far each centre is from where it was.
    pub(super) fn distances_to(&self, before: &Centres<T>) -> Vec<f64> {
        let pairs = self.values.chunks_exact(self.dims).zip(before.values.chunks_exact(self.dims));
        pairs.map(|(now, then)| squared_distance(now, then).sqrt()).collect()
    }
}

/// How one iteration moves centres.
pub(super) struct Movement<T> {
    /// Where they are afterwards.
    pub(super) centres: Centres<T>,
    /// How far each has moved.
    pub(super) distances: Vec<f64>,
    /// Sum of the squares of these.
    pub(super) moved: f64,
    /// Whether none has.
    pub(super) is_fixed: bool,
}

impl<T: Real> Movement<T> {
    /// To the means of the rows that each centre was given.
    pub(super) fn new(before: &Centres<T>, sums: &Sums) -> Movement<T> {
        let centres = before.moved_to(sums);
        let distances = centres.distances_to(before);
        let moved = distances.iter().map(|d| d * d).sum();
        Movement { is_fixed: centres.values == before.values, centres, distances, moved }
    }
}
