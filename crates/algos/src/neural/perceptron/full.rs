//! Training on all rows: L-BFGS, one round an evaluation.

use super::cut::{Targets, full, take_all};
use super::map::{Request, Sums, slopes};
use super::params::Params;
use super::source::Source;
use super::stochastic::penalised;
use super::{Epoch, Outcome, Trained};
use crate::input::InputError;
use crate::optimize::lbfgs::{self, Evaluation, Options};
use qjam::{DataSet, Master};

/// A step that decreases the loss by less than this in units of the machine's precision is the last, as in SciPy.
const FACTR: f64 = 1e7;

/// Minimises the loss from the parameters of a request.
pub(super) fn train<C: Source>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    targets: Targets<'_>,
    evaluations_max: usize,
    mut request: Request,
    mut observer: impl FnMut(&Epoch),
) -> Result<Trained, InputError> {
    let rows = data.records();
    let data = full(data).map_err(qjam::Error::from)?;
    take_all(&mut request, data.len(), rows, targets);
    let options = Options {
        factr: FACTR,
        pgtol: params.tol,
        evaluations_max,
        iterations_max: params.iterations_max,
        ..Options::default()
    };
    let first = request.theta.clone();
    let round = |theta: &[f64], slopes_at: &mut [f64]| {
        request.theta.copy_from_slice(theta);
        let sums: Sums = master.run(slopes::<C>, &request, &data)?;
        let (loss, gradient) = penalised(params.alpha, &request, sums);
        slopes_at.copy_from_slice(&gradient);
        Ok::<f64, qjam::Error>(loss)
    };
    let minimum = lbfgs::minimize(&options, first, round, |seen: &Evaluation<'_>| {
        master.record_metric("loss", seen.value);
        observer(&Epoch { number: seen.number, loss: seen.value, score: None });
    })?;
    Ok(Trained {
        theta: minimum.x,
        outcome: match minimum.outcome {
            lbfgs::Outcome::NotFinite => Outcome::Diverged,
            outcome => Outcome::Minimised(outcome),
        },
        losses: vec![minimum.value],
        scores: vec![],
        iterations: minimum.iterations,
        state: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neural::perceptron::network::{Activation, Network, Output};

    #[test]
    fn rows_of_an_even_cut_find_their_targets() {
        let data = DataSet::dense(vec![0.5; 1000 * 3], 3).unwrap();
        let cut = full(&data).unwrap();
        let network = Network::new(&[3, 1], Activation::Relu, Output::Squares).unwrap();
        let mut request = Request::of(network, vec![0.0; 4]);
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        take_all(&mut request, cut.len(), 1000, Targets { values: &values, per_row: 1, weights: None });
        let rows: Vec<u64> = (0..cut.len()).map(|i| cut.chunk(i).unwrap().rows() as u64).collect();
        let starts: Vec<u64> = request.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((rows, cut.len()), (starts, 3));
    }
}
