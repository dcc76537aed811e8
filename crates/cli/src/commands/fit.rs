//! `qjam fit`: reads the data, has the learner fit, saves the model, and prints its report. The same for all learners.

use super::reading::{self, Read, ReadAs};
use super::spent::Spent;
use super::{detached, inspect, metrics, supervised};
use crate::args::Fit;
use crate::output::{self, events};
use anyhow::{anyhow, bail};
use qjam::Master;
use qjam_algos::evaluate::cross::{CrossValidation, cross_validate};
use qjam_algos::learner::{Fitted, Job, Learner, LearnerError, Progress, Report, Training};
use qjam_algos::models::{Notes, Parts};
use qjam_algos::options::Target;
use qjam_algos::registry::find;
use qjam_algos::registry::scaled::Scaled;
use serde_json::json;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(fit: &Fit) -> anyhow::Result<()> {
    let (args, settings) = (&fit.args, &fit.settings);
    events::begin(args.events);
    let name = settings.table().name;
    let Some(learner) = find(name) else { bail!("{name} cannot be fitted by this command yet") };
    let scaled;
    let learner: &dyn Learner = match fit.scaling {
        None => learner,
        Some(by) => {
            scaled = Scaled::new(learner, by);
            &scaled
        }
    };
    if args.detach && fit.folds.is_some() {
        bail!("--cv needs a command that waits for its fits; leave out --detach, or --cv");
    }
    if args.detach {
        return detached::submit(fit, learner);
    }
    // Clap asks for one of the two.
    let Some(out) = &args.out else { bail!("--out is missing") };
    reading::can_be_written("--out", out)?;
    let mut spent = Spent::new();
    let builder = events::of(reading::limited(Master::builder(), args.memory_limit, args.host_cache));
    let _dashboard;
    // A wrong worker string or setting is told before hours of reading.
    let master = builder.connect(&args.workers)?;
    _dashboard = super::dashboard::of(&master, args.dashboard)?;
    reading::tell_unlimited(&master, args.memory_limit);
    learner.check(settings)?;
    events::tell(|| events::began(&master, json!({ "learner": name })));
    let read = read(fit)?;
    spent.done("reading");
    read.tell();
    let start = start(learner, fit, &read)?;
    let folds = folds(learner, fit, &master, &read, start.as_ref())?;
    if folds.is_some() {
        spent.done("cross-validation");
    }
    let mut observer = |progress: &Progress<'_>| {
        progress.phase_done.iter().for_each(|phase| spent.done(phase));
        spent.step(&master, progress);
        let workers = || master.workers().len();
        events::tell(|| {
            let (text, lost) = (progress.text.to_string(), spent.lost());
            json!({
                "event": "step", "step": progress.step, "steps_max": progress.steps_max, "text": text, "seconds": spent.so_far(),
                "seconds_left_max": spent.left_max(), "workers": workers(), "lost": lost,
            })
        });
        if output::is_error_terminal() {
            output::passing(&format!("  {}{}", progress.text, spent.pace(workers())));
        }
    };
    let training = Training {
        targets: read.targets.as_deref(),
        weights: read.weights.borrowed(),
        start: start.as_ref(),
        ..Training::new(&read.rows)
    };
    let fitted = learner.fit(&mut Job {
        master: &master,
        settings,
        training,
        memory_limit: args.memory_limit,
        observer: &mut observer,
    });
    output::passed();
    let Fitted { model, report, .. } = fitted.map_err(|e| with_file(e, &args.data.path))?;
    if let Some(failure) = &report.failure {
        bail!("{}: {failure} --missing drop leaves such rows out", args.data.path.display());
    }
    spent.done(report.phase);
    model.save(out, &Notes::new(settings, read.columns.clone(), &report.facts))?;
    spent.done("saving");
    if args.explain {
        report.explanation.iter().for_each(|line| output::note(line));
        match report.explanation.is_empty() || !master.explain().is_empty() {
            true => output::explain(&master),
            false => output::explain_results(&master),
        }
    }
    // The run has done its work, whatever becomes of the output.
    drop(master);
    let hash = model.hash();
    events::tell(|| {
        let model = out.to_string_lossy();
        json!({ "event": "saved", "model": model, "hash": hash, "seconds": spent.seconds() })
    });
    let result =
        Printed { fit, out, read: &read, report: &report, folds: folds.as_ref(), spent: &spent, hash };
    match args.json {
        true => output::json(&result.json())?,
        false => result.print()?,
    }
    let of_folds = folds.iter().flat_map(|folds| &folds.remarks);
    let warnings: Vec<&str> =
        report.remarks.iter().chain(&report.advice).chain(of_folds).map(String::as_str).collect();
    if !warnings.is_empty() {
        output::note(&warnings.join("; "));
    }
    Ok(())
}

