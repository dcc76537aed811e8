//! Parquet files: any bytes between the marks at both ends.
//!
//! The library that reads them reserves memory by what pages claim, so there is no bound on that here: none of it is touched.

use super::temporary;
use parquet::column::writer::ColumnWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use qjam_readers::Parquet;
use std::sync::Arc;

/// Tries an input.
pub fn target(input: &[u8]) {
    let path = temporary("table.parquet", input);
    if let Err(error) = Parquet::new(&path).threads(1).in_memory().read::<f64>() {
        assert!(error.to_string().contains("table.parquet"), "{error}");
    }
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let of = |dictionary: bool| -> Result<Vec<u8>, parquet::errors::ParquetError> {
        let schema = "message t { required double a; optional int32 b; }";
        let schema = Arc::new(parquet::schema::parser::parse_message_type(schema)?);
        let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(dictionary).build());
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
    [true, false].into_iter().filter_map(|dictionary| of(dictionary).ok()).collect()
}
