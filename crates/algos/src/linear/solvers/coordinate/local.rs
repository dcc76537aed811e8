//! What a worker does between two exchanges: coordinate descent over its own columns.
//!
//! It has the gradient `w` of the loss and its second derivatives `D`, and goes downhill on
//! `w·AΔ + σ'/2 AΔ·D·AΔ + Σ gⱼ(αⱼ + Δⱼ)`, one coordinate at a time, exactly. The vector `r = w + σ' D AΔ` is kept up to date, so a
//! step costs two passes over one column. What goes home is `AΔ` and a few numbers from which the master chooses how
//! far to go. Where all of `D` is 1, as it is for squares, `r` is all that is kept; otherwise what belongs to a row lies
//! together, so that an entry of a column costs one line of the cache and not four.
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

use super::columns::{Columns, Lines, Products, fetch};
use super::separable::Separable;
use super::steps::{self, Moving};
use qjam::{Csc, Ctx, DecodeError, Decoder, Dense, Encoder, MergeError, Reduce, Rng, Slab, State, Wire};
use std::marker::PhantomData;
use std::sync::Arc;

/// Entries of a bucket that may take no further column.
const BUCKET_ENTRIES: usize = 160;

/// How many buckets ahead it is asked for where they begin, for what belongs to their coordinates, and for their entries.
const AHEAD_PLACES: usize = 6;
const AHEAD_COORDINATES: usize = 4;
const AHEAD_ENTRIES: usize = 2;
/// Of so many columns of a bucket, at most.
const COLUMNS_AHEAD: usize = 16;

/// A step that decreases the objective by less than this share of the last pass's average is hardly one.
const HARDLY: f64 = 0.01;

/// How far within its bound a coordinate at 0 must be to be left out.
const WITHIN: f64 = 0.9;

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Round {
    /// The gradient of the loss.
    pub gradient: Slab<f64>,
    /// Its second derivatives, one for each row; none where they are all 1.
    pub bends: Slab<f64>,
    /// σ', by which second derivatives are multiplied.
    pub curvature: f64,
    /// What every coordinate adds.
    pub terms: Separable,
    /// Whether columns are seen with their means taken off.
    pub centred: bool,
    /// Whether a constant that costs nothing goes along with every step: where second derivatives differ, columns are seen
    /// with their means taken off, weighted by these.
    pub free: bool,
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
    /// `AΔ`, and the constant that goes along.
    pub change: Slab<f64>,
    /// That constant.
    pub constant: f64,
    /// `⟨α,Δ⟩, ⟨α,p⟩, ⟨Δ,Δ⟩, ⟨Δ,p⟩, ⟨p,p⟩`, where terms have squares.
    pub squares: [f64; 5],
    /// By how much the terms without their squares are larger at the points that were asked for.
    pub points: Vec<f64>,
    /// By how much the last step made the terms larger, if they are more than squares.
    pub taken: f64,
    /// The terms before this round, if a certificate was asked for.
    pub terms: f64,
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
        self.constant += right.constant;
        self.taken += right.taken;
        self.terms += right.terms;
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
    /// What each coordinate's terms are multiplied by; none for all 1.
    prices: Fixed<f64>,
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
            prices: self.prices.clone(),
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
        self.prices.clone_from(&from.prices);
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
            prices: Fixed(Arc::from([])),
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
        let at =
            |j: usize| self.held.price(j) * terms.stepped(alpha[j], along * change[j], again * before[j]);
        (0..alpha.len()).map(at).collect()
    }

    /// Sum of each column.
    pub fn sums(&self) -> &[f64] {
        &self.held.sums.0
    }
}

impl Numbers {
    #[inline(always)]
    fn price(&self, j: usize) -> f64 {
        self.prices.0.get(j).copied().unwrap_or(1.0)
    }

    /// Takes a step, and says by how much it made the terms larger, if these are more than squares.
    fn take(&mut self, terms: &Separable, step: (f64, f64)) -> f64 {
        let Numbers { alpha, change, before, .. } = self;
        steps::take((alpha, change, before), &self.prices.0, terms, step)
    }

    /// See [`steps::survey`].
    fn survey(&self, terms: &Separable, points: &[(f64, f64)]) -> ([f64; 5], Vec<f64>) {
        let Numbers { alpha, change, before, .. } = self;
        steps::survey(&Moving { alpha, change, before, prices: &self.prices.0 }, terms, points)
    }
}

/// A sum in four chains.
#[derive(Default)]
struct Chains([f64; 4]);

impl Chains {
    #[inline(always)]
    fn add(&mut self, i: usize, value: f64) {
        self.0[i & 3] += value;
    }

