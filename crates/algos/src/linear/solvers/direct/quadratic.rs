//! The lowest point of `½ xᵀHx − r·x + l2/2 ‖x‖² + l1 ‖x‖₁`, where `H` fits on the master.
//!
//! Without `l1` it is one system of equations: Cholesky's factors, of a matrix scaled to ones on its diagonal, and residuals
//! put right until they stop falling. With it, coordinate descent on `H`: a step costs one row of `H` and none of the data,
//! so it goes on until steps are nothing but rounding.

use crate::kernels::vectors::{add_scaled, dot};
use crate::linear::scaling::Penalty;

/// A symmetric matrix of sums of products, row by row.
#[derive(Clone, Debug)]
pub(in crate::linear) struct Quadratic {
    n: usize,
    h: Vec<f64>,
}

/// A pivot below this share of what it was before others were taken off it is rounding.
const PIVOT_MIN: f64 = 1e-13;
/// Most products that coordinate descent computes before it says how far it is; about a second.
const PRODUCTS_MAX: f64 = 2e9;
/// Passes that are nothing but rounding, and do not become less.
const PASSES_IN_VAIN: usize = 8;

impl Quadratic {
    /// From all of its rows.
    pub(in crate::linear) fn new(n: usize, h: Vec<f64>) -> Quadratic {
        assert_eq!(h.len(), n * n, "a matrix of {n} rows");
        Quadratic { n, h }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.h[i * self.n..][..self.n]
    }

    /// `H x`.
    pub(in crate::linear) fn times(&self, x: &[f64]) -> Vec<f64> {
        (0..self.n).map(|i| dot(self.row(i), x)).collect()
    }

    /// The lowest point, looked for from `start`; `None` where the matrix is nearly singular.
    ///
    /// `enough` is for functions that only resemble another: coordinate descent ends with the pass that gains no more than
    /// this share of what all passes have gained. With 0 it goes on until steps are nothing but rounding.
    pub(in crate::linear) fn lowest(
        &self,
        r: &[f64],
        penalty: &Penalty,
        start: &[f64],
        enough: f64,
    ) -> Option<Vec<f64>> {
        match penalty.l1() > 0.0 || penalty.is_positive() {
            true => Some(self.descend(r, penalty, start, enough)),
            false => self.solve(r, penalty.l2()),
        }
    }

    /// `(H + l2) x = r`.
    fn solve(&self, r: &[f64], l2: f64) -> Option<Vec<f64>> {
        Some(self.system(l2)?.solve(r))
    }

