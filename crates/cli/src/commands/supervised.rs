//! Rows with their targets and weights: from a column, from a LIBSVM file's own labels, or from another file.
//!
//! A table is read once, with its target and its weights among the columns, so that rows that are dropped are dropped
//! everywhere; then these columns are taken out. Other files are used as they are.

use super::reading::{Read, ReadAs, ReadWeights, hinted, line, within};
use crate::args::Data;
use crate::output;
use anyhow::{Context, anyhow, bail};
use qjam::chunk::Element;
use qjam::source::kept::{Keep, RowsWriter};
use qjam::{DataSet, Dense};
use qjam_readers::{Dtype, Kind, Labels, OpenOptions, Rows, open};
use std::path::Path;

/// Where targets and weights come from, as it was typed.
pub(crate) struct From<'a> {
    /// A file of targets.
    pub(crate) labels: Option<&'a Path>,
    /// A column of a table, or a file.
    pub(crate) weights: Option<&'a str>,
    /// How to read rows where the user does not say.
    pub(crate) read_as: ReadAs<'a>,
}

/// Reads the data that was named.
pub(crate) fn read(data: &Data, from: &From<'_>, memory_limit: Option<u64>) -> anyhow::Result<Read> {
    let shown = data.path.display();
    let mut options = data.options(None);
    let kind = options.kind.map_or_else(|| Kind::of(&data.path), Ok).map_err(|e| hinted(e, data))?;
    let is_table = matches!(kind, Kind::Csv | Kind::Parquet);
    options.labels = Labels::Last;
    options.dtype = options.dtype.or(from.read_as.dtype);
    if is_table && data.selects_no_columns() && !from.read_as.columns.is_empty() {
        options.columns = Some(from.read_as.columns.to_vec());
    }
    if kind == Kind::Libsvm {
        options.features = options.features.or(from.read_as.features);
    }
    match (from.labels, &options.target, kind) {
        (Some(_), Some(target), _) => {
            bail!("--target {target} and --labels both name what is to be learnt; give one")
        }
        (None, None, Kind::Libsvm) | (Some(_), ..) | (None, Some(_), _) => {}
        (None, None, Kind::Csv | Kind::Parquet) => {
            bail!("{shown}: which column is to be learnt? Name it with --target NAME")
        }
        (None, None, _) => {
            bail!("{shown}: what is to be learnt? Give a number for each row with --labels FILE.npy")
        }
    }
    let by_name = from.weights.filter(|_| is_table);
    if let (Some(columns), Some(weights)) = (&mut options.columns, by_name)
        && !columns.iter().any(|name| name == weights)
    {
        columns.push(weights.into());
    }
    if let Some(limit) = memory_limit {
        within(&mut options, limit);
    }
    options.progress = Some(line());
    let opened = open(&data.path, &options);
    output::passed();
    let mut opened = opened.map_err(|e| hinted(e, data))?;
    let is_in_rows = is_table && opened.labelled;
    // The label of a table is its last column, behind those that have names.
    let mut taken: Vec<usize> = Vec::new();
    if let Some(name) = by_name {
        let at = opened.columns.iter().position(|column| column == name);
        let present = || opened.columns.join(", ");
        taken.push(
            at.with_context(|| format!("{shown} has no column {name:?} of weights; it has {}", present()))?,
        );
    }
    let features = opened.rows.cols()? - usize::from(is_in_rows) - taken.len();
    if features == 0 {
        bail!(
            "{shown} has no columns but those that --target and --weights name; there is nothing to learn from"
        );
    }
    let own = opened.labels().map_err(|e| hinted(e, data))?;
    let weights_at = taken.first().copied();
    if is_in_rows {
        taken.push(opened.rows.cols()? - 1);
    }
    let mut columns = std::mem::take(&mut opened.columns);
    let (rows, mut out) = split(opened.rows, &taken)?;
    if is_in_rows {
        out.pop();
        // Names of a table have the target's, too, if it is read with the others.
        columns.truncate(features + usize::from(weights_at.is_some()));
    }
    if let Some(at) = weights_at {
        columns.remove(at);
    }
    // Numbers are what columns without names are called. Where one was taken out they say which are left.
    let counted = columns.iter().enumerate().all(|(at, name)| *name == (at + 1).to_string());
    if !is_table || (counted && taken.is_empty()) {
        columns.clear();
    }
    let count = usize::try_from(rows.records()).unwrap_or(usize::MAX);
    let others = [("--labels", from.labels.is_some()), ("--weights", from.weights.is_some() && !is_table)];
    if let Some((flag, _)) = others.iter().find(|(_, is_beside)| *is_beside && opened.dropped > 0) {
        bail!(
            "{shown}: --missing drop leaves out {}, and the numbers of {flag} cannot follow; take these rows out of both files, \
             or use --missing mean",
            output::count(opened.dropped, "row")
        );
    }
    let targets = match (from.labels, own) {
        (Some(path), _) => beside(path, "--labels", count, &data.path)?,
        (None, Some(own)) => own,
        (None, None) => {
            bail!("{shown}: what is to be learnt? Give a number for each row with --labels FILE.npy")
        }
    };
    let weights = match (from.weights, out.pop()) {
        (Some(_), Some(column)) => ReadWeights::Each(column),
        (Some(path), None) => ReadWeights::Each(beside(Path::new(path), "--weights", count, &data.path)?),
        (None, _) => ReadWeights::None,
    };
    let targets = Some(targets);
    Ok(Read { rows, columns, targets, weights, dropped: opened.dropped, filled: opened.filled })
}

