//! How near centres are at least, from products of bytes: a quarter of the work of a product of 32-bit numbers.
//!
//! Rows and centres are taken from a common origin and rounded to whole steps, 127 of them either way; each has a step of
//! its own. Sixty-four products of such bytes are one instruction, and their sums are exact. What rounding took away is a
//! vector of known length, so by Cauchy and Schwarz the product of the bytes misses the true one by at most
//! `|x - x̂| |ĉ| + |x| |c - ĉ|`. That makes a bound for every centre, and few centres remain whose distance has to be
//! computed: the callers in `clustering::kmeans` do that by the one definition of it, so nothing here can change a bit.
//!
//! Only processors with AVX-512 VNNI have the instruction at its full width; elsewhere [`Screen::new`] returns `None`.
//! With AVX2 alone the same takes as many instructions as 32-bit numbers do.
//!
//! All bounds are in units of a power of two near the longest centre, so that squares stay in the range of 32-bit
//! numbers whatever the data. Every rounding on the way is allowed for; what is too large for that becomes NaN or
//! infinite, and callers treat a bound that is no number as no bound.

use super::nearest::{Real, Rows};
use super::{Level, per_level};

/// Centres side by side: two registers of 32-bit sums. The same as [`Real::WIDTH`].
const WIDTH: usize = 32;
/// Rows of a tile: 28 sums, two registers of centres and one element of a row.
const TALL: usize = 14;
/// Rows of the tiles at the end of a list.
const MIDDLE: usize = 8;
const SHORT: usize = 4;
/// Steps either way.
const STEPS: f32 = 127.0;
/// Sums of `dims` products of a byte with sign and one without stay below 2³¹.
const DIMS_MAX: usize = 1 << 16;
/// Added to a small number, it leaves its nearest whole number in the lowest bits.
const WHOLE: f32 = 12_582_912.0;
/// Half of the distance from 1 to the next 32-bit number.
const UNIT: f32 = f32::EPSILON / 2.0;

/// A cache line of bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// That this processor multiplies bytes, 64 at a time.
#[derive(Clone, Copy, Debug)]
struct ByteProducts(());

impl ByteProducts {
    fn here() -> Option<ByteProducts> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vnni")
        {
            return Some(ByteProducts(()));
        }
        None
    }
}

/// Centres in bytes.
#[derive(Clone, Debug)]
pub struct Screen<T> {
    found: ByteProducts,
    dims: usize,
    /// What rows and centres are measured from: the mean of the centres.
    origin: Vec<T>,
    /// Bounds are in multiples of this, a power of two.
    unit: f64,
    /// Panels of [`WIDTH`] centres: of four dimensions the bytes of all of them, two lines, then of the next four.
    /// Bytes are without sign, 128 more than the steps.
    bytes: Vec<Line>,
    /// Squared lengths, not above; infinite for places without a centre.
    squares: Vec<f32>,
    /// Two steps of each centre.
    steps: Vec<f32>,
    /// Lengths, not below.
    lengths: Vec<f32>,
    /// Lengths of what rounding took away, not below.
    errors: Vec<f32>,
}