    /// The equations `(H + l2) x = r`, for any number of `r`; `None` where the matrix is nearly singular.
    pub(in crate::linear) fn system(&self, l2: f64) -> Option<System<'_>> {
        // Columns of zeros keep 0, and are equations of their own.
        let scales: Vec<f64> = (0..self.n)
            .map(|i| {
                let diagonal = self.h[i * self.n + i] + l2;
                if diagonal > 0.0 { 1.0 / diagonal.sqrt() } else { 0.0 }
            })
            .collect();
        let factor = self.factor(&scales)?;
        Some(System { of: self, l2, scales, factor })
    }

    /// `L` with `L Lᵀ = D (H + l2) D`, row by row. Each element is a chain of its own.
    fn factor(&self, scales: &[f64]) -> Option<Vec<f64>> {
        let n = self.n;
        let mut l = vec![0.0; n * n];
        for i in 0..n {
            let (before, rest) = l.split_at_mut(i * n);
            let own = &mut rest[..n];
            for j in 0..i {
                let other = &before[j * n..][..n];
                let value = self.h[i * n + j] * scales[i] * scales[j] - dot(&own[..j], &other[..j]);
                own[j] = value / other[j];
            }
            if scales[i] == 0.0 {
                own[i] = 1.0;
                continue;
            }
            let pivot = 1.0 - dot(&own[..i], &own[..i]);
            if pivot < PIVOT_MIN * n as f64 {
                return None;
            }
            own[i] = pivot.sqrt();
        }
        Some(l)
    }

    /// Coordinate descent: whole passes until one moves something, then passes over those that are not 0.
    fn descend(&self, r: &[f64], penalty: &Penalty, start: &[f64], enough: f64) -> Vec<f64> {
        let (l1, l2) = (penalty.l1(), penalty.l2());
        let least = if penalty.is_positive() { 0.0 } else { f64::NEG_INFINITY };
        let mut x: Vec<f64> = start.iter().map(|x| x.max(least)).collect();
        // The slope of the smooth part without l2: H x − r.
        let mut slope = vec![0.0; self.n];
        let renew = |x: &[f64], slope: &mut [f64]| {
            slope.iter_mut().zip(r).for_each(|(slope, r)| *slope = -r);
            for (j, x) in x.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                add_scaled(slope, *x, self.row(j));
            }
        };
        renew(&x, &mut slope);
        let (mut whole, mut quiet, mut products) = (true, 0, 0.0);
        let (mut moved_least, mut in_vain) = (f64::INFINITY, 0);
        let mut gained = 0.0;
        while products < PRODUCTS_MAX {
            let (mut moved, mut size, mut gain) = (0.0_f64, 0.0_f64, 0.0);
            products += self.n as f64;
            for j in 0..self.n {
                let bend = self.h[j * self.n + j];
                if bend + l2 <= 0.0 || (!whole && x[j] == 0.0) {
                    continue;
                }
                let pull = bend * x[j] - slope[j];
                let to = (soft(pull, l1) / (bend + l2)).max(least);
                let by = to - x[j];
                if by != 0.0 {
                    products += self.n as f64;
                    add_scaled(&mut slope, by, self.row(j));
                    x[j] = to;
                    // In the units of the objective's root, so that columns compare.
                    moved = moved.max(by.abs() * (bend + l2).sqrt());
                    gain += 0.5 * (bend + l2) * by * by;
                }
                // Of what a coordinate is made of, since that is what is rounded: itself may be next to nothing.
                size = size.max(pull.abs() / (bend + l2).sqrt());
            }
            in_vain = if moved < moved_least { 0 } else { in_vain + 1 };
            moved_least = moved_least.min(moved);
            gained += gain;
            if whole && gain <= enough * gained {
                break;
            }
            let is_rounding = moved <= 1e-13 * size && in_vain >= PASSES_IN_VAIN;
            if gain <= enough * gained {
                whole = true;
            } else if moved <= 4.0 * f64::EPSILON * size || is_rounding {
                if whole {
                    quiet += 1;
                    if quiet == 2 {
                        break;
                    }
                }
                renew(&x, &mut slope);
                whole = true;
            } else {
                whole = false;
                quiet = 0;
            }
        }
        x
    }
}

/// Equations whose matrix has been factored.
pub(in crate::linear) struct System<'a> {
    of: &'a Quadratic,
    l2: f64,
    scales: Vec<f64>,
    factor: Vec<f64>,
}

impl System<'_> {
    /// Solves them for one right side.
    pub(in crate::linear) fn solve(&self, r: &[f64]) -> Vec<f64> {
        let (n, scales) = (self.of.n, &self.scales);
        let mut x = vec![0.0; n];
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            let residual: Vec<f64> =
                (0..n).map(|i| scales[i] * residual(self.of.row(i), &x, r[i], self.l2 * x[i])).collect();
            let size = residual.iter().map(|v| v * v).sum::<f64>();
            if size.is_nan() || size >= 0.25 * best {
                break;
            }
            best = size;
            let change = back(&self.factor, n, residual);
            x.iter_mut().zip(change).zip(scales).for_each(|((x, change), scale)| *x += change * scale);
        }
        x
    }
}

/// `r − h·x − more` with the products' rounding errors kept.
fn residual(h: &[f64], x: &[f64], r: f64, more: f64) -> f64 {
    let (mut sum, mut lost) = (r, 0.0);
    let mut add = |value: f64| {
        let total = sum + value;
        let back = total - sum;
        lost += (sum - (total - back)) + (value - back);
        sum = total;
    };
    add(-more);
    for (h, x) in h.iter().zip(x) {
        let product = h * x;
        add(-product);
        add(-h.mul_add(*x, -product));
    }
    sum + lost
}

