//! Parquet files, written by the library that reads them.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::{Folder, Rng};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use qjam_readers::{Missing, Parquet};
use std::sync::Arc;

/// Two row groups of a table with every type that is read, one that has nulls, and one of text.
fn file(rows: usize, compression: Compression) -> Vec<u8> {
    let schema = "message t {
        required double d; required float f; required int32 i; required int64 l (INTEGER(64, false));
        required boolean b; optional double n; required binary s (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for group in 0..2 {
        let all = group * rows..(group + 1) * rows;
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            let name = all.clone().map(|i| i as f64);
            match column.untyped() {
                ColumnWriter::DoubleColumnWriter(typed) => {
                    let levels: Vec<i16> = all.clone().map(|i| i16::from(i % 10 != 3)).collect();
                    let values: Vec<f64> = name.collect();
                    // Whoever needs levels is the column with nulls.
                    if typed.get_descriptor().max_def_level() > 0 {
                        let there: Vec<f64> =
                            values.iter().filter(|v| **v as usize % 10 != 3).copied().collect();
                        typed.write_batch(&there, Some(&levels), None).unwrap();
                    } else {
                        typed.write_batch(&values, None, None).unwrap();
                    }
                }
                ColumnWriter::FloatColumnWriter(typed) => {
                    let values: Vec<f32> = all.clone().map(|i| i as f32 / 2.0).collect();
                    typed.write_batch(&values, None, None).unwrap();
                }
                ColumnWriter::Int32ColumnWriter(typed) => {
                    let values: Vec<i32> = all.clone().map(|i| -(i as i32)).collect();
                    typed.write_batch(&values, None, None).unwrap();
                }
                ColumnWriter::Int64ColumnWriter(typed) => {
                    let values: Vec<i64> = all.clone().map(|i| i as i64 - 1).collect();
                    typed.write_batch(&values, None, None).unwrap();
                }
                ColumnWriter::BoolColumnWriter(typed) => {
                    let values: Vec<bool> = all.clone().map(|i| i % 2 == 0).collect();
                    typed.write_batch(&values, None, None).unwrap();
                }
                ColumnWriter::ByteArrayColumnWriter(typed) => {
                    let values: Vec<ByteArray> =
                        all.clone().map(|i| ByteArray::from(format!("t{i}").as_str())).collect();
                    typed.write_batch(&values, None, None).unwrap();
                }
                _ => unreachable!(),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

#[test]
fn columns_are_read_by_name_in_every_type_and_packing() {
    let folder = Folder::new();
    let mut ids = Vec::new();
    for (i, compression) in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.file(&format!("{i}.parquet"), file(70_000, compression));
        let table = Parquet::new(&path).columns(["b", "f", "i", "l"]).target("d").read::<f64>().unwrap();
        assert_eq!(table.columns, ["b", "f", "i", "l", "d"]);
        assert_eq!(table.data.records(), 140_000);
        let rows = table.data.partitions(1).unwrap().chunk(0).unwrap();
        assert_eq!(rows.row(0), [1.0, 0.0, 0.0, u64::MAX as f64, 0.0]);
        for i in [1, 65_536, 70_000, 139_999_usize] {
            let x = i as f64;
            assert_eq!(rows.row(i), [f64::from(i.is_multiple_of(2)), x / 2.0, -x, x - 1.0, x], "{i}");
        }
        ids.push(table.data.id());
        let kept =
            Parquet::new(&path).columns(["b", "f", "i", "l"]).target("d").keep_in(folder.path().join("k"));
        ids.push(kept.threads(1).read::<f64>().unwrap().data.id());
    }
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn nulls_are_treated_as_asked_and_text_is_refused_by_name() {
    let folder = Folder::new();
    let path = folder.file("t.parquet", file(20, Compression::UNCOMPRESSED));
    let message = Parquet::new(&path).columns(["d", "n"]).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("row 4, column \"n\": the value of column \"n\" is missing"), "{message}");
    let read = |missing| {
        let table = Parquet::new(&path).columns(["d", "n"]).missing(missing).read::<f64>().unwrap();
        (table.data.chunk(0).unwrap().as_slice().to_vec(), table.dropped, table.filled)
    };
    let (rows, dropped, filled) = read(Missing::DropRow);
    assert_eq!((rows.len(), rows[6], dropped, filled), (72, 4.0, 4, 0));
    let (rows, dropped, filled) = read(Missing::Value(-1.0));
    assert_eq!((rows[7], rows[9], dropped, filled), (-1.0, 4.0, 0, 4));
    let mean = (0..40).filter(|i| i % 10 != 3).sum::<i32>() as f64 / 36.0;
    assert_eq!(read(Missing::Mean).0[7], mean);
    let message = Parquet::new(&path).read::<f64>().unwrap_err().to_string();
    assert!(
        message.contains("column \"s\" has text (BYTE_ARRAY), which is not a number; leave it out"),
        "{message}"
    );
    let message = Parquet::new(&path).columns(["nope"]).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("has no column \"nope\"; it has \"d\", \"f\""), "{message}");
}

#[test]
fn files_cut_short_or_changed_never_panic() {
    let folder = Folder::new();
    let whole = file(500, Compression::SNAPPY);
    let mut rng = Rng(21);
    let read = |bytes: &[u8]| {
        Parquet::new(folder.file("t.parquet", bytes))
            .columns(["d", "n"])
            .missing(Missing::DropRow)
            .read::<f64>()
    };
    assert!(read(&whole).is_ok());
    for _ in 0..40 {
        assert!(!read(&whole[..rng.below(whole.len())]).unwrap_err().to_string().is_empty());
    }
    for _ in 0..100 {
        let mut changed = whole.clone();
        let at = rng.below(changed.len());
        changed[at] ^= 1 << rng.below(8);
        let _ = read(&changed);
    }
    assert!(read(b"").is_err());
    assert!(read(b"hello").is_err());
}

#[test]
fn wide_tables_are_the_same_when_they_are_read_some_columns_at_a_time() {
    // Columns whose pages would take 60 MB together are read in stripes when the rows go to a file.
    const COLUMNS: usize = 30;
    const ROWS: usize = 140_000;
    let fields: String = (0..COLUMNS).map(|i| format!("required double c{i}; ")).collect();
    let schema = Arc::new(parse_message_type(&format!("message t {{ {fields} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut index = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        let ColumnWriter::DoubleColumnWriter(typed) = column.untyped() else { panic!("a double") };
        let values: Vec<f64> = (0..ROWS).map(|row| (row * COLUMNS + index) as f64).collect();
        typed.write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        index += 1;
    }
    group.close().unwrap();
    writer.close().unwrap();
    let folder = Folder::new();
    let path = folder.file("wide.parquet", bytes);
    let kept = folder.path().join("kept");
    let in_file = Parquet::new(&path).keep_in(&kept).read::<f32>().unwrap();
    let in_memory = Parquet::new(&path).in_memory().read::<f32>().unwrap();
    assert_eq!(in_file.data.id(), in_memory.data.id());
    let last = in_file.data.chunk(in_file.data.len() - 1).unwrap();
    assert_eq!(last.as_slice().last(), Some(&((ROWS * COLUMNS - 1) as f32)));
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
}
