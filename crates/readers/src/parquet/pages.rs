//! Pages of a column, unpacked within bounds.
//!
//! The library finds the pages and reads their headers, as if they were not compressed; they are unpacked here. It would take memory for
//! what a header claims, and with some kinds of compression for whatever comes out. Here memory is taken as bytes come out, or for what so
//! many compressed bytes can become at most. A page is not longer than its values can be, and all columns together have a budget.

use super::Positioned;
use ::parquet::basic::{Compression, Type};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use thiserror::Error;

/// Longest page: lengths in headers have a sign.
const PAGE_BYTES_MAX: u64 = i32::MAX as u64;
/// Most bytes that a value of a number takes in any encoding, with its level; and those that a page has besides.
const VALUE_BYTES_MAX: u64 = 16;
const PAGE_BYTES_BESIDES: u64 = 64 << 10;
/// Memory that is taken for the length that a frame of zstd says it has.
const WHOLE_BYTES_MAX: u64 = 4 << 20;
/// A copy of 64 bytes takes three in snappy.
const SNAPPY_RATIO_MAX: u64 = 22;
/// The lengths before each block, where they are written as Hadoop does.
const HADOOP_HEAD_BYTES: usize = 8;

/// Pages take more memory than there is for them.
#[derive(Debug, Error)]
#[error(
    "its pages unpack to more than the {} MiB of memory that there are for them here; write it with smaller pages, or with fewer columns",
    .bytes_max >> 20
)]
pub(super) struct PagesTooLarge {
    bytes_max: u64,
}

/// Memory for the pages of all columns that are read at the same time.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    taken: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget { bytes_max, taken: AtomicU64::new(0) })
    }

    fn refusal(&self) -> ParquetError {
        ParquetError::External(Box::new(PagesTooLarge { bytes_max: self.bytes_max }))
    }

    /// What is left, for one who has so much of it and is about to give it back.
    fn left(&self, held: u64) -> u64 {
        (self.bytes_max + held).saturating_sub(self.taken.load(Relaxed)).min(PAGE_BYTES_MAX)
    }
}

/// The pages of a column.
pub(super) struct Pages {
    packed: SerializedPageReader<Positioned>,
    compression: Compression,
    /// Bytes of a value in a dictionary.
    value_bytes: u64,
    budget: Arc<Budget>,
    /// Bytes of the dictionary, and of the page that was given last.
    held: [u64; 2],
}

impl Pages {
    pub(super) fn open(
        file: &Arc<Positioned>,
        column: &ColumnChunkMetaData,
        rows: usize,
        budget: &Arc<Budget>,
    ) -> Result<Pages> {
        let as_it_is = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        Ok(Pages {
            packed: SerializedPageReader::new(file.clone(), &as_it_is, rows, None)?,
            compression: column.compression(),
            value_bytes: match column.column_type() {
                Type::BOOLEAN => 1,
                Type::INT32 | Type::FLOAT => 4,
                _ => 8,
            },
            budget: budget.clone(),
            held: [0; 2],
        })
    }

    /// Unpacks what comes after so many bytes. It has so many values.
    fn unpack(&mut self, packed: Bytes, plain_bytes: usize, values: u32, slot: usize) -> Result<Bytes> {
        let left = self.budget.left(self.held[slot]);
        let limit = left.min(u64::from(values) * VALUE_BYTES_MAX + PAGE_BYTES_BESIDES);
        let refused =
            || if limit < left { damaged("a page, longer than its values,") } else { self.budget.refusal() };
        let bytes = match self.compression {
            Compression::UNCOMPRESSED => packed,
            compression => {
                let (plain, rest) = packed.split_at_checked(plain_bytes).ok_or_else(|| damaged("a page"))?;
                // Pages of a column are about as long as each other.
                let mut out = Vec::with_capacity(self.held[slot].min(limit) as usize + plain.len());
                out.extend_from_slice(plain);
                // A page without values is empty, and not compressed.
                if !rest.is_empty() {
                    let unpacked = unpack(compression, rest, &mut out, limit);
                    unpacked.map_err(|why| why.unwrap_or_else(refused))?;
                }
                out.into()
            }
        };
        if bytes.len() as u64 > limit {
            return Err(refused());
        }
        self.budget.taken.fetch_add(bytes.len() as u64, Relaxed);
        self.budget.taken.fetch_sub(std::mem::replace(&mut self.held[slot], bytes.len() as u64), Relaxed);
        Ok(bytes)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.held.iter().sum(), Relaxed);
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.packed.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DictionaryPage { buf, num_values, .. } => {
                *buf = self.unpack(std::mem::take(buf), 0, *num_values, 0)?;
                // The library takes memory for as many as it claims.
                if u64::from(*num_values) * self.value_bytes > buf.len() as u64 {
                    return Err(damaged("a dictionary, shorter than its values,"));
                }
            }
            Page::DataPage { buf, num_values, .. } => {
                *buf = self.unpack(std::mem::take(buf), 0, *num_values, 1)?;
            }
            // Levels come first, and are not compressed; nor are the values of some pages.
            Page::DataPageV2 {
                buf,
                num_values,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                let levels = usize::try_from(levels).map_err(|_| damaged("a page"))?;
                let plain = if *is_compressed { levels } else { buf.len() };
                *buf = self.unpack(std::mem::take(buf), plain, *num_values, 1)?;
            }
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.packed.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.packed.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("{what} is damaged"))
}

