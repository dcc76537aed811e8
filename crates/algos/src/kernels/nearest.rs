//! Which centre is nearest to each row: a product of rows and centres that keeps only its smallest entries.
//!
//! The distance is defined once, for everything that compares rows with centres. The *score* of a row `x` and a centre
//! `c` is `‖c‖² - 2 x·c`, the squared distance less what all centres share. `x·c` starts from 0 and takes
//! `x[p] * c[p]` with one rounding for `p = 0, 1, …`; then `-2 x·c + ‖c‖²` is rounded once; `‖c‖²` is summed in doubles
//! and rounded once. The nearest centre is the one of the lowest score, and of equal ones the first. Every score is a
//! chain of operations of its own, so neither vector widths nor tiles nor which other centres are looked at change a bit.
//!
//! Lanes run along centres, which lie in [`Panels`]; elements of rows are broadcast. A tile of 14 rows by 32 centres
//! stays in registers (with 512 bits) over all dimensions, and the smallest entries are picked out before it is left.
//! Rows are copied into tiles first: element `p` of all rows of a tile is one run of memory.
//!
//! Without a fused multiply-add instruction (x86-64 before 2013) each product is a call into a library: the same bits,
//! many times slower.

use super::lanes::Lanes;
use super::screen::shifted_body;
use super::{Level, per_level};
use qjam::chunk::Element;
use qjam::{DecodeError, Decoder, Encoder, Params, Slab, Wire};

/// Rows per tile where registers have 512 bits: 28 accumulators, two registers of centres and one element of a row.
const TALL: usize = 14;
/// Rows per tile with 16 registers.
const MIDDLE: usize = 6;
/// Rows per tile at the end of a list: the fewest whose chains hide each other's latency.
const SHORT: usize = 4;
/// Dimensions by which centres are fetched ahead of their use.
const AHEAD: usize = 8;
/// Rows that are copied at a time. With 1000 dimensions they and a panel fill half of a common second-level cache.
const BLOCK_ROWS: usize = 8 * TALL;

/// `f32` or `f64`: the numbers rows and centres are made of.
pub trait Real: Element + Wire + Default + PartialOrd + std::fmt::Debug + super::vectors::Widened {
    /// Centres side by side in one panel: two of the widest registers of 32-bit numbers.
    const WIDTH: usize;
    /// Half of the distance from 1 to the next number.
    const UNIT: f64;
    /// The largest number.
    const LARGEST: f64;
    /// Larger than every number.
    const INFINITY: Self;

    /// The same number.
    fn to_f64(self) -> f64;
    /// The nearest number.
    fn from_f64(value: f64) -> Self;

    /// `(self - origin) * scale` as a 32-bit number, each operation rounded once.
    fn minus_scaled(self, origin: Self, scale: Self) -> f32;
    /// Writes `(row - origin) * scale`, element by element.
    fn shifted(level: Level, row: &[Self], origin: &[Self], scale: Self, out: &mut [f32]);
    /// Writes the squared distances of a row to the centres in a list, which lie row after row. They are within
    /// [`distance_error`] of the true ones, and not the same on all processors: for bounds, not for results.
    fn distances(level: Level, row: &[Self], centres: &[Self], list: &[u32], out: &mut [f64]);
    /// Writes the scores of a row and the centres in a list, which lie row after row.
    fn scores_of(
        level: Level,
        row: &[Self],
        centres: &[Self],
        norms: &[Self],
        list: &[u32],
        out: &mut [Self],
    );
    /// Adds a row times its weight to sums in doubles.
    fn add_to(level: Level, row: &[Self], weight: f64, sums: &mut [f64]);
    /// Writes for every row the index of its nearest centre.
    fn nearest(level: Level, panels: &Panels<Self>, rows: Rows<'_, Self>, out: &mut [u32]);
    /// Writes the scores of the rows in `list` and all centres of one panel, [`Real::WIDTH`] for each row.
    fn scores(
        level: Level,
        panels: &Panels<Self>,
        panel: usize,
        rows: Rows<'_, Self>,
        list: &[u32],
        out: &mut [Self],
    );
}

/// Row-major rows, of which the first `dims` elements are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    values: &'a [T],
    stride: usize,
    dims: usize,
}

