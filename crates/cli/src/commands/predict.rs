//! `qjam predict`: what a model answers about the rows of a file. The same for all kinds of models.
//!
//! One answer for each row comes home from the workers at once. Answers of many numbers for each row are made chunk by
//! chunk and written as they come, so that they need not fit into memory.

use super::answers::Answers;
use super::reading::{self, Read, ReadAs};
use crate::args::Predict;
use crate::output;
use anyhow::{anyhow, bail};
use qjam::Master;
use qjam_algos::learner::{About, LearnerError, Model, Question};
use qjam_algos::models::Contents;
use qjam_algos::registry::{LEARNERS, load};
use qjam_readers::Dtype;

/// Runs the command.
pub(crate) fn run(args: &Predict) -> anyhow::Result<()> {
    // A kind or version that is not known is told before the data is read.
    let (model, contents) = load(&args.model)?;
    let question = question(args, &contents.kind)?;
    if let Some(out) = &args.out {
        reading::can_be_written("--out", out)?;
    }
    // Rows are compared in the numbers that the model has.
    let single = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let dtype = if single { Dtype::F32 } else { Dtype::F64 };
    let features = Some(model.columns());
    let read_as = ReadAs { columns: &contents.notes.columns, features, dtype: Some(dtype) };
    let read = reading::read(&args.data, None, &read_as, args.memory_limit)?;
    if read.dropped > 0 {
        output::note(&format!(
            "{} left out; there are answers for the others only",
            output::count(read.dropped, "row")
        ));
    }
    let answers = match question.is_wide() {
        true => by_chunks(args, &*model, question, &read),
        false => all_at_once(args, &*model, question, &read),
    };
    answers.map_err(|e| match e {
        Failure::Answer(e) => refused(e, args, &contents, &read),
        Failure::Output(e) => e,
    })
}

/// What was asked: what was typed, or the first question that models of this kind answer.
fn question(args: &Predict, kind: &str) -> anyhow::Result<Question> {
    let answering = |question: Question| {
        let mut kinds: Vec<&str> = LEARNERS
            .iter()
            .filter(|learner| learner.questions().contains(&question))
            .map(|learner| learner.format().kind)
            .collect();
        kinds.dedup();
        kinds
    };
    for (is_typed, flag, question) in [
        (args.transform, "--transform", Question::Transform),
        (args.probabilities, "--probabilities", Question::Probabilities),
        (args.decisions, "--decisions", Question::Decisions),
    ] {
        if is_typed {
            let kinds = answering(question);
            return match kinds.contains(&kind) {
                true => Ok(question),
                false => bail!(
                    "{flag} is for models of kind {}, and {} is of kind {kind}",
                    kinds.join(" or "),
                    args.model.display()
                ),
            };
        }
    }
    let first = LEARNERS.iter().find(|learner| learner.format().kind == kind);
    Ok(first.and_then(|learner| learner.questions().first().copied()).unwrap_or(Question::Predict))
}

/// Why there are no answers.
enum Failure {
    Answer(LearnerError),
    Output(anyhow::Error),
}

impl From<LearnerError> for Failure {
    fn from(e: LearnerError) -> Failure {
        Failure::Answer(e)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Failure {
        Failure::Output(e)
    }
}

fn by_chunks(args: &Predict, model: &dyn Model, question: Question, read: &Read) -> Result<(), Failure> {
    let mut answers = None;
    for index in 0..read.rows.chunks() {
        let answer = model.answer(question, &About::chunk(&read.rows, index))?;
        let answers = match &mut answers {
            Some(answers) => answers,
            none => none.insert(Answers::of(args.out.as_deref(), read.rows.records(), &answer)?),
        };
        answers.write_answer(&answer)?;
    }
    answers.map_or(Ok(()), |answers| Ok(answers.finish()?))
}

fn all_at_once(args: &Predict, model: &dyn Model, question: Question, read: &Read) -> Result<(), Failure> {
    let master = reading::limited(Master::builder(), args.memory_limit).connect(&args.workers);
    let master = master.map_err(anyhow::Error::from)?;
    reading::tell_unlimited(&master, args.memory_limit);
    let answer = model.answer(question, &About::all(&master, &read.rows))?;
    // The run has done its work, whatever becomes of the output.
    drop(master);
    let mut answers = Answers::of(args.out.as_deref(), read.rows.records(), &answer)?;
    answers.write_answer(&answer)?;
    Ok(answers.finish()?)
}

/// Errors say which file it is, and what to type.
fn refused(e: LearnerError, args: &Predict, contents: &Contents, read: &Read) -> anyhow::Error {
    let (data, model) = (args.data.path.display(), args.model.display());
    match &e {
        LearnerError::Run(_) => e.into(),
        LearnerError::Columns { found, expected, .. } => anyhow!(
            "{data}: it has {found} columns and {model} was fitted to {expected}{}; give rows like those",
            named(contents, read)
        ),
        LearnerError::NotFinite { .. } => anyhow!("{data}: {e}: --missing mean or --missing drop"),
        LearnerError::Type { .. } => anyhow!("{data}: {e}; leave --dtype out"),
        LearnerError::NoAnswer { .. } => anyhow!("{model}: {e}"),
        _ => anyhow!("{data}: {e}"),
    }
}

/// Names of the columns that a model was fitted to, where both have names.
fn named(contents: &Contents, read: &Read) -> String {
    match contents.notes.columns.is_empty() || read.columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", contents.notes.columns.join(", ")),
    }
}
