//! First centres: rows of the data, drawn so that they lie apart.
//!
//! Every row remembers its squared distance to the nearest centre chosen so far, in a state that stays with its chunk.
//! A round tells the chunks what was chosen last. For k-means++ each chunk then draws one of its rows by weight and squared
//! distance, and a number from the exponential distribution divided by the sum of its own; the chunk of the lowest such
//! number is chosen. That number is lowest with a probability in proportion to the sum, so the row is drawn exactly as
//! k-means++ says, in one round and along any tree.
//!
//! Random numbers are keyed by the seed, the number of the step and the chunk: who computes changes nothing.

use super::FitError;
use super::lloyd::{Centres, assign};
use super::params::{Params, Start};
use super::points::{Kept, Memory, Points, View, chained_square, squared_distance};
use crate::kernels::nearest::{Panels, Real};
use qjam::{Csr, Ctx, DataSet, Dense, Held, Master, Reduce, Rng};

/// Squared distances of the rows to what has been chosen.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Apart {
    squares: Vec<f64>,
}

impl Memory for Apart {
    fn begin(rows: usize) -> Self {
        Apart { squares: vec![f64::INFINITY; rows] }
    }
}

/// What was chosen last, and how to draw next.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Draw<T> {
    dims: u64,
    /// Row-major rows that were chosen in the step before.
    chosen: Vec<T>,
    seed: u64,
    step: u64,
    /// 0: one row, by squared distance. Otherwise every row by itself, so many in all for a sum of 1.
    rate: f64,
    /// Draw by weight alone.
    evenly: bool,
    /// Whether rows have weights.
    weighted: bool,
}

/// Rows that were drawn.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Drawn<T> {
    /// Sum of weighted squared distances.
    total: f64,
    /// The lower one is chosen.
    key: f64,
    rows: Vec<T>,
    several: bool,
}

impl<T: Real> Reduce for Drawn<T> {
    fn merge(&mut self, right: Self) {
        self.total += right.total;
        if self.several {
            self.rows.extend_from_slice(&right.rows);
        } else if right.key < self.key {
            (self.key, self.rows) = (right.key, right.rows);
        }
    }
}

/// Takes in what was chosen and draws.
#[qjam::map]
pub fn draw<C: Points>(
    draw: &Draw<C::Number>,
    x: &C,
    apart: &mut Kept<C, Apart>,
    ctx: &Ctx,
) -> Drawn<C::Number> {
    let dims = draw.dims as usize;
    let rows = x.view(draw.weighted);
    if !draw.chosen.is_empty() {
        let mut nearest = vec![0; rows.len()];
        if draw.chosen.len() > dims {
            rows.nearest(&Panels::new(&draw.chosen, dims), &mut nearest);
        }
        let lengths: Vec<f64> = draw.chosen.chunks_exact(dims).map(chained_square).collect();
        for (i, (square, centre)) in apart.squares.iter_mut().zip(&nearest).enumerate() {
            let centre = *centre as usize;
            let here = rows.squared_distance(i, &draw.chosen[centre * dims..][..dims], lengths[centre]);
            *square = square.min(here);
        }
    }
    let share = |i: usize| rows.weight(i) * if draw.evenly { 1.0 } else { apart.squares[i] };
    let total: f64 = (0..rows.len()).map(share).sum();
    let mut random = Rng::keyed(draw.seed, draw.step, ctx.chunk());
    let mut drawn = Drawn { total, key: f64::INFINITY, rows: vec![], several: draw.rate > 0.0 };
    if drawn.several {
        for i in (0..rows.len()).filter(|i| random.uniform() < draw.rate * share(*i)) {
            rows.copy(i, &mut drawn.rows);
        }
    } else if total > 0.0 && total.is_finite() {
        drawn.key = random.exponential_over(total);
        let mut left = random.uniform() * total;
        let mut last = 0;
        for i in (0..rows.len()).filter(|i| share(*i) > 0.0) {
            last = i;
            left -= share(i);
            if left < 0.0 {
                break;
            }
        }
        rows.copy(last, &mut drawn.rows);
    }
    drawn
}
qjam::register!(draw::<Dense<f32>>, draw::<Dense<f64>>, draw::<Csr<f32>>, draw::<Csr<f64>>);

