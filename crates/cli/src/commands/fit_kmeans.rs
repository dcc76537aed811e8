//! Fitting k-means and its variant on batches, on whatever rows were read.

use super::fit::{Job, Outcome};
use super::reading::Read;
use crate::output;
use anyhow::{Context, anyhow};
use qjam::{DataSet, Dense};
use qjam_algos::clustering::kmeans::{self, Centres, Fit, FitError, Iteration, Params, Points};
use qjam_algos::kernels::nearest::Real;
use qjam_algos::options::Value;
use qjam_readers::{Dtype, OpenOptions, Rows, open};
use std::path::Path;

/// Fits, saves, and tells.
pub(crate) fn fit(job: Job<'_>, read: &Read) -> anyhow::Result<Outcome> {
    match &read.rows {
        Rows::DenseF32(data) => fit_of(job, read, data),
        Rows::DenseF64(data) => fit_of(job, read, data),
        Rows::CsrF32(data) => fit_of(job, read, data),
        Rows::CsrF64(data) => fit_of(job, read, data),
    }
}

fn fit_of<C: Points>(mut job: Job<'_>, read: &Read, data: &DataSet<C>) -> anyhow::Result<Outcome> {
    let settings = &job.fit.settings;
    let params = Params::from_settings(settings)?.with_weights_last(read.weighted);
    let params = params.with_pruning(params.pruning() && bounds_fit(&job, &params, data.records()));
    let master = job.master;
    let (mut spent, mut begun) = (job.spent.clone(), false);
    let observer = |seen: &Iteration| {
        if !std::mem::replace(&mut begun, true) {
            spent.done("first centres and iteration");
        }
        spent.round(master);
        output::passing(&format!("  iteration {}: centres moved {:.3e}", seen.number, seen.moved.sqrt()));
    };
    let given = settings.file("init")?.map(|path| centres::<C::Number>(Path::new(path))).transpose()?;
    let by_batches = settings.learner().name != kmeans::params::LEARNER.name;
    let fitted = match (given, by_batches) {
        (Some(centres), false) => kmeans::fit_from(master, &params, data, centres, observer),
        (None, false) => kmeans::fit(master, &params, data, observer),
        (Some(centres), true) => kmeans::fit_minibatch_from(master, &params, data, centres, observer),
        (None, true) => kmeans::fit_minibatch(master, &params, data, observer),
    };
    output::passed();
    let fitted = fitted.map_err(|e| with_file(e, &job.fit.args.data.path))?;
    spent.done("iterations and inertia");
    let facts = facts(&params, &fitted, data.records());
    fitted.model.save_with(job.out(), &job.notes(read, &facts))?;
    spent.done("saving");
    job.spent = spent;
    Ok(outcome(job, &params, &fitted, facts))
}

/// Whether what pruning keeps of each row fits beside the rest: a bound for each panel of 16 centres, and two versions of
/// them. It decides about time and about no bit.
fn bounds_fit(job: &Job<'_>, params: &Params, rows: u64) -> bool {
    let Some(limit) = job.fit.args.memory_limit else { return true };
    let processes = job.master.workers().iter().filter(|worker| worker.pid.is_some()).count().max(1);
    let bounds = rows.saturating_mul(2 * (8 + 8 * params.k().div_ceil(16) as u64));
    bounds <= limit / 8 * processes as u64
}

/// Errors about the data say which it is.
fn with_file(e: FitError, path: &Path) -> anyhow::Error {
    match e {
        FitError::Run(e) => e.into(),
        FitError::NotFinite { .. } => {
            anyhow!("{}: {e}: --skip-bad-rows or --missing mean", path.display())
        }
        e => anyhow!("{}: {e}", path.display()),
    }
}

fn facts<T: Real>(params: &Params, fitted: &Fit<T>, rows: u64) -> Vec<(&'static str, Value)> {
    let converged = fitted.outcome != kmeans::Outcome::IterationsUsedUp;
    vec![
        ("k", Value::Integer(params.k() as u64)),
        ("inertia", Value::Real(fitted.inertia)),
        ("iterations", Value::Integer(fitted.iterations as u64)),
        ("outcome", Value::Text(said(fitted.outcome).into())),
        ("converged", Value::Flag(converged)),
        ("empty", Value::Integer(fitted.empty as u64)),
        ("skipped", Value::Integer(fitted.skipped)),
        ("rows", Value::Integer(rows)),
    ]
}