/// Numbers of another file, one for each row.
pub(crate) fn beside(path: &Path, flag: &str, rows: usize, data: &Path) -> anyhow::Result<Vec<f64>> {
    let shown = path.display();
    // They may be one row, with as many columns as there are rows.
    let options = OpenOptions { dtype: Some(Dtype::F64), features: Some(rows), ..OpenOptions::default() };
    let read = open(path, &options).map_err(|e| match e.to_string() {
        said if said.contains(&*shown.to_string()) => anyhow!("{flag} {said}"),
        said => anyhow!("{flag} {shown}: {said}"),
    })?;
    let Rows::DenseF64(numbers) = &read.rows else {
        bail!("{flag} {shown}: it is sparse; give one number for each row, as numpy.save writes them");
    };
    // Counted before any is read: there may be very many.
    let count = numbers.bytes() / 8;
    let columns = count / numbers.records().max(1);
    if columns != 1 && numbers.records() != 1 {
        bail!("{flag} {shown}: it has {columns} columns; give one number for each row");
    }
    if count != rows as u64 {
        bail!(
            "{flag} {shown}: {count} numbers for the {rows} rows of {}; there must be one for each",
            data.display()
        );
    }
    let mut all = Vec::new();
    for index in 0..numbers.len() {
        all.extend_from_slice(numbers.chunk(index)?.as_slice());
    }
    match all.iter().position(|number| !number.is_finite()) {
        Some(row) => {
            bail!("{flag} {shown}: row {row} (counted from 0) is {}; all must be finite", all[row])
        }
        None => Ok(all),
    }
}

/// Takes columns out of dense rows. Sparse ones have none that could be meant.
fn split(rows: Rows, taken: &[usize]) -> anyhow::Result<(Rows, Vec<Vec<f64>>)> {
    if taken.is_empty() {
        return Ok((rows, Vec::new()));
    }
    Ok(match rows {
        Rows::DenseF32(data) => {
            let (left, out) = without(&data, taken)?;
            (Rows::DenseF32(left), out)
        }
        Rows::DenseF64(data) => {
            let (left, out) = without(&data, taken)?;
            (Rows::DenseF64(left), out)
        }
        sparse => (sparse, Vec::new()),
    })
}

/// Rows without some columns, and these columns.
type Split<T> = (DataSet<Dense<T>>, Vec<Vec<f64>>);

/// Numbers of rows that stay in memory; more are written to a file, as readers do.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

fn without<T: Element + Into<f64>>(data: &DataSet<Dense<T>>, taken: &[usize]) -> anyhow::Result<Split<T>> {
    let mut out = vec![Vec::new(); taken.len()];
    let records = usize::try_from(data.records())?;
    for column in &mut out {
        let no_memory = || format!("there is no memory for one number of each of {records} rows");
        column.try_reserve_exact(records).with_context(no_memory)?;
    }
    let id: String = data.id().0.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let without: Vec<String> = taken.iter().map(usize::to_string).collect();
    let name = format!("without-{}-{id}.qjam", without.join("-"));
    let keep = Keep::Cached { name, memory_bytes_max: MEMORY_BYTES_MAX };
    let mut left = None;
    for index in 0..data.len() {
        let chunk = data.chunk(index)?;
        let writer = match &mut left {
            Some(writer) => writer,
            None => left.insert(RowsWriter::<T>::create(&keep, chunk.cols() - taken.len())?),
        };
        let mut values = Vec::new();
        for row in chunk.rows_iter() {
            out.iter_mut().zip(taken).for_each(|(out, at)| out.push(row[*at].into()));
            values.extend(
                row.iter().enumerate().filter(|(at, _)| !taken.contains(at)).map(|(_, value)| *value),
            );
        }
        writer.push(&values)?;
    }
    Ok((left.context("there are no rows")?.finish(Vec::new())?, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_taken_out_and_the_others_stay_in_order() {
        let data = DataSet::dense((0..12).map(f64::from).collect(), 4).unwrap();
        let (left, out) = without(&data, &[1, 3]).unwrap();
        assert_eq!(left.chunk(0).unwrap().as_slice(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(out, [vec![1.0, 5.0, 9.0], vec![3.0, 7.0, 11.0]]);
    }
}
