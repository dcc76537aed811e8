//! Independent component analysis by the fixed point of Hyvärinen and Oja.
//!
//! ```text
//!   one round ([`moments::covariances`]) ──▶ eigenvectors ──▶ whitening
//!   rounds of [`turn::pull`] ──▶ directions made orthonormal ──▶ … until they stay where they are
//! ```
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::decomposition::ica::{Params, fit};
//!
//! // Two sources, mixed.
//! let sources = (0..400).map(|i| (f64::from(i % 7) - 3.0, f64::from(i % 20 / 10) - 0.5));
//! let rows: Vec<f64> = sources.flat_map(|(a, b)| [a + b, a - 2.0 * b]).collect();
//! let rows = DataSet::dense(rows, 2)?;
//! let fit = fit(&Master::connect("local:1")?, &Params::new(None), &rows, None, |_, _| {})?;
//! assert!(fit.converged && fit.model.len() == 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
pub mod model;
pub mod params;
pub mod turn;

pub use model::IcaModel;
pub use params::{Contrast, Params, Whiten};

use super::pca::sound;
use crate::clustering::kmeans::parts;
use crate::input::{InputError, Problem};
use crate::kernels::symmetric::Eigen;
use crate::kernels::vectors::{add_scaled, dot};
use crate::linear::rows::RowChunk;
use crate::moments::{Scatter, covariances, variances};
use qjam::{DataSet, Master, Rng};
use turn::{Directions, Pull, pull};

/// What the command calls it.
const NAME: &str = "ica";

/// What fitting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The components.
    pub model: IcaModel,
    /// Rounds of the fixed point; by deflation, of the component that took most.
    pub rounds: u64,
    /// Whether all components stay where they are.
    pub converged: bool,
    /// How many directions have variance, where that was asked.
    pub rank: Option<usize>,
}

/// What makes rows white.
struct White {
    mean: Vec<f64>,
    /// For each white coordinate its direction, of length 1, and the root of the sum of squares along it; nothing if rows are
    /// white already.
    directions: Vec<f64>,
    lengths: Vec<f64>,
    rows: f64,
}

impl White {
    /// Turns directions among white coordinates into directions among columns: `W K √n`.
    fn among_columns(&self, w: &[f64], k: usize) -> Vec<f64> {
        if self.lengths.is_empty() {
            return w.to_vec();
        }
        let (d, root) = (self.mean.len(), self.rows.sqrt());
        let mut out = vec![0.0; w.len() / k * d];
        for (row, to) in w.chunks_exact(k).zip(out.chunks_exact_mut(d)) {
            let each = row.iter().zip(&self.lengths).zip(self.directions.chunks_exact(d));
            each.for_each(|((share, length), direction)| add_scaled(to, share * root / length, direction));
        }
        out
    }

    /// The means over rows of what was summed along columns, along white coordinates.
    fn whitened(&self, sums: &[f64], k: usize) -> Vec<f64> {
        let d = self.mean.len();
        if self.lengths.is_empty() {
            return sums.iter().map(|sum| sum / self.rows).collect();
        }
        let each = |row: &[f64], i: usize| {
            dot(row, &self.directions[i * d..][..d]) / (self.lengths[i] * self.rows.sqrt())
        };
        sums.chunks_exact(d).flat_map(|row| (0..k).map(move |i| each(row, i))).collect()
    }
}

/// Fits a model. `start` has directions to begin from, among white coordinates; `tell` is called after each round with its number and how far components still turn.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    start: Option<&[f64]>,
    mut tell: impl FnMut(u64, f64),
) -> Result<Fit, InputError> {
    let (rows, columns) = (data.records(), data.chunk(0).map_err(qjam::Error::from)?.width());
    let wrong = |problem: Problem| problem.of(NAME);
    if rows < 2 {
        return Err(wrong(Problem::Rows { rows, min: 2 }));
    }
    let max = rows.min(columns as u64);
    if let Some(asked) = params.components.map(|asked| asked as u64).filter(|asked| *asked > max) {
        return Err(wrong(Problem::Components { asked, max }));
    }
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let (white, k, rank) = match params.whiten {
        Whiten::Never => {
            sound(master.run(variances::<C>, &(), &data)?, NAME)?;
            let white =
                White { mean: vec![0.0; columns], directions: vec![], lengths: vec![], rows: rows as f64 };
            (white, columns, None)
        }
        _ => {
            let (white, rank) = whitening(master, params, &data)?;
            let k = white.lengths.len();
            (white, k, Some(rank))
        }
    };
    let mut w = match start {
        Some(start) if start.len() != k * k => {
            return Err(wrong(Problem::StartDirections { found: start.len(), components: k }));
        }
        Some(start) => start.to_vec(),
        None => {
            let mut random = Rng::keyed(params.seed, 0, 0);
            (0..k * k).map(|_| random.normal()).collect()
        }
    };
    let mut round = |w: &[f64]| -> Result<Pull, InputError> {
        let directions = white.among_columns(w, k);
        let found: Pull =
            master.run(pull::<C>, &Directions::new(params.contrast, &white.mean, &directions), &data)?;
        Ok(Pull { rows: white.whitened(&found.rows, k), slopes: found.slopes })
    };
    let (rounds, converged) = match params.deflates {
        true => deflated(params, white.rows, k, &mut w, &mut round, &mut tell)?,
        false => together(params, white.rows, k, &mut w, &mut round, &mut tell)?,
    };
    let model =
        IcaModel::new(&white.mean, &w, &white.directions, &white.lengths, (params.whiten, white.rows));
    Ok(Fit { model, rounds, converged, rank })
}

