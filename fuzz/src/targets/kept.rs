//! Files that readers keep: any bytes, and any index behind some bytes with a right trailer.
//!
//! A file that is accepted has chunks that can be opened, or are refused one by one; one that is not is made again.

use super::{bounded, crc, temporary};
use qjam::source::kept::{Keep, RowsWriter};
use qjam::{Csr, DataSet, Dense};

const FACTOR: usize = 256;
const SLACK_BYTES: usize = 4 << 20;

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let bytes = if kind % 2 == 0 { rest.to_vec() } else { with_trailer(rest) };
    let path = temporary("kept", &bytes);
    bounded(FACTOR * bytes.len() + SLACK_BYTES, || {
        if let Ok(Some((data, _))) = DataSet::<Dense<f64>>::kept(&path) {
            (0..data.len()).for_each(|index| drop(data.chunk(index)));
        }
        if let Ok(Some((data, _))) = DataSet::<Csr<f32>>::kept(&path) {
            (0..data.len()).for_each(|index| drop(data.chunk(index)));
        }
    });
}

/// The first byte says how many bytes come before the index.
fn with_trailer(input: &[u8]) -> Vec<u8> {
    let (before, rest) = input.split_first().map_or((0, input), |(n, rest)| (usize::from(*n), rest));
    let at = before.min(rest.len());
    let index = &rest[at..];
    let numbers = [at as u64, index.len() as u64, crc(index).into()].map(u64::to_le_bytes);
    [rest, &numbers.concat(), b"qjamkep2"].concat()
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let path = temporary("kept-seed", b"");
    let _ = std::fs::remove_file(&path);
    let write = || -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let mut rows = RowsWriter::create(&Keep::File(path.clone()), 2)?;
        rows.push(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        drop(rows.finish(b"notes".to_vec())?);
        Ok(std::fs::read(&path)?)
    };
    let file = write().expect("rows can be kept");
    let index_at =
        u64::from_le_bytes(file[file.len() - 32..file.len() - 24].try_into().expect("eight bytes"));
    let inside = &file[..file.len() - 32];
    vec![[&[0][..], &file].concat(), [&[1, index_at as u8][..], inside].concat()]
}
