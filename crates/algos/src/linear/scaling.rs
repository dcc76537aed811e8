//! How an objective is scaled: the same λ means different things to different people.
//!
//! Everything in here minimises `loss + penalty` in one form, the *½-sum*: the loss is a sum over rows (`½ Σ (xᵢ·a − bᵢ)²`,
//! `Σ ln(1 + exp(−yᵢ xᵢ·a))`, `Σ max(0, 1 − yᵢ xᵢ·a)`), and the penalty is `l2/2 ‖a‖² + l1 ‖a‖₁`. A [`Scaling`] is how somebody
//! else writes it, and [`Penalty`] is made from their numbers. Multiplying an objective by a positive number moves no
//! optimum, so the conversion is exact; [`Scaling::objective`] turns a value back.

use thiserror::Error;

/// The form in which λ is given and an objective is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scaling {
    /// The loss is the sum over rows, of squares the half: `½‖Aa − b‖² + λ R(a)`.
    #[default]
    HalfSum,
    /// Twice that: `‖Aa − b‖² + λ R(a)`, as the paper on Spark and MPI writes it. Its λ is twice that of
    /// [`HalfSum`](Scaling::HalfSum).
    Sum,
    /// The mean over rows instead of the sum: `1/(2N) ‖Aa − b‖² + λ R(a)`, as scikit-learn's `Lasso` and `ElasticNet` and
    /// CoCoA's reference code have it. Its λ is that of [`HalfSum`](Scaling::HalfSum) divided by the number of rows.
    HalfMean,
}

impl Scaling {
    /// What an objective in this form is multiplied by to become the ½-sum, with so many rows.
    pub fn factor(self, rows: usize) -> f64 {
        self.factor_of(rows as f64)
    }

    /// The same where rows have weights, which add up to `weight`.
    pub fn factor_of(self, weight: f64) -> f64 {
        match self {
            Scaling::HalfSum => 1.0,
            Scaling::Sum => 0.5,
            Scaling::HalfMean => weight,
        }
    }

    /// An objective in the ½-sum form, told in this one.
    pub fn objective(self, half_sum: f64, rows: usize) -> f64 {
        half_sum / self.factor(rows)
    }
}

/// `l2/2 ‖a‖² + l1 ‖a‖₁`, to be added to a loss in the ½-sum form.
///
/// ```
/// use qjam_algos::linear::{Penalty, Scaling};
/// // η = 1 is ridge and η = 0 is lasso.
/// let paper = Penalty::elastic_net(2.0, 1.0, Scaling::Sum, 100)?;
/// assert_eq!((paper.l1(), paper.l2()), (0.0, 1.0));
/// // scikit-learn's Lasso(alpha=0.01) on 100 rows.
/// let lasso = Penalty::elastic_net(0.01, 0.0, Scaling::HalfMean, 100)?;
/// assert_eq!((lasso.l1(), lasso.l2()), (1.0, 0.0));
/// # Ok::<(), qjam_algos::linear::PenaltyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalty {
    l1: f64,
    l2: f64,
    /// Whether coefficients may not be negative.
    positive: bool,
}

/// What is wrong with a penalty.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PenaltyError {
    /// λ is no positive number.
    #[error("the penalty's λ is {value}; give a positive, finite number")]
    Lambda {
        /// What was given.
        value: f64,
    },
    /// η is not between 0 and 1.
    #[error("the penalty's η is {value}; give a number from 0 (lasso) to 1 (ridge)")]
    Eta {
        /// What was given.
        value: f64,
    },
}

impl Penalty {
    /// `λ (η/2 ‖a‖² + (1 − η) ‖a‖₁)` beside a loss scaled like this. η = 1 is ridge, η = 0 lasso; scikit-learn's `l1_ratio`
    /// is `1 − η`.
    pub fn elastic_net(
        lambda: f64,
        eta: f64,
        scaling: Scaling,
        rows: usize,
    ) -> Result<Penalty, PenaltyError> {
        Penalty::beside(lambda, eta, scaling, rows as f64)
    }

    /// The same where rows have weights, which add up to `weight`.
    pub fn beside(lambda: f64, eta: f64, scaling: Scaling, weight: f64) -> Result<Penalty, PenaltyError> {
        let scaled = lambda * scaling.factor_of(weight);
        if !(scaled > 0.0 && scaled.is_finite()) {
            return Err(PenaltyError::Lambda { value: lambda });
        }
        if !(0.0..=1.0).contains(&eta) {
            return Err(PenaltyError::Eta { value: eta });
        }
        Ok(Penalty { l1: scaled * (1.0 - eta), l2: scaled * eta, positive: false })
    }

    /// None: coefficients cost nothing.
    pub(super) const NONE: Penalty = Penalty { l1: 0.0, l2: 0.0, positive: false };

    /// The same with another weight of half the sum of squares.
    pub(super) fn with_l2(self, l2: f64) -> Penalty {
        Penalty { l2, ..self }
    }

    /// The same where coefficients may not be negative, or may.
    pub(super) fn with_positive(self, positive: bool) -> Penalty {
        Penalty { positive, ..self }
    }

    /// Whether coefficients may not be negative.
    pub fn is_positive(&self) -> bool {
        self.positive
    }

    /// Weight of the sum of absolute values.
    pub fn l1(&self) -> f64 {
        self.l1
    }

    /// Weight of half the sum of squares.
    pub fn l2(&self) -> f64 {
        self.l2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scaling_says_the_same_in_its_own_numbers() {
        // One row with residual 3, one coefficient 2, ½-sum penalty of ridge with λ = 5.
        let (residual, a, rows) = (3.0_f64, 2.0_f64, 7);
        let half_sum = 0.5 * residual * residual + 5.0 * 0.5 * a * a;
        for (scaling, lambda, loss) in [
            (Scaling::HalfSum, 5.0, 0.5 * residual * residual),
            (Scaling::Sum, 10.0, residual * residual),
            (Scaling::HalfMean, 5.0 / 7.0, residual * residual / 14.0),
        ] {
            let penalty = Penalty::elastic_net(lambda, 1.0, scaling, rows).unwrap();
            assert!((penalty.l2() - 5.0).abs() < 1e-14 && penalty.l1() == 0.0);
            let own = loss + lambda * 0.5 * a * a;
            assert!((scaling.objective(half_sum, rows) - own).abs() < 1e-14, "{scaling:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (lambda, eta) in [(0.0, 1.0), (-1.0, 1.0), (f64::NAN, 0.5), (f64::INFINITY, 0.5)] {
            let refused = Penalty::elastic_net(lambda, eta, Scaling::HalfSum, 3);
            assert!(matches!(refused, Err(PenaltyError::Lambda { .. })), "{lambda}");
        }
        for eta in [-0.1, 1.1, f64::NAN] {
            let refused = Penalty::elastic_net(1.0, eta, Scaling::HalfSum, 3);
            assert!(matches!(refused, Err(PenaltyError::Eta { .. })), "{eta}");
        }
    }
}