/// Fits and measures once for each fold, where that is asked for.
fn folds(
    learner: &dyn Learner,
    fit: &Fit,
    master: &Master,
    read: &Read,
    start: Option<&Parts>,
) -> anyhow::Result<Option<CrossValidation>> {
    let Some((count, seed)) = fit.folds else { return Ok(None) };
    let training = Training {
        targets: read.targets.as_deref(),
        weights: read.weights.borrowed(),
        start,
        ..Training::new(&read.rows)
    };
    let mut job = Job {
        master,
        settings: &fit.settings,
        training,
        memory_limit: fit.args.memory_limit,
        observer: &mut |progress: &Progress<'_>| {
            events::tell(|| {
                let text = progress.text.to_string();
                json!({ "event": "fold", "fold": progress.step, "folds": progress.steps_max, "text": text })
            });
            output::passing(&format!("  cross-validation: {}", progress.text))
        },
    };
    let found = cross_validate(learner, &mut job, count, seed);
    output::passed();
    found.map(Some).map_err(|e| with_file(e, &fit.args.data.path))
}

/// Reads the rows, with targets for a learner that needs them.
pub(super) fn read(fit: &Fit) -> anyhow::Result<Read> {
    let (args, table) = (&fit.args, fit.settings.table());
    if table.target == Target::None {
        let read_as = ReadAs { dtype: table.dtype, ..ReadAs::default() };
        return reading::read(&args.data, fit.weights.as_deref(), &read_as, args.memory_limit);
    }
    let read_as = ReadAs::default();
    let from = supervised::From { labels: fit.labels.as_deref(), weights: fit.weights.as_deref(), read_as };
    let read = supervised::read(&args.data, &from, args.memory_limit)?;
    if table.target == Target::Classes {
        must_be_classes(read.targets.as_deref().unwrap_or_default(), &args.data.path, table.name)?;
    }
    Ok(read)
}

/// Refuses targets that are no whole numbers. A regression's target would be a class for each row.
pub(super) fn must_be_classes(targets: &[f64], data: &Path, learner: &str) -> anyhow::Result<()> {
    match targets.iter().position(|target| target.fract() != 0.0) {
        None => Ok(()),
        Some(row) => bail!(
            "{}: {learner} tells classes apart, and the target of row {row} (counted from 0) is {}; classes are whole numbers, and \
             ridge, lasso and elasticnet learn others",
            data.display(),
            targets[row]
        ),
    }
}

/// What the fit begins from, where options name files of it.
pub(super) fn start(learner: &dyn Learner, fit: &Fit, read: &Read) -> anyhow::Result<Option<Parts>> {
    let mut tensors = vec![];
    for (name, tensor) in learner.array_options() {
        let Some(path) = fit.settings.file(name)? else { continue };
        let allowed = learner.table().option(name).map(|option| option.allowed()).unwrap_or_default();
        let spelled = fit.settings.spelled(name);
        tensors.push(reading::matrix(&spelled, Path::new(path), read.rows.dtype(), &allowed)?.named(tensor));
    }
    if tensors.is_empty() {
        return Ok(None);
    }
    Ok(Some(Parts::new(learner.format(), tensors)))
}

