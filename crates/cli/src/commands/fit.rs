//! `qjam fit`: reads the data, has the learner fit, saves the model, and says what came of it.

use super::fit_linear::Lessons;
use super::reading::{self, Read, Wanted};
use super::taught::{self, Taught};
use super::{fit_autoencoder, fit_kmeans, fit_linear};
use crate::args::Fit;
use crate::output;
use qjam::Master;
use qjam_algos::linear::{Kind, Spec};
use qjam_algos::models::Notes;
use qjam_algos::options::Value;
use qjam_readers::Dtype;
use std::path::Path;
use std::time::Instant;

/// What all of a fit have at hand.
pub(crate) struct Job<'a> {
    pub(crate) fit: &'a Fit,
    pub(crate) master: &'a Master,
    pub(crate) spent: Spent,
}

/// What a learner leaves to be told.
pub(crate) struct Outcome {
    /// What it is, in a line.
    pub(crate) title: String,
    /// Lines of a name and what there is to say.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// The same for programs, and for the model's notes.
    pub(crate) facts: Vec<(&'static str, Value)>,
    /// More for programs.
    pub(crate) sizes: Vec<f64>,
    pub(crate) hash: String,
    /// What a file of the model's answers may be called.
    pub(crate) answers: &'static str,
    /// Something that the user should know.
    pub(crate) warning: Option<String>,
    /// Whether it has said what it chose, if that was asked for.
    pub(crate) is_explained: bool,
    pub(crate) spent: Spent,
}

/// Where the time went.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    began: Instant,
    /// What was done until when, in order.
    until: Vec<(&'static str, Instant)>,
    /// All rounds that were seen.
    rounds: u64,
    total_us: u64,
    worker_us: u64,
    master_us: u64,
}

impl Spent {
    fn new() -> Spent {
        Spent { began: Instant::now(), until: Vec::new(), rounds: 0, total_us: 0, worker_us: 0, master_us: 0 }
    }

    /// Something is done.
    pub(crate) fn done(&mut self, what: &'static str) {
        self.until.push((what, Instant::now()));
    }

    /// A round is over.
    pub(crate) fn round(&mut self, master: &Master) {
        if let Some(report) = master.last_round() {
            self.rounds += 1;
            self.total_us += report.total_us;
            self.worker_us += report.worker_us;
            self.master_us += report.master_us;
        }
    }

    fn seconds(&self) -> f64 {
        self.until.last().map_or(0.0, |(_, at)| at.duration_since(self.began).as_secs_f64())
    }

