//! A text that becomes four times as many numbers as workers may hold is read and worked on within bounds.
//!
//! The only test of its program, since it looks at the most memory that the program ever had.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod common;

use common::Folder;
use qjam::{Dense, Master};
use qjam_readers::Csv;
use std::fmt::Write;

qjam::worker_hook!();

#[qjam::map]
fn sum(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

/// The most memory that this program ever had, in bytes.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_text_of_four_times_the_limit_is_read_and_summed_within_it() {
    const LIMIT: u64 = 16 << 20;
    let folder = Folder::new();
    let mut text = String::new();
    for i in 0..1000 {
        writeln!(text, "{}.25,{}.5,{}.75,{}.125", i, i % 7, i % 100, i % 13).unwrap();
    }
    let expected = (0..1000).map(|i| f64::from(i + i % 7 + i % 100 + i % 13) + 1.625).sum::<f64>() * 2100.0;
    let path = folder.file("long.csv", "");
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    for _ in 0..2100 {
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
    let before = most();
    let table = Csv::new(&path).threads(2).keep_in(folder.path().join("kept")).read::<f64>().unwrap();
    let grown = most() - before;
    assert!(table.data.bytes() > 4 * LIMIT);
    assert!(grown < 3 * LIMIT, "{grown} bytes of memory for {} bytes of numbers", table.data.bytes());
    let master = Master::builder().memory_limit(LIMIT).connect("proc:2").unwrap();
    assert_eq!(master.run(sum, &(), &table.data).unwrap(), expected);
    #[cfg(feature = "parquet")]
    parquet_reads_a_group_of_rows_in_pieces();
}

/// Has the system forget the most memory that this program had.
#[cfg(feature = "parquet")]
fn forget_most() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

#[cfg(feature = "parquet")]
fn parquet_reads_a_group_of_rows_in_pieces() {
    use parquet::column::writer::ColumnWriter;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    const ROWS: usize = 1 << 20;
    let folder = Folder::new();
    let path = folder.file("one-group.parquet", "");
    let schema = "message t { required double a; required double b; required double c; required double d; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, std::sync::Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        let ColumnWriter::DoubleColumnWriter(typed) = column.untyped() else { panic!("a double") };
        let values: Vec<f64> = (0..ROWS).map(|i| i as f64 + 0.5).collect();
        typed.write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    forget_most();
    let before = most();
    let reader = qjam_readers::Parquet::new(&path).threads(2).keep_in(folder.path().join("kept"));
    let table = reader.read::<f64>().unwrap();
    let grown = most() - before;
    assert_eq!(table.data.records(), ROWS as u64);
    assert_eq!(table.data.chunk(table.data.len() - 1).unwrap().as_slice().last(), Some(&(ROWS as f64 - 0.5)));
    assert!(grown < table.data.bytes() / 2, "{grown} bytes of memory for {} bytes", table.data.bytes());
}