impl<'a, T: Copy> Rows<'a, T> {
    /// Rows of `stride` values each. Panics if they are not whole or shorter than `dims`.
    pub fn new(values: &'a [T], stride: usize, dims: usize) -> Self {
        assert!(dims <= stride && stride > 0, "{dims} dimensions of rows of {stride}");
        assert!(values.len().is_multiple_of(stride), "{} values in rows of {stride}", values.len());
        Rows { values, stride, dims }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.values.len() / self.stride
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Elements of a row that count.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// One of them.
    #[inline(always)]
    pub fn row(&self, i: usize) -> &'a [T] {
        &self.values[i * self.stride..][..self.dims]
    }

    /// Some of them that follow each other.
    pub fn part(&self, range: std::ops::Range<usize>) -> Rows<'a, T> {
        Rows { values: &self.values[range.start * self.stride..range.end * self.stride], ..*self }
    }

    /// What follows those elements in the row.
    #[inline(always)]
    pub fn rest(&self, i: usize) -> &'a [T] {
        &self.values[i * self.stride..][self.dims..self.stride]
    }
}

/// Bytes of a cache line and of the widest register.
const LINE_BYTES: usize = 64;

/// Centres as the kernel reads them: panels of [`Real::WIDTH`] centres, in each the first elements of all of them, then
/// the second ones, and so on.
#[derive(Clone, Debug)]
pub struct Panels<T: Real> {
    centres: u64,
    dims: u64,
    /// The elements, from `start` on, where a cache line begins: loads that touch two lines cost a tenth of the speed.
    values: Slab<T>,
    start: usize,
    /// Squared lengths; that of a place without a centre is infinite, so that it is nobody's nearest.
    norms: Vec<T>,
}

impl<T: Real> Panels<T> {
    /// Lays out row-major centres of `dims` elements. Panics if they are not whole.
    pub fn new(centres: &[T], dims: usize) -> Panels<T> {
        assert!(
            dims > 0 && centres.len().is_multiple_of(dims),
            "{} values for {dims} dimensions",
            centres.len()
        );
        let count = centres.len() / dims;
        let panels = count.div_ceil(T::WIDTH);
        let size = panels * dims * T::WIDTH;
        let line = LINE_BYTES / size_of::<T>();
        let mut values = vec![T::default(); size + line];
        // An allocator may decline to say; then the memory is as good as any other.
        let start = values.as_ptr().align_offset(LINE_BYTES).min(line);
        values.truncate(start + size);
        let mut norms = vec![T::INFINITY; panels * T::WIDTH];
        // A few dimensions of all centres of a panel at a time: what is written stays in the first-level cache.
        const STEP: usize = 64;
        let laid_out = values[start..].chunks_exact_mut(dims * T::WIDTH);
        for (panel, centres) in laid_out.zip(centres.chunks(T::WIDTH * dims)) {
            for (step, part) in panel.chunks_mut(STEP * T::WIDTH).enumerate() {
                for (lane, centre) in centres.chunks_exact(dims).enumerate() {
                    for (p, value) in centre[step * STEP..].iter().take(part.len() / T::WIDTH).enumerate() {
                        part[p * T::WIDTH + lane] = *value;
                    }
                }
            }
        }
        for (norm, centre) in norms.iter_mut().zip(centres.chunks_exact(dims)) {
            *norm = T::from_f64(square(centre));
        }
        Panels { centres: count as u64, dims: dims as u64, values: values.into(), start, norms }
    }

    /// Number of centres.
    pub fn centres(&self) -> usize {
        self.centres as usize
    }

    /// Number of panels.
    pub fn len(&self) -> usize {
        self.norms.len() / T::WIDTH
    }

    /// Whether there are no centres.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Elements of a centre.
    pub fn dims(&self) -> usize {
        self.dims as usize
    }

    /// The squared length of a centre, as scores have it.
    pub fn norm(&self, centre: usize) -> T {
        self.norms[centre]
    }

    /// One element of a centre.
    pub fn element(&self, centre: usize, p: usize) -> T {
        self.elements()[(centre / T::WIDTH * self.dims() + p) * T::WIDTH + centre % T::WIDTH]
    }