    fn sum(&self) -> f64 {
        (self.0[0] + self.0[2]) + (self.0[1] + self.0[3])
    }
}

/// One round on one partition.
#[qjam::map]
pub fn descend<C: Columns>(round: &Round, columns: &C, state: &mut Coordinates<C>, ctx: &Ctx) -> Change {
    let held = &mut state.held;
    let taken = held.take(&round.terms, round.step);
    if round.certify && held.at > 0 {
        (held.passes, held.at) = (held.passes + 1, 0);
    }
    let terms = match round.certify {
        true => held.alpha.iter().enumerate().fold(Chains::default(), |mut sum, (j, a)| {
            sum.add(j, held.price(j) * round.terms.value(*a));
            sum
        }),
        false => Chains::default(),
    };
    let budget = (round.work * held.entries as f64).ceil() as u64;
    let is_bent = !round.bends.is_empty();
    let (mut r, mut rows) = (vec![], vec![]);
    if is_bent {
        let all = round.gradient.iter().zip(round.bends.iter());
        rows.extend(all.map(|(w, d)| Row { r: *w, bend: round.curvature * d, along: 0.0, w: *w }));
    } else {
        r.extend_from_slice(&round.gradient);
    }
    let weight: f64 = if round.free { rows.iter().map(|row| row.bend).sum() } else { 0.0 };
    let mut work = Work {
        r: &mut r,
        rows: &mut rows,
        gradient: &round.gradient,
        offset: 0.0,
        weight,
        mean: 0.0,
        curvature: round.curvature,
        terms: round.terms,
        alpha: &held.alpha,
        prices: (!held.prices.0.is_empty()).then_some(&held.prices.0),
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
    let constant = if is_bent { offset } else { 0.0 };
    let change: Vec<f64> = if is_bent {
        rows.iter().map(|row| row.along + constant).collect()
    } else {
        let scale = 1.0 / round.curvature;
        r.iter_mut().zip(round.gradient.iter()).for_each(|(r, w)| *r = (*r + offset - w) * scale);
        r
    };
    let (squares, points) = held.survey(&round.terms, &round.points);
    let entries_all = held.entries;
    let terms = terms.sum();
    let change = change.into();
    Change { change, constant, squares, points, taken, terms, conjugates, steepest, entries, entries_all }
}
qjam::register!(descend::<Csc<f32>>, descend::<Csc<f64>>, descend::<Dense<f32>>, descend::<Dense<f64>>);

/// Where coordinates begin, instead of at 0.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Start {
    /// Of all partitions, one after the other; none for zeros.
    pub coordinates: Vec<f64>,
    /// What each one's terms are multiplied by; none for all 1.
    pub prices: Vec<f64>,
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
    if !start.prices.is_empty() {
        held.prices = Fixed(start.prices[from..from + held.alpha.len()].into());
    }
    for j in 0..held.alpha.len() {
        let (price, told) = (held.price(j), start.coordinates.get(from + j).copied().unwrap_or(0.0));
        let alpha = if price > 0.0 { told / price } else { 0.0 };
        held.alpha[j] = alpha.max(start.terms.lower).min(start.terms.upper);
        terms += price * start.terms.value(held.alpha[j]);
        let along = price * held.alpha[j];
        if along != 0.0 {
            columns.add_to(j, along, &mut product);
            mean += along * held.sums.0[j] / start.rows as f64;
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

/// What belongs to a row, where second derivatives differ.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Row {
    /// `w + σ' D AΔ`.
    pub(in crate::linear) r: f64,
    /// `σ' D`.
    pub(in crate::linear) bend: f64,
    /// `AΔ`.
    pub(in crate::linear) along: f64,
    /// The gradient.
    pub(in crate::linear) w: f64,
}

/// A round on its way through the columns.
pub struct Work<'a> {
    /// `w + σ' AΔ`, where second derivatives are all 1.
    r: &'a mut [f64],
    /// Otherwise all there is of each row.
    rows: &'a mut [Row],
    gradient: &'a [f64],
    /// What is to be added to every entry of `r`, or of `AΔ` where second derivatives differ: columns without their means
    /// change all of them.
    offset: f64,
    /// The sum of the second derivatives, where means are weighted by them; otherwise 0.
    weight: f64,
    /// The mean of the column at hand, weighted so.
    mean: f64,
    curvature: f64,
    terms: Separable,
    alpha: &'a [f64],
    /// What the terms of each coordinate are multiplied by, where that is not 1.
    prices: Option<&'a [f64]>,
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
    pub(in crate::linear) fn length(&self) -> usize {
        self.r.len().max(self.rows.len()).min(self.gradient.len())
    }

    /// Goes through buckets from `at` on until the budget is used up or the pass is over.
    #[inline(always)]
    pub(in crate::linear) fn run<L: Lines>(&mut self, lines: L) {
        match self.rows.is_empty() {
            true => self.run_as::<L, false>(lines),
            false => self.run_as::<L, true>(lines),
        }
    }

    #[inline(always)]
    fn run_as<L: Lines, const BENT: bool>(&mut self, lines: L) {
        while self.at < self.order.len() && self.entries < self.budget {
            let bucket = self.order[self.at] as usize;
            self.fetch_ahead(lines);
            for j in self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize {
                if self.rests[j] & 31 > 0 && self.sleeps {
                    self.rests[j] -= 1;
                    continue;
                }
                self.visit::<L, BENT>(lines, j);
            }
            self.at += 1;
        }
    }

    /// Asks for what the next buckets need. A bucket's place is known from its number only by way of other memory, so that is asked
    /// for first, then what belongs to its coordinates, and the entries last, when it is known who rests.
    #[inline(always)]
    fn fetch_ahead<L: Lines>(&self, lines: L) {
        let columns = |ahead: usize| {
            let bucket = *self.order.get(self.at + ahead)? as usize;
            Some(self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize)
        };
        if let Some(later) = columns(AHEAD_PLACES) {
            lines.fetch_place(later.start);
        }
        if let Some(soon) = columns(AHEAD_COORDINATES) {
            fetch(self.alpha, soon.start);
            fetch(self.change, soon.start);
            fetch(self.squares, soon.start);
            fetch(self.rests, soon.start);
        }
        if let Some(next) = columns(AHEAD_ENTRIES) {
            for j in next.start..next.end.min(next.start + COLUMNS_AHEAD) {
                if !self.sleeps || self.rests[j] & 31 == 0 {
                    lines.fetch(j);
                }
            }
        }
    }

    /// Slope along a column and second derivative, of the subproblem.
    #[inline(always)]
    fn derivatives<L: Lines, const BENT: bool>(&mut self, lines: L, j: usize) -> (f64, f64) {
        let (slope, bend, with_w) = if BENT {
            let Products { r, bend, along, w } = lines.dot_rows(j, self.rows);
            self.mean = 0.0;
            if self.weight > 0.0 {
                self.mean = along / self.weight;
                (r + self.offset * along, (bend - self.mean * along).max(0.0), w)
            } else {
                (r, bend, w)
            }
        } else {
            let with_w = if self.certify { lines.dot(j, self.gradient) } else { 0.0 };
            let (mut slope, mut square) = (lines.dot(j, self.r), self.squares[j]);
            if let Some(sums) = self.sums {
                slope += self.offset * sums[j];
                square = (square - sums[j] * sums[j] / self.r.len() as f64).max(0.0);
            }
            (slope, self.curvature * square, with_w)
        };
        if self.certify {
            // The gradient of a centred loss adds up to 0, so a column's mean makes no difference to it.
            let price = self.prices.map_or(1.0, |prices| prices[j]);
            self.conjugates += price * self.terms.conjugate(-with_w);
            self.steepest = self.steepest.max(with_w.abs());
        }
        (slope, bend)
    }

    #[inline(always)]
    fn visit<L: Lines, const BENT: bool>(&mut self, lines: L, j: usize) {
        // What is held is the coordinate divided by its price, and all of its part of the objective is divided by that, too.
        let price = self.prices.map_or(1.0, |prices| prices[j]);
        if price == 0.0 {
            return;
        }
        let (slope, bend) = self.derivatives::<L, BENT>(lines, j);
        let bend = price * bend;
        let from = self.alpha[j] + self.change[j];
        let to = self.terms.step(from, slope, bend);
        let by = to - from;
        self.entries += lines.entries(j).max(1) as u64;
        self.visits += 1;
        if by == 0.0 {
            let pull = bend * from - slope + self.terms.linear;
            self.settle(j, self.within > 0.0 && self.is_deep(from, pull, bend));
            return;
        }
        self.change[j] += by;
        let along = price * by;
        if BENT {
            lines.add_rows(j, along, self.rows);
            self.offset -= along * self.mean;
        } else {
            lines.add(j, self.curvature * along, self.r);
            if let Some(sums) = self.sums {
                self.offset -= self.curvature * along * sums[j] / self.r.len() as f64;
            }
        }
        let decrease = 0.5 * price * (bend + self.terms.l2) * by * by;
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