impl<T: Real> Screen<T> {
    /// Makes bytes of row-major centres. `None` where that would not help: other processors, or numbers beside all
    /// measure.
    pub fn new(centres: &[T], dims: usize) -> Option<Screen<T>> {
        let found = ByteProducts::here()?;
        if dims > DIMS_MAX || dims == 0 || centres.len() < dims {
            return None;
        }
        let count = centres.len() / dims;
        let mut mean = vec![0.0; dims];
        for centre in centres.chunks_exact(dims) {
            mean.iter_mut().zip(centre).for_each(|(m, c)| *m += c.to_f64());
        }
        let origin: Vec<T> = mean.iter().map(|m| T::from_f64(m / count as f64)).collect();
        let away = |centre: &[T]| {
            let squares = centre.iter().zip(&origin).map(|(c, o)| (c.to_f64() - o.to_f64()).powi(2));
            squares.sum::<f64>()
        };
        // Whatever is no number makes the sum one that is in no range.
        let longest =
            centres.chunks_exact(dims).map(away).fold(0.0, |a: f64, b| a.max(b) + 0.0 * (a + b)).sqrt();
        let unit = if longest > 0.0 { longest.log2().ceil().exp2() } else { 1.0 + longest };
        // The unit and its inverse must be ordinary numbers.
        let range = if size_of::<T>() == 4 { 1e-30..1e30 } else { 1e-280..1e280 };
        if !range.contains(&unit) {
            return None;
        }
        let words = dims.div_ceil(4);
        let panels = count.div_ceil(WIDTH);
        let mut screen = Screen {
            found,
            dims,
            origin,
            unit,
            bytes: vec![Line([128; 64]); panels * words * 2],
            squares: vec![f32::INFINITY; panels * WIDTH],
            steps: vec![0.0; panels * WIDTH],
            lengths: vec![0.0; panels * WIDTH],
            errors: vec![0.0; panels * WIDTH],
        };
        let mut one = Bytes::new();
        for j in 0..count {
            one.take(&screen, Rows::new(&centres[j * dims..][..dims], dims, dims), &[0]);
            let row = one.rows[0];
            screen.squares[j] = (row.square_least * (1.0 - 8.0 * f64::from(UNIT))) as f32 * (1.0 - UNIT);
            screen.steps[j] = 2.0 * row.step;
            screen.lengths[j] = row.length;
            screen.errors[j] = row.error + 16.0 * UNIT * row.length;
            let panel = &mut screen.bytes[j / WIDTH * words * 2..][..words * 2];
            for (word, lines) in one.words.iter().zip(panel.as_chunks_mut::<2>().0) {
                let (line, lane) = (j % WIDTH / 16, j % 16);
                let bytes = word.to_ne_bytes().map(|b| b.wrapping_add(128));
                lines[line].0[4 * lane..][..4].copy_from_slice(&bytes);
            }
        }
        Some(screen)
    }

    /// What bounds are multiples of; those of squared distances, of its square.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    fn words(&self) -> usize {
        self.dims.div_ceil(4)
    }
}

/// One row in bytes, less the bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// -128 times the sum of its bytes: what the missing signs of the centres' bytes add.
    start: i32,
    step: f32,
    /// Its length, not below.
    length: f32,
    /// The length of what rounding took away, not below.
    error: f32,
    /// Its squared length, not above.
    square_least: f64,
}

/// Rows in bytes.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    rows: Vec<Row>,
    /// Four bytes each.
    words: Vec<i32>,
    /// Of one row, the elements in 32 bits.
    scratch: Vec<f32>,
}

impl Bytes {
    /// None yet.
    pub fn new() -> Bytes {
        Bytes::default()
    }

    /// Forgets its rows and takes those of a list.
    pub fn take<T: Real>(&mut self, screen: &Screen<T>, rows: Rows<'_, T>, list: &[u32]) {
        assert_eq!(rows.dims(), screen.dims, "dimensions of rows and centres");
        let words = screen.words();
        self.rows.clear();
        self.rows.resize(list.len(), Row::default());
        self.words.resize(list.len() * words, 0);
        self.scratch.clear();
        self.scratch.resize(words * 4, 0.0);
        let scale = T::from_f64(1.0 / screen.unit);
        for ((i, row), to) in list.iter().zip(&mut self.rows).zip(self.words.chunks_exact_mut(words)) {
            T::shifted(Level::best(), rows.row(*i as usize), &screen.origin, scale, &mut self.scratch);
            rounded(Level::best(), &self.scratch, to, row);
        }
    }

    /// Whether the numbers of a row are of a size that bounds can be made for.
    pub fn usable(&self, place: usize) -> bool {
        self.rows[place].length < 1e15
    }

    /// The squared length of a row from the origin of its screen, not above it, in squared units.
    pub fn square_least(&self, place: usize) -> f64 {
        self.rows[place].square_least
    }