    fn elements(&self) -> &[T] {
        &self.values[self.start..]
    }

    /// The elements and the squared lengths of one panel.
    pub(super) fn panel(&self, panel: usize) -> (&[T], &[T]) {
        let size = self.dims() * T::WIDTH;
        (&self.elements()[panel * size..][..size], &self.norms[panel * T::WIDTH..][..T::WIDTH])
    }
}

impl<T: Real> Wire for Panels<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.centres.encode(out);
        self.dims.encode(out);
        self.elements().encode_params(out);
        self.norms.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let (centres, dims) = (u64::decode(input)?, u64::decode(input)?);
        Ok(Panels {
            centres,
            dims,
            values: <[T]>::decode_params(input)?,
            start: 0,
            norms: Wire::decode(input)?,
        })
    }
}

/// The squared length, in doubles and eight partial sums.
pub fn square<T: Real>(values: &[T]) -> f64 {
    let (whole, rest) = values.as_chunks::<8>();
    let mut parts = [0.0; 8];
    for values in whole {
        for (part, v) in parts.iter_mut().zip(values) {
            *part += v.to_f64() * v.to_f64();
        }
    }
    for (part, v) in parts.iter_mut().zip(rest) {
        *part += v.to_f64() * v.to_f64();
    }
    parts.iter().sum()
}

macro_rules! real {
    ($number:ident, $width:literal, $lanes:ident, $nearest:ident, $scores:ident, $shifted:ident, $distances:ident,
     $scores_of:ident, $add_to:ident) => {
        impl Real for $number {
            const WIDTH: usize = $width;
            const UNIT: f64 = $number::EPSILON as f64 / 2.0;
            const LARGEST: f64 = $number::MAX as f64;
            const INFINITY: Self = $number::INFINITY;

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $number
            }

            #[inline(always)]
            fn minus_scaled(self, origin: Self, scale: Self) -> f32 {
                ((self - origin) * scale) as f32
            }

            fn shifted(level: Level, row: &[Self], origin: &[Self], scale: Self, out: &mut [f32]) {
                $shifted(level, row, origin, scale, out);
            }

            fn distances(level: Level, row: &[Self], centres: &[Self], list: &[u32], out: &mut [f64]) {
                $distances(level, row, centres, list, out);
            }

            fn scores_of(
                level: Level,
                row: &[Self],
                centres: &[Self],
                norms: &[Self],
                list: &[u32],
                out: &mut [Self],
            ) {
                $scores_of(level, row, centres, norms, list, out);
            }

            fn add_to(level: Level, row: &[Self], weight: f64, sums: &mut [f64]) {
                $add_to(level, row, weight, sums);
            }

            fn nearest(level: Level, panels: &Panels<Self>, rows: Rows<'_, Self>, out: &mut [u32]) {
                $nearest(level, panels, rows, out);
            }

            fn scores(
                level: Level,
                panels: &Panels<Self>,
                panel: usize,
                rows: Rows<'_, Self>,
                list: &[u32],
                out: &mut [Self],
            ) {
                $scores(level, panels, panel, rows, list, out);
            }
        }

        per_level! {
            fn $nearest(panels: &Panels<$number>, rows: Rows<'_, $number>, out: &mut [u32]) = nearest_body<$lanes>
        }
        per_level! {
            fn $scores(
                panels: &Panels<$number>,
                panel: usize,
                rows: Rows<'_, $number>,
                list: &[u32],
                out: &mut [$number],
            ) = scores_body<$lanes>
        }
        per_level! {
            fn $shifted(row: &[$number], origin: &[$number], scale: $number, out: &mut [f32]) = shifted_body
        }
        per_level! {
            fn $distances(row: &[$number], centres: &[$number], list: &[u32], out: &mut [f64]) =
                distances_body<$lanes>
        }
        per_level! {
            fn $scores_of(
                row: &[$number],
                centres: &[$number],
                norms: &[$number],
                list: &[u32],
                out: &mut [$number],
            ) = scores_of_body
        }
        per_level! {
            fn $add_to(row: &[$number], weight: f64, sums: &mut [f64]) = add_to_body
        }
    };
}