fn said(outcome: kmeans::Outcome) -> &'static str {
    match outcome {
        kmeans::Outcome::FixedPoint => "fixed point",
        kmeans::Outcome::Tolerance => "tolerance",
        kmeans::Outcome::NoImprovement => "no improvement",
        kmeans::Outcome::IterationsUsedUp => "iterations used up",
    }
}

fn outcome<T: Real>(
    job: Job<'_>,
    params: &Params,
    fitted: &Fit<T>,
    facts: Vec<(&'static str, Value)>,
) -> Outcome {
    let iterations = output::count(fitted.iterations as u64, "iteration");
    let result = match fitted.outcome {
        kmeans::Outcome::FixedPoint => format!("converged after {iterations}: no centre moves any more"),
        kmeans::Outcome::Tolerance => {
            format!("converged after {iterations}: centres move less than --tolerance")
        }
        kmeans::Outcome::NoImprovement => format!("stopped after {iterations}: batches get no better"),
        kmeans::Outcome::IterationsUsedUp => format!("stopped after {iterations}, before convergence"),
    };
    let mut lines = vec![("result", result), ("inertia", format!("{:.9e}", fitted.inertia))];
    if !fitted.sizes.is_empty() {
        let by_batches = job.fit.settings.learner().name != kmeans::params::LEARNER.name;
        let what = match (by_batches, params.weighted()) {
            (true, _) => "rows drawn",
            (false, true) => "weight",
            (false, false) => "rows",
        };
        lines.push(("clusters", shown(&fitted.sizes, what)));
    }
    if fitted.skipped > 0 {
        lines.push(("skipped", output::count(fitted.skipped, "row with NaN or an infinity")));
    }
    let warning = match (fitted.empty, fitted.outcome) {
        (0, kmeans::Outcome::IterationsUsedUp) if job.fit.settings.learner().name == "kmeans" => {
            Some("not converged; give more with --iterations, or accept less with --tolerance".into())
        }
        (0, _) => None,
        (1, _) => {
            Some("one of the centres has no rows; there may be fewer different rows than clusters".into())
        }
        (n, _) => {
            Some(format!("{n} of the centres have no rows; there may be fewer different rows than clusters"))
        }
    };
    Outcome {
        title: format!(
            "{}: {}",
            job.fit.settings.learner().name,
            output::count(params.k() as u64, "cluster")
        ),
        lines,
        facts,
        sizes: fitted.sizes.clone(),
        hash: super::bench_kmeans::hash(fitted.model.centres().values()),
        answers: "labels.npy",
        warning,
        is_explained: false,
        spent: job.spent,
    }
}

/// Sizes for people: all of a few, else those that stand out.
fn shown(sizes: &[f64], what: &str) -> String {
    const SHOWN: usize = 8;
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let text = |sizes: &[f64]| sizes.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    if sorted.len() <= SHOWN {
        return format!("{what}: {}", text(&sorted));
    }
    let (median, smallest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    format!(
        "{what} of the largest {}, of the median {median}, of the smallest {smallest}",
        text(&sorted[..3])
    )
}

/// First centres from a file of any kind.
pub(super) fn centres<T: Real>(path: &Path) -> anyhow::Result<Centres<T>> {
    let dtype = if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 };
    let read = open(path, &OpenOptions { dtype: Some(dtype), ..OpenOptions::default() }).map_err(|e| {
        anyhow!("--init {}: {e}; give k-means++, parallel, random or a file of centres", path.display())
    })?;
    fn all<T: Real>(data: &DataSet<Dense<T>>) -> anyhow::Result<(Vec<f64>, usize)> {
        let rows = data.partitions(1)?.chunk(0)?;
        Ok((rows.as_slice().iter().map(|v| v.to_f64()).collect(), rows.cols()))
    }
    let (values, cols) = match &read.rows {
        Rows::DenseF32(data) => all(data)?,
        Rows::DenseF64(data) => all(data)?,
        _ => {
            return Err(anyhow!(
                "--init {}: first centres are dense; save them as .npy or CSV",
                path.display()
            ));
        }
    };
    let values = values.into_iter().map(T::from_f64).collect();
    Centres::new(values, cols).with_context(|| format!("--init {} has no centres", path.display()))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn many_sizes_are_said_in_short() {
        assert_eq!(shown(&[1.0, 3.0, 2.5], "weight"), "weight: 3, 2.5, 1");
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            shown(&many, "rows"),
            "rows of the largest 100, 99, 98, of the median 50, of the smallest 1"
        );
    }
}
