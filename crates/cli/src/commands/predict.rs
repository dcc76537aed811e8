//! `qjam predict`: what a model answers about the rows of a file. The same for all kinds of models.
//!
//! One answer for each row comes home from the workers at once. Answers of many numbers for each row are made chunk by
//! chunk, by several threads, and written in order as they come, so that they need not fit into memory.

use super::answers::Answers;
use super::reading::{self, Read, ReadAs};
use crate::args::Predict;
use crate::output::{self, events};
use anyhow::{anyhow, bail};
use qjam::{DataError, DataSet, Master, Rows, with_rows};
use qjam_algos::answers::BadNumber;
use qjam_algos::learner::{About, LearnerError, Model, Question};
use qjam_algos::linear::rows::RowChunk;
use qjam_algos::models::Contents;
use qjam_algos::registry::{LEARNERS, load};
use qjam_readers::Dtype;
use serde_json::json;
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Runs the command.
pub(crate) fn run(args: &Predict) -> anyhow::Result<()> {
    events::begin(args.events);
    // A kind or version that is not known is told before the data is read.
    let (model, contents) = load(&args.model)?;
    let question = question(args, contents.kind_of_answers())?;
    if let Some(out) = &args.out {
        reading::can_be_written("--out", out)?;
    }
    // Rows are compared in the numbers that the model has.
    let single = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let dtype = if single { Dtype::F32 } else { Dtype::F64 };
    let features = Some(model.columns());
    let read_as = ReadAs { columns: &contents.notes.columns, features, dtype: Some(dtype) };
    let read = reading::read(&args.data, None, &read_as, args.memory_limit)?;
    read.tell();
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
        Failure::Answer(e) => refused(e, (&args.data.path, &args.model), &contents, &read),
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

/// Answers chunk by chunk, in threads of this process: each takes every n-th chunk and is one answer ahead at most, so that no
/// more than two for each thread are in memory.
fn by_chunks(args: &Predict, model: &dyn Model, question: Question, read: &Read) -> Result<(), Failure> {
    let (rows, chunks) = (&read.rows, read.rows.chunks());
    if args.workers.starts_with("local") {
        // A wrong worker string is told.
        let connected = Master::builder().no_run_file().connect(&args.workers);
        drop(connected.map_err(anyhow::Error::from)?);
    }
    let threads = threads(args).min(chunks).max(1);
    std::thread::scope(|scope| {
        let ask = |first: usize| {
            let (send, receive) = sync_channel(0);
            scope.spawn(move || {
                for index in (first..chunks).step_by(threads) {
                    // Nobody receives any more after an error.
                    if send.send(model.answer(question, &About::chunk(rows, index))).is_err() {
                        break;
                    }
                }
            });
            receive
        };
        let asked: Vec<_> = (0..threads).map(ask).collect();
        let mut answers = None;
        for index in 0..chunks {
            let answer =
                asked[index % threads].recv().map_err(|_| anyhow!("a thread ended before its answer"))?;
            let answer = answer.map_err(|e| with_row(e, &args.data.path, rows, index))?;
            let answers = match &mut answers {
                Some(answers) => answers,
                none => none.insert(Answers::of(args.out.as_deref(), rows.records(), &answer)?),
            };
            answers.write_answer(&answer)?;
            events::tell(|| json!({ "event": "step", "step": index + 1, "steps_max": chunks }));
        }
        answers.map_or(Ok(()), |answers| Ok(answers.finish()?))
    })
}

/// Threads that answer: as many as `local:N` says, otherwise one per core, fewer where memory is limited.
fn threads(args: &Predict) -> usize {
    const THREAD_BYTES: u64 = 128 << 20;
    let typed = args.workers.strip_prefix("local:").and_then(|count| count.parse().ok());
    let most = args.memory_limit.map_or(usize::MAX, |limit| (limit / THREAD_BYTES).max(1) as usize);
    typed.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).min(most)
}

/// An error about one chunk, with the row as it is counted in all of them.
fn with_row(e: LearnerError, data: &Path, rows: &Rows, index: usize) -> Failure {
    let LearnerError::NotFinite { .. } = &e else { return e.into() };
    let found = with_rows!(rows, rows => not_finite_in(rows, index));
    match found {
        Ok(Some((row, column, value))) => Failure::Output(anyhow!(
            "{}: row {row}, column {column} (counted from 0) is {value}: --missing mean or --missing drop",
            data.display()
        )),
        _ => e.into(),
    }
}

/// The first number of a chunk that is not finite.
fn not_finite_in<C: RowChunk>(data: &DataSet<C>, index: usize) -> Result<BadNumber, DataError> {
    let mut before = 0;
    for earlier in 0..index {
        before += data.chunk(earlier)?.count() as u64;
    }
    let chunk = data.chunk(index)?;
    Ok((0..chunk.count())
        .find_map(|row| chunk.bad(row).map(|(column, value)| (before + row as u64, column, value))))
}

fn all_at_once(args: &Predict, model: &dyn Model, question: Question, read: &Read) -> Result<(), Failure> {
    let builder = events::of(reading::limited(Master::builder(), args.memory_limit, args.host_cache));
    let master = builder.connect(&args.workers).map_err(anyhow::Error::from)?;
    output::passed();
    events::tell(|| events::began(&master, json!({})));
    reading::tell_unlimited(&master, args.memory_limit);
    let answer = model.answer(question, &About::all(&master, &read.rows))?;
    // The run has done its work, whatever becomes of the output.
    drop(master);
    let mut answers = Answers::of(args.out.as_deref(), read.rows.records(), &answer)?;
    answers.write_answer(&answer)?;
    Ok(answers.finish()?)
}

/// Errors say which file it is, and what to type.
pub(super) fn refused(
    e: LearnerError,
    (data, model): (&Path, &Path),
    contents: &Contents,
    read: &Read,
) -> anyhow::Error {
    let (data, model) = (data.display(), model.display());
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