    /// Writes for the rows at some places, and for all centres of one panel, at least how much farther they are than the
    /// origin: squared distance less squared length, in squared units. See [`Out`] for where.
    pub fn bounds<T: Real>(&self, screen: &Screen<T>, panel: usize, places: &[u32], out: Out<'_>) {
        let words = screen.words();
        let of_panel = panel * WIDTH..(panel + 1) * WIDTH;
        let centres = Centres {
            bytes: &screen.bytes[panel * words * 2..][..words * 2],
            squares: &screen.squares[of_panel.clone()],
            steps: &screen.steps[of_panel.clone()],
            lengths: &screen.lengths[of_panel.clone()],
            errors: &screen.errors[of_panel],
        };
        tiles(screen.found, self, centres, places, out);
    }
}

/// Moves a row to the origin and into units.
#[inline(always)]
pub(super) fn shifted_body<T: Real>(row: &[T], origin: &[T], scale: T, to: &mut [f32]) {
    for ((to, v), origin) in to.iter_mut().zip(row).zip(origin) {
        *to = v.minus_scaled(*origin, scale);
    }
}

per_level! {
    /// Rounds the elements of a row to bytes.
    fn rounded(values: &[f32], to: &mut [i32], row: &mut Row) = rounded_body
}

#[inline(always)]
fn rounded_body(values: &[f32], to: &mut [i32], row: &mut Row) {
    const LANES: usize = 16;
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    let (mut largest, mut squares) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for values in whole.iter().chain([&last]) {
        for lane in 0..LANES {
            let v = values[lane].abs();
            largest[lane] = if v > largest[lane] { v } else { largest[lane] };
            squares[lane] = v.mul_add(v, squares[lane]);
        }
    }
    let largest = largest.iter().fold(0.0_f32, |a, b| a.max(*b));
    let square: f32 = squares.iter().sum();
    // A row of next to nothing is all error.
    let (step, inverse) = if largest > 1e-30 { (largest / STEPS, STEPS / largest) } else { (0.0, 0.0) };
    let (mut errors, mut sums) = ([0.0_f32; LANES], [0_i32; LANES]);
    let mut bytes = [0_u8; LANES];
    let mut one = |values: &[f32; LANES], to: &mut [i32]| {
        for lane in 0..LANES {
            let shifted = values[lane].mul_add(inverse, WHOLE);
            let error = (shifted - WHOLE).mul_add(-step, values[lane]);
            errors[lane] = error.mul_add(error, errors[lane]);
            let whole = (shifted.to_bits() as i32).wrapping_sub(WHOLE.to_bits() as i32);
            sums[lane] = sums[lane].wrapping_add(whole);
            bytes[lane] = whole as u8;
        }
        for (to, bytes) in to.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *to = i32::from_ne_bytes(*bytes);
        }
    };
    let (whole_words, rest_words) = to.as_chunks_mut::<{ LANES / 4 }>();
    for (values, to) in whole.iter().zip(whole_words) {
        one(values, to);
    }
    if !rest.is_empty() {
        one(&last, rest_words);
    }
    // Sums of squares have an error relative to themselves, and one from squares below the smallest number. Elements
    // have been rounded once or twice before they came here.
    let relative = 1.0 + (values.len() / LANES + 32) as f32 * UNIT;
    let nothing = 1e-22 * (values.len() as f32).sqrt();
    row.step = step;
    row.length = (square.sqrt() * relative) * (1.0 + 4.0 * UNIT) + nothing;
    row.error = errors.iter().sum::<f32>().sqrt() * relative + 4.0 * UNIT * row.length + nothing;
    row.square_least = (f64::from(square) * (1.0 - 2.0 * f64::from(relative - 1.0) - 8.0 * f64::from(UNIT))
        - f64::from(nothing * nothing))
    .max(0.0);
    row.start = sums.iter().fold(0_i32, |a, b| a.wrapping_add(*b)).wrapping_mul(-128);
}