/// Numbers that fall off exponentially.
trait Exponential {
    /// One with the given rate.
    fn exponential_over(&mut self, rate: f64) -> f64;
}

impl Exponential for Rng {
    fn exponential_over(&mut self, rate: f64) -> f64 {
        // Von Neumann's way: only comparisons, so the bits are the same everywhere, which a library's logarithm's are not.
        let mut whole = 0.0;
        loop {
            let first = self.uniform();
            let (mut last, mut length) = (first, 1_u32);
            loop {
                let next = self.uniform();
                if next >= last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            if length % 2 == 1 {
                return (whole + first) / rate;
            }
            whole += 1.0;
        }
    }
}

/// Steps of drawing in k-means‖.
const PARALLEL_STEPS: u64 = 5;
/// Rows drawn in each of them, for every centre.
const PARALLEL_ROWS: f64 = 2.0;

/// The first centres of one start; `nth` tells starts apart.
pub(super) fn first<C: Points>(
    master: &Master,
    data: &DataSet<C>,
    params: &Params,
    dims: usize,
    nth: usize,
) -> Result<Centres<C::Number>, FitError> {
    let seed = seed_of(params.seed(), nth as u64);
    let mut held = master.hold::<Kept<C, Apart>>(data)?;
    let mut chooser = Chooser { held: &mut held, seed, step: 0, dims, weighted: params.weighted() };
    let values = match params.start() {
        Start::PlusPlus => chooser.grow(vec![], params.k(), false)?,
        Start::Random => chooser.grow(vec![], params.k(), true)?,
        Start::Parallel => {
            let candidates = chooser.candidates(params.k())?;
            if candidates.len() / dims <= params.k() {
                // What is still missing is drawn one by one; all candidates are known to the rows.
                chooser.grow(candidates, params.k(), false)?
            } else {
                let weighted = params.weighted();
                let among = Centres { values: candidates.clone(), dims }.compared(true, weighted);
                let weights = master.run(assign::<C>, &among, data)?.weights;
                choose_among(&candidates, &weights, dims, params.k(), seed)
            }
        }
    };
    Ok(Centres { values, dims })
}

/// The seed of one start; `nth` tells starts apart.
pub(super) fn seed_of(seed: u64, nth: u64) -> u64 {
    Rng::keyed(seed, nth, 0).next_u64()
}

impl<T> Draw<T> {
    /// Asks for one row.
    pub(super) fn one(
        dims: u64,
        chosen: Vec<T>,
        (seed, step): (u64, u64),
        evenly: bool,
        weighted: bool,
    ) -> Self {
        Draw { dims, chosen, seed, step, rate: 0.0, evenly, weighted }
    }
}

impl<T> Drawn<T> {
    /// The rows, one after the other.
    pub(super) fn into_rows(self) -> Vec<T> {
        self.rows
    }
}

/// Centres that are drawn one after the other: what there is so far, and what to ask for next.
#[derive(Clone, Debug, qjam::Wire)]
pub(super) struct Growth<T> {
    /// Row-major.
    pub(super) values: Vec<T>,
    /// The last of them, of which the rows have not been told.
    last: Vec<T>,
    evenly: bool,
    /// Every row lies on a centre: there are fewer different rows than clusters. The next is drawn by weight alone.
    is_covered: bool,
}

impl<T: Clone> Growth<T> {
    /// What is in `values` at first, the rows have been told.
    pub(super) fn new(values: Vec<T>, evenly: bool) -> Self {
        Growth { values, last: vec![], evenly, is_covered: false }
    }

