//! Fitting the sparse autoencoder to dense rows.

use super::fit::{Job, Outcome};
use super::reading::Read;
use crate::output;
use anyhow::{anyhow, bail};
use qjam::{DataSet, Dense};
use qjam_algos::neural::autoencoder::{self, FitError, Input, Params};
use qjam_algos::optimize::lbfgs;
use qjam_algos::options::Value;
use qjam_readers::Rows;

/// Fits, saves, and tells.
pub(crate) fn fit(job: Job<'_>, read: &Read) -> anyhow::Result<Outcome> {
    match &read.rows {
        Rows::DenseF64(data) => fit_to(job, read, data),
        Rows::DenseF32(data) => fit_to(job, read, data),
        _ => bail!(
            "{}: the autoencoder takes dense rows, and these are sparse",
            job.fit.args.data.path.display()
        ),
    }
}

fn fit_to<T: Input>(mut job: Job<'_>, read: &Read, data: &DataSet<Dense<T>>) -> anyhow::Result<Outcome> {
    let path = &job.fit.args.data.path;
    let settings = &job.fit.settings;
    let params = Params::from_settings(settings, read.rows.cols()?)?;
    let theta = autoencoder::initial(&params.shape(), settings.integer("random_state")?);
    let (master, mut spent, mut first) = (job.master, job.spent.clone(), None);
    let fitted = autoencoder::fit(master, &params, data, theta, |seen| {
        first.get_or_insert(seen.value);
        spent.round(master);
        output::passing(&format!("  evaluation {}: cost {:.6}", seen.number, seen.value));
    });
    output::passed();
    let fitted = fitted.map_err(|e| match e {
        FitError::Run(e) => e.into(),
        e => anyhow!("{}: {e}", path.display()),
    })?;
    let minimum = &fitted.minimum;
    if minimum.outcome == lbfgs::Outcome::NotFinite {
        bail!(
            "{}: the cost is not finite; are there NaN or huge numbers in the data? --missing drop leaves such rows out",
            path.display()
        );
    }
    spent.done("training");
    let facts = vec![
        ("cost", Value::Real(minimum.value)),
        ("first_cost", Value::Real(first.unwrap_or(f64::NAN))),
        ("evaluations", Value::Integer(minimum.evaluations as u64)),
        ("outcome", Value::Text(said(minimum.outcome).into())),
        ("converged", Value::Flag(minimum.outcome.converged())),
        ("rows", Value::Integer(data.records())),
    ];
    fitted.model.save_with(job.out(), &job.notes(read, &facts))?;
    spent.done("saving");
    job.spent = spent;
    let evaluations = output::count(minimum.evaluations as u64, "evaluation");
    let shape = params.shape();
    let result = match minimum.outcome.converged() {
        true => format!("converged after {evaluations}: {}", said(minimum.outcome)),
        false => format!("stopped after {evaluations}, before convergence: {}", said(minimum.outcome)),
    };
    let cost = format!("{:.9} (at first {:.9})", minimum.value, first.unwrap_or(f64::NAN));
    Ok(Outcome {
        title: format!(
            "autoencoder: {} inputs, {}",
            shape.visible(),
            output::count(shape.hidden() as u64, "hidden unit")
        ),
        lines: vec![("result", result), ("cost", cost)],
        facts,
        sizes: Vec::new(),
        hash: super::bench_kmeans::hash(fitted.model.theta()),
        answers: "activations.npy",
        warning: None,
        is_explained: false,
        spent: job.spent,
    })
}

fn said(outcome: lbfgs::Outcome) -> &'static str {
    match outcome {
        lbfgs::Outcome::FlatGradient => "flat gradient",
        lbfgs::Outcome::SmallDecrease => "small decrease",
        lbfgs::Outcome::EvaluationsSpent => "evaluations spent",
        lbfgs::Outcome::NoDescent => "no descent",
        lbfgs::Outcome::NotFinite => "not finite",
    }
}
