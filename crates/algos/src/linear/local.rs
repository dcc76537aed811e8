//! What a worker does between two exchanges: coordinate descent over its own columns.
//!
//! It has the gradient `w` of the loss and a bound `κ = σ' · curvature`, and goes downhill on
//! `w·AΔ + κ/2 ‖AΔ‖² + Σ gⱼ(αⱼ + Δⱼ)`, one coordinate at a time, exactly. The vector `r = w + κ AΔ` is kept up to date, so a step costs
//! two passes over one column. What goes home is `AΔ = (r − w)/κ` and a few numbers from which the master chooses how
//! far to go.
//!
//! **Order.** Columns lie in *buckets* of some hundred entries that follow one another in memory; a long column is a bucket of its own.
//! Every pass goes through all buckets in another order, and the beginning of a bucket is asked for while the one before is
//! worked on. A round does a share of a pass or several, and goes on where the last one ended. The order is keyed by (seed,
//! pass, partition).
//!
//! **Rest.** A coordinate that hardly moved when it was visited is left out of the next pass, then of the next 3, 7, 15, 31.
//! One that moves is back at once.
//!
//! **Certificate.** On request a round is one whole pass over all columns, none left out, and multiplies each with `w`,
//! too, while it is in the cache: that is what the duality gap needs, without another pass over the data.
//!
//! **Steps are taken by the next round.** The master decides how far to go along `Δ` and along the step before, and says so
//! with the next round, which begins by taking it. So a step can be lengthened, turned or taken back without a message of
//! its own.

use super::columns::{Columns, Lines, fetch};
use super::separable::Separable;
use crate::kernels::vectors::dot;
use qjam::{Csc, Ctx, DecodeError, Decoder, Dense, Encoder, MergeError, Reduce, Rng, State, Wire};
use std::marker::PhantomData;
use std::sync::Arc;

/// Entries of a bucket that may take no further column.
const BUCKET_ENTRIES: usize = 160;

/// A step that decreases the objective by less than this share of the last pass's average is hardly one.
const HARDLY: f64 = 0.01;

/// How far within its bound a coordinate at 0 must be to be left out.
const WITHIN: f64 = 0.9;

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Round {
    /// The gradient of the loss.
    pub gradient: Vec<f64>,
    /// σ' times the curvature of the loss.
    pub curvature: f64,
    /// What every coordinate adds.
    pub terms: Separable,
    /// Whether columns are seen with their means taken off.
    pub centred: bool,
    /// How much to do, in passes over the partition.
    pub work: f64,
    /// How far the last round's change is to be gone, and how far the step before again.
    pub step: (f64, f64),
    /// Where the master wants to know the terms: lengths of this round's change and of the step before it.
    pub points: Vec<(f64, f64)>,
    /// Whether to do a whole pass and multiply all columns with the gradient.
    pub certify: bool,
    /// Whether coordinates that hardly move are left out.
    pub rests: bool,
    /// Of the order of columns.
    pub seed: u64,
}

/// What a round says.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Change {
    /// `AΔ`.
    pub change: Vec<f64>,
    /// `⟨α,α⟩, ⟨α,Δ⟩, ⟨α,p⟩, ⟨Δ,Δ⟩, ⟨Δ,p⟩, ⟨p,p⟩`, where the terms are quadratic and these say all.
    pub squares: [f64; 6],
    /// Otherwise the terms at the points that were asked for.
    pub points: Vec<f64>,
    /// Sum of the conjugates `gⱼ*(−cⱼ·w)`, if a certificate was asked for.
    pub conjugates: f64,
    /// The largest `|cⱼ·w|`, if a certificate was asked for.
    pub steepest: f64,
    /// Entries of the columns that were visited.
    pub entries: u64,
    /// Entries of all columns.
    pub entries_all: u64,
}

