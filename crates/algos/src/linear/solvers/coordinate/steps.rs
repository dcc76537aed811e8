//! What steps do to the coordinates of a partition, and to their terms.
//!
//! Every round begins by taking a step and ends by telling the terms at a dozen points, over all coordinates. Done one by
//! one, with a branch for every kink and bound, that took a third of a round; so it is done in lanes, without branches. Most
//! coordinates of a sparse solution are 0 and stay so: those that move are put together first, block by block. Sums have
//! eight chains, so their bits are those of the coordinates alone.

use super::plane::products;
use super::separable::Separable;
use crate::kernels::{Level, per_level};

/// A point of the plane: how far along the change, and how far along the step before.
type Point = (f64, f64);

/// Chains of a sum.
const CHAINS: usize = 8;
/// Coordinates that are looked through at a time.
const BLOCK: usize = 512;

/// Adds up chains.
#[inline(always)]
fn total(p: [f64; CHAINS]) -> f64 {
    ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
}

/// Coordinates, the last round's change of them, and the last step that was taken; and what their terms are multiplied by, none
/// for all 1.
pub(in crate::linear) struct Moving<'a> {
    pub(in crate::linear) alpha: &'a [f64],
    pub(in crate::linear) change: &'a [f64],
    pub(in crate::linear) before: &'a [f64],
    pub(in crate::linear) prices: &'a [f64],
}

/// The first three of these, to be written.
pub(in crate::linear) type Numbers<'a> = (&'a mut [f64], &'a mut [f64], &'a mut [f64]);

/// Takes a step, and says by how much it made the terms larger, if these are more than squares. No change is left.
pub(in crate::linear) fn take(of: Numbers<'_>, prices: &[f64], terms: &Separable, step: Point) -> f64 {
    let mut taken = 0.0;
    take_at(Level::best(), of, prices, terms, step, &mut taken);
    taken
}