/// Where bounds go.
#[derive(Debug)]
pub struct Out<'a> {
    /// The bounds of the row at place `n` for this panel are the 32 numbers from `(n * panels + panel) * 32` on.
    pub bounds: &'a mut [f32],
    /// The lowest of them is here at `n * panels + panel`.
    pub lowest: &'a mut [f32],
    /// Panels there is room for.
    pub panels: usize,
    /// Which of them this one is.
    pub panel: usize,
}

per_level! {
    /// Turns lower bounds of squared distances, less `base` and in squared units, into such of distances, rounded down. Only
    /// those that are not above `reach` now are replaced.
    pub fn replace_bounds(squares: &[f32], base: f64, unit: f64, reach: f32, bounds: &mut [f32]) = replace_body
}

#[inline(always)]
fn replace_body(squares: &[f32], base: f64, unit: f64, reach: f32, bounds: &mut [f32]) {
    for (bound, square) in bounds.iter_mut().zip(squares) {
        let square = f64::from(*square) + base;
        let distance = (if square > 0.0 { square } else { 0.0 }).sqrt() * unit * (1.0 - 2e-7);
        let within = if distance < 1e38 { distance } else { 1e38 };
        let new = if within > 1e-30 { within as f32 } else { 0.0 };
        *bound = if *bound <= reach { new } else { *bound };
    }
}

/// One panel.
#[derive(Clone, Copy)]
struct Centres<'a> {
    bytes: &'a [Line],
    squares: &'a [f32],
    steps: &'a [f32],
    lengths: &'a [f32],
    errors: &'a [f32],
}

