//! First components: what is given, and what k-means, drawn rows or random shares make of the rest.

use super::Surveyed;
use super::error::MixtureError;
use super::gaussians::Gaussians;
use super::params::{Init, Params};
use super::round::{Components, Sharing, moments};
use crate::clustering::kmeans::{self, Points};
use crate::kernels::nearest::Real;
use crate::linear::rows::RowChunk;
use qjam::Master;

/// What a fit begins from, as far as that is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Weights of the components.
    pub weights: Option<Vec<f64>>,
    /// Means, one after the other.
    pub means: Option<Vec<f64>>,
    /// Inverse covariances, as many numbers as [`Covariance::shape`](super::Covariance::shape) says.
    pub precisions: Option<Vec<f64>>,
    /// All of the components, and the mean log-likelihood that an earlier fit ended with: then nothing else is looked for.
    pub warm: Option<(Gaussians, f64)>,
}

impl Given {
    /// Refuses what does not fit the components or cannot be used.
    pub(super) fn check(&self, params: &Params, columns: usize) -> Result<(), MixtureError> {
        let components = params.components;
        let size = |what: &'static str, values: &Option<Vec<f64>>, expected: usize, give| {
            let Some(values) = values else { return Ok(()) };
            if values.len() != expected {
                return Err(MixtureError::Size { what, found: values.len(), expected, components, columns });
            }
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => Err(MixtureError::Number { what, at, value: values[at], give }),
                None => Ok(()),
            }
        };
        let all = params.covariance.shape(components, columns).iter().product();
        size("the weights to begin from", &self.weights, components, "give numbers from 0 to 1")?;
        size("the means to begin from", &self.means, components * columns, "give finite numbers")?;
        size("the precisions to begin from", &self.precisions, all, "give finite numbers")?;
        let Some(weights) = &self.weights else { return Ok(()) };
        if let Some(at) = weights.iter().position(|value| !(0.0..=1.0).contains(value)) {
            let (what, give) = ("the weights to begin from", "give numbers from 0 to 1");
            return Err(MixtureError::Number { what, at, value: weights[at], give });
        }
        let sum: f64 = weights.iter().sum();
        match (sum - 1.0).abs() <= 1e-5 {
            true => Ok(()),
            false => Err(MixtureError::WeightsSum { sum }),
        }
    }
}

/// The components that the start of this number begins with.
pub(super) fn first<C: RowChunk + Points>(
    master: &Master,
    params: &Params,
    surveyed: &Surveyed<C>,
    given: &Given,
    nth: u64,
) -> Result<Gaussians, MixtureError> {
    let d = surveyed.origin.len();
    let mut gaussians = match given {
        // Nothing is left to be found.
        Given { weights: Some(_), means: Some(means), precisions: Some(_), .. } => {
            Gaussians::round(params.covariance, d, means.clone(), 1.0)?
        }
        _ => found(master, params, surveyed, nth)?,
    };
    if let Some(weights) = &given.weights {
        gaussians.weights.clone_from(weights);
    }
    if let Some(means) = &given.means {
        gaussians.means.clone_from(means);
    }
    match &given.precisions {
        Some(precisions) => gaussians.with_precisions(precisions),
        None => Ok(gaussians),
    }
}

fn found<C: RowChunk + Points>(
    master: &Master,
    params: &Params,
    surveyed: &Surveyed<C>,
    nth: u64,
) -> Result<Gaussians, MixtureError> {
    let seed = params.seed.wrapping_add(nth);
    let clusters = || -> Result<kmeans::Params, MixtureError> {
        let clusters = kmeans::Params::new(params.components).map_err(|_| MixtureError::Overflow)?;
        let prunes = clusters.pruning() && params.prunes;
        Ok(clusters.with_seed(seed).with_pruning(prunes))
    };
    let widened = |values: &[C::Number]| values.iter().map(|v| v.to_f64()).collect::<Vec<f64>>();
    let drawn = |start: kmeans::Start| -> Result<Gaussians, MixtureError> {
        let rows = kmeans::first_centres(master, &clusters()?.with_start(start), &surveyed.data)?;
        let means = widened(rows.values());
        Gaussians::round(params.covariance, surveyed.origin.len(), means, params.reg_covar)
    };
    let (sharing, means) = match params.init {
        Init::PlusPlus => return drawn(kmeans::Start::PlusPlus),
        Init::RandomFromData => return drawn(kmeans::Start::Random),
        Init::Random => (Sharing::Random(params.seed, nth), surveyed.origin.repeat(params.components)),
        Init::KMeans => {
            let fit = kmeans::fit(master, &clusters()?, &surveyed.data, |_| {})?;
            (Sharing::Nearest, widened(fit.model.centres().values()))
        }
    };
    let request = Components::without_densities(params.covariance, sharing, &means, &surveyed.origin);
    let found = master.run(moments::<C>, &request, &surveyed.data)?;
    surveyed.next(params, &found, &means)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixture::gaussian::Covariance;

    #[test]
    fn what_does_not_fit_the_components_is_refused_with_both_sizes() {
        let params = Params::new(2, Covariance::Diag);
        let said = |given: Given| given.check(&params, 3).unwrap_err().to_string();
        let weights = |weights: &[f64]| Given { weights: Some(weights.to_vec()), ..Given::default() };
        assert!(said(weights(&[1.0])).contains("has 1 numbers; for 2 components of 3 columns it has 2"));
        assert!(said(weights(&[0.5, f64::NAN])).contains("number 1"));
        assert!(said(weights(&[1.5, -0.5])).contains("from 0 to 1"));
        assert!(said(weights(&[0.5, 0.4])).contains("add up to 0.9"));
        assert_eq!(weights(&[0.25, 0.75]).check(&params, 3).map_err(|e| e.to_string()), Ok(()));
        let precisions = Given { precisions: Some(vec![1.0; 5]), ..Given::default() };
        assert!(said(precisions).contains("has 5 numbers; for 2 components of 3 columns it has 6"));
    }
}