    fn parts(&self) -> Vec<(&'static str, f64)> {
        let begins = std::iter::once(self.began).chain(self.until.iter().map(|(_, at)| *at));
        let part = |((what, at), begin): (&(&'static str, Instant), Instant)| {
            (*what, at.duration_since(begin).as_secs_f64())
        };
        self.until.iter().zip(begins).map(part).collect()
    }

    fn text(&self) -> String {
        let parts: Vec<String> = self.parts().iter().map(|(what, s)| format!("{what} {s:.2}")).collect();
        format!("{:.2} s: {}", self.seconds(), parts.join(", "))
    }

    fn rounds_text(&self) -> Option<String> {
        let share = |us: u64| us.saturating_mul(100).checked_div(self.total_us);
        let (worker, master) = (share(self.worker_us)?, share(self.master_us)?);
        let rest = 100_u64.saturating_sub(worker + master);
        Some(format!(
            "{} of {}: workers computing {worker} %, master {master} %, the rest {rest} %",
            output::count(self.rounds, "round"),
            output::time(self.total_us / self.rounds.max(1))
        ))
    }
}

/// Runs the command.
pub(crate) fn run(fit: &Fit) -> anyhow::Result<()> {
    let args = &fit.args;
    reading::can_be_written("--out", &args.out)?;
    let mut spent = Spent::new();
    let builder = reading::limited(Master::builder(), args.memory_limit)
        .on_wait(|waiting| output::passing(&format!("  {waiting}")));
    // Connected first: a wrong worker string is told before hours of reading.
    let master = builder.connect(&args.workers)?;
    let name = fit.settings.learner().name;
    let (read, outcome) = if Kind::named(name).is_some() {
        taught_fit(fit, &master, spent)?
    } else {
        let dtype = (name == "autoencoder").then_some(Dtype::F64);
        let wanted = Wanted { dtype, ..Wanted::default() };
        let read = reading::read(&args.data, fit.weights.as_deref(), &wanted, args.memory_limit)?;
        spent.done("reading");
        let job = Job { fit, master: &master, spent };
        let outcome = match name {
            "kmeans" | "minibatch-kmeans" => fit_kmeans::fit(job, &read)?,
            "autoencoder" => fit_autoencoder::fit(job, &read)?,
            other => anyhow::bail!("{other} cannot be fitted by this command yet"),
        };
        (read, outcome)
    };
    if args.explain && (!outcome.is_explained || !master.explain().is_empty()) {
        output::explain(&master);
    }
    if args.json {
        output::line(json(fit, &read, &outcome).to_string());
    } else {
        say(fit, &read, &outcome)?;
    }
    if let Some(warning) = &outcome.warning {
        output::note(warning);
    }
    Ok(())
}

/// The same for learners that are told what to learn.
fn taught_fit(fit: &Fit, master: &Master, mut spent: Spent) -> anyhow::Result<(Read, Outcome)> {
    // What was typed wrongly is told before anything is read.
    let spec = Spec::from_settings(&fit.settings)?;
    let from = taught::From { labels: fit.labels.as_deref(), weights: fit.weights.as_deref() };
    let read = taught::read(&fit.args.data, &from, fit.args.memory_limit)?;
    spent.done("reading");
    if spec.kind().classifies() {
        fit_linear::must_be_classes(&read.targets, fit)?;
    }
    let Taught { rows, columns, targets, weights, dropped, filled } = read;
    let (read, lessons) =
        (Read { rows, columns, weighted: false, dropped, filled }, Lessons { targets, weights });
    let outcome = fit_linear::fit(Job { fit, master, spent }, &read, &lessons, &spec)?;
    Ok((read, outcome))
}

impl Job<'_> {
    /// What goes into the model's file besides numbers.
    pub(crate) fn notes(&self, read: &Read, facts: &[(&'static str, Value)]) -> Notes {
        Notes::new(&self.fit.settings, read.columns.clone(), facts)
    }

    /// The path of the model.
    pub(crate) fn out(&self) -> &Path {
        &self.fit.args.out
    }
}

fn json(fit: &Fit, read: &Read, outcome: &Outcome) -> serde_json::Value {
    let mut all = serde_json::Map::new();
    let mut put = |name: &str, value: serde_json::Value| all.insert(name.into(), value);
    put("learner", fit.settings.learner().name.into());
    put("rows", read.rows.records().into());
    for (name, value) in &outcome.facts {
        put(name, super::models::json(value));
    }
    if !outcome.sizes.is_empty() {
        let size = |size: &f64| match size.fract() == 0.0 {
            true => serde_json::Value::from(*size as u64),
            false => (*size).into(),
        };
        put("sizes", outcome.sizes.iter().map(size).collect());
    }
    put("hash", outcome.hash.clone().into());
    put("seconds", outcome.spent.seconds().into());
    let parts = outcome.spent.parts().into_iter().map(|(what, s)| (what.into(), s.into())).collect();
    put("seconds_of", serde_json::Value::Object(parts));
    put("model", fit.args.out.to_string_lossy().into());
    serde_json::Value::Object(all)
}

fn say(fit: &Fit, read: &Read, outcome: &Outcome) -> anyhow::Result<()> {
    let (data, model) = (&fit.args.data.path, &fit.args.out);
    output::heading(&outcome.title);
    output::line("");
    let is_sparse = reading::type_name(&read.rows).starts_with("sparse");
    let columns = read.rows.cols()? - usize::from(read.weighted && !is_sparse);
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
    outcome.lines.iter().for_each(|(name, text)| item(name, text));
    item("time", &outcome.spent.text());
    if let Some(rounds) = outcome.spent.rounds_text() {
        item("", &rounds);
    }
    item("hash", &outcome.hash);
    let found = std::fs::metadata(model).ok().filter(|found| found.is_file());
    let Some(found) = found else {
        // A device or a pipe: nobody will ask it anything.
        item("model", &model.display().to_string());
        return Ok(());
    };
    item("model", &format!("{}, {}", model.display(), output::bytes(found.len())));
    output::line("");
    let [data, model] = [data, model].map(|path| reading::quoted(&path.to_string_lossy()));
    let typed = fit.args.data.typed();
    output::line(format!("Next: qjam predict {model} {data}{typed} --out {}", outcome.answers));
    output::line(format!("      qjam inspect {model}"));
    Ok(())
}