real!(f32, 32, Lanes32, nearest_f32, scores_f32, shifted_f32, distances_f32, scores_of_f32, add_to_f32);
real!(f64, 32, Lanes, nearest_f64, scores_f64, shifted_f64, distances_f64, scores_of_f64, add_to_f64);

/// Copies up to `M` rows side by side; the places of rows that are missing stay what they were.
#[inline(always)]
fn pack<T: Real, const M: usize>(rows: Rows<'_, T>, from: usize, to: &mut [T]) {
    // Written out for four dimensions of one row at a time: few checks, and what is written stays in the nearest cache.
    let (dims, count) = (rows.dims(), M.min(rows.len() - from));
    let to = &mut to[..dims * M];
    let mut p = 0;
    while p + 4 <= dims {
        let to = &mut to[p * M..(p + 4) * M];
        for i in 0..count {
            let row = &rows.row(from + i)[p..p + 4];
            to[i] = row[0];
            to[M + i] = row[1];
            to[2 * M + i] = row[2];
            to[3 * M + i] = row[3];
        }
        p += 4;
    }
    while p < dims {
        for i in 0..count {
            to[p * M + i] = rows.row(from + i)[p];
        }
        p += 1;
    }
}

/// Runs a body for `i` in `0..M`, written out: a loop that the compiler leaves a loop would keep the tile in memory.
macro_rules! unrolled {
    ($i:ident < $count:ident: $body:expr) => {
        $crate::kernels::nearest::unrolled!(@ $i < $count: $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    (@ $i:ident < $count:ident: $body:expr; $($n:literal)*) => {$(
        if $n < $count {
            let $i: usize = $n;
            $body
        }
    )*};
}
pub(super) use unrolled;

/// Adds the products of one dimension to a tile: `M` rows, and the two registers of centres at the start of a slice.
#[inline(always)]
fn add<V: Lanes<Number: Real>, const M: usize>(
    sums: &mut [[V; 2]; M],
    row: impl Fn(usize) -> V::Number,
    centres: &[V::Number],
) {
    let (first, second) = (V::load(centres), V::load(&centres[V::COUNT..]));
    unrolled!(i < M: {
        let row = V::splat(row(i));
        sums[i][0] = row.mul_add(first, sums[i][0]);
        sums[i][1] = row.mul_add(second, sums[i][1]);
    });
}

/// The products of `M` rows and two registers of centres, which begin at `at` in their panel.
#[inline(always)]
fn tile<V: Lanes<Number: Real>, const M: usize>(
    packed: &[V::Number],
    panel: &[V::Number],
    at: usize,
) -> [[V; 2]; M] {
    let dims = panel.len() / V::Number::WIDTH;
    assert!(packed.len() >= dims * M);
    let mut sums = [[V::splat(V::Number::default()); 2]; M];
    let mut p = 0;
    while p < dims {
        let rows = &packed[p * M..p * M + M];
        let centres = &panel[p * V::Number::WIDTH + at..][..2 * V::COUNT];
        V::fetch(panel, (p + AHEAD) * V::Number::WIDTH + at);
        add(&mut sums, |i| rows[i], centres);
        p += 1;
    }
    sums
}

/// The same for rows that lie where they are. Their addresses take more registers than there are, which costs a tenth
/// of the speed; copying them for a single panel would cost as much as the panel.
#[inline(always)]
fn tile_in_place<V: Lanes<Number: Real>, const M: usize>(
    rows: [&[V::Number]; M],
    panel: &[V::Number],
    at: usize,
) -> [[V; 2]; M] {
    let dims = panel.len() / V::Number::WIDTH;
    let mut rows = rows;
    unrolled!(i < M: rows[i] = &rows[i][..dims]);
    let mut sums = [[V::splat(V::Number::default()); 2]; M];
    let mut p = 0;
    while p < dims {
        let centres = &panel[p * V::Number::WIDTH + at..][..2 * V::COUNT];
        V::fetch(panel, (p + AHEAD) * V::Number::WIDTH + at);
        add(&mut sums, |i| rows[i][p], centres);
        p += 1;
    }
    sums
}

/// The products, turned into scores.
#[inline(always)]
pub(super) fn scored<V: Lanes<Number: Real>, const M: usize>(
    sums: &mut [[V; 2]; M],
    norms: &[V::Number],
    at: usize,
) {
    let (first, second) = (V::load(&norms[at..]), V::load(&norms[at + V::COUNT..]));
    let factor = V::splat(V::Number::from_f64(-2.0));
    unrolled!(i < M: sums[i] = [sums[i][0].mul_add(factor, first), sums[i][1].mul_add(factor, second)]);
}

#[inline(always)]
fn nearest_body<V: Lanes<Number: Real>>(
    panels: &Panels<V::Number>,
    rows: Rows<'_, V::Number>,
    out: &mut [u32],
) {
    if size_of::<V>() == 64 {
        nearest_tiles::<V, TALL>(panels, rows, out);
    } else {
        nearest_tiles::<V, MIDDLE>(panels, rows, out);
    }
}

#[inline(always)]
fn nearest_tiles<V: Lanes<Number: Real>, const M: usize>(
    panels: &Panels<V::Number>,
    rows: Rows<'_, V::Number>,
    out: &mut [u32],
) {
    let dims = rows.dims();
    assert_eq!(dims, panels.dims(), "dimensions of rows and centres");
    assert_eq!(out.len(), rows.len(), "one place for every row");
    assert!(!panels.is_empty(), "no centres");
    if rows.is_empty() {
        return;
    }
    let tiles = (BLOCK_ROWS / M).min(rows.len().div_ceil(M));
    let mut packed = vec![V::Number::default(); tiles * M * dims];
    let nothing = [V::splat(V::Number::INFINITY), V::splat(V::Number::default())];
    let mut best = vec![[nothing; M]; tiles];
    for (block, out) in out.chunks_mut(tiles * M).enumerate() {
        let from = block * tiles * M;
        let tiles = out.len().div_ceil(M);
        for (t, packed) in packed.chunks_exact_mut(M * dims).enumerate().take(tiles) {
            pack::<V::Number, M>(rows, from + t * M, packed);
        }
        best.fill([nothing; M]);
        for panel in 0..panels.len() {
            let (values, norms) = panels.panel(panel);
            for (packed, best) in packed.chunks_exact(M * dims).zip(&mut best).take(tiles) {
                for at in (0..V::Number::WIDTH).step_by(2 * V::COUNT) {
                    let mut sums = tile::<V, M>(packed, values, at);
                    scored(&mut sums, norms, at);
                    // The mark of a register is its number; exact up to 2²⁴ registers.
                    let mark = ((panel * V::Number::WIDTH + at) / V::COUNT) as f64;
                    let marks = [mark, mark + 1.0].map(|m| V::splat(V::Number::from_f64(m)));
                    unrolled!(i < M: {
                        let [best, best_mark] = &mut best[i];
                        sums[i][0].keep_lower(marks[0], best, best_mark);
                        sums[i][1].keep_lower(marks[1], best, best_mark);
                    });
                }
            }
        }
        for (out, best) in out.iter_mut().zip(best.iter().flatten()) {
            *out = first_lowest::<V>(best);
        }
    }
}

/// The centre of the lowest of the lanes, and of equal ones the first centre.
#[inline(always)]
pub(super) fn first_lowest<V: Lanes<Number: Real>>([best, mark]: &[V; 2]) -> u32 {
    if let Some(centre) = best.first_lowest(*mark) {
        return centre;
    }
    let mut scores = [V::Number::default(); 16];
    let mut marks = [V::Number::default(); 16];
    best.store(&mut scores);
    mark.store(&mut marks);
    let mut lowest = scores[0];
    for score in &scores[1..V::COUNT] {
        if *score < lowest {
            lowest = *score;
        }
    }
    let mut centre = u32::MAX;
    for lane in 0..V::COUNT {
        let here = (marks[lane].to_f64() as u32) * V::COUNT as u32 + lane as u32;
        centre = if scores[lane] == lowest { centre.min(here) } else { centre };
    }
    centre
}

#[inline(always)]
fn scores_body<V: Lanes<Number: Real>>(
    panels: &Panels<V::Number>,
    panel: usize,
    rows: Rows<'_, V::Number>,
    list: &[u32],
    out: &mut [V::Number],
) {
    assert_eq!(rows.dims(), panels.dims(), "dimensions of rows and centres");
    assert_eq!(out.len(), list.len() * V::Number::WIDTH, "a panel's width for every row");
    let mut done = 0;
    while done < list.len() {
        let (list, out) = (&list[done..], &mut out[done * V::Number::WIDTH..]);
        done += match list.len() {
            TALL.. if size_of::<V>() == 64 => score_tile::<V, TALL>(panels, panel, rows, list, out),
            MIDDLE.. if size_of::<V>() < 64 => score_tile::<V, MIDDLE>(panels, panel, rows, list, out),
            _ => score_tile::<V, SHORT>(panels, panel, rows, list, out),
        };
    }
}

/// Does the first rows of a list; returns how many.
#[inline(always)]
fn score_tile<V: Lanes<Number: Real>, const M: usize>(
    panels: &Panels<V::Number>,
    panel: usize,
    rows: Rows<'_, V::Number>,
    list: &[u32],
    out: &mut [V::Number],
) -> usize {
    let width = V::Number::WIDTH;
    let list = &list[..M.min(list.len())];
    // A short list is filled up with its last row.
    let mut tile_rows: [&[V::Number]; M] = [&[]; M];
    for (i, row) in tile_rows.iter_mut().enumerate() {
        *row = rows.row(list[i.min(list.len() - 1)] as usize);
    }
    let (values, norms) = panels.panel(panel);
    for at in (0..width).step_by(2 * V::COUNT) {
        let mut sums = tile_in_place::<V, M>(tile_rows, values, at);
        scored(&mut sums, norms, at);
        unrolled!(i < M: if i < list.len() {
            sums[i][0].store(&mut out[i * width + at..]);
            sums[i][1].store(&mut out[i * width + at + V::COUNT..]);
        });
    }
    list.len()
}

/// By how much [`Real::distances`] may miss a squared distance `d` of points of so many dimensions: this share of `d`, and
/// this much more.
pub fn distance_error<T: Real>(dims: usize) -> (f64, f64) {
    let smallest = if size_of::<T>() == 4 { 2e-45 } else { 1e-323 };
    ((dims as f64 / 4.0 + 40.0) * T::UNIT, (dims as f64 + 40.0) * smallest)
}

#[inline(always)]
fn distances_body<V: Lanes<Number: Real>>(
    row: &[V::Number],
    centres: &[V::Number],
    list: &[u32],
    out: &mut [f64],
) {
    assert_eq!(list.len(), out.len(), "a place for every centre");
    let (zero, minus) = (V::splat(V::Number::default()), V::splat(V::Number::from_f64(-1.0)));
    let step = 4 * V::COUNT;
    let whole = row.len() / step * step;
    for (j, out) in list.iter().zip(out) {
        let centre = &centres[*j as usize * row.len()..][..row.len()];
        let mut parts = [zero; 4];
        let mut p = 0;
        while p < whole {
            let (x, c) = (&row[p..p + step], &centre[p..p + step]);
            unrolled!(i < FOUR: {
                let away = V::load(&c[i * V::COUNT..]).mul_add(minus, V::load(&x[i * V::COUNT..]));
                parts[i] = away.mul_add(away, parts[i]);
            });
            p += step;
        }
        let mut sum = 0.0;
        for part in parts {
            let mut lanes = [V::Number::default(); 16];
            part.store(&mut lanes);
            sum += lanes[..V::COUNT].iter().map(|v| v.to_f64()).sum::<f64>();
        }
        for (x, c) in row[whole..].iter().zip(&centre[whole..]) {
            let away = x.to_f64() - c.to_f64();
            sum += away * away;
        }
        *out = sum;
    }
}

#[inline(always)]
fn add_to_body<T: Real>(row: &[T], weight: f64, sums: &mut [f64]) {
    if weight == 1.0 {
        sums.iter_mut().zip(row).for_each(|(s, v)| *s += v.to_f64());
    } else {
        sums.iter_mut().zip(row).for_each(|(s, v)| *s += weight * v.to_f64());
    }
}

/// Sums of a distance that run side by side.
const FOUR: usize = 4;
/// Chains that run side by side, so that they hide each other's latency.
const CHAINS: usize = 8;

#[inline(always)]
fn scores_of_body<T: Real + Lanes<Number = T>>(
    row: &[T],
    centres: &[T],
    norms: &[T],
    list: &[u32],
    out: &mut [T],
) {
    let dims = row.len();
    for (list, out) in list.chunks(CHAINS).zip(out.chunks_mut(CHAINS)) {
        // A short list is filled up with its last centre.
        let those: [&[T]; CHAINS] =
            std::array::from_fn(|n| &centres[list[n.min(list.len() - 1)] as usize * dims..][..dims]);
        let mut sums = [T::default(); CHAINS];
        for (p, x) in row.iter().enumerate() {
            for n in 0..CHAINS {
                sums[n] = x.mul_add(those[n][p], sums[n]);
            }
        }
        for ((j, sum), out) in list.iter().zip(sums).zip(out) {
            *out = sum.mul_add(T::from_f64(-2.0), norms[*j as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise<T: Real>(len: usize, seed: u64) -> Vec<T> {
        let mut random = qjam::Rng::keyed(seed, 0, 0);
        (0..len).map(|_| T::from_f64(random.normal())).collect()
    }

    /// The definition, in so many words.
    fn score<T: Real>(x: &[T], c: &[T], mul_add: fn(T, T, T) -> T) -> T {
        let dot = x.iter().zip(c).fold(T::default(), |sum, (x, c)| mul_add(*x, *c, sum));
        mul_add(dot, T::from_f64(-2.0), T::from_f64(square(c)))
    }

    fn check<T: Real>(mul_add: fn(T, T, T) -> T) {
        for (rows, k, dims, stride) in [
            (1, 1, 1, 1),
            (5, 3, 2, 2),
            (14, 32, 7, 8),
            (113, 33, 5, 5),
            (131, 100, 40, 41),
            (29, 65, 70, 70),
        ] {
            let x: Vec<T> = noise(rows * stride, 1);
            let mut c: Vec<T> = noise(k * dims, 2);
            // A centre twice: the first of the two must win.
            c.copy_within(..dims, (k - 1) * dims);
            let view = Rows::new(&x, stride, dims);
            let panels = Panels::new(&c, dims);
            let all: Vec<Vec<T>> =
                (0..rows).map(|i| c.chunks(dims).map(|c| score(view.row(i), c, mul_add)).collect()).collect();
            let expected: Vec<u32> = all
                .iter()
                .map(|s| (0..k).fold(0, |best, j| if s[j] < s[best] { j } else { best }) as u32)
                .collect();
            for level in Level::available() {
                let mut out = vec![7; rows];
                T::nearest(level, &panels, view, &mut out);
                assert_eq!(out, expected, "{level:?}, {rows} rows, {k} centres, {dims} dimensions");
                let list: Vec<u32> = (0..rows as u32).filter(|i| i % 3 != 1).rev().collect();
                for panel in 0..panels.len() {
                    let mut scores = vec![T::default(); list.len() * T::WIDTH];
                    T::scores(level, &panels, panel, view, &list, &mut scores);
                    for (i, scores) in list.iter().zip(scores.chunks(T::WIDTH)) {
                        for (lane, s) in scores.iter().enumerate() {
                            let expected = all[*i as usize].get(panel * T::WIDTH + lane);
                            assert_eq!(
                                s.to_f64(),
                                expected.map_or(f64::INFINITY, |s| s.to_f64()),
                                "{level:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_level_gives_the_scores_of_the_definition_and_the_first_lowest() {
        check::<f32>(f32::mul_add);
        check::<f64>(f64::mul_add);
    }

    #[test]
    fn elements_are_found_again_in_their_panels() {
        let c: Vec<f32> = noise(70 * 9, 5);
        let panels = Panels::new(&c, 9);
        assert_eq!((panels.centres(), panels.len(), panels.dims()), (70, 3, 9));
        assert!((0..70).all(|j| (0..9).all(|p| panels.element(j, p) == c[j * 9 + p])));
        assert_eq!(f64::from(panels.norm(69)), f64::from(square(&c[69 * 9..]) as f32));
    }
}
