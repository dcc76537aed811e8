//! `qjam evaluate`: how good a model is on the rows of a file. The same for all kinds of models.

use super::fit::must_be_classes;
use super::predict::refused;
use super::reading::{self, Read, ReadAs};
use super::{metrics, picture, placing, supervised};
use crate::args::Evaluate;
use crate::output::{self, events};
use anyhow::{Context, bail};
use qjam::Master;
use qjam_algos::evaluate::{Options, evaluate};
use qjam_algos::learner::Model;
use qjam_algos::models::Contents;
use qjam_algos::options::Target;
use qjam_algos::registry::{LEARNERS, load};
use qjam_readers::Dtype;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(args: &Evaluate) -> anyhow::Result<()> {
    events::begin(args.events);
    // A kind or version that is not known is told before the data is read.
    let (model, contents) = load(&args.model)?;
    if let Some(path) = &args.picture {
        reading::can_be_written("--picture", path)?;
        is_picture(path)?;
    }
    let builder = events::of(reading::limited(Master::builder(), args.memory_limit, args.host_cache));
    let master = builder.connect(&args.workers)?;
    reading::tell_unlimited(&master, args.memory_limit);
    events::tell(|| events::began(&master, json!({ "kind": contents.kind })));
    let read = read(args, &*model, &contents)?;
    read.tell();
    if read.dropped > 0 {
        output::note(&format!(
            "{} left out; the scores are those of the others",
            output::count(read.dropped, "row")
        ));
    }
    let options = Options {
        targets: read.targets.as_deref(),
        sample: args.sample,
        seed: args.seed,
        ..Options::default()
    };
    let found = evaluate(&master, &*model, &read.rows, &options)
        .map_err(|e| refused(e, (&args.data.path, &args.model), &contents, &read))?;
    // The run has done its work, whatever becomes of the output.
    drop(master);
    events::tell(|| json!({ "event": "evaluated", "rows": found.rows }));
    if let Some(path) = &args.picture {
        let drawn = picture::svg(&found);
        placing::write(path, |out| out.write_all(drawn.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (data, of) = (args.data.path.display(), args.model.display());
    match args.json {
        true => output::json(&metrics::json(&found))?,
        false => {
            output::heading(&format!("{of} on {data}, {}", output::count(found.rows, "row")));
            output::line("");
            metrics::print(&found);
            if let Some(path) = &args.picture {
                output::line("");
                output::line(format!("picture in {}", path.display()));
            }
        }
    }
    found.remarks.iter().for_each(|remark| output::note(remark));
    Ok(())
}

fn is_picture(path: &Path) -> anyhow::Result<()> {
    match path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
        || placing::is_special(path)
    {
        true => Ok(()),
        false => bail!("--picture {}: pictures are drawn as .svg; let the name end so", path.display()),
    }
}

/// The rows, with targets for a model that is compared with them.
fn read(args: &Evaluate, model: &dyn Model, contents: &Contents) -> anyhow::Result<Read> {
    // Rows are compared in the numbers that the model has.
    let single = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let dtype = if single { Dtype::F32 } else { Dtype::F64 };
    let read_as =
        ReadAs { columns: &contents.notes.columns, features: Some(model.columns()), dtype: Some(dtype) };
    let kind = contents.kind_of_answers();
    let learner = LEARNERS.iter().find(|learner| learner.format().kind == kind);
    let is_classifier = !model.classes().is_empty();
    if !is_classifier && learner.is_none_or(|learner| learner.table().target == Target::None) {
        if let Some(path) = &args.labels {
            bail!(
                "--labels {}: models of kind {} are not compared with targets; leave it out",
                path.display(),
                kind
            );
        }
        return reading::read(&args.data, None, &read_as, args.memory_limit);
    }
    let from = supervised::From { labels: args.labels.as_deref(), weights: None, read_as };
    let read = supervised::read(&args.data, &from, args.memory_limit)?;
    if is_classifier {
        let of = format!("the model {}", args.model.display());
        must_be_classes(read.targets.as_deref().unwrap_or_default(), &args.data.path, &of)?;
    }
    Ok(read)
}
