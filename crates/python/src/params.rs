//! What a process keeps of the parameters of a round, for all its interpreters.

use super::letter::{INLINE_BYTES_MAX, Letter, align};
use super::pickled::Pickled;
use bytes::Bytes;
use qjam_data::store::{Region, RegionWriter};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The parameters' number, by which interpreters know whether they have read them, and where they lie if they are long:
/// written once, and mapped by every interpreter of the process.
///
/// Dropping it has the interpreters forget them.
#[derive(Debug, Default)]
pub(super) struct OwnParams {
    number: OnceLock<u64>,
    written: OnceLock<Option<Pickled>>,
}

impl Clone for OwnParams {
    /// Of the same parameters, but nobody has read them yet.
    fn clone(&self) -> Self {
        OwnParams::default()
    }
}

impl OwnParams {
    /// Not 0.
    pub(super) fn number(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        *self.number.get_or_init(|| NEXT.fetch_add(1, Relaxed))
    }

    /// Puts them into a letter; says why it cannot.
    pub(super) fn write<'a>(&'a self, params: &'a Pickled, letter: &mut Letter<'a>) -> Result<(), String> {
        if params.bytes() <= INLINE_BYTES_MAX / 2 {
            letter.pickle(b'p', params);
            return Ok(());
        }
        let written = self.written.get_or_init(|| shared(params).ok());
        let Some(written) = written else {
            let bytes = params.bytes();
            return Err(format!("there is no memory to share {bytes} bytes of parameters"));
        };
        letter.placed(b'p', &written.stream);
        written.buffers.iter().for_each(|buffer| letter.placed(b'b', buffer));
        Ok(())
    }
}

/// The same in a region of its own, with arrays where vectors of any width can be read.
fn shared(params: &Pickled) -> io::Result<Pickled> {
    let mut writer = RegionWriter::create()?;
    let mut at = 0;
    let mut ranges = Vec::with_capacity(params.buffers.len() + 1);
    for part in [&params.stream].into_iter().chain(&params.buffers) {
        let start = align(at);
        writer.write_all(&[0; super::letter::ALIGNED][..start - at])?;
        writer.write_all(part)?;
        at = start + part.len();
        ranges.push(start..at);
    }
    // So that even the last part, should it be empty, lies inside.
    writer.write_all(&[0])?;
    let region: Region = writer.seal()?;
    let mut parts: Vec<Bytes> = ranges.into_iter().map(|range| region.bytes(range)).collect();
    let buffers = parts.split_off(1);
    Ok(Pickled { stream: parts.pop().unwrap_or_default(), buffers })
}
