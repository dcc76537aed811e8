//! Data sets from whatever file a command was given, with an eye on memory and a line that moves meanwhile.

use crate::args::Data;
use crate::output;
use anyhow::{Context, bail};
use qjam::source::kept;
use qjam_readers::{Dtype, Kind, OpenOptions, Opened, Rows, open};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So often the line changes, and so long a reading takes at least before there is one.
const EVERY: Duration = Duration::from_millis(200);

/// What was read, and whether it has weights.
pub(crate) struct Read {
    pub(crate) rows: Rows,
    /// Names of the coordinates, if they have any.
    pub(crate) columns: Vec<String>,
    pub(crate) weighted: bool,
    pub(crate) dropped: u64,
    pub(crate) filled: u64,
}

/// Reads the data that was named; of a table `columns`, as numbers of `dtype`, unless somebody asked for others.
pub(crate) fn read(
    data: &Data,
    weights: Option<&str>,
    columns: &[String],
    dtype: Option<Dtype>,
    memory_limit: Option<u64>,
) -> anyhow::Result<Read> {
    let (weighted, name) = of_weights(data, weights)?;
    let mut options = data.options(name);
    options.dtype = options.dtype.or(dtype);
    if data.takes_all_columns() && !columns.is_empty() && is_table(&data.path, options.kind)? {
        options.columns = Some(columns.to_vec());
    }
    if let Some(limit) = memory_limit {
        within(&mut options, &data.path, limit);
    }
    options.progress = Some(line());
    let opened = open(&data.path, &options);
    output::passed();
    let Opened { rows, mut columns, dropped, filled, .. } = opened?;
    if name.is_some() {
        columns.pop();
    }
    Ok(Read { rows, columns, weighted, dropped, filled })
}

/// Whether there are weights, and the name of their column in a table.
fn of_weights<'a>(data: &Data, weights: Option<&'a str>) -> anyhow::Result<(bool, Option<&'a str>)> {
    let Some(weights) = weights else { return Ok((false, None)) };
    let kind = data.options(None).kind.map_or_else(|| Kind::of(&data.path), Ok)?;
    match (kind, weights) {
        (Kind::Csv | Kind::Parquet, name) => Ok((true, Some(name))),
        (Kind::Libsvm, "label") => Ok((true, None)),
        (Kind::Libsvm, _) => {
            bail!("{}: weights of a LIBSVM file are its labels: --weights label", data.path.display())
        }
        (_, "last") => Ok((true, None)),
        _ => bail!(
            "{}: columns of {} files have no names; put the weights last and say --weights last",
            data.path.display(),
            kind.name()
        ),
    }
}

fn is_table(path: &Path, kind: Option<Kind>) -> anyhow::Result<bool> {
    Ok(matches!(kind.map_or_else(|| Kind::of(path), Ok)?, Kind::Csv | Kind::Parquet))
}

/// Has numbers that are no small part of the memory there may be kept in a file.
fn within(options: &mut OpenOptions, path: &Path, limit: u64) {
    let bytes =
        std::fs::metadata(path).map_or(0, |found| if found.is_dir() { u64::MAX } else { found.len() });
    if options.keep_in.is_none() && bytes > limit / 16 {
        options.keep_in = kept::folder();
    }
    // Every thread has pieces of its own at hand.
    options.threads = Some(if limit < 256 << 20 { 1 } else { 2 });
}

/// Tells how far it is, now and then.
fn line() -> Arc<dyn Fn(qjam_readers::Progress) + Send + Sync> {
    let told = Mutex::new(Instant::now());
    Arc::new(move |progress| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= EVERY {
            *told = Instant::now();
            let percent = 100 * progress.done / progress.total.max(1);
            output::passing(&format!(
                "  reading: {} of {}, {percent} %",
                output::bytes(progress.done),
                output::bytes(progress.total)
            ));
        }
    })
}

/// What the type of numbers is called.
pub(crate) fn type_name(rows: &Rows) -> &'static str {
    match (rows.dtype(), rows) {
        (Dtype::F32, Rows::DenseF32(_)) => "f32",
        (Dtype::F32, _) => "sparse f32",
        (Dtype::F64, Rows::DenseF64(_)) => "f64",
        (Dtype::F64, _) => "sparse f64",
    }
}

/// Finds out before the work whether its result can be written.
pub(crate) fn can_be_written(path: &Path) -> anyhow::Result<()> {
    let context = || format!("--out {} cannot be written; name another file", path.display());
    if path.is_dir() {
        bail!("--out {} is a folder; name a file in it", path.display());
    }
    let mut probe = path.as_os_str().to_owned();
    probe.push(format!(".{}.part", std::process::id()));
    std::fs::File::create(&probe).with_context(context)?;
    std::fs::remove_file(&probe).with_context(context)
}
