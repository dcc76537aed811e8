//! One iteration of Lloyd's algorithm: rows find their nearest centres, centres move to the mean of their rows.
//!
//! The first half runs on the chunks: [`assign`] sends home a sum of rows and of weights for every centre. The second,
//! [`Centres::moved_to`], is the master's. Rows are added in their order within a chunk, in doubles, and chunks along the
//! fixed tree, so the new centres have the same bits whoever did it. A centre without rows stays where it is.

use super::survey::rows;
use crate::kernels::Level;
use crate::kernels::nearest::{Panels, Real, Rows};
use qjam::Dense;

/// Rows that are assigned and then added while they are still in a cache.
const BLOCK_ROWS: usize = 896;

/// What all rows of each centre come to.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Sums {
    /// Sum of the weights of its rows.
    pub weights: Vec<f64>,
    /// Weighted sum of its rows, centre after centre.
    pub sums: Vec<f64>,
    /// Comparisons of a row with a panel of centres that were made, and that there are.
    pub compared: u64,
    /// All comparisons there are.
    pub comparisons: u64,
}

impl Sums {
    pub(super) fn new(k: usize, dims: usize) -> Sums {
        Sums { weights: vec![0.0; k], sums: vec![0.0; k * dims], compared: 0, comparisons: 0 }
    }

    /// Adds one row to its centre.
    #[inline(always)]
    pub(super) fn add<T: Real>(&mut self, centre: usize, row: &[T], rest: &[T]) {
        let sums = &mut self.sums[centre * row.len()..][..row.len()];
        match rest.first() {
            None => {
                self.weights[centre] += 1.0;
                sums.iter_mut().zip(row).for_each(|(s, v)| *s += v.to_f64());
            }
            Some(weight) => {
                let weight = weight.to_f64();
                self.weights[centre] += weight;
                sums.iter_mut().zip(row).for_each(|(s, v)| *s += weight * v.to_f64());
            }
        }
    }
}

/// The centres that rows are given to, with all distances computed.
#[qjam::map]
pub fn assign<T: Real>(panels: &Panels<T>, x: &Dense<T>) -> Sums {
    let dims = panels.dims();
    let mut sums = Sums::new(panels.centres(), dims);
    let mut nearest = [0; BLOCK_ROWS];
    for block in x.as_slice().chunks(BLOCK_ROWS * x.cols()) {
        let rows = Rows::new(block, x.cols(), dims);
        let nearest = &mut nearest[..rows.len()];
        T::nearest(Level::best(), panels, rows, nearest);
        for (i, centre) in nearest.iter().enumerate() {
            sums.add(*centre as usize, rows.row(i), rows.rest(i));
        }
    }
    sums.comparisons = (x.rows() * panels.len()) as u64;
    sums.compared = sums.comparisons;
    sums
}

/// What is needed to measure how well centres fit.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Measure<T: Real> {
    panels: Panels<T>,
    centres: Vec<T>,
}

impl<T: Real> Measure<T> {
    pub(super) fn new(centres: &Centres<T>) -> Measure<T> {
        Measure { panels: centres.panels(), centres: centres.values.clone() }
    }
}

/// The weighted sum of the squared distances of rows to their nearest centres, from differences in doubles.
#[qjam::map]
pub fn inertia<T: Real>(measure: &Measure<T>, x: &Dense<T>) -> f64 {
    let dims = measure.panels.dims();
    let rows = rows(x, dims);
    let mut nearest = vec![0; rows.len()];
    T::nearest(Level::best(), &measure.panels, rows, &mut nearest);
    let mut sum = 0.0;
    for (i, centre) in nearest.iter().enumerate() {
        let centre = &measure.centres[*centre as usize * dims..][..dims];
        let weight = rows.rest(i).first().map_or(1.0, |w| w.to_f64());
        sum += weight * squared_distance(rows.row(i), centre);
    }
    sum
}

/// The nearest centre of every row, in the order of the rows.
#[derive(Clone, Debug, PartialEq, Default, qjam::Wire)]
pub struct Labels {
    /// Indices of centres.
    pub labels: Vec<u32>,
    /// Row, column and value of the first number that is none.
    pub bad: Option<(u64, u64, f64)>,
}

impl qjam::Reduce for Labels {
    fn merge(&mut self, right: Self) {
        let before = self.labels.len() as u64;
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (before + row, column, value)));
        self.labels.extend_from_slice(&right.labels);
    }
}

/// The nearest centres of the rows of a chunk.
#[qjam::map]
pub fn label<T: Real>(panels: &Panels<T>, x: &Dense<T>) -> Labels {
    let mut nearest = vec![0; x.rows()];
    T::nearest(Level::best(), panels, rows(x, panels.dims()), &mut nearest);
    let bad = x.as_slice().iter().position(|v| !v.to_f64().is_finite());
    let place = |at: usize| ((at / x.cols()) as u64, (at % x.cols()) as u64, x.as_slice()[at].to_f64());
    Labels { labels: nearest, bad: bad.map(place) }
}

qjam::register!(assign::<f32>, assign::<f64>, inertia::<f32>, inertia::<f64>, label::<f32>, label::<f64>);

/// The squared distance of two points in doubles, by differences and in eight partial sums.
pub(super) fn squared_distance<T: Real>(a: &[T], b: &[T]) -> f64 {
    let len = a.len().min(b.len());
    let ((a, a_rest), (b, b_rest)) = (a[..len].as_chunks::<8>(), b[..len].as_chunks::<8>());
    let mut parts = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for ((part, a), b) in parts.iter_mut().zip(a).zip(b) {
            let d = a.to_f64() - b.to_f64();
            *part += d * d;
        }
    }
    for ((part, a), b) in parts.iter_mut().zip(a_rest).zip(b_rest) {
        let d = a.to_f64() - b.to_f64();
        *part += d * d;
    }
    parts.iter().sum()
}

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
