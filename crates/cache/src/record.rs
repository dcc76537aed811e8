//! What a pack is made of: records one after the other, and a list of them at the end once nobody writes any more.
//!
//! ```text
//! record   magic · state · length of this area · checksum · name · length of the payload · the chunk's header · zeros
//!          payload · zeros up to a multiple of 64
//! list     (where, name) for each record · 64 bytes that close the file: magic · count · where the list begins · checksum
//! ```
//!
//! A record's first area is written after its payload, so a record that can be read at all is whole; the checksum is
//! there to notice an area that is only half written or is something else. The state is not part of it: one byte turns
//! a record into a dead one. Whether the payload is what the name says is not looked at here.
//!
//! All that is read may be garbage. Every length is compared with the file's before it is used.

use qjam_core::chunk::{CHUNK_BYTES_MAX, ChunkId, Header};
use std::io;
use std::os::fd::AsFd;

/// Records and payloads begin at multiples of this.
const ALIGN: u64 = 64;
/// The last digit is the version: another layout is another magic.
const MAGIC: &[u8; 8] = b"qjamrec1";
const LIST_MAGIC: &[u8; 8] = b"qjamend1";
const LIVE: u8 = 1;
const DEAD: u8 = 2;
const STATE_AT: usize = 8;
const SUM: std::ops::Range<usize> = 16..24;
const FIXED_BYTES: usize = 68;
/// Longest first area. Names of types go in; nobody's are that long.
const AREA_BYTES_MAX: usize = 1 << 20;
/// What is read of an area at first; nearly always all of it.
const FIRST_READ_BYTES: usize = 256;
const ENTRY_BYTES: u64 = 40;
const CLOSING_BYTES: u64 = 64;

/// The next place where a record may begin.
pub(super) fn aligned(at: u64) -> u64 {
    at.next_multiple_of(ALIGN)
}

/// How long the list of this many records is.
pub(super) fn list_bytes(records: u64) -> u64 {
    records * ENTRY_BYTES + CLOSING_BYTES
}

/// What stands before a payload.
pub(super) struct Record {
    pub(super) live: bool,
    pub(super) id: ChunkId,
    pub(super) header: Header,
    /// Where the payload begins.
    pub(super) payload_at: u64,
}

impl Record {
    /// Where the next record begins.
    pub(super) fn end(&self) -> u64 {
        aligned(self.payload_at + self.header.bytes)
    }

    /// The first area of a record that is live.
    pub(super) fn encode(id: &ChunkId, header: &Header) -> io::Result<Vec<u8>> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
        if header.bytes > CHUNK_BYTES_MAX {
            return Err(invalid("the chunk is longer than chunks may be"));
        }
        let text = postcard::to_stdvec(header).map_err(|e| invalid(&e.to_string()))?;
        let area_bytes = (FIXED_BYTES + text.len()).next_multiple_of(ALIGN as usize);
        if area_bytes > AREA_BYTES_MAX {
            return Err(invalid("the chunk's header is longer than headers may be"));
        }
        let mut area = vec![0; area_bytes];
        area[..8].copy_from_slice(MAGIC);
        area[STATE_AT] = LIVE;
        area[12..16].copy_from_slice(&(area_bytes as u32).to_le_bytes());
        area[24..56].copy_from_slice(&id.0);
        area[56..64].copy_from_slice(&header.bytes.to_le_bytes());
        area[64..68].copy_from_slice(&(text.len() as u32).to_le_bytes());
        area[FIXED_BYTES..FIXED_BYTES + text.len()].copy_from_slice(&text);
        let sum = area_sum(&area);
        area[SUM].copy_from_slice(&sum.to_le_bytes());
        Ok(area)
    }

    /// The record that begins here in a file of this length, if there is one.
    pub(super) fn read(file: impl AsFd, at: u64, file_bytes: u64) -> Option<Record> {
        let mut first = [0; FIRST_READ_BYTES];
        let left = file_bytes.checked_sub(at)?;
        let first = &mut first[..FIRST_READ_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX))];
        if first.len() < FIXED_BYTES {
            return None;
        }
        read_exact_at(&file, first, at).ok()?;
        let area_bytes = u32_at(first, 12)? as usize;
        if &first[..8] != MAGIC
            || !(FIXED_BYTES..=AREA_BYTES_MAX).contains(&area_bytes)
            || area_bytes as u64 > left
        {
            return None;
        }
        let record = if area_bytes <= first.len() {
            Record::decode(&first[..area_bytes], at)?
        } else {
            let mut area = vec![0; area_bytes];
            read_exact_at(&file, &mut area, at).ok()?;
            Record::decode(&area, at)?
        };
        (record.header.bytes <= CHUNK_BYTES_MAX && record.payload_at + record.header.bytes <= file_bytes)
            .then_some(record)
    }

    fn decode(area: &[u8], at: u64) -> Option<Record> {
        if !area.len().is_multiple_of(ALIGN as usize) || u64_at(area, SUM.start)? != area_sum(area) {
            return None;
        }
        let text = area.get(FIXED_BYTES..)?.get(..u32_at(area, 64)? as usize)?;
        let header: Header = postcard::from_bytes(text).ok()?;
        (header.bytes == u64_at(area, 56)?).then_some(())?;
        Some(Record {
            live: area[STATE_AT] == LIVE,
            id: ChunkId(area.get(24..56)?.try_into().ok()?),
            header,
            payload_at: at + area.len() as u64,
        })
    }
}