fn soft(z: f64, by: f64) -> f64 {
    if z > by {
        z - by
    } else if z < -by {
        z + by
    } else {
        0.0
    }
}

/// Solves `L Lᵀ x = b`.
fn back(l: &[f64], n: usize, mut b: Vec<f64>) -> Vec<f64> {
    for i in 0..n {
        let row = &l[i * n..][..n];
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
    for i in (0..n).rev() {
        let row = &l[i * n..][..n];
        b[i] /= row[i];
        let (before, rest) = b.split_at_mut(i);
        add_scaled(before, -rest[0], &row[..i]);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::scaling::Scaling;
    use qjam::Rng;

    fn case(n: usize, rows: usize) -> (Quadratic, Vec<f64>) {
        let mut random = Rng::keyed(5, 0, 0);
        let x: Vec<f64> = (0..rows * n).map(|_| random.normal()).collect();
        let mut h = vec![0.0; n * n];
        for row in x.chunks(n) {
            for i in 0..n {
                for j in 0..n {
                    h[i * n + j] += row[i] * row[j];
                }
            }
        }
        // Products with targets: others might pull where nothing holds.
        let targets: Vec<f64> = (0..rows).map(|_| 3.0 * random.normal()).collect();
        let along = |j: usize| x.chunks(n).zip(&targets).map(|(row, target)| row[j] * target).sum();
        (Quadratic::new(n, h), (0..n).map(along).collect())
    }

    fn penalty(l1: f64, l2: f64, positive: bool) -> Penalty {
        let l1_only = Penalty::beside(l1.max(1e-300), 0.0, Scaling::HalfSum, 1.0).unwrap();
        let l1_only = if l1 > 0.0 { l1_only } else { Penalty::NONE };
        l1_only.with_l2(l2).with_positive(positive)
    }

    #[test]
    fn lowest_points_have_no_slope_that_the_penalty_does_not_meet() {
        for (n, rows) in [(1, 3), (7, 30), (20, 10)] {
            let (quadratic, r) = case(n, rows);
            for (l1, l2, positive) in
                [(0.0, 0.5, false), (2.0, 0.5, false), (2.0, 0.0, false), (0.0, 0.5, true), (2.0, 0.0, true)]
            {
                let x = quadratic.lowest(&r, &penalty(l1, l2, positive), &vec![0.0; n], 0.0).unwrap();
                assert!(!positive || x.iter().all(|x| *x >= 0.0));
                for (j, slope) in quadratic.times(&x).iter().zip(&r).map(|(h, r)| h - r).enumerate() {
                    let wrong = match x[j] == 0.0 {
                        true if positive => (-slope - l1).max(0.0),
                        true => (slope.abs() - l1).max(0.0),
                        false => (slope + l2 * x[j] + l1 * x[j].signum()).abs(),
                    };
                    assert!(wrong < 1e-10, "{n} {l1} {l2}: {wrong:e}");
                }
            }
        }
    }

    #[test]
    fn columns_that_depend_on_each_other_are_noticed() {
        let singular = Quadratic::new(2, vec![1.0, 1.0, 1.0, 1.0]);
        let lowest =
            |of: &Quadratic, r: &[f64], l2: f64| of.lowest(r, &penalty(0.0, l2, false), &[0.0; 2], 0.0);
        assert_eq!(lowest(&singular, &[1.0, 1.0], 0.0), None);
        let eased = lowest(&singular, &[1.0, 1.0], 0.5).unwrap();
        assert!((eased[0] - 0.4).abs() < 1e-15 && eased[0] == eased[1]);
        // A column of zeros is in nobody's way.
        let empty = Quadratic::new(2, vec![2.0, 0.0, 0.0, 0.0]);
        assert_eq!(lowest(&empty, &[1.0, 0.0], 0.0), Some(vec![0.5, 0.0]));
    }
}