/// Means, and the directions with the largest variances; with the number of directions that have any.
fn whitening<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
) -> Result<(White, usize), InputError> {
    let scatter: Scatter = sound(master.run(covariances::<C>, &(), data)?, NAME)?;
    let (d, rows) = (scatter.mean.len(), scatter.rows as f64);
    let eigen = Eigen::of(scatter.products, d).ok_or_else(|| Problem::Overflow.of(NAME))?;
    let least = eigen.values[0] * d as f64 * f64::EPSILON;
    let rank = eigen.values.iter().take_while(|value| **value > least).count();
    let k = params.components.unwrap_or(rank);
    if k > rank || rank == 0 {
        return Err(Problem::Rank { asked: k as u64, rank: rank as u64 }.of(NAME));
    }
    let mut directions = eigen.vectors()[..k * d].to_vec();
    for direction in directions.chunks_exact_mut(d).filter(|direction| direction[0] < 0.0) {
        direction.iter_mut().for_each(|value| *value = -*value);
    }
    let lengths = eigen.values[..k].iter().map(|value| value.sqrt()).collect();
    Ok((White { mean: scatter.mean, directions, lengths, rows }, rank))
}

/// All components in every round.
fn together(
    params: &Params,
    rows: f64,
    k: usize,
    w: &mut Vec<f64>,
    round: &mut impl FnMut(&[f64]) -> Result<Pull, InputError>,
    tell: &mut impl FnMut(u64, f64),
) -> Result<(u64, bool), InputError> {
    let overflow = || Problem::Overflow.of(NAME);
    *w = decorrelated(w, k).ok_or_else(overflow)?;
    for number in 1..=params.max_iter {
        let Pull { rows: mut next, slopes } = round(w)?;
        for ((next, row), slope) in next.chunks_exact_mut(k).zip(w.chunks_exact(k)).zip(&slopes) {
            add_scaled(next, -slope / rows, row);
        }
        let next = decorrelated(&next, k).ok_or_else(overflow)?;
        let turned = next.chunks_exact(k).zip(w.chunks_exact(k));
        let furthest = turned.map(|(a, b)| (dot(a, b).abs() - 1.0).abs()).fold(0.0, f64::max);
        *w = next;
        tell(number, furthest);
        if furthest < params.tol {
            return Ok((number, true));
        }
    }
    Ok((params.max_iter, false))
}

/// One component after the other, each orthogonal to those before it.
fn deflated(
    params: &Params,
    rows: f64,
    k: usize,
    w: &mut [f64],
    round: &mut impl FnMut(&[f64]) -> Result<Pull, InputError>,
    tell: &mut impl FnMut(u64, f64),
) -> Result<(u64, bool), InputError> {
    let normalise = |row: &mut [f64]| -> Result<(), InputError> {
        let length = dot(row, row).sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return Err(Problem::Overflow.of(NAME));
        }
        row.iter_mut().for_each(|value| *value /= length);
        Ok(())
    };
    let (mut most, mut all, mut number) = (0, true, 0);
    for at in 0..k {
        let (before, rest) = w.split_at_mut(at * k);
        let row = &mut rest[..k];
        normalise(row)?;
        let mut converged = false;
        for step in 1..=params.max_iter {
            let Pull { rows: mut next, slopes } = round(row)?;
            add_scaled(&mut next, -slopes[0] / rows, row);
            for other in before.chunks_exact(k) {
                let share = dot(&next, other);
                add_scaled(&mut next, -share, other);
            }
            normalise(&mut next)?;
            let turned = (dot(&next, row).abs() - 1.0).abs();
            row.copy_from_slice(&next);
            number += 1;
            tell(number, turned);
            most = most.max(step);
            if turned < params.tol {
                converged = true;
                break;
            }
        }
        all &= converged;
    }
    Ok((most, all))
}