impl Reduce for Change {
    fn merge(&mut self, right: Self) {
        if let Err(error) = self.try_merge(right) {
            panic!("{error}");
        }
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.change.try_merge(right.change)?;
        self.points.try_merge(right.points)?;
        self.squares.iter_mut().zip(right.squares).for_each(|(a, b)| *a += b);
        self.conjugates += right.conjugates;
        self.steepest = self.steepest.max(right.steepest);
        self.entries += right.entries;
        self.entries_all += right.entries_all;
        Ok(())
    }
}

/// Numbers that never change: copies of a state share them.
#[derive(Clone, Debug)]
struct Fixed<T>(Arc<[T]>);

impl<T: qjam::codec::Number> Wire for Fixed<T>
where
    Vec<T>: Wire,
{
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        out.put_numbers(&self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Fixed(input.take_numbers::<T>()?.into()))
    }
}

/// The coordinates of one partition.
#[derive(Debug)]
pub struct Coordinates<C> {
    held: Numbers,
    kind: PhantomData<C>,
}

/// What a partition remembers, whatever its columns are.
#[derive(Debug, qjam::Wire)]
struct Numbers {
    /// As the last step that was taken left them.
    alpha: Vec<f64>,
    /// The last round's change.
    change: Vec<f64>,
    /// The last step that was taken.
    before: Vec<f64>,
    /// Passes to leave out (low 5 bits), and the last number of these as a power of two.
    rests: Vec<u8>,
    /// Passes begun.
    passes: u64,
    /// Buckets of the present pass that are done.
    at: u64,
    /// Average decrease of a visit in the last round.
    decrease: f64,
    /// Sum of the squares of each column.
    squares: Fixed<f64>,
    /// Sum of each column.
    sums: Fixed<f64>,
    /// Where buckets begin, and where the last ends.
    buckets: Fixed<u32>,
    /// Entries of all columns.
    entries: u64,
}

impl Clone for Numbers {
    fn clone(&self) -> Self {
        Numbers {
            alpha: self.alpha.clone(),
            change: self.change.clone(),
            before: self.before.clone(),
            rests: self.rests.clone(),
            squares: self.squares.clone(),
            sums: self.sums.clone(),
            buckets: self.buckets.clone(),
            ..*self
        }
    }

    /// A copy is made every round, and fresh memory would cost more than the copy.
    fn clone_from(&mut self, from: &Self) {
        self.alpha.clone_from(&from.alpha);
        self.change.clone_from(&from.change);
        self.before.clone_from(&from.before);
        self.rests.clone_from(&from.rests);
        self.squares.clone_from(&from.squares);
        self.sums.clone_from(&from.sums);
        self.buckets.clone_from(&from.buckets);
        (self.passes, self.at, self.decrease) = (from.passes, from.at, from.decrease);
        self.entries = from.entries;
    }
}

impl<C> Clone for Coordinates<C> {
    fn clone(&self) -> Self {
        Coordinates { held: self.held.clone(), kind: PhantomData }
    }

    fn clone_from(&mut self, from: &Self) {
        self.held.clone_from(&from.held);
    }
}

impl<C: Columns> Wire for Coordinates<C> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.held.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Coordinates { held: Numbers::decode(input)?, kind: PhantomData })
    }
}

impl<C: Columns> State for Coordinates<C> {
    type Chunk = C;

    fn init(columns: &C, _: &Ctx) -> Self {
        let n = columns.columns();
        let (squares, sums): (Vec<f64>, Vec<f64>) = (0..n).map(|j| columns.moments(j)).unzip();
        let (mut buckets, mut filled, mut all) = (vec![0], 0, 0);
        for j in 0..n {
            let entries = columns.entries(j).max(1);
            if filled > 0 && filled + entries > BUCKET_ENTRIES {
                buckets.push(j as u32);
                filled = 0;
            }
            filled += entries;
            all += entries as u64;
        }
        buckets.push(n as u32);
        let held = Numbers {
            alpha: vec![0.0; n],
            change: vec![0.0; n],
            before: vec![0.0; n],
            rests: vec![0; n],
            passes: 0,
            at: 0,
            decrease: 0.0,
            squares: Fixed(squares.into()),
            sums: Fixed(sums.into()),
            buckets: Fixed(buckets.into()),
            entries: all,
        };
        Coordinates { held, kind: PhantomData }
    }
}

