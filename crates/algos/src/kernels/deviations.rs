//! Rows less a point: their lengths, and sums of what is left, with weights.
//!
//! Rows lie one after the other and are as wide as the point. A length is summed in eight partial sums, element `i` in sum
//! `i mod 8`, which are added from first to last; sums over rows are one chain for each column. Plain multiplications and
//! additions, each rounded: the bits are the same on every processor.

use super::per_level;

const PARTS: usize = 8;

per_level! {
    /// Writes the rows less the point.
    pub fn less(rows: &[f64], point: &[f64], to: &mut [f64]) = less_body
}
per_level! {
    /// Writes some of the rows less the point, and the same times a weight for each.
    pub fn less_weighted(rows: &[f64], some: &[(u32, f64)], point: &[f64], to: &mut [f64], weighted: &mut [f64]) =
        less_weighted_body
}
per_level! {
    /// Writes the squared length of each row.
    pub fn squared_lengths(rows: &[f64], width: usize, to: &mut [f64]) = squared_lengths_body
}
per_level! {
    /// Writes the squared length of each row less the point, each element times a factor of its column.
    pub fn squared_distances(rows: &[f64], point: &[f64], factors: &[f64], to: &mut [f64]) = squared_distances_body
}
per_level! {
    /// Adds some of the rows less the point, each with its weight, to `first`, and their squares to `second`.
    pub fn add_moments(rows: &[f64], some: &[(u32, f64)], point: &[f64], first: &mut [f64], second: &mut [f64]) =
        add_moments_body
}

#[inline(always)]
fn less_body(rows: &[f64], point: &[f64], to: &mut [f64]) {
    for (row, to) in rows.chunks_exact(point.len()).zip(to.chunks_exact_mut(point.len())) {
        for ((to, value), point) in to.iter_mut().zip(row).zip(point) {
            *to = value - point;
        }
    }
}

#[inline(always)]
fn less_weighted_body(
    rows: &[f64],
    some: &[(u32, f64)],
    point: &[f64],
    to: &mut [f64],
    weighted: &mut [f64],
) {
    let width = point.len();
    let both = to.chunks_exact_mut(width).zip(weighted.chunks_exact_mut(width));
    for ((to, weighted), (row, weight)) in both.zip(some) {
        let row = &rows[*row as usize * width..][..width];
        for (((to, weighted), value), point) in to.iter_mut().zip(weighted).zip(row).zip(point) {
            *to = value - point;
            *weighted = weight * (value - point);
        }
    }
}

#[inline(always)]
fn squared_lengths_body(rows: &[f64], width: usize, to: &mut [f64]) {
    for (row, to) in rows.chunks_exact(width).zip(to) {
        let mut parts = [0.0; PARTS];
        let (whole, rest) = row.as_chunks::<PARTS>();
        for values in whole {
            for (part, value) in parts.iter_mut().zip(values) {
                *part += value * value;
            }
        }
        for (part, value) in parts.iter_mut().zip(rest) {
            *part += value * value;
        }
        *to = parts.iter().sum();
    }
}

#[inline(always)]
fn squared_distances_body(rows: &[f64], point: &[f64], factors: &[f64], to: &mut [f64]) {
    let width = point.len();
    let factors = &factors[..width];
    let (points, points_rest) = point.as_chunks::<PARTS>();
    let (scales, scales_rest) = factors.as_chunks::<PARTS>();
    for (row, to) in rows.chunks_exact(width).zip(to) {
        let mut parts = [0.0; PARTS];
        let (whole, rest) = row.as_chunks::<PARTS>();
        for ((values, point), factors) in whole.iter().zip(points).zip(scales) {
            for (((part, value), point), factor) in parts.iter_mut().zip(values).zip(point).zip(factors) {
                let apart = (value - point) * factor;
                *part += apart * apart;
            }
        }
        for (((part, value), point), factor) in parts.iter_mut().zip(rest).zip(points_rest).zip(scales_rest) {
            let apart = (value - point) * factor;
            *part += apart * apart;
        }
        *to = parts.iter().sum();
    }
}

#[inline(always)]
fn add_moments_body(rows: &[f64], some: &[(u32, f64)], point: &[f64], first: &mut [f64], second: &mut [f64]) {
    let width = point.len();
    let (first, second) = (&mut first[..width], &mut second[..width]);
    for (row, weight) in some {
        let row = &rows[*row as usize * width..][..width];
        for (((first, second), value), point) in first.iter_mut().zip(&mut *second).zip(row).zip(point) {
            let apart = value - point;
            let weighted = weight * apart;
            *first += weighted;
            *second += weighted * apart;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Level;
    use qjam::Rng;

    #[test]
    fn every_level_gives_the_bits_of_the_definition() {
        for width in [1, 7, 8, 24, 51] {
            let mut random = Rng::keyed(5, 0, 0);
            let mut noise = |count: usize| -> Vec<f64> { (0..count).map(|_| random.normal()).collect() };
            let (rows, point, factors) = (noise(6 * width), noise(width), noise(width));
            let some = [(0, 0.5), (4, 0.25), (5, 2.0)];
            let length = |values: &mut dyn Iterator<Item = f64>| {
                let mut parts = [0.0; PARTS];
                values.enumerate().for_each(|(i, value)| parts[i % PARTS] += value * value);
                parts.iter().sum::<f64>()
            };
            let apart = |row: usize| -> Vec<f64> {
                rows[row * width..][..width].iter().zip(&point).map(|(value, point)| value - point).collect()
            };
            for level in Level::available() {
                let (mut to, mut weighted) = (vec![0.0; 6 * width], vec![0.0; 6 * width]);
                less(level, &rows, &point, &mut to);
                assert_eq!(to, (0..6).flat_map(apart).collect::<Vec<f64>>());
                less_weighted(level, &rows, &some, &point, &mut to, &mut weighted);
                let picked: Vec<f64> = some.iter().flat_map(|(row, _)| apart(*row as usize)).collect();
                assert_eq!(to[..3 * width], picked);
                assert_eq!(weighted[width], 0.25 * picked[width]);
                let mut lengths = [0.0; 6];
                squared_lengths(level, &rows, width, &mut lengths);
                assert_eq!(lengths[2], length(&mut rows[2 * width..3 * width].iter().copied()));
                squared_distances(level, &rows, &point, &factors, &mut lengths);
                let scaled = apart(3).into_iter().zip(&factors).map(|(value, factor)| value * factor);
                assert_eq!(lengths[3], length(&mut scaled.into_iter()));
                let (mut first, mut second) = (vec![0.0; width], vec![0.0; width]);
                add_moments(level, &rows, &some, &point, &mut first, &mut second);
                let (mut a, mut b) = (0.0, 0.0);
                for (row, weight) in some {
                    let value = apart(row as usize)[width - 1];
                    a += weight * value;
                    b += weight * value * value;
                }
                assert_eq!((first[width - 1], second[width - 1]), (a, b));
            }
        }
    }
}