    /// What the rows are told next.
    pub(super) fn chosen(&self) -> &[T] {
        if self.is_covered { &[] } else { &self.last }
    }

    /// Whether the next row is drawn by weight alone.
    pub(super) fn is_even(&self) -> bool {
        self.evenly || self.is_covered || self.values.is_empty()
    }

    /// Takes the row that was drawn, if there was one.
    pub(super) fn take(&mut self, rows: Vec<T>) {
        if rows.is_empty() && !self.is_covered {
            self.is_covered = true;
            return;
        }
        self.is_covered = false;
        self.values.extend_from_slice(&rows);
        self.last = rows;
    }
}

struct Chooser<'a, C: Points> {
    held: &'a mut Held<Kept<C, Apart>>,
    seed: u64,
    step: u64,
    dims: usize,
    weighted: bool,
}

impl<C: Points> Chooser<'_, C> {
    fn draw(&mut self, chosen: &[C::Number], rate: f64, evenly: bool) -> Result<Drawn<C::Number>, FitError> {
        let (dims, seed, step, weighted) = (self.dims as u64, self.seed, self.step, self.weighted);
        self.step += 1;
        let params = Draw { dims, chosen: chosen.to_vec(), seed, step, rate, evenly, weighted };
        Ok(self.held.run(draw::<C>, &params)?)
    }

    /// Draws one row after the other until there are `k`. What is in `values` at first, the rows have been told.
    fn grow(&mut self, values: Vec<C::Number>, k: usize, evenly: bool) -> Result<Vec<C::Number>, FitError> {
        let mut growth = Growth::new(values, evenly);
        while growth.values.len() < k * self.dims {
            let drawn = self.draw(growth.chosen(), 0.0, growth.is_even())?;
            growth.take(drawn.rows);
        }
        Ok(growth.values)
    }

    fn candidates(&mut self, k: usize) -> Result<Vec<C::Number>, FitError> {
        let mut values = self.draw(&[], 0.0, true)?.rows;
        let mut last = values.clone();
        for _ in 0..PARALLEL_STEPS {
            let total = self.draw(&last, 0.0, false)?.total;
            if total <= 0.0 {
                return Ok(values);
            }
            last = self.draw(&[], PARALLEL_ROWS * k as f64 / total, false)?.rows;
            values.extend_from_slice(&last);
        }
        if !last.is_empty() {
            self.draw(&last, 0.0, false)?;
        }
        Ok(values)
    }
}

/// k-means++ on the master, among weighted candidates.
fn choose_among<T: Real>(candidates: &[T], weights: &[f64], dims: usize, k: usize, seed: u64) -> Vec<T> {
    let mut random = Rng::keyed(seed, u64::MAX, 0);
    let mut squares = vec![1.0; weights.len()];
    let mut values = Vec::with_capacity(k * dims);
    for n in 0..k {
        let share = |i: usize| weights[i] * squares[i];
        let total: f64 = (0..weights.len()).map(share).sum();
        let mut left = random.uniform() * total;
        let mut chosen = n % weights.len();
        for i in (0..weights.len()).filter(|i| share(*i) > 0.0) {
            chosen = i;
            left -= share(i);
            if left < 0.0 {
                break;
            }
        }
        let centre = &candidates[chosen * dims..][..dims];
        values.extend_from_slice(centre);
        for (square, row) in squares.iter_mut().zip(candidates.chunks_exact(dims)) {
            let here = squared_distance(row, centre);
            *square = if n == 0 { here } else { square.min(here) };
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_their_mean_and_tail() {
        let mut random = Rng::keyed(4, 0, 0);
        let n = 100_000;
        let drawn: Vec<f64> = (0..n).map(|_| random.exponential_over(2.0)).collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let tail = drawn.iter().filter(|v| **v > 1.0).count() as f64 / f64::from(n);
        assert!((tail - (-2.0_f64).exp()).abs() < 0.005, "{tail}");
    }
}
