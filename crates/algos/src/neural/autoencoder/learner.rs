//! The sparse autoencoder as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{Autoencoder, FitError, Input, ModelError, Params, Shape, Sums};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::models::{Format, Parts, PartsError};
use crate::optimize::lbfgs::{Evaluation, Minimum, Outcome};
use crate::options::{Table, Value};
use qjam::{DataError, DataSet, Dense, Rows};

const NAME: &str = "autoencoder";

/// A network that learns features.
#[derive(Debug)]
pub struct SparseAutoencoder;

impl Learner for SparseAutoencoder {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Transform, Question::Reconstruct]
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF64(data) => fit_of(job, data),
            Rows::DenseF32(data) => fit_of(job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(Autoencoder::of_parts(parts)?))
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("hidden", "3"), ("evaluations", "12")]
    }
}

fn fit_of<T: Input>(job: &mut Job<'_>, data: &DataSet<Dense<T>>) -> Result<Fitted, LearnerError> {
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    let params = Params::from_settings(job.settings, columns).map_err(LearnerError::unusable)?;
    // Weights in both directions, their gradient, and the history of the optimiser.
    job.must_fit(params.shape().hidden().saturating_mul(6))?;
    let data = &cut_for(data, &params.shape()).map_err(qjam::Error::from)?;
    let theta = super::initial(&params.shape(), job.settings.integer("random_state")?);
    let (observer, master, mut first) = (&mut job.observer, job.master, None);
    let steps_max = Some(job.settings.integer("max_evaluations")?);
    let tell = |seen: &Evaluation<'_>| {
        first.get_or_insert(seen.value);
        master.record_metric("cost", seen.value);
        let text = &format_args!("evaluation {}: cost {:.6}", seen.number, seen.value);
        observer(&Progress { step: seen.number as u64, steps_max, text, phase_done: None });
    };
    let fit = super::fit(job.master, &params, data, theta, tell).map_err(|e| match e {
        FitError::Run(e) => LearnerError::Run(e),
        FitError::NotFinite { .. } => LearnerError::not_finite(e, vec![]),
        e => LearnerError::unusable(e),
    })?;
    let report = report(&params, &fit.minimum, first.unwrap_or(f64::NAN), data.records());
    Ok(Fitted { model: Box::new(fit.model), report, answer: None })
}

/// The rows in the cut that they are trained in. Each chunk has sums that are longer than the parameters, so a network that is wide
/// beside its data gets fewer and longer chunks. The cut stays as it is where that would save little, which is where `--explain` says
/// nothing of it, and chunks do not become longer than the longest of the standard cut. It follows from the data and the options
/// alone, as the bits do.
fn cut_for<T: Input>(data: &DataSet<Dense<T>>, shape: &Shape) -> Result<DataSet<Dense<T>>, DataError> {
    /// Sums that are shorter than this together cost little, however the data is cut.
    const MADE_BYTES_MIN: u64 = 1 << 20;
    const CHUNK_BYTES_MAX: u64 = 16 << 20;
    let (sums_bytes, now) = (Sums::bytes_max(shape), data.len());
    let coarser = data.for_results_of(sums_bytes)?;
    let saves = sums_bytes.saturating_mul(now as u64) >= MADE_BYTES_MIN && 2 * coarser.len() <= now;
    let least = data.bytes().div_ceil(CHUNK_BYTES_MAX) as usize;
    match saves {
        true if coarser.len() >= least => Ok(coarser),
        true if 2 * least <= now => data.partitions(least),
        _ => Ok(data.clone()),
    }
}

fn report(params: &Params, minimum: &Minimum, first: f64, rows: u64) -> Report {
    let (outcome, shape) = (minimum.outcome, params.shape());
    let (name, has_converged) = (outcome.name(), outcome.converged());
    let evaluations = count(minimum.evaluations as u64, "evaluation");
    let result = match has_converged {
        true => format!("converged after {evaluations}: {name}"),
        false => format!("stopped after {evaluations}, before convergence: {name}"),
    };
    let cost = format!("{:.9} (at first {first:.9})", minimum.value);
    let failure = (outcome == Outcome::NotFinite)
        .then_some("the cost is not finite; are there NaN or huge numbers in the data?");
    Report {
        size: format!("{} inputs, {}", shape.visible(), count(shape.hidden() as u64, "hidden unit")),
        lines: vec![("result", result), ("cost", cost)],
        facts: vec![
            ("cost", Value::Real(minimum.value)),
            ("first_cost", Value::Real(first)),
            ("evaluations", Value::Integer(minimum.evaluations as u64)),
            ("outcome", Value::Text(name.into())),
            ("converged", Value::Flag(has_converged)),
            ("rows", Value::Integer(rows)),
        ],
        failure: failure.map(String::from),
        phase: "training",
        answers_file: "activations.npy",
        ..Report::default()
    }
}