/// `(W Wᵀ)^(−1/2) W`: the orthonormal rows that are nearest to these.
fn decorrelated(w: &[f64], k: usize) -> Option<Vec<f64>> {
    let products = (0..k * k).map(|at| dot(&w[at / k * k..][..k], &w[at % k * k..][..k])).collect();
    let eigen = Eigen::of(products, k)?;
    let mut out = vec![0.0; k * k];
    for (value, vector) in eigen.values.iter().zip(eigen.vectors().chunks_exact(k)) {
        let mut along = vec![0.0; k];
        vector.iter().zip(w.chunks_exact(k)).for_each(|(share, row)| add_scaled(&mut along, *share, row));
        let per = 1.0 / value.max(f64::MIN_POSITIVE).sqrt();
        for (share, row) in vector.iter().zip(out.chunks_exact_mut(k)) {
            add_scaled(row, share * per, &along);
        }
    }
    out.iter().all(|value| value.is_finite()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saw, a square wave and noise that is far from normal, mixed.
    fn signals(rows: usize) -> (Vec<[f64; 3]>, Vec<f64>) {
        let mut random = Rng::keyed(4, 0, 0);
        let sources: Vec<[f64; 3]> = (0..rows)
            .map(|i| [(i % 37) as f64 / 18.0 - 1.0, f64::from(i % 100 < 50), random.normal().powi(3)])
            .collect();
        let mixing = [[1.0, 1.0, 1.0], [0.5, 2.0, 1.0], [1.5, 1.0, 2.0], [0.3, -0.4, 0.1]];
        let mixed = |row: &[f64; 3]| mixing.map(|m| m[0] * row[0] + m[1] * row[1] + m[2] * row[2] + 10.0);
        let rows = sources.iter().flat_map(mixed).collect();
        (sources, rows)
    }

    #[test]
    fn mixed_sources_are_found_by_every_contrast_and_both_algorithms() {
        let (sources, rows) = signals(4000);
        let data = DataSet::dense(rows, 4).unwrap();
        let master = Master::builder().no_run_file().connect("local:2").unwrap();
        for contrast in [Contrast::LogCosh(1.0), Contrast::Exp, Contrast::Cube] {
            for deflates in [false, true] {
                let params = Params { deflates, tol: 1e-8, ..Params::new(None).with_contrast(contrast) };
                let fit = fit(&master, &params, &data, None, |_, _| {}).unwrap();
                assert_eq!((fit.model.len(), fit.rank, fit.converged), (3, Some(3), true), "{params:?}");
                let found = fit.model.transform(&master, &data).unwrap();
                for source in 0..3 {
                    let mean = sources.iter().map(|row| row[source]).sum::<f64>() / 4000.0;
                    let size: f64 = sources.iter().map(|row| (row[source] - mean).powi(2)).sum();
                    let best = (0..3)
                        .map(|c| {
                            let along = sources.iter().zip(found.chunks(3));
                            let sum: f64 = along.map(|(row, y)| (row[source] - mean) * y[c]).sum();
                            sum.abs() / (size * 4000.0).sqrt()
                        })
                        .fold(0.0, f64::max);
                    assert!(best > 0.97, "{params:?}: source {source} {best}");
                }
                let back = fit.model.inverse(&found);
                let rows = data.partitions(1).unwrap().chunk(0).unwrap().as_slice().to_vec();
                assert!(back.iter().zip(&rows).all(|(a, b)| (a - b).abs() < 1e-6));
            }
        }
    }

    #[test]
    fn more_components_than_directions_with_variance_are_refused() {
        let (_, rows) = signals(300);
        let data = DataSet::dense(rows, 4).unwrap();
        let master = Master::builder().no_run_file().connect("local:1").unwrap();
        let said = |params: Params, data: &DataSet<_>, start: Option<&[f64]>| {
            fit(&master, &params, data, start, |_, _| {}).unwrap_err().to_string()
        };
        assert!(
            said(Params::new(Some(4)), &data, None).contains("4 components are asked for and 3 directions")
        );
        assert!(
            said(Params::new(Some(5)), &data, None).contains("there may be as many as rows or columns, 4")
        );
        assert!(said(Params::new(None), &data, Some(&[1.0])).contains("1 numbers for 3 components"));
        let constant = DataSet::dense(vec![2.0; 40], 4).unwrap();
        assert!(said(Params::new(None), &constant, None).contains("0 directions have variance"));
    }
}
