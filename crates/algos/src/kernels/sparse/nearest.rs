//! Which centre is nearest to each line of a sparse matrix, by the same definition as for dense rows.
//!
//! See [`kernels::nearest`](crate::kernels::nearest) for scores, and for panels: a value of a line is multiplied with the
//! elements of all centres of a panel at its place, which are one run of memory. A zero of a dense row adds nothing to
//! its chain of products, so scores have the bits that the dense kernel gives, and so have the nearest centres.
//!
//! The chain of one line waits for itself, so four lines go side by side. Lines of a block are taken in the order of their
//! lengths, since four go on together until the shortest ends.

use super::Lines;
use super::products::{times_body, transposed_body};
use crate::kernels::lanes::Lanes;
use crate::kernels::nearest::{Panels, Real, first_lowest, scored, unrolled};
use crate::kernels::{Level, per_level};

/// Lines side by side: with two registers each their chains hide each other's latency.
const TILE: usize = 4;
/// Lines that meet a panel one after the other while what they share of it is in a cache.
const BLOCK_LINES: usize = 512;
/// Values by which centres are fetched ahead of their use; wide panels are in no near cache.
const AHEAD: usize = 8;

/// Numbers that sparse kernels are compiled for.
pub trait Sparse: Real {
    /// Writes for every line the index of its nearest centre.
    fn nearest_lines(level: Level, panels: &Panels<Self>, lines: Lines<'_, Self>, out: &mut [u32]);
    /// Writes the scores of the lines in `list` and all centres of one panel, [`Real::WIDTH`] for each line.
    fn scores_of_lines(
        level: Level,
        panels: &Panels<Self>,
        panel: usize,
        lines: Lines<'_, Self>,
        list: &[u32],
        out: &mut [Self],
    );
    /// `self * factor + term`, rounded once.
    fn fused(self, factor: Self, term: Self) -> Self;
    /// See [`times`](super::times).
    #[doc(hidden)]
    fn times(level: Level, lines: Lines<'_, Self>, b: &[Self], cols: usize, out: &mut [Self]);
    /// See [`transposed_times`](super::transposed_times).
    #[doc(hidden)]
    fn transposed_times(level: Level, lines: Lines<'_, Self>, b: &[Self], cols: usize, out: &mut [Self]);
}

macro_rules! sparse {
    ($number:ident, $lanes:ident, $nearest:ident, $scores:ident, $times:ident, $transposed:ident) => {
        impl Sparse for $number {
            fn nearest_lines(level: Level, panels: &Panels<Self>, lines: Lines<'_, Self>, out: &mut [u32]) {
                $nearest(level, panels, lines, out);
            }

            fn scores_of_lines(
                level: Level,
                panels: &Panels<Self>,
                panel: usize,
                lines: Lines<'_, Self>,
                list: &[u32],
                out: &mut [Self],
            ) {
                $scores(level, panels, panel, lines, list, out);
            }

            #[inline(always)]
            fn fused(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }

            fn times(level: Level, lines: Lines<'_, Self>, b: &[Self], cols: usize, out: &mut [Self]) {
                $times(level, lines, b, cols, out);
            }

            fn transposed_times(level: Level, lines: Lines<'_, Self>, b: &[Self], cols: usize, out: &mut [Self]) {
                $transposed(level, lines, b, cols, out);
            }
        }

        per_level! {
            fn $nearest(panels: &Panels<$number>, lines: Lines<'_, $number>, out: &mut [u32]) = nearest_body<$lanes>
        }
        per_level! {
            fn $scores(
                panels: &Panels<$number>,
                panel: usize,
                lines: Lines<'_, $number>,
                list: &[u32],
                out: &mut [$number],
            ) = scores_body<$lanes>
        }
        per_level! {
            fn $times(lines: Lines<'_, $number>, b: &[$number], cols: usize, out: &mut [$number])
                = times_body<$lanes>
        }
        per_level! {
            fn $transposed(lines: Lines<'_, $number>, b: &[$number], cols: usize, out: &mut [$number])
                = transposed_body
        }
    };
}
sparse!(f32, Lanes32, nearest_f32, scores_f32, times_f32, transposed_f32);
sparse!(f64, Lanes, nearest_f64, scores_f64, times_f64, transposed_f64);

/// Adds one value times two registers of centres.
#[inline(always)]
fn add<V: Lanes<Number: Real>>(
    sums: &mut [V; 2],
    place: u32,
    value: V::Number,
    panel: &[V::Number],
    at: usize,
) {
    let centres = &panel[place as usize * V::Number::WIDTH + at..][..2 * V::COUNT];
    let value = V::splat(value);
    sums[0] = value.mul_add(V::load(centres), sums[0]);
    sums[1] = value.mul_add(V::load(&centres[V::COUNT..]), sums[1]);
}

/// The products of `M` lines and two registers of centres, which begin at `at` in their panel.
#[inline(always)]
fn tile<V: Lanes<Number: Real>, const M: usize>(
    lines: [(&[u32], &[V::Number]); M],
    panel: &[V::Number],
    at: usize,
) -> [[V; 2]; M] {
    let mut sums = [[V::splat(V::Number::default()); 2]; M];
    let mut shared = usize::MAX;
    unrolled!(i < M: shared = shared.min(lines[i].0.len()).min(lines[i].1.len()));
    let mut together = lines;
    unrolled!(i < M: together[i] = (&lines[i].0[..shared], &lines[i].1[..shared]));
    for j in 0..shared {
        unrolled!(i < M: {
            let (places, values) = together[i];
            if j + AHEAD < shared {
                V::fetch(panel, places[j + AHEAD] as usize * V::Number::WIDTH + at);
            }
            add(&mut sums[i], places[j], values[j], panel, at);
        });
    }
    unrolled!(i < M: {
        let (places, values) = lines[i];
        for (place, value) in places[shared..].iter().zip(&values[shared..]) {
            add(&mut sums[i], *place, *value, panel, at);
        }
    });
    sums
}

#[inline(always)]
fn nearest_body<V: Lanes<Number: Real>>(
    panels: &Panels<V::Number>,
    lines: Lines<'_, V::Number>,
    out: &mut [u32],
) {
    assert_eq!(lines.across(), panels.dims(), "dimensions of lines and centres");
    assert_eq!(out.len(), lines.len(), "one place for every line");
    assert!(!panels.is_empty(), "no centres");
    let mut order: Vec<u32> = Vec::new();
    let nothing = [V::splat(V::Number::INFINITY), V::splat(V::Number::default())];
    let mut best = vec![[nothing; TILE]; BLOCK_LINES / TILE];
    for (block, out) in out.chunks_mut(BLOCK_LINES).enumerate() {
        let from = block * BLOCK_LINES;
        let lines = lines.part(from..from + out.len());
        order.clear();
        order.extend(0..out.len() as u32);
        order.sort_by_key(|i| lines.stored(*i as usize));
        best.fill([nothing; TILE]);
        for panel in 0..panels.len() {
            let (values, norms) = panels.panel(panel);
            for (four, best) in order.chunks(TILE).zip(&mut best) {
                let mut in_tile: [(&[u32], &[V::Number]); TILE] = [(&[], &[]); TILE];
                for (line, i) in in_tile.iter_mut().zip(four) {
                    *line = lines.line(*i as usize);
                }
                // A short tile is filled up, or its lines would not go side by side.
                for i in four.len()..TILE {
                    in_tile[i] = in_tile[0];
                }
                for at in (0..V::Number::WIDTH).step_by(2 * V::COUNT) {
                    let mut sums = tile::<V, TILE>(in_tile, values, at);
                    scored(&mut sums, norms, at);
                    let mark = ((panel * V::Number::WIDTH + at) / V::COUNT) as f64;
                    let marks = [mark, mark + 1.0].map(|m| V::splat(V::Number::from_f64(m)));
                    unrolled!(i < TILE: {
                        let [best, best_mark] = &mut best[i];
                        sums[i][0].keep_lower(marks[0], best, best_mark);
                        sums[i][1].keep_lower(marks[1], best, best_mark);
                    });
                }
            }
        }
        for (i, best) in order.iter().zip(best.iter().flatten()) {
            out[*i as usize] = first_lowest::<V>(best);
        }
    }
}

#[inline(always)]
fn scores_body<V: Lanes<Number: Real>>(
    panels: &Panels<V::Number>,
    panel: usize,
    lines: Lines<'_, V::Number>,
    list: &[u32],
    out: &mut [V::Number],
) {
    let width = V::Number::WIDTH;
    assert_eq!(lines.across(), panels.dims(), "dimensions of lines and centres");
    assert_eq!(out.len(), list.len() * width, "a panel's width for every line");
    let (values, norms) = panels.panel(panel);
    for (list, out) in list.chunks(TILE).zip(out.chunks_mut(TILE * width)) {
        let mut in_tile: [(&[u32], &[V::Number]); TILE] = [(&[], &[]); TILE];
        for (i, line) in in_tile.iter_mut().enumerate() {
            *line = lines.line(list[i.min(list.len() - 1)] as usize);
        }
        for at in (0..width).step_by(2 * V::COUNT) {
            let mut sums = tile::<V, TILE>(in_tile, values, at);
            scored(&mut sums, norms, at);
            for (sums, out) in sums.iter().zip(out.chunks_exact_mut(width)) {
                sums[0].store(&mut out[at..]);
                sums[1].store(&mut out[at + V::COUNT..]);
            }
        }
    }
}
