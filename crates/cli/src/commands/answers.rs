//! Where a model's answers go: an `.npy` file, a Parquet file, a text with commas, or standard output. A file is written beside its place
//! and moved there when it is whole.

use super::table::{Numbers, Table};
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
    /// The Parquet file, if it is to be one.
    table: Option<Table>,
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
        let header = || npy::header("<u4", &format!("({rows},)"));
        Answers::begin(out, (1, Numbers::Whole), output::count(rows, "label"), header)
    }

    /// For one number for each of so many rows.
    fn values(out: Option<&Path>, rows: u64) -> anyhow::Result<Answers> {
        let header = || npy::header("<f8", &format!("({rows},)"));
        Answers::begin(out, (1, Numbers::Double), output::count(rows, "value"), header)
    }

    /// For so many rows of numbers.
    fn new<T: Real>(out: Option<&Path>, rows: u64, columns: usize) -> anyhow::Result<Answers> {
        let (kind, numbers) =
            if size_of::<T>() == 4 { ("<f4", Numbers::Single) } else { ("<f8", Numbers::Double) };
        let what = format!("{} of {}", output::count(rows, "row"), output::count(columns as u64, "number"));
        Answers::begin(out, (columns, numbers), what, || npy::header(kind, &format!("({rows}, {columns})")))
    }

    fn begin(
        out: Option<&Path>,
        (columns, numbers): (usize, Numbers),
        what: String,
        header: impl Fn() -> Vec<u8>,
    ) -> anyhow::Result<Answers> {
        let Some(out) = out else {
            let to = Box::new(BufWriter::new(std::io::stdout()));
            return Ok(Answers { to, places: None, binary: false, table: None, columns, what });
        };
        let written_as = WrittenAs::of(out)?;
        let aside = placing::beside(out);
        let file = File::create(&aside).with_context(|| format!("cannot write {}", out.display()))?;
        let cannot = || format!("cannot write {}", out.display());
        let (to, table): (Box<dyn Write>, _) = match written_as {
            WrittenAs::Parquet => {
                let table = Table::create(file, columns, numbers).with_context(cannot)?;
                (Box::new(std::io::sink()), Some(table))
            }
            _ => (Box::new(BufWriter::new(file)), None),
        };
        let binary = written_as == WrittenAs::Npy;
        let mut this = Answers { to, places: Some((out.into(), aside)), binary, table, columns, what };
        if binary {
            this.put(|to| to.write_all(&header()))?;
        }
        Ok(this)
    }

    /// Writes labels.
    fn write_labels(&mut self, labels: &[u32]) -> anyhow::Result<()> {
        if let Some(table) = &mut self.table {
            return table.push(labels.iter().map(|label| f64::from(*label))).context("cannot write --out");
        }
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
        if let Some(table) = &mut self.table {
            return table.push(values.iter().map(|value| value.to_f64())).context("cannot write --out");
        }
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
        if let Some(table) = self.table.take() {
            table.finish().context("cannot write --out")?;
        }
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

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenAs {
    Npy,
    Text,
    Parquet,
}

impl WrittenAs {
    /// What the name of a file says.
    pub(crate) fn of(out: &Path) -> anyhow::Result<WrittenAs> {
        match out.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => Ok(WrittenAs::Npy),
            Some("csv" | "txt") => Ok(WrittenAs::Text),
            Some("parquet") => Ok(WrittenAs::Parquet),
            _ => bail!(
                "--out {}: answers are written as .npy or .csv or .parquet; let the name end so",
                out.display()
            ),
        }
    }
}
