//! `.npz` archives: zip files of `.npy` files, as `numpy.savez` and `numpy.savez_compressed` write them.
//!
//! Members that are stored uncompressed are used in place. Deflated members are converted. Archives that contain a sparse matrix
//! of SciPy are read as such ([`Npz::read_sparse`]).

mod sparse;

use crate::error::reserve;
use crate::gathered::Gathered;
use crate::input::Input;
use crate::settings::{ARRAY_COLUMNS_MAX, Settings, settings};
use crate::table::{ColumnNames, Notes, Table};
use crate::{Missing, ReadError, Real};
use qjam::chunk::Element;
use qjam::source::kept::RowsWriter;
use qjam::source::npy::{self, NpyHeader};
use qjam::{DataSet, Dense};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Maximum size of the central directory.
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;

/// The end of the central directory is searched for in this many last bytes.
const TAIL_BYTES: u64 = 22 + 65_535;

/// Deflate makes at most this many bytes of one.
const RATIO_MAX: u64 = 1032;

/// Number of bytes converted at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Reads arrays from an `.npz` archive.
///
/// ```no_run
/// use qjam_readers::Npz;
/// let x = Npz::new("data.npz").read::<f64>("x")?;
/// # Ok::<(), qjam_readers::ReadError>(())
/// ```
pub struct Npz {
    path: PathBuf,
    missing: Missing,
    pub(crate) settings: Settings,
}

settings!(Npz);

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, with the extension `.npy`.
    pub name: String,
    /// Compression method: 0 is stored, 8 is deflated.
    pub method: u16,
    /// Whether it needs a password.
    pub encrypted: bool,
    /// Its checksum.
    pub crc: u32,
    /// Bytes in the archive.
    pub packed_bytes: u64,
    /// Bytes when decompressed.
    pub bytes: u64,
    /// Position of its local header.
    pub header_at: u64,
}

