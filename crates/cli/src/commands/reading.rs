//! Data sets from whatever file a command was given, with an eye on memory and a line that moves meanwhile.

use super::placing;
use crate::args::Data;
use crate::output::{self, events};
use anyhow::{anyhow, bail, ensure};
use qjam::{Builder, DataSet, Dense, Master, chunk::Element};
use qjam_algos::learner::Weights;
use qjam_algos::models::{Tensor, Values};
use qjam_readers::{Dtype, Kind, OpenOptions, Opened, Problem, ReadError, Rows, open};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So often the line changes, and so long a reading takes at least before there is one.
const EVERY: Duration = Duration::from_millis(200);

/// What was read.
pub(crate) struct Read {
    pub(crate) rows: Rows,
    /// Names of the coordinates, if they have any.
    pub(crate) columns: Vec<String>,
    /// A target for each row, for learners that need them.
    pub(crate) targets: Option<Vec<f64>>,
    pub(crate) weights: ReadWeights,
    /// Rows that were left out because a value was missing.
    pub(crate) dropped: u64,
    /// Values that were put where some were missing.
    pub(crate) filled: u64,
}

impl Read {
    /// Columns of the rows, without the one that has weights.
    pub(crate) fn columns_of_rows(&self) -> anyhow::Result<usize> {
        let has_weights_last = matches!(self.weights, ReadWeights::InRows) && !self.rows.is_sparse();
        Ok(self.rows.cols()? - usize::from(has_weights_last))
    }

    /// Tells programs what was read.
    pub(crate) fn tell(&self) {
        events::tell(|| {
            let (rows, columns, bytes) =
                (self.rows.records(), self.columns_of_rows().ok(), self.rows.bytes());
            json!({ "event": "read", "rows": rows, "columns": columns, "bytes": bytes, "dropped": self.dropped, "filled": self.filled })
        });
    }
}

/// Weights of the rows that were read.
pub(crate) enum ReadWeights {
    None,
    /// The last column of dense rows, the labels of sparse ones.
    InRows,
    Each(Vec<f64>),
}

impl ReadWeights {
    /// The same as learners take them.
    pub(crate) fn borrowed(&self) -> Weights<'_> {
        match self {
            ReadWeights::None => Weights::None,
            ReadWeights::InRows => Weights::InRows,
            ReadWeights::Each(weights) => Weights::Each(weights),
        }
    }
}

/// How to read rows where the user does not say.
#[derive(Default)]
pub(crate) struct ReadAs<'a> {
    /// Columns of a table.
    pub(crate) columns: &'a [String],
    /// Columns of a LIBSVM file, in which the last ones may be missing.
    pub(crate) features: Option<usize>,
    /// The type of the numbers.
    pub(crate) dtype: Option<Dtype>,
}

/// Reads the data that was named.
pub(crate) fn read(
    data: &Data,
    weights: Option<&str>,
    read_as: &ReadAs<'_>,
    memory_limit: Option<u64>,
) -> anyhow::Result<Read> {
    let (weighted, name) = of_weights(data, weights)?;
    let mut options = data.options(name);
    options.dtype = options.dtype.or(read_as.dtype);
    let kind = || options.kind.map_or_else(|| Kind::of(&data.path), Ok).map_err(|e| hinted(e, data));
    if data.takes_all_columns() && !read_as.columns.is_empty() && matches!(kind()?, Kind::Csv | Kind::Parquet)
    {
        options.columns = Some(read_as.columns.to_vec());
    }
    if options.features.is_none() && read_as.features.is_some() && kind()? == Kind::Libsvm {
        options.features = read_as.features;
    }
    if let Some(limit) = memory_limit {
        within(&mut options, limit);
    }
    options.progress = Some(line());
    let opened = open(&data.path, &options);
    output::passed();
    let Opened { rows, kind, mut columns, dropped, filled, .. } = opened.map_err(|e| hinted(e, data))?;
    if name.is_some() {
        columns.pop();
    }
    // Numbers are what columns without names are called, and say nothing of another file.
    let counted = columns.iter().enumerate().all(|(at, name)| *name == (at + 1).to_string());
    if counted || !matches!(kind, Kind::Csv | Kind::Parquet) {
        columns.clear();
    }
    let weights = if weighted { ReadWeights::InRows } else { ReadWeights::None };
    Ok(Read { rows, columns, targets: None, weights, dropped, filled })
}