per_level! { fn take_at(of: Numbers<'_>, prices: &[f64], terms: &Separable, step: Point, taken: &mut f64) = take_body }

#[inline(always)]
fn take_body(
    (alpha, change, before): Numbers<'_>,
    prices: &[f64],
    terms: &Separable,
    (along, again): Point,
    taken: &mut f64,
) {
    let (terms, is_told) = (*terms, !terms.is_quadratic());
    let mut sums = [0.0; CHAINS];
    let one = |alpha: &mut f64, change: &mut f64, before: &mut f64| {
        let (more, again) = (along * *change, again * *before);
        let (by, to) = (more + again, terms.stepped(*alpha, more, again));
        let larger = match is_told {
            true => terms.kinks(*alpha, by, to) + terms.l2 * by * (*alpha + 0.5 * by),
            false => 0.0,
        };
        // Not `to - alpha`: near the optimum that is mostly rounding, which the master knows nothing of.
        (*alpha, *change, *before) = (to, 0.0, by);
        larger
    };
    let len = alpha.len().min(change.len()).min(before.len());
    let (alphas, alpha_rest) = alpha[..len].as_chunks_mut::<CHAINS>();
    let (changes, change_rest) = change[..len].as_chunks_mut::<CHAINS>();
    let (befores, before_rest) = before[..len].as_chunks_mut::<CHAINS>();
    let whole = alphas.len() * CHAINS;
    if prices.is_empty() {
        for ((alpha, change), before) in alphas.iter_mut().zip(changes).zip(befores) {
            for i in 0..CHAINS {
                sums[i] += one(&mut alpha[i], &mut change[i], &mut before[i]);
            }
        }
    } else {
        let (prices, _) = prices.as_chunks::<CHAINS>();
        for (((alpha, change), before), price) in alphas.iter_mut().zip(changes).zip(befores).zip(prices) {
            for i in 0..CHAINS {
                sums[i] += price[i] * one(&mut alpha[i], &mut change[i], &mut before[i]);
            }
        }
    }
    for (i, ((alpha, change), before)) in alpha_rest.iter_mut().zip(change_rest).zip(before_rest).enumerate()
    {
        sums[i] += prices.get(whole + i).copied().unwrap_or(1.0) * one(alpha, change, before);
    }
    *taken = total(sums);
}

/// What the master needs to know of the plane of `change` and `before`: products, and the terms without their
/// squares at some points, less what they are here.
pub(in crate::linear) fn survey(
    moving: &Moving<'_>,
    terms: &Separable,
    points: &[Point],
) -> ([f64; 5], Vec<f64>) {
    let (mut squares, mut told) = ([0.0; 5], vec![0.0; points.len()]);
    if terms.is_quadratic() && moving.prices.is_empty() {
        products(Level::best(), moving.alpha, moving.change, moving.before, &mut squares);
    } else {
        survey_at(Level::best(), moving, terms, points, &mut squares, &mut told);
    }
    (squares, told)
}

per_level! {
    fn survey_at(
        moving: &Moving<'_>,
        terms: &Separable,
        points: &[Point],
        squares: &mut [f64; 5],
        told: &mut [f64],
    ) = survey_body
}

/// The coordinates of a block that move.
struct Together {
    alpha: [[f64; CHAINS]; BLOCK / CHAINS],
    change: [[f64; CHAINS]; BLOCK / CHAINS],
    before: [[f64; CHAINS]; BLOCK / CHAINS],
    price: [[f64; CHAINS]; BLOCK / CHAINS],
}

#[inline(always)]
fn survey_body(
    moving: &Moving<'_>,
    terms: &Separable,
    points: &[Point],
    squares: &mut [f64; 5],
    told: &mut [f64],
) {
    let terms = *terms;
    let none = [[0.0; CHAINS]; BLOCK / CHAINS];
    let mut block = Together { alpha: none, change: none, before: none, price: none };
    let mut parts = [[0.0; CHAINS]; 5];
    let mut sums = vec![[0.0; CHAINS]; points.len()];
    let len = moving.alpha.len().min(moving.change.len()).min(moving.before.len());
    for from in (0..len).step_by(BLOCK) {
        let groups = put_together(moving, from..len.min(from + BLOCK), &mut block);
        let (alpha, change) = (&block.alpha[..groups], &block.change[..groups]);
        let (before, price) = (&block.before[..groups], &block.price[..groups]);
        let all = || alpha.iter().zip(change).zip(before).zip(price);
        if terms.l2 > 0.0 {
            for (((a, d), p), price) in all() {
                for i in 0..CHAINS {
                    parts[0][i] += price[i] * (a[i] * d[i]);
                    parts[1][i] += price[i] * (a[i] * p[i]);
                    parts[2][i] += price[i] * (d[i] * d[i]);
                    parts[3][i] += price[i] * (d[i] * p[i]);
                    parts[4][i] += price[i] * (p[i] * p[i]);
                }
            }
        }
        for ((t, s), sum) in points.iter().zip(&mut sums) {
            let mut chains = *sum;
            for (((a, d), p), price) in all() {
                for i in 0..CHAINS {
                    let (along, again) = (t * d[i], s * p[i]);
                    let to = terms.stepped(a[i], along, again);
                    chains[i] += price[i] * terms.kinks(a[i], along + again, to);
                }
            }
            *sum = chains;
        }
    }
    *squares = parts.map(total);
    told.iter_mut().zip(sums).for_each(|(told, sum)| *told = total(sum));
}

/// Puts those together that move, and says how many groups they fill. The last group is filled up with what costs nothing.
#[inline(always)]
fn put_together(moving: &Moving<'_>, range: std::ops::Range<usize>, block: &mut Together) -> usize {
    let (alpha, change) = (&moving.alpha[range.clone()], &moving.change[range.clone()]);
    let before = &moving.before[range.clone()];
    let (to_alpha, to_change) = (block.alpha.as_flattened_mut(), block.change.as_flattened_mut());
    let (to_before, to_price) = (block.before.as_flattened_mut(), block.price.as_flattened_mut());
    let mut count = 0;
    for (i, ((a, d), p)) in alpha.iter().zip(change).zip(before).enumerate() {
        // Written in any case, and overwritten by the next if it does not move: no branch is as likely as the other.
        to_alpha[count] = *a;
        to_change[count] = *d;
        to_before[count] = *p;
        to_price[count] = moving.prices.get(range.start + i).copied().unwrap_or(1.0);
        count += usize::from((*d != 0.0) | (*p != 0.0));
    }
    let groups = count.div_ceil(CHAINS);
    to_alpha[count..groups * CHAINS].fill(0.0);
    to_change[count..groups * CHAINS].fill(0.0);
    to_before[count..groups * CHAINS].fill(0.0);
    to_price[count..groups * CHAINS].fill(0.0);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> [Separable; 4] {
        let net = Separable { l1: 0.7, l2: 0.4, linear: 0.0, lower: f64::NEG_INFINITY, upper: f64::INFINITY };
        [net, Separable { l2: 0.0, ..net }, Separable { l1: 0.0, ..net }, Separable::hinge(1.5)]
    }

    /// Coordinates of which some are 0, and some do not move.
    fn coordinates(len: usize) -> [Vec<f64>; 4] {
        let mut random = qjam::Rng::keyed(9, len as u64, 0);
        let mut some = |zeros: f64| -> Vec<f64> {
            (0..len).map(|_| if random.uniform() < zeros { 0.0 } else { random.normal() }).collect()
        };
        let (alpha, change, before, prices) = (some(0.5), some(0.6), some(0.7), some(0.0));
        // Some go back to 0 exactly, which is where kinks are.
        let back = |(a, d): (&f64, f64)| if *a < -0.5 { -a } else { d };
        let change = alpha.iter().zip(change).map(back).collect();
        let within = |a: f64| a.clamp(0.0, 1.5);
        [alpha.into_iter().map(within).collect(), change, before, prices.iter().map(|p| p.abs()).collect()]
    }

    #[test]
    fn lanes_tell_what_coordinates_tell_one_by_one() {
        let points = [(1.0, 0.0), (0.5, 0.0), (0.9, 0.3), (0.0, 0.0)];
        for (len, terms) in [0, 1, 7, 8, 9, 1300].into_iter().flat_map(|len| kinds().map(|kind| (len, kind)))
        {
            let [alpha, change, before, prices] = coordinates(len);
            for prices in [&prices[..], &[]] {
                let price = |j: usize| prices.get(j).copied().unwrap_or(1.0);
                let moving = Moving { alpha: &alpha, change: &change, before: &before, prices };
                let (squares, told) = survey(&moving, &terms, &points);
                for ((t, s), told) in points.iter().zip(&told) {
                    let at = |j: usize| terms.stepped(alpha[j], t * change[j], s * before[j]);
                    let by = |j: usize| t * change[j] + s * before[j];
                    let one = |j: usize| price(j) * terms.kinks(alpha[j], by(j), at(j));
                    let expected: f64 = if terms.is_quadratic() { 0.0 } else { (0..len).map(one).sum() };
                    let is_same = told == &expected || (told - expected).abs() < 1e-9;
                    assert!(is_same, "{len} {terms:?} ({t}, {s}): {told} and {expected}");
                }
                if terms.l2 > 0.0 {
                    let expected: f64 = (0..len).map(|j| price(j) * change[j] * before[j]).sum();
                    assert!((squares[3] - expected).abs() < 1e-9, "{len} {terms:?}");
                }
                let (mut a, mut d, mut p) = (alpha.clone(), change.clone(), before.clone());
                let taken = take((&mut a, &mut d, &mut p), prices, &terms, points[2]);
                let value = |j: usize| price(j) * (terms.value(a[j]) - terms.value(alpha[j]));
                let expected: f64 = if terms.is_quadratic() { 0.0 } else { (0..len).map(value).sum() };
                assert!(taken == expected || (taken - expected).abs() < 1e-9, "{len} {terms:?}: {taken}");
                assert!(d.iter().all(|d| *d == 0.0));
                assert!((0..len).all(|j| p[j] == 0.9 * change[j] + 0.3 * before[j]));
            }
        }
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let points = [(1.0, 0.0), (0.9, 0.3)];
        for (len, terms) in [5, 37, 1300].into_iter().flat_map(|len| kinds().map(|kind| (len, kind))) {
            let [alpha, change, before, prices] = coordinates(len);
            let at = |level| {
                let moving = Moving { alpha: &alpha, change: &change, before: &before, prices: &prices };
                let (mut squares, mut told, mut taken) = ([0.0; 5], [0.0; 2], 0.0);
                survey_at(level, &moving, &terms, &points, &mut squares, &mut told);
                let (mut a, mut d, mut p) = (alpha.clone(), change.clone(), before.clone());
                take_at(level, (&mut a, &mut d, &mut p), &prices, &terms, (0.9, 0.3), &mut taken);
                let all = squares.iter().chain(&told).chain(&a).chain(&p).chain([&taken]);
                all.map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            let expected = at(Level::named("plain").unwrap());
            assert!(Level::available().into_iter().all(|level| at(level) == expected));
        }
    }
}
