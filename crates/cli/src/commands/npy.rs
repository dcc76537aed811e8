//! The little of NumPy's file format that commands need besides what `qjam` reads.

use super::placing;
use anyhow::Context;
use qjam_algos::kernels::nearest::Real;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Whether a file has 32-bit numbers. What else it may have is for the reader to say.
pub(crate) fn is_single(path: &Path) -> anyhow::Result<bool> {
    let mut head = [0; 128];
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut read = 0;
    while read < head.len() {
        match file.read(&mut head[read..]).with_context(|| format!("cannot read {}", path.display()))? {
            0 => break,
            n => read += n,
        }
    }
    Ok(head[..read].windows(3).any(|w| w == b"<f4"))
}

/// Writes row-major numbers as a matrix.
pub(crate) fn write_matrix<T: Real>(path: &Path, values: &[T], columns: usize) -> anyhow::Result<()> {
    let kind = if size_of::<T>() == 4 { "<f4" } else { "<f8" };
    let written = placing::write(path, |out| {
        out.write_all(&header(kind, &format!("({}, {columns})", values.len() / columns)))?;
        write_values(out, values)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Numbers as they lie in the file.
pub(crate) fn write_values<T: Real>(out: &mut (impl Write + ?Sized), values: &[T]) -> std::io::Result<()> {
    values.iter().try_for_each(|v| match size_of::<T>() {
        4 => out.write_all(&(v.to_f64() as f32).to_le_bytes()),
        _ => out.write_all(&v.to_f64().to_le_bytes()),
    })
}

/// What the file begins with.
pub(crate) fn header(kind: &str, shape: &str) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes
}