fn tiles(found: ByteProducts, rows: &Bytes, centres: Centres<'_>, places: &[u32], out: Out<'_>) {
    let ByteProducts(()) = found;
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the instructions were found on this processor")]
    // SAFETY: `found` exists only where `is_x86_feature_detected!` said so.
    unsafe {
        registers::tiles(rows, centres, places, out);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (rows, centres, places, out);
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{Bytes, Centres, Line, MIDDLE, Out, Row, SHORT, TALL, WIDTH};
    use crate::kernels::nearest::unrolled;
    use std::arch::x86_64::*;

    /// Words by which centres are fetched ahead of their use.
    const AHEAD: usize = 8;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn tiles(rows: &Bytes, centres: Centres<'_>, places: &[u32], out: Out<'_>) {
        let (mut left, mut out) = (places, out);
        while !left.is_empty() {
            let done = match left.len() {
                9.. => one::<TALL>(rows, centres, left, &mut out),
                5..=8 => one::<MIDDLE>(rows, centres, left, &mut out),
                _ => one::<SHORT>(rows, centres, left, &mut out),
            };
            left = &left[done..];
        }
    }

    /// Does the first rows of a list; returns how many.
    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline]
    fn one<const M: usize>(rows: &Bytes, centres: Centres<'_>, places: &[u32], out: &mut Out<'_>) -> usize {
        let places = &places[..M.min(places.len())];
        let words = centres.bytes.len() / 2;
        // A short list is filled up with its last row.
        let mut those: [&[i32]; M] = [&[]; M];
        for (i, those) in those.iter_mut().enumerate() {
            *those = &rows.words[places[i.min(places.len() - 1)] as usize * words..][..words];
        }
        let fact = |i: usize| rows.rows[places[i.min(places.len() - 1)] as usize];
        let sums = products(those, std::array::from_fn(|i| fact(i).start), centres.bytes);
        // Written out for both halves: an index that is not constant would keep the sums in memory.
        let (first, second) = (Facts::new(centres, 0), Facts::new(centres, 16));
        unrolled!(i < M: if i < places.len() {
            let row = fact(i);
            let place = places[i] as usize * out.panels + out.panel;
            let to = &mut out.bounds[place * WIDTH..][..WIDTH];
            let (first, second) = (first.least(row, sums[i][0]), second.least(row, sums[i][1]));
            store_numbers(first, to);
            store_numbers(second, &mut to[16..]);
            out.lowest[place] = _mm512_reduce_min_ps(_mm512_min_ps(first, second));
        });
        places.len()
    }

    /// What is known of 16 centres beside their bytes.
    struct Facts {
        squares: __m512,
        steps: __m512,
        lengths: __m512,
        errors: __m512,
    }

    impl Facts {
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn new(centres: Centres<'_>, at: usize) -> Facts {
            Facts {
                squares: load_numbers(&centres.squares[at..]),
                steps: load_numbers(&centres.steps[at..]),
                lengths: load_numbers(&centres.lengths[at..]),
                errors: load_numbers(&centres.errors[at..]),
            }
        }

        /// `|c|² - 2 x·c`, less all that it may be wrong by.
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn least(&self, row: Row, product: __m512i) -> __m512 {
            let least = _mm512_fnmadd_ps(_mm512_set1_ps(2.0 * row.error), self.lengths, self.squares);
            let least = _mm512_fnmadd_ps(_mm512_set1_ps(2.0 * row.length), self.errors, least);
            let product = _mm512_mul_ps(_mm512_cvtepi32_ps(product), self.steps);
            _mm512_fnmadd_ps(_mm512_set1_ps(row.step), product, least)
        }
    }

    /// The products of some rows and a panel, on top of the given numbers.
    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline]
    fn products<const M: usize>(rows: [&[i32]; M], starts: [i32; M], panel: &[Line]) -> [[__m512i; 2]; M] {
        let (panel, _) = panel.as_chunks::<2>();
        let words = panel.len();
        let mut rows = rows;
        unrolled!(i < M: rows[i] = &rows[i][..words]);
        let mut sums = [[_mm512_setzero_si512(); 2]; M];
        unrolled!(i < M: sums[i] = [_mm512_set1_epi32(starts[i]); 2]);
        let mut p = 0;
        while p < words {
            fetch(panel, p.wrapping_add(AHEAD));
            let (first, second) = (load(&panel[p][0]), load(&panel[p][1]));
            unrolled!(i < M: {
                let row = _mm512_set1_epi32(rows[i][p]);
                sums[i][0] = _mm512_dpbusd_epi32(sums[i][0], first, row);
                sums[i][1] = _mm512_dpbusd_epi32(sums[i][1], second, row);
            });
            p += 1;
        }
        sums
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    #[expect(unsafe_code, reason = "a load takes an address")]
    fn load(line: &Line) -> __m512i {
        // SAFETY: the line has 64 bytes.
        unsafe { _mm512_loadu_si512(line.0.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    #[expect(unsafe_code, reason = "a load takes an address")]
    fn load_numbers(from: &[f32]) -> __m512 {
        let from = &from[..16];
        // SAFETY: the slice holds that many numbers.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    #[expect(unsafe_code, reason = "a store takes an address")]
    fn store_numbers(values: __m512, to: &mut [f32]) {
        let to = &mut to[..16];
        // SAFETY: the slice has that many places.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), values) }
    }

    /// Says that two lines will be wanted soon. They need not exist.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an intrinsic")]
    fn fetch(pairs: &[[Line; 2]], at: usize) {
        let address = pairs.as_ptr().wrapping_add(at).cast::<i8>();
        // SAFETY: a hint, which reads nothing and fails on no address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
            _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    const KINDS: [&str; 9] = [
        "noise",
        "far away",
        "tiny",
        "huge",
        "constant",
        "one large",
        "zeros",
        "whole numbers",
        "mixed scales",
    ];

    fn points<T: Real>(kind: &str, count: usize, dims: usize, seed: u64) -> Vec<T> {
        let mut random = Rng::keyed(seed, dims as u64, 0);
        let mut values = Vec::with_capacity(count * dims);
        for i in 0..count {
            let scale = 10f64.powi(random.below(24) as i32 - 12);
            for p in 0..dims {
                let noise = random.normal();
                values.push(T::from_f64(match kind {
                    "far away" => 1e5 + noise,
                    "tiny" => noise * 1e-19,
                    "huge" => noise * 1e16,
                    "constant" => i as f64,
                    "one large" => {
                        if p == i % dims {
                            1e4
                        } else {
                            noise
                        }
                    }
                    "zeros" => {
                        if i % 3 == 0 {
                            noise
                        } else {
                            0.0
                        }
                    }
                    "whole numbers" => (noise * 2.0).round(),
                    "mixed scales" => noise * scale,
                    _ => noise,
                }));
            }
        }
        values
    }

    /// Twice the sum of what is exact in doubles: the squared distance and how wrong that may be.
    fn true_square<T: Real>(a: &[T], b: &[T]) -> (f64, f64) {
        let square: f64 = a.iter().zip(b).map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2)).sum();
        (square, square * 1e-12 * a.len() as f64)
    }

    fn check<T: Real>() {
        for kind in KINDS {
            for (n, k, dims) in
                [(1, 1, 1), (5, 3, 2), (9, 33, 5), (14, 32, 64), (37, 100, 129), (16, 70, 1000)]
            {
                let x: Vec<T> = points(kind, n, dims, 1);
                let c: Vec<T> = points(kind, k, dims, 2);
                let Some(screen) = Screen::new(&c, dims) else {
                    // Said aloud: without the instruction nothing of this is tested.
                    assert!(ByteProducts::here().is_none(), "{kind}: no screen for {k} centres of {dims}");
                    return;
                };
                let list: Vec<u32> = (0..n as u32).rev().collect();
                let mut bytes = Bytes::new();
                bytes.take(&screen, Rows::new(&x, dims, dims), &list);
                let panels = k.div_ceil(WIDTH);
                let mut bounds = vec![f32::NAN; n * panels * WIDTH];
                let mut lowest = vec![f32::NAN; n * panels];
                let places: Vec<u32> = (0..n as u32).collect();
                for panel in 0..panels {
                    let out = Out { bounds: &mut bounds, lowest: &mut lowest, panels, panel };
                    bytes.bounds(&screen, panel, &places, out);
                }
                for (bounds, lowest) in bounds.chunks_exact(WIDTH).zip(&lowest) {
                    assert_eq!(bounds.iter().fold(f32::INFINITY, |a, b| a.min(*b)), *lowest);
                }
                let unit = screen.unit();
                let mut widest = 0.0_f64;
                for (place, i) in list.iter().enumerate() {
                    let row = &x[*i as usize * dims..][..dims];
                    for j in 0..panels * WIDTH {
                        let bound = f64::from(bounds[place * panels * WIDTH + j]);
                        if j >= k {
                            assert_eq!(bound, f64::INFINITY, "{kind}: a place without a centre");
                            continue;
                        }
                        let bound = (bound + bytes.square_least(place)) * unit * unit;
                        let (square, error) = true_square(row, &c[j * dims..][..dims]);
                        assert!(
                            bound <= square + error,
                            "{kind}, {n} x {k} x {dims}: {bound:e} > {square:e}"
                        );
                        let (row, centre) =
                            (f64::from(bytes.rows[place].length), f64::from(screen.lengths[j]));
                        widest = widest.max((square - bound) / ((row + centre) * unit).powi(2));
                    }
                }
                if dims >= 64 && kind != "one large" {
                    assert!(widest < 0.02, "{kind}, {dims} dimensions: bounds miss by {widest}");
                }
            }
        }
    }

    #[test]
    fn bounds_are_below_and_near_the_distances_in_single_precision() {
        check::<f32>();
    }

    #[test]
    fn bounds_are_below_and_near_the_distances_in_double_precision() {
        check::<f64>();
    }

    #[test]
    fn numbers_beside_all_measure_have_no_screen() {
        assert!(Screen::new(&[f32::NAN; 64], 64).is_none());
        assert!(Screen::new(&[0.0_f64, 1e300], 1).is_none());
        assert!(Screen::<f32>::new(&[], 4).is_none());
    }
}
