//! Fitting ridge, lasso, elastic net, logistic regression and support vector machines to rows with targets.

use super::bench_cocoa::said;
use super::bench_kmeans::hash;
use super::fit::{Job, Outcome};
use super::reading::Read;
use crate::args::Fit;
use crate::output;
use anyhow::{anyhow, bail};
use qjam_algos::linear::{
    self, Examples, FitError, LearnError, LinearModel, PrepareError, Progress, Spec, Trained, Way, train,
};
use qjam_algos::options::Value;
use qjam_readers::Rows;
use std::path::Path;

/// What a teacher says of the rows.
pub(crate) struct Lessons {
    pub(crate) targets: Vec<f64>,
    pub(crate) weights: Option<Vec<f64>>,
}

/// Numbers that stand for classes are whole. A regression's target would be a class for each row.
pub(crate) fn must_be_classes(targets: &[f64], fit: &Fit) -> anyhow::Result<()> {
    match targets.iter().position(|target| target.fract() != 0.0) {
        None => Ok(()),
        Some(row) => bail!(
            "{}: {} tells classes apart, and the target of row {row} (counted from 0) is {}; classes are whole numbers, and \
             ridge, lasso and elasticnet learn others",
            fit.args.data.path.display(),
            fit.settings.learner().name,
            targets[row]
        ),
    }
}

/// Fits, saves, and tells.
pub(crate) fn fit(mut job: Job<'_>, read: &Read, lessons: &Lessons, spec: &Spec) -> anyhow::Result<Outcome> {
    let (master, mut spent) = (job.master, job.spent.clone());
    let observer = |seen: &Progress<'_>| {
        spent.round(master);
        let which = match seen.models {
            1 => String::new(),
            models => format!("model {} of {models}, ", seen.model + 1),
        };
        output::passing(&format!(
            "  {which}round {}: objective {:.8e}, gap {:.2e}",
            seen.round, seen.objective, seen.gap
        ));
    };
    let weights = lessons.weights.as_deref();
    let trained = train(master, &examples(&read.rows), &lessons.targets, weights, spec, observer);
    output::passed();
    let trained = trained.map_err(|e| with_file(e, &job.fit.args.data.path))?;
    spent.done("training");
    let facts = facts(&trained, read.rows.records());
    trained.model.save_with(job.out(), &job.notes(read, &facts))?;
    spent.done("saving");
    job.spent = spent;
    if job.fit.args.explain {
        explain(&trained);
    }
    Ok(outcome(job, &trained, facts))
}

/// The rows for learners.
pub(crate) fn examples(rows: &Rows) -> Examples<'_> {
    match rows {
        Rows::DenseF32(data) => Examples::DenseF32(data),
        Rows::DenseF64(data) => Examples::DenseF64(data),
        Rows::CsrF32(data) => Examples::CsrF32(data),
        Rows::CsrF64(data) => Examples::CsrF64(data),
    }
}

/// Errors about the data say which it is, and what to type.
fn with_file(e: LearnError, path: &Path) -> anyhow::Error {
    let path = path.display();
    match e {
        LearnError::Fit(FitError::Run(e)) => e.into(),
        LearnError::Data(PrepareError::NotFinite { .. }) => {
            anyhow!("{path}: {e}: --missing drop or --missing mean")
        }
        LearnError::NotTogether { .. } => anyhow!("{path}: {e}: --solver auto or --multi-class ovr"),
        LearnError::TooManyClasses { .. } => anyhow!("{path}: {e}: --multi-class ovr"),
        LearnError::TooWide { .. }
        | LearnError::TooMany { .. }
        | LearnError::NotApart
        | LearnError::Singular => anyhow!("{path}: {e}: --solver auto"),
        e => anyhow!("{path}: {e}"),
    }
}

fn way(way: Way) -> &'static str {
    match way {
        Way::Auto => "auto",
        Way::Direct => "direct",
        Way::Cocoa => "cocoa",
        Way::Lbfgs => "lbfgs",
        Way::MinibatchScd => "minibatch-scd",
        Way::MinibatchSgd => "minibatch-sgd",
    }
}

fn converged(trained: &Trained) -> bool {
    trained.outcome == linear::Outcome::Converged
}