impl Npz {
    /// The archive.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Npz { path: path.into(), missing: Missing::Error, settings: Settings::default() }
    }

    /// The names of the arrays in it.
    pub fn names(&self) -> Result<Vec<String>, ReadError> {
        let members = self.members(&Input::open(&self.path)?)?;
        Ok(members
            .into_iter()
            .filter_map(|member| member.name.strip_suffix(".npy").map(str::to_owned))
            .collect())
    }

    fn wrong(&self, reason: impl Into<String>) -> ReadError {
        ReadError::Format { path: self.path.clone(), format: ".npz", reason: reason.into() }
    }

    fn members(&self, input: &Input) -> Result<Vec<Member>, ReadError> {
        let failed = |source| ReadError::Io { path: self.path.clone(), source };
        let total = input.stamp().bytes;
        let mut tail = vec![0; TAIL_BYTES.min(total) as usize];
        let tail_at = total - tail.len() as u64;
        input.file().read_exact_at(&mut tail, tail_at).map_err(failed)?;
        let (at, bytes) = directory(&tail, tail_at, input.file()).map_err(|reason| self.wrong(reason))?;
        if at.checked_add(bytes).is_none_or(|end| end > total) || bytes > DIRECTORY_BYTES_MAX {
            return Err(self.wrong("its central directory lies outside the file; copy it again"));
        }
        let mut list = vec![0; bytes as usize];
        input.file().read_exact_at(&mut list, at).map_err(failed)?;
        parse_directory(&list).map_err(|reason| self.wrong(reason))
    }

    /// What [`read_real`](Self::read_real) does about missing values, here NaN. With [`Missing::Error`], arrays that are used in
    /// place are not checked; the learner checks them.
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// The member with this name, and the start of its content.
    fn find(&self, input: &Input, name: &str) -> Result<(Member, u64), ReadError> {
        let members = self.members(input)?;
        let Some(member) = members.into_iter().find(|member| member.name.strip_suffix(".npy") == Some(name))
        else {
            let (name, present) = (name.to_owned(), self.names()?);
            return Err(ReadError::NoSuch { path: self.path.clone(), what: "array", name, present });
        };
        if member.encrypted {
            return Err(self.wrong(format!("{name:?} needs a password; save it without")));
        }
        if ![0, 8].contains(&member.method) {
            let method = member.method;
            return Err(self.wrong(format!(
                "{name:?} is compressed by method {method}; only methods 0 and 8 are supported"
            )));
        }
        let start = local_end(input.file(), &member).map_err(|reason| self.wrong(reason))?;
        if start.checked_add(member.packed_bytes).is_none_or(|end| end > input.stamp().bytes) {
            return Err(self.wrong(format!("{name:?} lies outside the file; copy it again")));
        }
        if member.method == 0 && member.bytes != member.packed_bytes {
            return Err(self.wrong(format!("{name:?} has two lengths; copy it again")));
        }
        if member.bytes > member.packed_bytes.saturating_mul(RATIO_MAX) {
            let (bytes, packed) = (member.bytes, member.packed_bytes);
            return Err(self.wrong(format!(
                "{name:?} claims {bytes} bytes, which {packed} compressed bytes cannot contain; copy it again"
            )));
        }
        Ok((member, start))
    }

    /// The type of an array's elements, as NumPy writes it.
    pub(crate) fn descr(&self, name: &str) -> Result<&'static str, ReadError> {
        let input = Input::open(&self.path)?;
        let (member, start) = self.find(&input, name)?;
        Ok(self.content(&input, &member, start)?.header.descr)
    }

    /// One array: `f4`, `f8`, `i4`, `i8` or `u1` in C order with one or two dimensions, as in a `.npy` file.
    pub fn read<T: Element>(mut self, name: &str) -> Result<DataSet<Dense<T>>, ReadError> {
        let input = Input::open(&self.path)?;
        let (member, start) = self.find(&input, name)?;
        let mut content = self.content(&input, &member, start)?;
        let header = content.header.clone();
        if header.descr != T::NPY {
            return Err(self.wrong(format!(
                "{:?} has elements of type {}, but {} was requested",
                member.name,
                header.descr,
                T::NPY
            )));
        }
        if member.method == 0 {
            return Ok(DataSet::within(&self.path, start + header.data_offset, header.rows, header.cols)?);
        }
        self.settings.must_be_confirmed(&self.path, header.cols, ARRAY_COLUMNS_MAX)?;
        let options = format!("npz {:?} {}", member.name, T::DTYPE);
        let keep = self.settings.keep_unpacked(&input, header.data_bytes, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, _)) = DataSet::kept(&path)?
        {
            return Ok(data);
        }
        let mut rows = RowsWriter::<T>::create(&keep, header.cols as usize)?;
        content.each(&mut self.settings, |bytes| {
            Ok(rows.push(&bytemuck::pod_collect_to_vec::<u8, T>(bytes))?)
        })?;
        input.must_be_unchanged()?;
        Ok(rows.finish(Vec::new())?)
    }

    /// One array, converted to numbers of type `T`.
    pub fn read_real<T: Real>(mut self, name: &str) -> Result<Table<T>, ReadError> {
        let input = Input::open(&self.path)?;
        let (member, start) = self.find(&input, name)?;
        let mut content = self.content(&input, &member, start)?;
        let header = content.header.clone();
        self.settings.must_be_confirmed(&self.path, header.cols, ARRAY_COLUMNS_MAX)?;
        let names = ColumnNames::Counted(header.cols as usize);
        if member.method == 0 && header.descr == T::NPY && self.missing == Missing::Error {
            let data = DataSet::within(&self.path, start + header.data_offset, header.rows, header.cols)?;
            return Ok(Notes { columns: names.list(), labelled: false, dropped: 0, filled: 0 }.table(data));
        }
        let options = format!("npz real {:?} {:?} {}", member.name, self.missing, T::DTYPE);
        let values = header.data_bytes / crate::npy::width(header.descr) as u64;
        let keep = self.settings.keep_unpacked(&input, values * size_of::<T>() as u64, &options)?;
        if let Some(path) = keep.path()
            && let Some((data, notes)) = DataSet::kept(&path)?
            && let Some(notes) = Notes::decode(&notes)
        {
            return Ok(notes.table(data));
        }
        let mut rows = Gathered::<T>::new(self.path.clone(), &keep, names, false, self.missing)?;
        let (mut values, path, width) = (Vec::new(), input.path(), crate::npy::width(header.descr));
        content.each(&mut self.settings, |bytes| {
            values.clear();
            reserve(&mut values, bytes.len() / width, path)?;
            crate::npy::convert(header.descr, bytes, &mut values);
            rows.take(&mut values)
        })?;
        input.must_be_unchanged()?;
        rows.finish()
    }

    /// The bytes of a short member.
    fn unpacked(&self, input: &Input, member: &Member, start: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; member.bytes as usize];
        let n = fill(&mut stream(input, member, start), &mut bytes)
            .map_err(|error| damaged(input, &member.name, &error.to_string()))?;
        bytes.truncate(n);
        Ok(bytes)
    }

    /// Opens a member and reads its header.
    fn content<'i>(&self, input: &'i Input, member: &Member, start: u64) -> Result<Content<'i>, ReadError> {
        let damaged = |error: io::Error| damaged(input, &member.name, &error.to_string());
        let mut bytes = stream(input, member, start);
        let mut first = vec![0; member.bytes.min(npy::HEADER_BYTES_MAX as u64 + 12) as usize];
        let n = fill(&mut bytes, &mut first).map_err(damaged)?;
        first.truncate(n);
        let mut crc = flate2::Crc::new();
        crc.update(&first);
        let header =
            npy::parse_header(&first).map_err(|error| self.wrong(format!("{:?}: {error}", member.name)))?;
        if header.data_offset.checked_add(header.data_bytes).is_none_or(|end| end > member.bytes) {
            return Err(
                self.wrong(format!("{:?} is shorter than its header says; copy it again", member.name))
            );
        }
        let held = first.split_off((header.data_offset as usize).min(first.len()));
        Ok(Content { input, member: member.clone(), bytes, held, header, crc })
    }
}