impl<C> Coordinates<C> {
    /// The coordinates after a step along the last change and along the step before.
    pub fn after(&self, terms: &Separable, (along, again): (f64, f64)) -> Vec<f64> {
        let Numbers { alpha, change, before, .. } = &self.held;
        let at = |j: usize| terms.stepped(alpha[j], along * change[j], again * before[j]);
        (0..alpha.len()).map(at).collect()
    }

    /// Sum of each column.
    pub fn sums(&self) -> &[f64] {
        &self.held.sums.0
    }
}

impl Numbers {
    fn take(&mut self, terms: &Separable, (along, again): (f64, f64)) {
        for ((alpha, change), before) in self.alpha.iter_mut().zip(&mut self.change).zip(&mut self.before) {
            let to = terms.stepped(*alpha, along * *change, again * *before);
            *before = to - *alpha;
            *alpha = to;
            *change = 0.0;
        }
    }

    /// The terms at a point of the plane of `change` and `before`.
    fn points(&self, terms: &Separable, points: &[(f64, f64)]) -> Vec<f64> {
        // Most coordinates of a sparse solution are 0 and stay so.
        let still = terms.value(0.0);
        let moving: Vec<(f64, f64, f64)> = (0..self.alpha.len())
            .map(|j| (self.alpha[j], self.change[j], self.before[j]))
            .filter(|at| *at != (0.0, 0.0, 0.0))
            .collect();
        let stillness = still * (self.alpha.len() - moving.len()) as f64;
        let total = |&(t, s): &(f64, f64)| {
            let mut parts = [0.0; 4];
            for (i, (a, d, p)) in moving.iter().enumerate() {
                parts[i & 3] += terms.value(terms.stepped(*a, t * d, s * p));
            }
            stillness + (parts[0] + parts[2]) + (parts[1] + parts[3])
        };
        points.iter().map(total).collect()
    }

    fn scalars(&self) -> [f64; 6] {
        let (a, d, p) = (&self.alpha, &self.change, &self.before);
        [dot(a, a), dot(a, d), dot(a, p), dot(d, d), dot(d, p), dot(p, p)]
    }
}

