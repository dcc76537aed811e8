//! Objective and lower bound of a linear model, from nothing but the data and the coefficients.
//!
//! A benchmark must not believe what it measures: a fit keeps its objective up to date from round to round, and this computes
//! it once from the beginning, on one thread and off the clock. The bound is Fenchel's dual at the residual.

use anyhow::Context;
use qjam::chunk::Element;
use qjam::{Csr, DataSet, Dense};

/// Is called with the number of a row, and pairs of a column and a value.
type Look<'a> = &'a mut dyn FnMut(usize, &mut dyn Iterator<Item = (usize, f64)>);

/// Rows of a matrix, one after the other.
pub(crate) trait Matrix {
    /// Looks at all of them.
    fn each(&self, row: Look<'_>) -> anyhow::Result<()>;
}

impl<T: Element + Into<f64>> Matrix for DataSet<Csr<T>> {
    fn each(&self, row: Look<'_>) -> anyhow::Result<()> {
        let mut at = 0;
        for index in 0..self.len() {
            let rows = self.chunk(index).context("the data cannot be read again")?;
            for i in 0..rows.rows() {
                let (columns, values) = rows.row(i);
                row(
                    at,
                    &mut columns
                        .iter()
                        .zip(values)
                        .map(|(column, value)| (*column as usize, (*value).into())),
                );
                at += 1;
            }
        }
        Ok(())
    }
}

impl<T: Element + Into<f64>> Matrix for DataSet<Dense<T>> {
    fn each(&self, row: Look<'_>) -> anyhow::Result<()> {
        let mut at = 0;
        for index in 0..self.len() {
            for values in self.chunk(index).context("the data cannot be read again")?.rows_iter() {
                row(at, &mut values.iter().map(|value| (*value).into()).enumerate());
                at += 1;
            }
        }
        Ok(())
    }
}

/// The objective `½‖Aα − b‖² + λ (η/2 ‖α‖² + (1 − η) ‖α‖₁)`, and a number that no point is below.
pub(crate) fn objective_and_bound(
    rows: &dyn Matrix,
    targets: &[f64],
    coefficients: &[f64],
    lambda: f64,
    eta: f64,
) -> anyhow::Result<(f64, f64)> {
    let (mut residual, mut along) = (vec![0.0; targets.len()], vec![0.0; coefficients.len()]);
    rows.each(&mut |at, entries| {
        let mut pairs = Vec::new();
        let mut product = 0.0;
        for (column, value) in entries {
            product += value * coefficients[column];
            pairs.push((column, value));
        }
        residual[at] = product - targets[at];
        pairs.iter().for_each(|(column, value)| along[*column] += value * residual[at]);
    })?;
    let (l1, l2) = (lambda * (1.0 - eta), lambda * eta);
    let squares: f64 = residual.iter().map(|r| r * r).sum();
    let with_targets: f64 = residual.iter().zip(targets).map(|(r, b)| r * b).sum();
    let penalty: f64 = coefficients.iter().map(|a| 0.5 * l2 * a * a + l1 * a.abs()).sum();
    let dual = |scale: f64| -0.5 * scale * scale * squares - scale * with_targets;
    let bound = if l2 > 0.0 {
        let over = along.iter().map(|c| (c.abs() - l1).max(0.0));
        dual(1.0) - over.map(|c| c * c / (2.0 * l2)).sum::<f64>()
    } else {
        // Shrunk until no column is steeper than its price; within that, where the dual is highest.
        let steepest = along.iter().fold(0.0_f64, |most, c| most.max(c.abs()));
        let most = if steepest > 0.0 { l1 / steepest } else { f64::INFINITY };
        let best = if squares > 0.0 { -with_targets / squares } else { 0.0 };
        dual(best.clamp(-most, most))
    };
    Ok((0.5 * squares + penalty, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 0 | 3
    /// 0 1 | 1
    /// 1 1 | 2
    fn problem() -> (DataSet<Csr<f64>>, [f64; 3]) {
        let x =
            Csr::from_vecs(vec![0, 1, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 1.0], 2, None).unwrap();
        (DataSet::csr(&x).unwrap(), [3.0, 1.0, 2.0])
    }

    #[test]
    fn the_gap_closes_at_the_optimum_and_nowhere_else() {
        let (x, b) = problem();
        let ridge = [21.0 / 17.0, 10.0 / 17.0];
        let (objective, bound) = objective_and_bound(&x, &b, &ridge, 1.0, 1.0).unwrap();
        assert!((objective - bound).abs() < 1e-12, "{objective} {bound}");
        let (elsewhere, below) = objective_and_bound(&x, &b, &[1.0, 0.0], 1.0, 1.0).unwrap();
        assert!(elsewhere > objective + 0.1 && below < objective, "{elsewhere} {below}");
        // Lasso: 5a + b = 8 − 1 and a + 2b = 3 − 1, both positive.
        let lasso = [12.0 / 9.0, 3.0 / 9.0];
        let (objective, bound) = objective_and_bound(&x, &b, &lasso, 1.0, 0.0).unwrap();
        assert!((objective - bound).abs() < 1e-12, "{objective} {bound}");
    }

    #[test]
    fn dense_and_sparse_rows_say_the_same() {
        let (x, b) = problem();
        let dense = DataSet::dense(vec![2.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2).unwrap();
        for eta in [0.0, 0.3, 1.0] {
            let at = [0.7, -0.2];
            let sparse = objective_and_bound(&x, &b, &at, 0.5, eta).unwrap();
            assert_eq!(sparse, objective_and_bound(&dense, &b, &at, 0.5, eta).unwrap());
        }
    }
}