/// The decompressed bytes of a member.
fn stream<'i>(input: &'i Input, member: &Member, start: u64) -> Box<dyn Read + 'i> {
    let raw = Window { file: input.file(), at: start, left: member.packed_bytes };
    match member.method {
        0 => Box::new(raw),
        _ => Box::new(flate2::bufread::DeflateDecoder::new(BufReader::with_capacity(1 << 16, raw))),
    }
}

fn damaged(input: &Input, name: &str, reason: &str) -> ReadError {
    ReadError::Format {
        path: input.path().into(),
        format: ".npz",
        reason: format!("{name:?} cannot be decompressed: {reason}; copy it again"),
    }
}

/// A member that is being read.
struct Content<'i> {
    input: &'i Input,
    member: Member,
    bytes: Box<dyn Read + 'i>,
    /// Bytes read after the header but not returned yet.
    held: Vec<u8>,
    header: NpyHeader,
    crc: flate2::Crc,
}

impl Content<'_> {
    /// Calls `give` with the bytes of some whole rows at a time, and verifies the checksum at the end.
    fn each(
        &mut self,
        settings: &mut Settings,
        mut take: impl FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let damaged = |reason: &str| damaged(self.input, &self.member.name, reason);
        // An array without columns has no bytes.
        let row_bytes = (self.header.cols as usize * crate::npy::width(self.header.descr)).max(1);
        let mut taken = 0_u64;
        let mut held = std::mem::take(&mut self.held);
        loop {
            let whole = held.len().min((self.header.data_bytes - taken) as usize) / row_bytes * row_bytes;
            take(&held[..whole])?;
            taken += whole as u64;
            held.drain(..whole);
            settings.tell(taken, self.header.data_bytes);
            if taken == self.header.data_bytes {
                break;
            }
            let before = held.len();
            reserve(&mut held, PIECE_BYTES, self.input.path())?;
            held.resize(before + PIECE_BYTES, 0);
            let n = fill(&mut self.bytes, &mut held[before..]).map_err(|e| damaged(&e.to_string()))?;
            held.truncate(before + n);
            self.crc.update(&held[before..]);
            if n == 0 {
                let found = self.header.data_offset + taken + held.len() as u64;
                return Err(damaged(&format!("it has {found} bytes and should have {}", self.member.bytes)));
            }
        }
        let too_long = || damaged("it is longer than the archive says");
        let seen = self.header.data_offset + taken + held.len() as u64;
        let (mut rest, mut left) = ([0; 4096], self.member.bytes.checked_sub(seen).ok_or_else(too_long)?);
        loop {
            let n = fill(&mut self.bytes, &mut rest).map_err(|e| damaged(&e.to_string()))?;
            if n == 0 {
                break;
            }
            left = left.checked_sub(n as u64).ok_or_else(too_long)?;
            self.crc.update(&rest[..n]);
        }
        match self.crc.sum() == self.member.crc {
            true => Ok(()),
            false => Err(damaged("its checksum does not match")),
        }
    }
}