/// One round on one partition.
#[qjam::map]
pub fn descend<C: Columns>(round: &Round, columns: &C, state: &mut Coordinates<C>, ctx: &Ctx) -> Change {
    let held = &mut state.held;
    held.take(&round.terms, round.step);
    if round.certify && held.at > 0 {
        (held.passes, held.at) = (held.passes + 1, 0);
    }
    let budget = (round.work * held.entries as f64).ceil() as u64;
    let mut r = round.gradient.clone();
    let mut work = Work {
        r: &mut r,
        gradient: &round.gradient,
        offset: 0.0,
        curvature: round.curvature,
        terms: round.terms,
        alpha: &held.alpha,
        squares: &held.squares.0,
        sums: round.centred.then_some(&held.sums.0),
        buckets: &held.buckets.0,
        order: vec![],
        at: held.at as usize,
        certify: round.certify,
        sleeps: round.rests && !round.certify,
        // For ridge it made no difference to the rounds where it was tried.
        hardly: if round.rests && !round.terms.is_quadratic() { HARDLY * held.decrease } else { -1.0 },
        within: if round.rests { WITHIN } else { -1.0 },
        change: &mut held.change,
        rests: &mut held.rests,
        entries: 0,
        budget: if round.certify { u64::MAX } else { budget.max(1) },
        decrease: 0.0,
        visits: 0,
        conjugates: 0.0,
        steepest: 0.0,
    };
    let mut passes = held.passes;
    // Where all rest, passes cost nothing, and after at most so many somebody is back.
    for _ in 0..round.work.ceil() as usize + 32 {
        work.order = order(round.seed, passes, ctx.chunk(), work.buckets.len() - 1);
        columns.descend(&mut work);
        if work.at < work.order.len() {
            break;
        }
        (passes, work.at) = (passes + 1, 0);
        if work.entries >= work.budget || round.certify || ctx.cancelled() {
            break;
        }
    }
    let (entries, offset) = (work.entries, work.offset);
    let (conjugates, steepest) = (work.conjugates, work.steepest);
    let (at, decrease) = (work.at as u64, work.decrease / work.visits.max(1) as f64);
    (held.passes, held.at, held.decrease) = (passes, at, decrease);
    let scale = 1.0 / round.curvature;
    r.iter_mut().zip(&round.gradient).for_each(|(r, w)| *r = (*r + offset - w) * scale);
    let quadratic = round.terms.is_quadratic();
    Change {
        change: r,
        squares: if quadratic { held.scalars() } else { [0.0; 6] },
        points: if quadratic {
            vec![0.0; round.points.len()]
        } else {
            held.points(&round.terms, &round.points)
        },
        conjugates,
        steepest,
        entries,
        entries_all: held.entries,
    }
}
qjam::register!(descend::<Csc<f32>>, descend::<Csc<f64>>, descend::<Dense<f32>>, descend::<Dense<f64>>);

/// Where coordinates begin, instead of at 0.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Start {
    /// Of all partitions, one after the other.
    pub coordinates: Vec<f64>,
    /// Where each partition's begin.
    pub starts: Vec<u64>,
    /// Length of a column.
    pub rows: u64,
    /// What every coordinate adds. Values that are not allowed are moved to the nearest that is.
    pub terms: Separable,
    /// Whether columns are seen with their means taken off.
    pub centred: bool,
}

/// What coordinates come to.
#[derive(Clone, Debug, qjam::Wire, qjam::Sum)]
pub struct Placed {
    /// `A α`.
    pub product: Vec<f64>,
    /// The sum of their terms.
    pub terms: f64,
}

/// Puts the coordinates of a partition somewhere.
#[qjam::map]
pub fn place<C: Columns>(start: &Start, columns: &C, state: &mut Coordinates<C>, ctx: &Ctx) -> Placed {
    let held = &mut state.held;
    let from = start.starts[ctx.chunk() as usize] as usize;
    let (mut product, mut terms, mut mean) = (vec![0.0; start.rows as usize], 0.0, 0.0);
    for (j, alpha) in held.alpha.iter_mut().enumerate() {
        *alpha = start.coordinates[from + j].max(start.terms.lower).min(start.terms.upper);
        terms += start.terms.value(*alpha);
        if *alpha != 0.0 {
            columns.add_to(j, *alpha, &mut product);
            mean += *alpha * held.sums.0[j] / start.rows as f64;
        }
    }
    if start.centred {
        product.iter_mut().for_each(|p| *p -= mean);
    }
    held.change.fill(0.0);
    held.before.fill(0.0);
    Placed { product, terms }
}
qjam::register!(place::<Csc<f32>>, place::<Csc<f64>>, place::<Dense<f32>>, place::<Dense<f64>>);

/// A round on its way through the columns.
pub struct Work<'a> {
    r: &'a mut [f64],
    gradient: &'a [f64],
    /// What is to be added to every entry of `r`: columns without their means change all of them.
    offset: f64,
    curvature: f64,
    terms: Separable,
    alpha: &'a [f64],
    squares: &'a [f64],
    /// Sums of the columns, where their means are taken off.
    sums: Option<&'a [f64]>,
    buckets: &'a [u32],
    order: Vec<u32>,
    at: usize,
    certify: bool,
    /// Whether those who rest are left out.
    sleeps: bool,
    hardly: f64,
    within: f64,
    change: &'a mut [f64],
    rests: &'a mut [u8],
    entries: u64,
    budget: u64,
    decrease: f64,
    visits: u64,
    conjugates: f64,
    steepest: f64,
}

