//! `qjam predict`: what a model says of the rows of a file.
//!
//! Labels of all rows come home at once, four bytes each. Distances and activations are many numbers for each row; they
//! are made chunk by chunk and written as they come, so that they need not fit into memory.

use super::answers::Answers;
use super::reading::{self, Read};
use crate::args::Predict;
use crate::output;
use anyhow::{anyhow, bail};
use qjam::{DataSet, Dense, Master};
use qjam_algos::clustering::kmeans::{self, Model, ModelError, Points};
use qjam_algos::models::{self, Contents};
use qjam_algos::neural::autoencoder::{self, Autoencoder};
use qjam_readers::{Dtype, Rows};

/// Runs the command.
pub(crate) fn run(args: &Predict) -> anyhow::Result<()> {
    let contents = models::inspect(&args.model)?;
    // A kind or version that is not known is told before the data is read.
    match contents.kind.as_str() {
        kmeans::model::KIND => drop(Model::<f64>::load(&args.model)?),
        autoencoder::model::KIND => drop(Autoencoder::load(&args.model)?),
        other => bail!(
            "{} has a model of kind {other}, which this program does not know: update it",
            args.model.display()
        ),
    }
    if let Some(out) = &args.out {
        reading::can_be_written(out)?;
    }
    // Rows are compared in the numbers that the model has.
    let single = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let dtype = if single { Dtype::F32 } else { Dtype::F64 };
    let columns = &contents.notes.columns;
    let read = reading::read(&args.data, None, columns, Some(dtype), args.memory_limit)?;
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
            let model = args.model.display();
            let named = match contents.notes.columns.is_empty() || read.columns.is_empty() {
                true => String::new(),
                false => format!(" ({})", contents.notes.columns.join(", ")),
            };
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