/// An error of the readers, with the file and with what to type.
pub(super) fn hinted(e: ReadError, data: &Data) -> anyhow::Error {
    let (path, mut text) = (data.path.display().to_string(), e.to_string());
    if !text.contains(&path) {
        text = format!("{path}: {text}");
    }
    if let ReadError::Options { .. } = &e {
        // The readers speak of options by their names in Rust.
        text = OPTIONS.iter().fold(text, |text, (name, typed)| text.replace(&format!("`{name}`"), typed));
    }
    let problem = match &e {
        ReadError::Text { problem, .. } | ReadError::Value { problem, .. } => Some(problem),
        _ => None,
    };
    let hint = match (&e, problem) {
        (_, Some(Problem::Missing { .. })) => "--missing drop, --missing mean or --missing NUMBER".into(),
        (_, Some(Problem::NotFinite { .. })) => "--missing drop".into(),
        (_, Some(Problem::NotANumber { name: Some(name), .. })) if data.target() == Some(name) => {
            "what is to be learnt must be numbers; write classes as 0, 1, 2 and so on".into()
        }
        (_, Some(Problem::NotANumber { name: Some(name), .. })) => format!("--without {}", quoted(name)),
        (_, Some(Problem::Fields { .. })) => {
            "repair that line, or say what stands between fields with --delimiter".into()
        }
        (_, Some(Problem::ZeroIndex)) => "--zero-based".into(),
        (ReadError::Io { .. }, _) if !data.path.exists() => "is the path right?".into(),
        (ReadError::Unknown { found, .. }, _) if found.contains("both pictures and sounds") => {
            "--kind images or --kind audio".into()
        }
        (ReadError::Format { reason, .. }, _) if reason.contains("leave it out") => "--without NAME".into(),
        _ => return anyhow!(text),
    };
    let hint: String = hint;
    if hint.starts_with("what is to be learnt") {
        // Its column cannot be left out.
        text = text.replace("; leave the column out, or choose the columns to read", "");
    }
    anyhow!("{text}: {hint}")
}

/// What readers call options, and what is typed for them.
const OPTIONS: [(&str, &str); 15] = [
    ("columns", "--columns"),
    ("without", "--without"),
    ("target", "--target"),
    ("missing", "--missing"),
    ("header", "--header"),
    ("delimiter", "--delimiter"),
    ("comment", "--comment"),
    ("zero_based", "--zero-based"),
    ("features", "--features"),
    ("array", "--array"),
    ("grey", "--grey"),
    ("size", "--size"),
    ("patches", "--patches"),
    ("frames", "--frames"),
    ("keep_in", "--keep-in"),
];

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,=:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
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

/// Has numbers that are no small part of the memory there may be kept in a file.
pub(super) fn within(options: &mut OpenOptions, limit: u64) {
    options.memory_max = Some((limit / 16).min(64 << 20));
    // Every thread has pieces of its own at hand.
    options.threads = Some(if limit < 256 << 20 { 1 } else { 2 });
}

/// A master in the making whose workers keep within a limit. Threads of this process have nothing but what they keep of
/// the data to be limited by.
pub(crate) fn limited(builder: Builder, limit: Option<u64>, host_cache: Option<u64>) -> Builder {
    let builder = match host_cache {
        Some(bytes) => builder.disk_limit(bytes),
        None => builder,
    };
    match limit {
        Some(limit) => builder.memory_limit(limit).cache_limit(limit / 8),
        None => builder,
    }
}

/// Says so if nothing holds some of these workers to the limit.
pub(crate) fn tell_unlimited(master: &Master, limit: Option<u64>) {
    if limit.is_some() && !master.caps().limits_memory {
        output::note(
            "--memory-limit: threads and ranks keep less of the data, but nothing holds them to the limit; worker \
             processes (--workers proc) are held to it",
        );
    }
}

/// Tells how far it is, now and then.
pub(super) fn line() -> Arc<dyn Fn(qjam_readers::Progress) + Send + Sync> {
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

/// Finds out before the work whether its result can be written to what was typed after `flag`.
pub(crate) fn can_be_written(flag: &str, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    if path.is_dir() {
        bail!("{flag} {shown} is a folder; name a file in it");
    }
    let probe = placing::beside(path);
    let tried = match placing::is_special(path) {
        true => std::fs::OpenOptions::new().write(true).open(path).map(drop),
        false => std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe)),
    };
    tried.map_err(|e| anyhow!("{flag} {shown} cannot be written: {e}; name another file"))
}

/// A dense matrix that was read.
pub(crate) struct Matrix {
    shape: [usize; 2],
    values: Values,
}

impl Matrix {
    /// The same as a tensor of this name.
    pub(crate) fn named(self, name: &str) -> Tensor {
        Tensor { name: name.into(), shape: self.shape.to_vec(), values: self.values }
    }
}

/// A dense matrix from a file of any kind, which was typed after `flag`; `allowed` is what could have been typed.
pub(crate) fn matrix(flag: &str, path: &Path, dtype: Dtype, allowed: &str) -> anyhow::Result<Matrix> {
    fn all<T: Element>(data: &DataSet<Dense<T>>) -> anyhow::Result<([usize; 2], Vec<T>)> {
        let (bytes, bytes_max) = (data.bytes(), qjam::memory::most_bytes() / 4);
        ensure!(bytes <= bytes_max, "it has {bytes} bytes, and at most {bytes_max} can be used");
        let rows = data.partitions(1)?.chunk(0)?;
        Ok(([rows.rows(), rows.cols()], rows.as_slice().to_vec()))
    }
    let shown = path.display();
    let read = open(path, &OpenOptions { dtype: Some(dtype), ..OpenOptions::default() })
        .map_err(|e| anyhow!("{flag} {shown}: {e}; give {allowed}"))?;
    match &read.rows {
        Rows::DenseF32(data) => {
            all(data).map(|(shape, values)| Matrix { shape, values: Values::F32(values) })
        }
        Rows::DenseF64(data) => {
            all(data).map(|(shape, values)| Matrix { shape, values: Values::F64(values) })
        }
        Rows::CsrF32(_) | Rows::CsrF64(_) => {
            bail!("{flag} {shown}: it is sparse; save it as .npy or CSV")
        }
    }
}
