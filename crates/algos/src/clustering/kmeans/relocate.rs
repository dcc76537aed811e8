//! Centres that lost all their rows get new ones: the rows farthest from their own centres.
//!
//! This is scikit-learn's rule. Of the rows that count, the farthest from the centres they were given to are taken, as many
//! as there are empty centres and of equally far ones the first; each leaves the sum of its centre and becomes the only
//! row of an empty one, the farthest row that of the first. It costs a round of its own, in iterations that have empty
//! centres and in no others.
//!
//! How far a row is, is the sum of squared differences in doubles, for sparse rows too: these first find out by a shorter
//! sum which rows may be among the farthest. So dense and sparse rows of the same numbers move the same centres.

use super::lloyd::{Measure, Sums};
use super::points::{Points, View};
use crate::kernels::nearest::Real;
use qjam::{Csr, Dense, Reduce};

/// Centres as they were, and how many rows are wanted.
#[derive(Clone, Debug, qjam::Wire)]
pub struct FarthestQuery<T: Real> {
    pub(super) measure: Measure<T>,
    pub(super) count: u64,
}

/// Rows that are far from their centres, the farthest first.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Far<T: Real> {
    /// No more than so many.
    count: u64,
    /// Squared distances.
    squares: Vec<f64>,
    centres: Vec<u32>,
    weights: Vec<f64>,
    /// Row-major coordinates.
    rows: Vec<T>,
}

impl<T: Real> Far<T> {
    fn new(count: u64) -> Far<T> {
        Far { count, squares: vec![], centres: vec![], weights: vec![], rows: vec![] }
    }

    /// Takes over one of another list.
    fn take(&mut self, from: &Far<T>, i: usize) {
        let dims = from.rows.len() / from.squares.len();
        self.squares.push(from.squares[i]);
        self.centres.push(from.centres[i]);
        self.weights.push(from.weights[i]);
        self.rows.extend_from_slice(&from.rows[i * dims..][..dims]);
    }

    /// Makes these rows those of centres that have none.
    pub(super) fn give_to_empty(&self, sums: &mut Sums) {
        let before = sums.weights.clone();
        let dims = sums.sums.len() / before.len();
        let empty = (0..before.len()).filter(|j| before[*j] == 0.0);
        for (i, (to, row)) in empty.zip(self.rows.chunks_exact(dims)).enumerate() {
            let (from, weight) = (self.centres[i] as usize, self.weights[i]);
            for (p, v) in row.iter().enumerate() {
                sums.sums[from * dims + p] -= weight * v.to_f64();
                sums.sums[to * dims + p] = weight * v.to_f64();
            }
            sums.weights[to] = weight;
            sums.weights[from] -= weight;
            // What is left of a centre whose rows have all gone is roundings; it stays where it is.
            if sums.weights[from] <= 1e-12 * before[from] {
                sums.weights[from] = 0.0;
            }
        }
    }
}

/// Two lists in order become one; of equally far rows those of the left come first.
impl<T: Real> Reduce for Far<T> {
    fn merge(&mut self, right: Self) {
        let mut both = Far::new(self.count);
        let (mut a, mut b) = (0, 0);
        while both.squares.len() < self.count as usize {
            match (self.squares.get(a), right.squares.get(b)) {
                (Some(left), theirs) if theirs.is_none_or(|theirs| left >= theirs) => {
                    both.take(self, a);
                    a += 1;
                }
                (_, Some(_)) => {
                    both.take(&right, b);
                    b += 1;
                }
                _ => break,
            }
        }
        *self = both;
    }
}

/// The farthest rows of a chunk.
#[qjam::map]
pub fn farthest<C: Points>(wanted: &FarthestQuery<C::Number>, x: &C) -> Far<C::Number> {
    let (measure, count) = (&wanted.measure, wanted.count as usize);
    let rows = x.view(measure.weighted);
    let nearest = measure.nearest(rows);
    let square = |i: usize| {
        let (centre, square) = measure.centre(nearest[i]);
        let size = square + rows.square(i);
        (rows.squared_distance(i, centre, square), size * rows.distance_error())
    };
    // At least so far is the last that is wanted, and no farther than so is what cannot be among them.
    let (mut at_least, mut at_most) = (vec![], vec![]);
    for i in (0..rows.len()).filter(|i| rows.weight(*i) > 0.0) {
        let (square, error) = square(i);
        at_least.push(square - error);
        at_most.push((i, square + error));
    }
    let mut far = Far::new(wanted.count);
    if count == 0 || at_least.is_empty() {
        return far;
    }
    let last = count.min(at_least.len()) - 1;
    let (_, bar, _) = at_least.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
    let bar = *bar;
    let mut found: Vec<(f64, usize)> = at_most
        .into_iter()
        .filter(|(_, at_most)| *at_most >= bar && *at_most > 0.0)
        .map(|(i, _)| (rows.differences(i, measure.centre(nearest[i]).0), i))
        .filter(|(square, _)| *square > 0.0)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (square, i) in found.into_iter().take(count) {
        far.squares.push(square);
        far.centres.push(nearest[i]);
        far.weights.push(rows.weight(i));
        rows.copy(i, &mut far.rows);
    }
    far
}
qjam::register!(farthest::<Dense<f32>>, farthest::<Dense<f64>>, farthest::<Csr<f32>>, farthest::<Csr<f64>>);
