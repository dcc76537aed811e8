//! `qjam predict`: what a model says of the rows of a file.
//!
//! Labels of all rows come home at once, four bytes each. Distances and activations are many numbers for each row; they
//! are made chunk by chunk and written as they come, so that they need not fit into memory.

use super::answers::Answers;
use super::fit_linear::examples;
use super::reading::{self, Read, Wanted};
use crate::args::Predict;
use crate::output;
use anyhow::{anyhow, bail};
use qjam::{DataSet, Dense, Master};
use qjam_algos::clustering::kmeans::{self, Model, ModelError, Points};
use qjam_algos::linear::{self, LinearModel};
use qjam_algos::models::{self, Contents};
use qjam_algos::neural::autoencoder::{self, Autoencoder};
use qjam_readers::{Dtype, Rows};

/// Runs the command.
pub(crate) fn run(args: &Predict) -> anyhow::Result<()> {
    let contents = models::inspect(&args.model)?;
    // A kind or version that is not known is told before the data is read.
    let mut features = None;
    match contents.kind.as_str() {
        kmeans::model::KIND => drop(Model::<f64>::load(&args.model)?),
        linear::model::KIND => features = Some(LinearModel::load(&args.model)?.features()),
        autoencoder::model::KIND => drop(Autoencoder::load(&args.model)?),
        other => bail!(
            "{} has a model of kind {other}, which this program does not know: update it",
            args.model.display()
        ),
    }
    for (is_typed, flag, of) in [
        (args.transform, "--transform", kmeans::model::KIND),
        (args.probabilities, "--probabilities", linear::model::KIND),
        (args.decisions, "--decisions", linear::model::KIND),
    ] {
        if is_typed && contents.kind != of {
            bail!(
                "{flag} is for models of kind {of}, and {} is of kind {}",
                args.model.display(),
                contents.kind
            );
        }
    }
    if let Some(out) = &args.out {
        reading::can_be_written("--out", out)?;
    }
    // Rows are compared in the numbers that the model has.
    let single = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let dtype = if single { Dtype::F32 } else { Dtype::F64 };
    let wanted = Wanted { columns: &contents.notes.columns, features, dtype: Some(dtype) };
    let read = reading::read(&args.data, None, &wanted, args.memory_limit)?;
    if read.dropped > 0 {
        output::note(&format!(
            "{} left out; there are answers for the others only",
            output::count(read.dropped, "row")
        ));
    }
    match contents.kind.as_str() {
        kmeans::model::KIND => match &read.rows {
            Rows::DenseF32(data) => nearest(args, &contents, &read, data),
            Rows::DenseF64(data) => nearest(args, &contents, &read, data),
            Rows::CsrF32(data) => nearest(args, &contents, &read, data),
            Rows::CsrF64(data) => nearest(args, &contents, &read, data),
        },
        linear::model::KIND => decided(args, &contents, &read),
        _ => match &read.rows {
            Rows::DenseF64(data) => activations(args, data),
            _ => bail!(
                "{}: the autoencoder takes dense rows of 64 bits; leave --dtype out",
                args.data.path.display()
            ),
        },
    }
}

fn nearest<C: Points>(
    args: &Predict,
    contents: &Contents,
    read: &Read,
    data: &DataSet<C>,
) -> anyhow::Result<()> {
    let model = Model::<C::Number>::load(&args.model)?;
    let refused = |e: ModelError| match e {
        ModelError::Columns { found, expected } => {
            let (model, named) = (args.model.display(), named(contents, read));
            anyhow!(
                "{}: it has {found} columns and {model} was fitted to {expected}{named}; give rows like those",
                args.data.path.display()
            )
        }
        ModelError::Run(e) => e.into(),
        ModelError::NotFinite { .. } => {
            anyhow!("{}: {e}: --missing mean or --missing drop", args.data.path.display())
        }
        e => anyhow!("{}: {e}", args.data.path.display()),
    };
    if args.transform {
        let mut answers =
            Answers::new::<C::Number>(args.out.as_deref(), data.records(), model.centres().len())?;
        for index in 0..data.len() {
            let distances = model.transform_matrix(&data.chunk(index)?).map_err(refused)?;
            answers.write(&distances)?;
        }
        return answers.finish();
    }
    let master = reading::limited(Master::builder(), args.memory_limit).connect(&args.workers)?;
    let labels = model.predict_all(&master, data).map_err(refused)?;
    let mut answers = Answers::labels(args.out.as_deref(), labels.len() as u64)?;
    answers.write_labels(&labels)?;
    answers.finish()
}

/// What a linear model says of the rows: values, classes, probabilities or what it decides by.
fn decided(args: &Predict, contents: &Contents, read: &Read) -> anyhow::Result<()> {
    let (model, data) = (LinearModel::load(&args.model)?, args.data.path.display());
    if args.decisions && !model.kind().classifies() {
        bail!("--decisions is for classifiers, and {} is of {}", args.model.display(), model.kind().name());
    }
    let master = reading::limited(Master::builder(), args.memory_limit).connect(&args.workers)?;
    let rows = examples(&read.rows);
    let found = match (args.probabilities, args.decisions) {
        (true, _) => model.probabilities(&master, &rows),
        (_, true) => model.decision(&master, &rows),
        _ => model.predict(&master, &rows),
    };
    let found = found.map_err(|e| match e {
        linear::ModelError::Columns { found, expected } => {
            let model = args.model.display();
            anyhow!(
                "{data}: it has {found} columns and {model} was fitted to {expected}{}; give rows like those",
                named(contents, read)
            )
        }
        linear::ModelError::Run(e) => e.into(),
        linear::ModelError::NotFinite { .. } => anyhow!("{data}: {e}: --missing mean or --missing drop"),
        e => anyhow!("{}: {e}", args.model.display()),
    })?;
    let rows = read.rows.records();
    let columns = found.len() / (rows.max(1) as usize);
    let mut answers = match columns {
        1 => Answers::values(args.out.as_deref(), rows)?,
        _ => Answers::new::<f64>(args.out.as_deref(), rows, columns)?,
    };
    answers.write(&found)?;
    answers.finish()
}

/// Names of the columns that a model was fitted to, where both have names.
fn named(contents: &Contents, read: &Read) -> String {
    match contents.notes.columns.is_empty() || read.columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", contents.notes.columns.join(", ")),
    }
}

fn activations(args: &Predict, data: &DataSet<Dense<f64>>) -> anyhow::Result<()> {
    let model = Autoencoder::load(&args.model)?;
    let (visible, found) = (model.shape().visible(), data.chunk(0)?.cols());
    if visible != found {
        bail!(
            "{}: it has {found} columns and {} was fitted to {visible}; give rows like those",
            args.data.path.display(),
            args.model.display()
        );
    }
    let mut answers = Answers::new::<f64>(args.out.as_deref(), data.records(), model.shape().hidden())?;
    for index in 0..data.len() {
        answers.write(&model.activations(data.chunk(index)?.as_slice())?)?;
    }
    answers.finish()
}
