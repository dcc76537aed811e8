//! Fits that run in a bucket without this program: `qjam fit … --detach`, and `qjam store attach`.

use super::fit::{facts, read, start, with_file};
use super::reading;
use crate::args::{Attach, Fit};
use crate::output;
use anyhow::{Context, anyhow, bail};
use qjam::Master;
use qjam_algos::learner::{DetachedRows, Fitted, Job, Learner, LearnerError, Report, Training};
use qjam_algos::models::Notes;
use qjam_algos::options::{Settings, Spelling};
use qjam_algos::registry::find;
use qjam_store::{Attached, DetachedJob, RunningJob, Standing, detach};
use serde::{Deserialize, Serialize};

/// What whoever brings a model home needs to know of the fit.
#[derive(Serialize, Deserialize)]
struct AboutFit {
    learner: String,
    /// Names and values of all options, as they are typed.
    options: Vec<(String, String)>,
    columns: Vec<String>,
    rows: u64,
    is_single: bool,
    data: String,
}

/// Puts a fit into a bucket.
pub(crate) fn submit(fit: &Fit, learner: &dyn Learner) -> anyhow::Result<()> {
    let (args, settings) = (&fit.args, &fit.settings);
    let Some(url) = args.workers.trim().strip_prefix("store:") else {
        bail!("--detach needs workers that share a bucket, and nobody else: --workers store:URL");
    };
    // Refused before hours of reading.
    let Some(detachable) = learner.detachable() else {
        return Err(LearnerError::NoDetach { learner: settings.table().name }.into());
    };
    learner.check(settings)?;
    let read = read(fit)?;
    let start = start(learner, fit, &read)?;
    let training = Training {
        targets: read.targets.as_deref(),
        weights: read.weights.borrowed(),
        start: start.as_ref(),
        ..Training::new(&read.rows)
    };
    let first = detachable.first_round(&Job {
        master: &Master::connect("local:1")?,
        settings,
        training,
        memory_limit: args.memory_limit,
        observer: &mut |_| {},
    });
    let first = first.map_err(|e| with_file(e, &args.data.path))?;
    let about = AboutFit {
        learner: settings.table().name.into(),
        options: settings.iter().map(|(option, value)| (option.name.into(), value.to_string())).collect(),
        columns: read.columns.clone(),
        rows: read.rows.records(),
        is_single: read.rows.dtype() == qjam::Dtype::F32,
        data: args.data.path.display().to_string(),
    };
    let job = detach(url, &first, &serde_json::to_vec(&about)?)?;
    print_job(&job, args.json)
}

fn print_job(job: &DetachedJob, json: bool) -> anyhow::Result<()> {
    let DetachedJob { address, job, name, workers } = job;
    let url = address.to_string();
    let shown = name.as_ref().unwrap_or(job);
    let attach = format!("qjam store attach {} {shown}", reading::quoted(&url));
    if json {
        return output::json(&serde_json::json!({
            "job": job, "name": name, "url": url, "workers": workers, "attach": attach,
        }));
    }
    let workers = match workers {
        0 => format!("no worker is there yet: qjam store serve {}", reading::quoted(&url)),
        1 => "1 worker is there".into(),
        n => format!("{n} workers are there"),
    };
    output::line(format!("job {shown} is in {url}; {workers}"));
    output::line("");
    output::line(format!("Next: {attach} --out MODEL"));
    Ok(())
}

/// Follows a detached fit, and brings its model home.
pub(crate) fn attach(args: &Attach) -> anyhow::Result<()> {
    if let Some(out) = &args.out {
        reading::can_be_written("--out", out)?;
    }
    let mut attached = Attached::to(&args.place.address()?, args.place.seal()?, &args.job)?;
    let about: AboutFit = serde_json::from_slice(attached.about())
        .map_err(|e| anyhow!("job {} is no fit of this command: {e}", attached.job()))?;
    let kept = follow(&mut attached, args)?;
    let (learner, settings) = about.learner()?;
    let detachable = learner.detachable().context("the learner cannot be detached")?;
    let rows = DetachedRows { count: about.rows, is_single: about.is_single };
    let Fitted { model, report, .. } = detachable.conclude(&settings, &rows, &kept)?;
    if let Some(out) = &args.out {
        model.save(out, &Notes::new(&settings, about.columns.clone(), &report.facts))?;
    }
    match args.json {
        true => output::json(&about.json(args, &report, &model.hash(), attached.job())),
        false => {
            about.print(args, &report, &model.hash());
            Ok(())
        }
    }
}

/// Waits until the job has ended, and shows how far it is.
fn follow(attached: &mut Attached, args: &Attach) -> anyhow::Result<Vec<u8>> {
    let mut shown: Option<RunningJob> = None;
    loop {
        match attached.standing()? {
            Standing::Finished(kept) => {
                output::passed();
                return Ok(kept.to_vec());
            }
            Standing::Failed(why) => {
                output::passed();
                bail!("job {} failed: {}", attached.job(), qjam::printable(&why));
            }
            Standing::Running(running) => {
                if !args.json && shown.as_ref() != Some(&running) {
                    show(&running, shown.as_ref(), args);
                }
                shown = Some(running);
            }
        }
        attached.wait();
    }
}

fn show(running: &RunningJob, before: Option<&RunningJob>, args: &Attach) {
    if running.workers == 0 && before.is_none_or(|before| before.workers > 0) {
        output::note(&format!("no worker is there: qjam store serve {}", reading::quoted(&args.place.url)));
    }
    let Some(progress) = &running.progress else { return };
    if before.is_some_and(|before| before.progress.as_ref() == Some(progress)) {
        return;
    }
    let text = qjam::printable(&progress.text);
    match output::is_terminal() {
        true => output::passing(&format!("  {text}")),
        false => output::line(text),
    }
}

impl AboutFit {
    /// The learner, and the settings of the fit.
    fn learner(&self) -> anyhow::Result<(&'static dyn Learner, Settings)> {
        let Some(learner) = find(&self.learner) else {
            bail!("this program has no learner `{}`", qjam::printable(&self.learner));
        };
        let mut settings = Settings::new(learner.table(), Spelling::Command);
        for (name, value) in &self.options {
            settings.set_text(name, value)?;
        }
        Ok((learner, settings))
    }

    fn json(&self, args: &Attach, report: &Report, hash: &str, job: &str) -> serde_json::Value {
        let mut all = serde_json::Map::new();
        all.insert("job".into(), job.into());
        all.insert("learner".into(), self.learner.clone().into());
        all.insert("rows".into(), self.rows.into());
        all.extend(facts(report).map(|(name, value)| (name.to_owned(), value)));
        all.insert("hash".into(), hash.into());
        all.insert("model".into(), args.out.as_ref().map(|out| out.to_string_lossy().into_owned()).into());
        serde_json::Value::Object(all)
    }

    fn print(&self, args: &Attach, report: &Report, hash: &str) {
        output::heading(&format!("{}: {}", self.learner, report.size));
        output::line("");
        let item = |name: &str, text: &str| output::line(format!("  {name:<9} {text}"));
        item("data", &format!("{}, {}", qjam::printable(&self.data), output::count(self.rows, "row")));
        report.lines.iter().for_each(|(name, text)| item(name, text));
        item("hash", hash);
        match &args.out {
            Some(out) => item("model", &out.display().to_string()),
            None => output::note("the model was not written; --out MODEL does that, as often as you like"),
        }
        if let Some(advice) = &report.advice {
            output::note(advice);
        }
    }
}
