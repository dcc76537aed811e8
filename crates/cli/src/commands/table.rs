//! Rows of numbers as a Parquet file, written group by group.
//!
//! Comes in: whole rows, some at a time. Goes out: a file whose columns are called `answer`, or `answer_0`, `answer_1` and so on. At most
//! one group of rows is in memory.

use parquet::column::writer::ColumnWriter;
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::sync::Arc;

/// Numbers of a group.
const GROUP_NUMBERS: usize = 1 << 20;

/// The type of all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Whole,
    Single,
    Double,
}

/// A Parquet file in the making.
pub(crate) struct Table {
    writer: SerializedFileWriter<File>,
    numbers: Numbers,
    columns: usize,
    /// Rows of the group that is not full yet.
    rows: Vec<f64>,
}

impl Table {
    /// Begins a file of so many columns.
    pub(crate) fn create(file: File, columns: usize, numbers: Numbers) -> Result<Table> {
        let kind = match numbers {
            Numbers::Whole => "INT64",
            Numbers::Single => "FLOAT",
            Numbers::Double => "DOUBLE",
        };
        let name = |at: usize| if columns == 1 { "answer".into() } else { format!("answer_{at}") };
        let fields: String = (0..columns).map(|at| format!("REQUIRED {kind} {}; ", name(at))).collect();
        let schema = parse_message_type(&format!("message answers {{ {fields}}}"))?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default())?;
        Ok(Table { writer, numbers, columns, rows: Vec::new() })
    }

    /// Takes whole rows.
    pub(crate) fn push(&mut self, values: impl Iterator<Item = f64>) -> Result<()> {
        self.rows.extend(values);
        let group = (GROUP_NUMBERS / self.columns).max(1) * self.columns;
        while self.rows.len() >= group {
            let rest = self.rows.split_off(group);
            self.write_group()?;
            self.rows = rest;
        }
        Ok(())
    }

    /// All is there.
    pub(crate) fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.writer.close().map(drop)
    }

    fn write_group(&mut self) -> Result<()> {
        let (rows, columns) = (&self.rows, self.columns);
        let mut group = self.writer.next_row_group()?;
        for at in 0..columns {
            let values = rows.iter().skip(at).step_by(columns);
            let Some(mut column) = group.next_column()? else { break };
            match (column.untyped(), self.numbers) {
                (ColumnWriter::Int64ColumnWriter(to), Numbers::Whole) => {
                    to.write_batch(&values.map(|v| *v as i64).collect::<Vec<_>>(), None, None)?;
                }
                (ColumnWriter::FloatColumnWriter(to), Numbers::Single) => {
                    to.write_batch(&values.map(|v| *v as f32).collect::<Vec<_>>(), None, None)?;
                }
                (ColumnWriter::DoubleColumnWriter(to), Numbers::Double) => {
                    to.write_batch(&values.copied().collect::<Vec<_>>(), None, None)?;
                }
                _ => unreachable!("the schema has one type for all columns"),
            }
            column.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}