impl learner::Model for Autoencoder {
    fn columns(&self) -> usize {
        self.shape().visible()
    }

    fn parts(&self) -> Parts {
        Autoencoder::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        let data = match about.rows {
            Rows::DenseF64(data) => data,
            _ => return Err(LearnerError::Type { learner: NAME }),
        };
        let chunks = match about.scope {
            Scope::All(_) => 0..data.len(),
            Scope::Chunk(index) => index..index + 1,
        };
        let (expected, mut values) = (self.shape().visible(), vec![]);
        for index in chunks {
            let chunk = data.chunk(index).map_err(qjam::Error::from)?;
            if chunk.cols() != expected {
                let source = ModelError::Rows { values: chunk.cols(), visible: expected };
                return Err(LearnerError::Columns { found: chunk.cols(), expected, source: source.into() });
            }
            values.extend(self.asked(question, chunk.as_slice())?);
        }
        Ok(Answer::Doubles(values, self.numbers_in(question)))
    }

    fn answer_here(&self, question: Question, rows: &[f64]) -> Result<Answer, LearnerError> {
        Ok(Answer::Doubles(self.asked(question, rows)?, self.numbers_in(question)))
    }
}

impl Autoencoder {
    fn asked(&self, question: Question, rows: &[f64]) -> Result<Vec<f64>, LearnerError> {
        let answers = match question {
            Question::Transform => self.activations(rows),
            Question::Reconstruct => self.reconstruct(rows),
            other => return Err(LearnerError::unanswered(NAME, other)),
        };
        answers.map_err(LearnerError::unusable)
    }

    /// Numbers in an answer about one row.
    fn numbers_in(&self, question: Question) -> usize {
        match question {
            Question::Transform => self.shape().hidden(),
            _ => self.shape().visible(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Level;
    use crate::neural::autoencoder::{initial, sums_of_slice};
    #[test]
    fn the_cut_is_coarser_only_where_gradients_are_long_beside_the_data() {
        let data = DataSet::dense(vec![0.5; 6_800 * 80], 80).unwrap();
        let chunks = |hidden| {
            let cut = cut_for(&data, &Shape::new(80, hidden).unwrap()).unwrap();
            (cut.len(), cut.id() == data.id())
        };
        // 4 MiB in 67 chunks; the sums of 60 hidden units have 117 KB.
        assert_eq!(data.len(), 67);
        assert_eq!([2, 15, 20, 60].map(chunks), [(67, true), (67, true), (27, false), (16, false)]);
        // Few sums cost little, and short ones, however long they are beside their chunks.
        let few = data.partitions(16).unwrap();
        assert_eq!(cut_for(&few, &Shape::new(80, 1000).unwrap()).unwrap().id(), few.id());
        let small = DataSet::dense(vec![0.5; 800], 8).unwrap().chunk_records(5).unwrap();
        assert_eq!(cut_for(&small, &Shape::new(8, 10).unwrap()).unwrap().id(), small.id());
    }

    #[test]
    fn sums_are_as_long_as_the_cut_takes_them_to_be() {
        for (visible, hidden) in [(4, 2), (80, 60), (1, 1)] {
            let shape = Shape::new(visible, hidden).unwrap();
            let (theta, row) = (initial(&shape, 1), vec![0.1; visible]);
            let sums = sums_of_slice(Level::best(), shape, &theta, &row);
            let mut out = qjam::Encoder::new();
            qjam::Wire::encode(&sums, &mut out);
            let (bytes, most) = (out.payload_bytes() as u64, Sums::bytes_max(&shape));
            assert!(bytes <= most && most <= bytes + 256, "{bytes} of at most {most}");
        }
    }
}