/// Why a page cannot be unpacked; `None` if it is too long.
type Failed = Option<ParquetError>;

/// Appends what a page unpacks to, unless the whole is longer than the limit.
fn unpack(compression: Compression, packed: &[u8], out: &mut Vec<u8>, limit: u64) -> Result<(), Failed> {
    match compression {
        Compression::GZIP(_) => append(flate2::read::MultiGzDecoder::new(packed), out, limit),
        Compression::ZSTD(_) => {
            let whole = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
            // A page of usual length is unpacked in one piece, which takes less time.
            if let Some(bytes) = whole.filter(|bytes| *bytes <= WHOLE_BYTES_MAX.min(limit)) {
                let room = extend(out, bytes as usize, limit)?;
                let unpacked = zstd::bulk::decompress_to_buffer(packed, room).map_err(|e| Some(e.into()))?;
                return if unpacked as u64 == bytes { Ok(()) } else { Err(Some(damaged("a page"))) };
            }
            let decoder = zstd::stream::read::Decoder::with_buffer(packed);
            append(decoder.map_err(|e| Some(e.into()))?, out, limit)
        }
        Compression::SNAPPY => {
            let wrong = |e: snap::Error| Some(ParquetError::External(Box::new(e)));
            let bytes = snap::raw::decompress_len(packed).map_err(wrong)?;
            if bytes as u64 > SNAPPY_RATIO_MAX * packed.len() as u64 {
                return Err(Some(damaged("the length of a page")));
            }
            let room = extend(out, bytes, limit)?;
            snap::raw::Decoder::new().decompress(packed, room).map(|_| ()).map_err(wrong)
        }
        Compression::LZ4_RAW => lz4_block(packed, out, limit),
        Compression::LZ4 => lz4_of_any_kind(packed, out, limit),
        other => {
            Err(Some(ParquetError::General(format!("it is compressed with {other}, which is not read"))))
        }
    }
}

/// Reads all, up to the limit.
fn append(from: impl Read, out: &mut Vec<u8>, limit: u64) -> Result<(), Failed> {
    let left = limit.saturating_sub(out.len() as u64);
    let read = from.take(left + 1).read_to_end(out).map_err(|e| Some(e.into()))?;
    if read as u64 > left { Err(None) } else { Ok(()) }
}

/// Room for so many bytes more.
fn extend(out: &mut Vec<u8>, bytes: usize, limit: u64) -> Result<&mut [u8], Failed> {
    let start = out.len();
    if (start as u64).saturating_add(bytes as u64) > limit || out.try_reserve_exact(bytes).is_err() {
        return Err(None);
    }
    out.resize(start + bytes, 0);
    Ok(&mut out[start..])
}

fn lz4_block(packed: &[u8], out: &mut Vec<u8>, limit: u64) -> Result<(), Failed> {
    let bytes = lz4_length(packed).ok_or_else(|| Some(damaged("a page")))?;
    let room = extend(out, bytes, limit)?;
    let written = lz4_flex::block::decompress_into(packed, room);
    let written = written.map_err(|e| Some(ParquetError::External(Box::new(e))))?;
    if written == bytes { Ok(()) } else { Err(Some(damaged("a page"))) }
}

/// What was called LZ4 before it was said how: blocks with lengths before them, frames, or one block.
fn lz4_of_any_kind(packed: &[u8], out: &mut Vec<u8>, limit: u64) -> Result<(), Failed> {
    let start = out.len();
    match hadoop_blocks(packed, out, limit) {
        Err(Some(_)) => {}
        done => return done,
    }
    out.truncate(start);
    match append(lz4_flex::frame::FrameDecoder::new(packed), out, limit) {
        Err(Some(_)) => {}
        done => return done,
    }
    out.truncate(start);
    lz4_block(packed, out, limit)
}