/// Makes the record that begins here a dead one.
pub(super) fn kill(file: impl AsFd, at: u64) -> io::Result<()> {
    write_all_at(file, &[DEAD], at + STATE_AT as u64)
}

/// Calls for each record from here on, live or dead; where the first thing begins that is none.
pub(super) fn walk(file: impl AsFd, from: u64, file_bytes: u64, mut each: impl FnMut(u64, Record)) -> u64 {
    let mut at = from;
    while let Some(record) = Record::read(&file, at, file_bytes) {
        let end = record.end();
        each(at, record);
        at = end;
    }
    at
}

/// The live records of a file and where they begin.
pub(super) type Entries = Vec<(ChunkId, u64)>;

/// The list that closes a pack whose records end here.
pub(super) fn encode_list(entries: &Entries, at: u64) -> Vec<u8> {
    let mut list = Vec::with_capacity(list_bytes(entries.len() as u64) as usize);
    for (id, record_at) in entries {
        list.extend_from_slice(&record_at.to_le_bytes());
        list.extend_from_slice(&id.0);
    }
    let sum = fnv(FNV_START, &list);
    let mut closing = [0; CLOSING_BYTES as usize];
    closing[..8].copy_from_slice(LIST_MAGIC);
    closing[8..16].copy_from_slice(&(entries.len() as u64).to_le_bytes());
    closing[16..24].copy_from_slice(&at.to_le_bytes());
    let sum = fnv(sum, &closing[..24]);
    closing[24..32].copy_from_slice(&sum.to_le_bytes());
    list.extend_from_slice(&closing);
    list
}

/// The last bytes of a file of this length, how many records they say it has and where those end; `None` when they do
/// not close a list.
fn read_closing(file: impl AsFd, file_bytes: u64) -> Option<([u8; CLOSING_BYTES as usize], u64, u64)> {
    let mut closing = [0; CLOSING_BYTES as usize];
    read_exact_at(&file, &mut closing, file_bytes.checked_sub(CLOSING_BYTES)?).ok()?;
    let (count, end) = (u64_at(&closing, 8)?, u64_at(&closing, 16)?);
    let whole_bytes = count.checked_mul(ENTRY_BYTES)?.checked_add(CLOSING_BYTES)?.checked_add(end)?;
    (&closing[..8] == LIST_MAGIC && whole_bytes == file_bytes).then_some((closing, count, end))
}

/// Whether a file of this length seems to be closed by a list.
pub(super) fn has_list(file: impl AsFd, file_bytes: u64) -> bool {
    read_closing(file, file_bytes).is_some()
}

/// The list that closes a file of this length, and where its records end; `None` when it is not closed by one.
pub(super) fn read_list(file: impl AsFd, file_bytes: u64) -> Option<(Entries, u64)> {
    let (closing, count, end) = read_closing(&file, file_bytes)?;
    let (mut list, list_bytes) = (Vec::new(), usize::try_from(count * ENTRY_BYTES).ok()?);
    list.try_reserve_exact(list_bytes).ok()?;
    list.resize(list_bytes, 0);
    read_exact_at(&file, &mut list, end).ok()?;
    (fnv(fnv(FNV_START, &list), &closing[..24]) == u64_at(&closing, 24)?).then_some(())?;
    let entries = list.chunks_exact(ENTRY_BYTES as usize).map(|entry| {
        let at = u64_at(entry, 0)?;
        Some((ChunkId(entry[8..].try_into().ok()?), at))
    });
    Some((entries.collect::<Option<_>>()?, end))
}

/// Makes a list unreadable, so that the records are asked themselves the next time.
pub(super) fn spoil_list(file: impl AsFd, file_bytes: u64) -> io::Result<()> {
    if has_list(&file, file_bytes) {
        write_all_at(file, &[0; 8], file_bytes - CLOSING_BYTES)?;
    }
    Ok(())
}

/// Checksum of an area but for its state and the checksum itself.
fn area_sum(area: &[u8]) -> u64 {
    let sum = fnv(FNV_START, &area[..STATE_AT]);
    fnv(fnv(sum, &area[STATE_AT + 1..SUM.start]), &area[SUM.end..])
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a: every single changed byte changes it, and what it lets through is found by the chunk's own hash.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Fills the buffer from this place of a file.
pub(super) fn read_exact_at(file: impl AsFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::pread(&file, &mut *buffer, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                buffer = &mut buffer[n..];
                at += n as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Writes all of it to this place of a file.
pub(super) fn write_all_at(file: impl AsFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(&file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                at += n as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
