//! Where a model's answers go: an `.npy` file, a text with commas, or standard output. A file is written beside its place
//! and moved there when it is whole.

use super::{npy, placing};
use crate::output;
use anyhow::{Context, bail};
use qjam_algos::kernels::nearest::Real;
use qjam_algos::learner::Answer;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Rows of answers on their way.
pub(crate) struct Answers {
    to: Box<dyn Write>,
    /// The file's place, and where it is until it is whole.
    places: Option<(PathBuf, PathBuf)>,
    binary: bool,
    columns: usize,
    /// What there is, for people.
    what: String,
}

impl Answers {
    /// For answers like this one about so many rows.
    pub(crate) fn of(out: Option<&Path>, rows: u64, answer: &Answer) -> anyhow::Result<Answers> {
        match answer {
            Answer::Labels(_) => Answers::labels(out, rows),
            Answer::Values(_) | Answer::Number(_) => Answers::values(out, rows),
            Answer::Singles(_, columns) => Answers::new::<f32>(out, rows, *columns),
            Answer::Doubles(_, columns) => Answers::new::<f64>(out, rows, *columns),
        }
    }

    /// Writes some of them.
    pub(crate) fn write_answer(&mut self, answer: &Answer) -> anyhow::Result<()> {
        match answer {
            Answer::Labels(labels) => self.write_labels(labels),
            Answer::Values(values) | Answer::Doubles(values, _) => self.write(values),
            Answer::Singles(values, _) => self.write(values),
            Answer::Number(number) => self.write(&[*number]),
        }
    }

    /// For so many labels.
    fn labels(out: Option<&Path>, rows: u64) -> anyhow::Result<Answers> {
        Answers::begin(out, 1, output::count(rows, "label"), || npy::header("<u4", &format!("({rows},)")))
    }

    /// For one number for each of so many rows.
    fn values(out: Option<&Path>, rows: u64) -> anyhow::Result<Answers> {
        Answers::begin(out, 1, output::count(rows, "value"), || npy::header("<f8", &format!("({rows},)")))
    }

    /// For so many rows of numbers.
    fn new<T: Real>(out: Option<&Path>, rows: u64, columns: usize) -> anyhow::Result<Answers> {
        let kind = if size_of::<T>() == 4 { "<f4" } else { "<f8" };
        let what = format!("{} of {}", output::count(rows, "row"), output::count(columns as u64, "number"));
        Answers::begin(out, columns, what, || npy::header(kind, &format!("({rows}, {columns})")))
    }

    fn begin(
        out: Option<&Path>,
        columns: usize,
        what: String,
        header: impl Fn() -> Vec<u8>,
    ) -> anyhow::Result<Answers> {
        let Some(out) = out else {
            let to = Box::new(BufWriter::new(std::io::stdout()));
            return Ok(Answers { to, places: None, binary: false, columns, what });
        };
        let binary = is_binary(out)?;
        let aside = placing::beside(out);
        let file = File::create(&aside).with_context(|| format!("cannot write {}", out.display()))?;
        let mut this = Answers {
            to: Box::new(BufWriter::new(file)),
            places: Some((out.into(), aside)),
            binary,
            columns,
            what,
        };
        if binary {
            this.put(|to| to.write_all(&header()))?;
        }
        Ok(this)
    }

    /// Writes labels.
    fn write_labels(&mut self, labels: &[u32]) -> anyhow::Result<()> {
        let binary = self.binary;
        self.put(|to| {
            labels.iter().try_for_each(|label| match binary {
                true => to.write_all(&label.to_le_bytes()),
                false => writeln!(to, "{label}"),
            })
        })
    }

    /// Writes whole rows of numbers.
    fn write<T: Real>(&mut self, values: &[T]) -> anyhow::Result<()> {
        let (binary, columns) = (self.binary, self.columns);
        self.put(|to| match binary {
            true => npy::write_values(to, values),
            false => values.chunks_exact(columns).try_for_each(|row| {
                for (at, value) in row.iter().enumerate() {
                    write!(to, "{}{}", if at == 0 { "" } else { "," }, value.to_f64())?;
                }
                writeln!(to)
            }),
        })
    }

    /// All is there.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.put(|to| to.flush())?;
        if let Some((out, aside)) = self.places.take() {
            std::fs::rename(&aside, &out).with_context(|| format!("cannot write {}", out.display()))?;
            output::line(format!("{} in {}", self.what, out.display()));
        }
        Ok(())
    }

    fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> anyhow::Result<()> {
        match (write(&mut self.to), &self.places) {
            (Ok(()), _) => Ok(()),
            (Err(e), None) => output::unwritable(e),
            (Err(e), Some((out, _))) => Err(e).with_context(|| format!("cannot write {}", out.display())),
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if let Some((_, aside)) = &self.places {
            // What is left of it is of no use to anybody.
            let _ = std::fs::remove_file(aside);
        }
    }
}

/// Whether a file of this name is NumPy's; a text otherwise.
pub(crate) fn is_binary(out: &Path) -> anyhow::Result<bool> {
    match out.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
        Some("npy") => Ok(true),
        Some("csv" | "txt") => Ok(false),
        _ => bail!("--out {}: answers are written as .npy or .csv; let the name end so", out.display()),
    }
}