fn fill(content: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match content.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A range of a file.
struct Window<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Window<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = (bytes.len() as u64).min(self.left) as usize;
        let n = self.file.read_at(&mut bytes[..most], self.at)?;
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

/// Position and length of the central directory, from the last bytes of the archive.
fn directory(tail: &[u8], tail_at: u64, file: &File) -> Result<(u64, u64), String> {
    let no_zip = "it has no central directory at its end: it is not a zip file, or is truncated";
    let end = memchr::memmem::rfind(tail, b"PK\x05\x06").ok_or(no_zip)?;
    let field = |at, width| number(tail, end + at, width).ok_or(no_zip);
    let (bytes, at) = (field(12, 4)?, field(16, 4)?);
    if bytes != 0xffff_ffff && at != 0xffff_ffff {
        return Ok((at, bytes));
    }
    // Large archives use a zip64 record; a locator of twenty bytes before this one gives its position.
    let locator = end.checked_sub(20).filter(|at| tail[*at..].starts_with(b"PK\x06\x07")).ok_or(no_zip)?;
    let record_at = number(tail, locator + 8, 8).ok_or(no_zip)?;
    let mut record = [0; 56];
    if record_at > tail_at + end as u64 || file.read_exact_at(&mut record, record_at).is_err() {
        return Err(no_zip.into());
    }
    match (record.starts_with(b"PK\x06\x06"), number(&record, 48, 8), number(&record, 40, 8)) {
        (true, Some(at), Some(bytes)) => Ok((at, bytes)),
        _ => Err(no_zip.into()),
    }
}

/// Parses the central directory.
pub fn parse_directory(list: &[u8]) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    let mut rest = list;
    while rest.starts_with(b"PK\x01\x02") {
        let field =
            |at, width| number(rest, at, width).ok_or("its central directory is truncated; copy it again");
        let (flags, method, crc) = (field(8, 2)?, field(10, 2)?, field(16, 4)?);
        let (mut packed_bytes, mut bytes, mut header_at) = (field(20, 4)?, field(24, 4)?, field(42, 4)?);
        let (name, extra, comment) = (field(28, 2)? as usize, field(30, 2)? as usize, field(32, 2)? as usize);
        let all = 46 + name + extra + comment;
        let (Some(name), Some(mut fields)) =
            (rest.get(46..46 + name), rest.get(46 + name..46 + name + extra))
        else {
            return Err("its central directory is truncated; copy it again".into());
        };
        // Numbers that do not fit are in an extra field, in this order, and only those.
        while let (Some(id), Some(length)) = (number(fields, 0, 2), number(fields, 2, 2)) {
            let Some(content) = fields.get(4..4 + length as usize) else { break };
            if id == 1 {
                let mut at = 0;
                for value in [&mut bytes, &mut packed_bytes, &mut header_at] {
                    if *value == 0xffff_ffff {
                        *value =
                            number(content, at, 8).ok_or("a length in its central directory is missing")?;
                        at += 8;
                    }
                }
            }
            fields = &fields[4 + length as usize..];
        }
        members.push(Member {
            name: String::from_utf8_lossy(name).into_owned(),
            method: method as u16,
            encrypted: flags & 1 == 1,
            crc: crc as u32,
            packed_bytes,
            bytes,
            header_at,
        });
        rest = rest.get(all..).unwrap_or_default();
    }
    Ok(members)
}

/// The start of a member's content, after its local header.
fn local_end(file: &File, member: &Member) -> Result<u64, String> {
    let mut header = [0; 30];
    let read = file.read_exact_at(&mut header, member.header_at);
    if read.is_err() || !header.starts_with(b"PK\x03\x04") {
        return Err(format!("{:?} is not where the central directory says; copy it again", member.name));
    }
    let length = |at| number(&header, at, 2).unwrap_or(0);
    Ok(member.header_at + 30 + length(26) + length(28))
}