impl Work<'_> {
    pub(super) fn length(&self) -> usize {
        self.r.len().min(self.gradient.len())
    }

    /// Goes through buckets from `at` on until the budget is used up or the pass is over.
    #[inline(always)]
    pub(super) fn run<L: Lines>(&mut self, lines: L) {
        while self.at < self.order.len() && self.entries < self.budget {
            let bucket = self.order[self.at] as usize;
            if let Some(next) = self.order.get(self.at + 1) {
                let first = self.buckets[*next as usize] as usize;
                lines.fetch(first);
                fetch(self.alpha, first);
                fetch(self.change, first);
                fetch(self.squares, first);
                fetch(self.rests, first);
            }
            for j in self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize {
                if self.rests[j] & 31 > 0 && self.sleeps {
                    self.rests[j] -= 1;
                    continue;
                }
                self.visit(lines, j);
            }
            self.at += 1;
        }
    }

    #[inline(always)]
    fn visit<L: Lines>(&mut self, lines: L, j: usize) {
        let (mut slope, mut square) = (0.0, self.squares[j]);
        if self.certify {
            let (with_r, with_w) = lines.dot_both(j, self.r, self.gradient);
            // The gradient of a centred loss adds up to 0, so a column's mean makes no difference to it.
            self.conjugates += self.terms.conjugate(-with_w);
            self.steepest = self.steepest.max(with_w.abs());
            slope += with_r;
        } else {
            slope += lines.dot(j, self.r);
        }
        let rows = self.r.len() as f64;
        if let Some(sums) = self.sums {
            slope += self.offset * sums[j];
            square = (square - sums[j] * sums[j] / rows).max(0.0);
        }
        let bend = self.curvature * square;
        let from = self.alpha[j] + self.change[j];
        let to = self.terms.step(from, slope, bend);
        let by = to - from;
        self.entries += lines.entries(j).max(1) as u64;
        self.visits += 1;
        if by == 0.0 {
            self.settle(
                j,
                self.within > 0.0 && self.is_deep(from, bend * from - slope + self.terms.linear, bend),
            );
            return;
        }
        self.change[j] += by;
        lines.add(j, self.curvature * by, self.r);
        if let Some(sums) = self.sums {
            self.offset -= self.curvature * by * sums[j] / rows;
        }
        let decrease = 0.5 * (bend + self.terms.l2) * by * by;
        self.decrease += decrease;
        self.settle(j, decrease < self.hardly);
    }

    /// Whether a coordinate that did not move is well within the reach of what holds it: the kink at 0, or a bound.
    #[inline(always)]
    fn is_deep(&self, at: f64, pull: f64, bend: f64) -> bool {
        let terms = &self.terms;
        let beyond = (1.0 - self.within) * terms.linear;
        (at == 0.0 && terms.l1 > 0.0 && pull.abs() <= self.within * terms.l1)
            || (at == terms.lower && pull - (bend + terms.l2) * at < -beyond)
            || (at == terms.upper && pull - (bend + terms.l2) * at > beyond)
    }

    #[inline(always)]
    fn settle(&mut self, j: usize, is_settled: bool) {
        if !is_settled {
            self.rests[j] = 0;
            return;
        }
        let power = (self.rests[j] >> 5).min(4) + 1;
        self.rests[j] = power << 5 | ((1 << power) - 1);
    }
}

/// The order of buckets in a pass.
fn order(seed: u64, pass: u64, partition: u32, buckets: usize) -> Vec<u32> {
    let mut rng = Rng::keyed(seed, pass, partition);
    let mut order: Vec<u32> = (0..buckets as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}
