//! Reading a run file, record by record, whoever wrote it and wherever they were stopped.
//!
//! Nothing of a file is believed before it was checked: a length is compared with what is left of the file before
//! anything is allocated, a body with its checksum before it is understood. The first record that is not whole is the
//! end. One that is whole and not understood was written by a later version and is passed over.

use super::RunError;
use super::record::{
    BODY_BYTES_MAX, FRAME_BYTES, FileState, HEAD_BYTES, MAGIC, MESSAGE_BYTES_MAX, Record, STATE_AT, VERSION,
};
use std::io::{BufReader, Read, Seek, SeekFrom};

/// A record and where it was.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) record: Record,
    /// The whole body in the file.
    pub(crate) body: Spot,
    /// How many bytes of the body follow the message.
    pub(crate) tail_bytes: usize,
    /// Those bytes' hash, if the records are read whole and there are any.
    pub(crate) tail_hash: Option<blake3::Hash>,
}

/// Where in a file a body lies, and its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

/// Goes through a file.
pub(crate) struct Reader<R> {
    input: BufReader<R>,
    at: u64,
    /// Length of the file when it was opened.
    end: u64,
    /// Whether results are passed over instead of read.
    quick: bool,
    body: Vec<u8>,
    /// Whether recording had to stop before the run was over, and how such a run ended.
    pub(super) state: FileState,
    /// Records that were whole and not understood.
    pub(crate) unknown: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Begins to read. With `quick`, long results are passed over, and so are not compared with their checksums.
    pub(crate) fn new(mut input: R, quick: bool) -> Result<Self, RunError> {
        let end = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        let mut input = BufReader::with_capacity(64 << 10, input);
        let mut head = [0; HEAD_BYTES as usize];
        if end < HEAD_BYTES || input.read_exact(&mut head).is_err() || &head[..8] != MAGIC {
            return Err(RunError::NotARun);
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != VERSION {
            return Err(RunError::Version { version });
        }
        let state = FileState::of(head[STATE_AT as usize]);
        Ok(Reader { input, at: HEAD_BYTES, end, quick, body: Vec::new(), state, unknown: 0 })
    }

    /// The next record that is understood.
    pub(crate) fn next(&mut self) -> Option<Item> {
        loop {
            let spot = self.read_body()?;
            if let Some((record, tail)) = Record::parse(&self.body) {
                let message = self.body.len() - tail.len();
                let whole = self.body.len() == spot.bytes as usize;
                let tail_hash = (whole && !self.quick && !tail.is_empty()).then(|| blake3::hash(tail));
                return Some(Item {
                    record,
                    body: spot,
                    tail_bytes: spot.bytes as usize - message,
                    tail_hash,
                });
            }
            self.unknown += 1;
        }
    }

    /// Looks how long the file is now, and what its head says. What was no whole record before is read again.
    pub(crate) fn grow(&mut self) -> Result<(), RunError> {
        let mut head = [0; HEAD_BYTES as usize];
        let input = self.input.get_mut();
        input.seek(SeekFrom::Start(0))?;
        if input.read_exact(&mut head).is_ok() {
            self.state = FileState::of(head[STATE_AT as usize]);
        }
        // A file that was made shorter has nothing new.
        self.end = input.seek(SeekFrom::End(0))?.max(self.at);
        self.input.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }

    /// Where the next record begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes at the end that are no whole record.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.end - self.at
    }

    fn read_body(&mut self) -> Option<Spot> {
        let left = self.end - self.at;
        if left < FRAME_BYTES as u64 {
            return None;
        }
        let mut frame = [0; FRAME_BYTES];
        self.input.read_exact(&mut frame).ok()?;
        let bytes = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
        let crc = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]);
        let length = bytes as usize;
        // No record is empty: zeros are a file that was made longer and never filled.
        if length == 0 || length > BODY_BYTES_MAX || u64::from(bytes) > left - FRAME_BYTES as u64 {
            return None;
        }
        let wanted = if self.quick { length.min(MESSAGE_BYTES_MAX) } else { length };
        self.body.resize(wanted, 0);
        self.input.read_exact(&mut self.body).ok()?;
        if wanted < length {
            self.input.seek_relative((length - wanted) as i64).ok()?;
        } else if crc32fast::hash(&self.body) != crc {
            return None;
        }
        let at = self.at + FRAME_BYTES as u64;
        self.at = at + u64::from(bytes);
        Some(Spot { at, bytes, crc })
    }
}