fn facts(trained: &Trained, rows: u64) -> Vec<(&'static str, Value)> {
    let model = &trained.model;
    let nonzero = model.coefficients().iter().filter(|a| **a != 0.0).count();
    let mut facts = vec![
        ("objective", Value::Real(trained.objective)),
        ("gap", Value::Real(trained.gap)),
        ("rounds", Value::Integer(trained.rounds as u64)),
        ("outcome", Value::Text(said(trained.outcome).into())),
        ("converged", Value::Flag(converged(trained))),
        ("solver", Value::Text(way(trained.solver).into())),
        ("nonzero", Value::Integer(nonzero as u64)),
        ("columns", Value::Integer(model.features() as u64)),
        ("rows", Value::Integer(rows)),
    ];
    if trained.partitions > 0 {
        facts.push(("partitions", Value::Integer(trained.partitions as u64)));
    }
    if !model.classes().is_empty() {
        facts.push(("classes", Value::Integer(model.classes().len() as u64)));
    }
    facts
}

fn explain(trained: &Trained) {
    output::note(&format!("solver {}: {}", way(trained.solver), trained.why));
    for choice in trained.fit.iter().flat_map(|fit| &fit.choices) {
        output::note(&choice.to_string());
    }
}

fn outcome(job: Job<'_>, trained: &Trained, facts: Vec<(&'static str, Value)>) -> Outcome {
    let model = &trained.model;
    let rounds = output::count(trained.rounds as u64, "round");
    let result = match trained.outcome {
        linear::Outcome::Converged => format!("converged after {rounds}"),
        linear::Outcome::TargetReached => format!("target reached after {rounds}"),
        linear::Outcome::Stalled => format!("stopped after {rounds}: they gain nothing any more"),
        linear::Outcome::RoundsUsedUp => format!("stopped after {rounds}, before convergence"),
    };
    let certificate = match trained.gap.is_finite() {
        true => format!(
            "{:.9e}, above the best one by at most {:.2e} ({:.1e} of it)",
            trained.objective,
            trained.gap,
            trained.gap / trained.objective.abs().max(f64::MIN_POSITIVE)
        ),
        false => format!("{:.9e}, without a certificate", trained.objective),
    };
    let solver = match trained.partitions {
        0 => format!("{}: {}", way(trained.solver), trained.why),
        n => format!("{}, {}: {}", way(trained.solver), output::count(n as u64, "partition"), trained.why),
    };
    let mut lines = vec![("result", result), ("objective", certificate), ("solver", solver)];
    lines.push(("found", found(model)));
    let warning = match trained.outcome {
        linear::Outcome::RoundsUsedUp => {
            Some("not converged; give more with --max-rounds, or accept less with --tol".to_string())
        }
        linear::Outcome::Stalled => Some(
            "the gap is as small as rounding lets it be and over --tol; columns of very different sizes may be a reason: --standardize"
                .to_string(),
        ),
        _ => None,
    };
    let remarks = trained.remarks.iter().cloned().chain(warning).collect::<Vec<_>>().join("; ");
    let numbers: Vec<f64> = model.coefficients().iter().chain(model.intercepts()).copied().collect();
    Outcome {
        title: format!(
            "{}: {}",
            job.fit.settings.learner().name,
            output::count(model.features() as u64, "column")
        ),
        lines,
        facts,
        sizes: Vec::new(),
        hash: hash(&numbers),
        answers: if model.kind().classifies() { "classes.npy" } else { "values.npy" },
        warning: (!remarks.is_empty()).then_some(remarks),
        is_explained: true,
        spent: job.spent,
    }
}

/// What a model has, for people.
fn found(model: &LinearModel) -> String {
    let nonzero = model.coefficients().iter().filter(|a| **a != 0.0).count();
    let mut text = format!("{nonzero} of {} coefficients are not 0", model.coefficients().len());
    match (model.intercepts(), model.classes()) {
        ([intercept], []) => text.push_str(&format!(", intercept {intercept:.6}")),
        ([intercept], [no, yes]) => {
            text.push_str(&format!(", intercept {intercept:.6}; for class {yes} and against {no}"));
        }
        (_, classes) => {
            let how = if model.is_softmax() { "together" } else { "each against the rest" };
            text.push_str(&format!(", for {} classes {how}", classes.len()));
        }
    }
    text
}
