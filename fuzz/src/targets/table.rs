//! Parquet files: any bytes between the marks at both ends.
//!
//! Pages are unpacked within bounds, to what deflate can make of a byte at most here; what is read goes to shared memory.

use super::{bounded, temporary};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use qjam_readers::Parquet;
use std::sync::Arc;

/// Bytes of memory for each byte of a file, and for a batch of rows and the library's tables.
const FACTOR: usize = 4096;
const SLACK_BYTES: usize = 32 << 20;

/// Tries an input.
pub fn target(input: &[u8]) {
    let path = temporary("table.parquet", input);
    let read = || Parquet::new(&path).threads(1).in_memory().read::<f64>();
    if let Err(error) = bounded(FACTOR * input.len() + SLACK_BYTES, read) {
        assert!(error.to_string().contains("table.parquet"), "{error}");
    }
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let of = |dictionary: bool, compression: Compression| -> Result<Vec<u8>, parquet::errors::ParquetError> {
        let schema = "message t { required double a; optional int32 b; }";
        let schema = Arc::new(parquet::schema::parser::parse_message_type(schema)?);
        let properties = WriterProperties::builder().set_dictionary_enabled(dictionary);
        let properties = Arc::new(properties.set_compression(compression).build());
        let mut bytes = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties)?;
        let mut group = writer.next_row_group()?;
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::DoubleColumnWriter(typed) => typed.write_batch(&[1.0, 2.0, 2.0], None, None)?,
                ColumnWriter::Int32ColumnWriter(typed) => {
                    typed.write_batch(&[7, 8], Some(&[1, 0, 1]), None)?
                }
                _ => 0,
            };
            column.close()?;
        }
        group.close()?;
        writer.close()?;
        Ok(bytes)
    };
    let packings = [Compression::UNCOMPRESSED, Compression::SNAPPY];
    let seeds = packings.into_iter().flat_map(|packing| [of(true, packing), of(false, packing)]);
    seeds.collect::<Result<_, _>>().expect("a table can be written")
}
