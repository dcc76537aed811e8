//! The reading half: checks the layout once, then hands out fields and buffers in the order they were written.

use super::{ALIGN, DEPTH_MAX, DecodeError, FREE_ELEMENTS_MAX, INLINE_BYTES_MAX, Number, Slab, Width, Wire};
use bytes::Bytes;

/// Reads a payload field by field.
///
/// Slices into the payload share its memory; nothing is copied until a value that owns its numbers is made.
#[derive(Debug)]
pub struct Decoder {
    payload: Bytes,
    /// Next byte of the body.
    at: usize,
    /// End of the body.
    end: usize,
    /// Where in the table the next buffer's length stands; the table ends where the body starts.
    entry: usize,
    table_end: usize,
    /// End of the buffer read last, or of the body.
    buffers_at: usize,
    /// How many values the one being read lies in.
    depth: u32,
    /// How many more elements may take no bytes.
    free_left: u64,
}

impl Decoder {
    /// Opens a payload. Its table is checked against its length here, so that later reads only compare.
    pub fn new(payload: Bytes) -> Result<Decoder, DecodeError> {
        let bytes = payload.len();
        let wrong = |problem| DecodeError::Layout { bytes, problem };
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(payload.get(at..at.checked_add(8)?)?.try_into().ok()?))
        };
        let size = |at| {
            usize::try_from(word(at).ok_or(wrong("it has no header"))?)
                .map_err(|_| wrong("a length overflows"))
        };
        let (body, buffers) = (size(0)?, size(8)?);
        let table_end = buffers
            .checked_mul(8)
            .and_then(|n| n.checked_add(16))
            .filter(|end| *end <= bytes)
            .ok_or(wrong("its table of buffers is longer than itself"))?;
        let end = table_end
            .checked_add(body)
            .filter(|end| *end <= bytes)
            .ok_or(wrong("its body is longer than itself"))?;
        let mut last = end;
        for entry in (16..table_end).step_by(8) {
            let length = size(entry)?;
            if length < INLINE_BYTES_MAX {
                return Err(wrong("a buffer is so short that it should lie in the body"));
            }
            last = last
                .checked_next_multiple_of(ALIGN)
                .and_then(|at| at.checked_add(length))
                .filter(|end| *end <= bytes)
                .ok_or(wrong("a buffer reaches beyond its end"))?;
        }
        if last != bytes {
            return Err(wrong("bytes follow its last part"));
        }
        Ok(Decoder {
            at: table_end,
            end,
            entry: 16,
            table_end,
            buffers_at: end,
            depth: 0,
            free_left: FREE_ELEMENTS_MAX,
            payload,
        })
    }

    /// Bytes not yet read, of body and buffers together.
    pub fn left(&self) -> usize {
        // Gaps between buffers count too: this bounds claims, it does not account for bytes.
        (self.end - self.at) + (self.payload.len() - self.buffers_at)
    }

    /// Ends the reading; a value must have used all of its payload.
    pub fn finish(self) -> Result<(), DecodeError> {
        let (bytes, buffers) = (self.end - self.at, (self.table_end - self.entry) / 8);
        if (bytes, buffers) == (0, 0) { Ok(()) } else { Err(DecodeError::LeftOver { bytes, buffers }) }
    }

    /// Reads bytes of a fixed width.
    pub fn take_fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut fixed = [0; N];
        fixed.copy_from_slice(self.take(N)?);
        Ok(fixed)
    }

    /// Reads one byte.
    pub fn take_u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    /// Reads an integer written by [`put_varint`](crate::Encoder::put_varint).
    pub fn take_varint(&mut self) -> Result<u64, DecodeError> {
        const OVERLONG: DecodeError = DecodeError::Range { kind: "a variable-length integer" };
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take_u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(OVERLONG);
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(OVERLONG)
    }

    /// Reads an integer written by [`put_signed`](crate::Encoder::put_signed).
    pub fn take_signed(&mut self) -> Result<i64, DecodeError> {
        let n = self.take_varint()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads the length of a sequence of bytes that follow in the body, and those bytes.
    pub fn take_bytes(&mut self) -> Result<&[u8], DecodeError> {
        let claimed = self.take_varint()?;
        let length =
            usize::try_from(claimed).map_err(|_| DecodeError::Count { claimed, left: self.left() })?;
        self.take(length)
    }

    /// Reads numbers into a vector: one copy.
    pub fn take_numbers<T: Number>(&mut self) -> Result<Vec<T>, DecodeError> {
        let raw = self.take_raw(size_of::<T>())?;
        Ok(match bytemuck::try_cast_slice(&raw) {
            Ok(numbers) => numbers.to_vec(),
            Err(_) => bytemuck::pod_collect_to_vec(&raw),
        })
    }

    /// Reads numbers as a view into the payload: no copy, unless the payload lies at an address its numbers cannot.
    #[doc(hidden)]
    pub fn take_slab<T: Number>(&mut self) -> Result<Slab<T>, DecodeError> {
        Ok(Slab::over(self.take_raw(size_of::<T>())?))
    }

    /// Reads the number of elements of a sequence. Each takes at least a byte, except for a few that may be free.
    pub(super) fn take_count(&mut self) -> Result<u64, DecodeError> {
        let claimed = self.take_varint()?;
        let left = self.left();
        match claimed.checked_sub(left as u64) {
            Some(over) if over > self.free_left => Err(DecodeError::Count { claimed, left }),
            _ => Ok(claimed),
        }
    }

    /// Reads so many values whose type gives them one width, if they are all there and good; otherwise they are to be read one by
    /// one, which says what is wrong.
    pub(super) fn take_short<T: Wire>(&mut self, claimed: u64) -> Option<Vec<T>> {
        let Width::Exactly(width) = T::WIRE_WIDTH else { return None };
        let bytes = usize::try_from(claimed).ok()?.checked_mul(width)?;
        if width == 0 || bytes > self.end - self.at {
            return None;
        }
        let raw = &self.payload[self.at..self.at + bytes];
        // All of them are here, so this is no claim.
        let mut items = Vec::with_capacity(bytes / width);
        let mut is_good = true;
        items.extend(raw.chunks_exact(width).map_while(|item| {
            let item = T::decode_short(item);
            is_good &= item.is_some();
            item
        }));
        if !is_good {
            return None;
        }
        self.at += bytes;
        Some(items)
    }

    /// Accounts for elements that took no bytes.
    pub(super) fn spend_free(&mut self, elements: u64) -> Result<(), DecodeError> {
        match self.free_left.checked_sub(elements) {
            Some(left) => self.free_left = left,
            None => return Err(DecodeError::Count { claimed: elements, left: self.left() }),
        }
        Ok(())
    }

    /// Reads what lies inside another value, one level deeper.
    pub(super) fn nested<R>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<R, DecodeError>,
    ) -> Result<R, DecodeError> {
        if self.depth == DEPTH_MAX {
            return Err(DecodeError::Depth { limit: DEPTH_MAX });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Lets `read` take something from the start of what is left of the body; it returns what it left.
    pub(super) fn take_with<R, E>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<(R, usize), E>,
    ) -> Result<R, E> {
        let (value, left) = read(&self.payload[self.at..self.end])?;
        self.at = self.end - left;
        Ok(value)
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], DecodeError> {
        let left = self.end - self.at;
        if bytes > left {
            return Err(DecodeError::Truncated { wanted: bytes, left });
        }
        self.at += bytes;
        Ok(&self.payload[self.at - bytes..self.at])
    }

    /// A count and so many elements of `width` bytes, wherever they lie.
    fn take_raw(&mut self, width: usize) -> Result<Bytes, DecodeError> {
        let claimed = self.take_varint()?;
        let left = self.left();
        let wanted = usize::try_from(claimed)
            .ok()
            .and_then(|n| n.checked_mul(width))
            .filter(|wanted| *wanted <= left)
            .ok_or(DecodeError::Count { claimed, left })?;
        if wanted < INLINE_BYTES_MAX {
            self.take(wanted)?;
            return Ok(self.payload.slice(self.at - wanted..self.at));
        }
        if self.entry == self.table_end {
            return Err(DecodeError::Buffer { wanted, found: None });
        }
        let mut length = [0; 8];
        length.copy_from_slice(&self.payload[self.entry..self.entry + 8]);
        let found = u64::from_le_bytes(length) as usize;
        if found != wanted {
            return Err(DecodeError::Buffer { wanted, found: Some(found) });
        }
        let start = self.buffers_at.next_multiple_of(ALIGN);
        self.entry += 8;
        self.buffers_at = start + found;
        Ok(self.payload.slice(start..self.buffers_at))
    }
}