/// Errors about the data say which file it is, and what to type.
pub(super) fn with_file(e: LearnerError, path: &Path) -> anyhow::Error {
    let path = path.display();
    match &e {
        LearnerError::Run(_) => e.into(),
        LearnerError::NotFinite { remedies, .. } => match remedies.is_empty() {
            true => anyhow!("{path}: {e}: --missing drop or --missing mean"),
            false => anyhow!("{path}: {e}: {} or --missing mean", remedies.join(" or ")),
        },
        LearnerError::Unusable { remedies, .. } if !remedies.is_empty() => {
            anyhow!("{path}: {e}: {}", remedies.join(" or "))
        }
        _ => anyhow!("{path}: {e}"),
    }
}

/// What a report says to programs.
pub(super) fn facts(report: &Report) -> impl Iterator<Item = (&'static str, serde_json::Value)> {
    let facts = report.facts.iter().map(|(name, value)| (*name, inspect::json(value)));
    let number = |number: &f64| match number.fract() == 0.0 {
        true => serde_json::Value::from(*number as u64),
        false => (*number).into(),
    };
    let lists = report.lists.iter().filter(|(_, numbers)| !numbers.is_empty());
    facts.chain(lists.map(move |(name, numbers)| (*name, numbers.iter().map(number).collect())))
}

/// What is printed of a fit.
struct Printed<'a> {
    fit: &'a Fit,
    out: &'a Path,
    read: &'a Read,
    report: &'a Report,
    folds: Option<&'a CrossValidation>,
    spent: &'a Spent,
    hash: String,
}

impl Printed<'_> {
    fn json(&self) -> serde_json::Value {
        let mut all = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| all.insert(name.into(), value);
        put("learner", self.fit.settings.table().name.into());
        put("rows", self.read.rows.records().into());
        facts(self.report).for_each(|(name, value)| drop(put(name, value)));
        if let Some(folds) = self.folds {
            put("cv", metrics::json_of_folds(folds));
        }
        put("hash", self.hash.clone().into());
        put("seconds", self.spent.seconds().into());
        let parts = self.spent.parts().into_iter().map(|(phase, s)| (phase.into(), s.into())).collect();
        put("seconds_of", serde_json::Value::Object(parts));
        put("model", self.out.to_string_lossy().into());
        serde_json::Value::Object(all)
    }

    fn print(&self) -> anyhow::Result<()> {
        let Printed { fit, out: model, read, report, folds, spent, hash } = self;
        let data = &fit.args.data.path;
        output::heading(&format!("{}: {}", fit.settings.table().name, report.size));
        output::line("");
        let columns = read.columns_of_rows()?;
        let mut about = format!(
            "{}, {} x {} of {}, {}",
            data.display(),
            output::count(read.rows.records(), "row"),
            output::count(columns as u64, "column"),
            reading::type_name(&read.rows),
            output::bytes(read.rows.bytes())
        );
        for (n, what) in [(read.dropped, "rows dropped"), (read.filled, "values filled in")] {
            if n > 0 {
                about.push_str(&format!(", {n} {what}"));
            }
        }
        let item = |name: &str, text: &str| output::line(format!("  {name:<9} {text}"));
        item("data", &about);
        report.lines.iter().for_each(|(name, text)| item(name, text));
        if let Some(folds) = folds {
            item("folds", &format!("{} of cross-validation, hash {}", folds.rows.len(), folds.hash));
            metrics::print_folds(folds);
        }
        item("time", &spent.text());
        if let Some(rounds) = spent.rounds_text() {
            item("", &rounds);
        }
        item("hash", hash);
        let found = std::fs::metadata(model).ok().filter(|found| found.is_file());
        let Some(found) = found else {
            // A device or a pipe: nobody will ask it anything.
            item("model", &model.display().to_string());
            return Ok(());
        };
        item("model", &format!("{}, {}", model.display(), output::bytes(found.len())));
        output::line("");
        let [data, model] = [data.as_path(), model].map(|path| reading::quoted(&path.to_string_lossy()));
        let typed = fit.args.data.typed();
        output::line(format!("Next: qjam predict {model} {data}{typed} --out {}", report.answers_file));
        output::line(format!("      qjam inspect {model}"));
        Ok(())
    }
}