fn hadoop_blocks(mut packed: &[u8], out: &mut Vec<u8>, limit: u64) -> Result<(), Failed> {
    let wrong = || Some(damaged("a page"));
    while !packed.is_empty() {
        let (head, rest) = packed.split_at_checked(HADOOP_HEAD_BYTES).ok_or_else(wrong)?;
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|n| head[at + n])) as usize;
        let (bytes, packed_bytes) = (number(0), number(4));
        let (block, after) = rest.split_at_checked(packed_bytes).ok_or_else(wrong)?;
        if lz4_length(block) != Some(bytes) {
            return Err(wrong());
        }
        lz4_block(block, out, limit)?;
        packed = after;
    }
    Ok(())
}

/// How long a block of LZ4 is when it is unpacked: the lengths of its literals and copies.
fn lz4_length(block: &[u8]) -> Option<usize> {
    let (mut at, mut total) = (0_usize, 0_usize);
    let more = |at: &mut usize, nibble: u8| -> Option<usize> {
        let (mut length, mut last) = (usize::from(nibble), if nibble == 15 { 255 } else { 0 });
        while last == 255 {
            last = *block.get(*at)?;
            (*at, length) = (*at + 1, length + usize::from(last));
        }
        Some(length)
    };
    loop {
        let token = *block.get(at)?;
        at += 1;
        let literals = more(&mut at, token >> 4)?;
        (at, total) = (at.checked_add(literals)?, total.checked_add(literals)?);
        if at >= block.len() {
            return (at == block.len()).then_some(total);
        }
        // Where the copy is from takes two bytes.
        at += 2;
        total = total.checked_add(more(&mut at, token & 15)? + 4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        (0..100_000_u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).collect()
    }

    /// A text, packed in every way that is read.
    fn packed(text: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
        frame.write_all(text).unwrap();
        let block = lz4_flex::block::compress(text);
        let lengths = [text.len() as u32, block.len() as u32];
        let mut hadoop: Vec<u8> = lengths.iter().flat_map(|n| n.to_be_bytes()).collect();
        hadoop.extend(&block);
        hadoop.extend(hadoop.clone());
        vec![
            (Compression::GZIP(Default::default()), gzip.finish().unwrap()),
            (Compression::ZSTD(Default::default()), zstd::encode_all(text, 1).unwrap()),
            (Compression::SNAPPY, snap::raw::Encoder::new().compress_vec(text).unwrap()),
            (Compression::LZ4_RAW, block.clone()),
            (Compression::LZ4, block),
            (Compression::LZ4, frame.finish().unwrap()),
            (Compression::LZ4, hadoop),
        ]
    }

    #[test]
    fn every_packing_is_unpacked_up_to_its_limit_and_no_further() {
        for text in [text(), vec![0; 3_000_000], vec![7], (0..=255).collect()] {
            for (compression, packed) in packed(&text) {
                let times =
                    if packed.len() > 8 && packed[..4] == (text.len() as u32).to_be_bytes() { 2 } else { 1 };
                let whole = text.repeat(times);
                let mut out = b"before".to_vec();
                let limit = out.len() + whole.len();
                unpack(compression, &packed, &mut out, limit as u64)
                    .unwrap_or_else(|e| panic!("{compression}: {e:?}"));
                assert!(out[6..] == whole, "{compression}");
                let mut out = b"before".to_vec();
                let short = unpack(compression, &packed, &mut out, limit as u64 - 1);
                assert!(matches!(short, Err(None)), "{compression}: {short:?}");
                assert!(out.len() <= limit, "{compression}");
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_takes_no_memory() {
        let text = text();
        for (compression, packed) in packed(&text) {
            for at in (0..packed.len()).step_by(1 + packed.len() / 200) {
                let mut bad = packed.clone();
                bad[at] ^= 0x55;
                let mut out = Vec::new();
                let _ = unpack(compression, &bad, &mut out, 4 << 20);
                assert!(out.len() <= 4 << 20);
                let mut out = Vec::new();
                let _ = unpack(compression, &packed[..at], &mut out, 4 << 20);
            }
        }
        // A few bytes that say they become very many.
        let huge = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
        let refused = unpack(Compression::SNAPPY, &huge, &mut Vec::new(), u64::MAX);
        assert!(matches!(refused, Err(Some(_))), "{refused:?}");
    }
}
