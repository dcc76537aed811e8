//! `.npz` archives: any bytes, and archives whose list, lengths and checksums are right around any members.
//!
//! Bytes up to a 0xff are the content of a member, stored or deflated; members are called as those of a sparse matrix of SciPy.
//! What is read goes to shared memory, so memory is bounded by a few buffers and a multiple of the input.

use super::{bounded, crc, temporary};
use qjam_readers::{Npz, OpenOptions, open};
use std::path::Path;

/// Sparse matrices take some copies of what a member is unpacked to.
const FACTOR: usize = 4096;
const SLACK_BYTES: usize = 16 << 20;
const NAMES: [&str; 7] = ["format", "shape", "data", "indptr", "indices", "row", "col"];

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let bytes = if kind % 2 == 0 { rest.to_vec() } else { archive(rest) };
    let path = temporary("npz", &bytes);
    bounded(FACTOR * bytes.len() + SLACK_BYTES, || {
        let opened =
            open(&path, &OpenOptions { threads: Some(1), in_memory: true, ..OpenOptions::default() });
        told(opened.err().map(|error| error.to_string()), &path);
        let _ = Npz::new(&path).in_memory().read_real::<f32>("data");
    });
}

fn told(error: Option<String>, path: &Path) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    assert!(error.is_none_or(|text| text.contains(&name)), "an error that does not name its file");
}

/// An archive with these members, as NumPy lays it out.
fn archive(members: &[u8]) -> Vec<u8> {
    let (mut file, mut list, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for (content, name) in members.split(|byte| *byte == 0xff).zip(NAMES) {
        let (method, content) = content.split_first().map_or((0, content), |(first, rest)| (first % 2, rest));
        // Deflated content has stored blocks only: what is in them is what matters.
        let packed = if method == 1 { stored_block(content) } else { content.to_vec() };
        let mut common = vec![20, 0, 0, 0, method * 8, 0, 0, 0, 0, 0];
        common.extend(crc(content).to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16 + 4).to_le_bytes());
        common.extend([0, 0]);
        let at = file.len() as u32;
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(format!("{name}.npy").bytes());
        file.extend(packed);
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&common);
        list.extend([0; 10]);
        list.extend(at.to_le_bytes());
        list.extend(format!("{name}.npy").bytes());
        count += 1;
    }
    let at = file.len() as u32;
    file.extend(&list);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count.to_le_bytes().repeat(2));
    file.extend((list.len() as u32).to_le_bytes());
    file.extend(at.to_le_bytes());
    file.extend([0, 0]);
    file
}

fn stored_block(content: &[u8]) -> Vec<u8> {
    let length = content.len().min(0xffff) as u16;
    let mut block = vec![1];
    block.extend(length.to_le_bytes());
    block.extend((!length).to_le_bytes());
    block.extend(&content[..length.into()]);
    block
}

/// A member: how it is stored, the header of an array, and its bytes.
fn member(method: u8, descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    [&[method][..], b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes(), text.as_bytes(), values]
        .concat()
}

/// Inputs to begin from.
pub fn seeds() -> Vec<Vec<u8>> {
    let ints = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let matrix = |format: &str| {
        let members = [
            member(1, "|S3", "()", format.as_bytes()),
            member(1, "<i4", "(2,)", &ints(&[2, 3])),
            member(1, "<f4", "(3,)", &ints(&[1, 2, 3])),
            member(
                0,
                "<i4",
                if format == "csr" { "(3,)" } else { "(4,)" },
                &ints(&[0, 1, 3, 3])[..if format == "csr" { 12 } else { 16 }],
            ),
            member(1, "<i4", "(3,)", &ints(&[1, 0, 1])),
            member(1, "<i4", "(3,)", &ints(&[1, 0, 1])),
            member(1, "<i4", "(3,)", &ints(&[2, 1, 0])),
        ];
        members.join(&0xff)
    };
    let array = member(1, "<f8", "(2, 3)", &[7; 48]);
    let inputs = [matrix("csr"), matrix("csc"), matrix("coo"), array];
    let built = inputs.iter().map(|input| [&[1][..], input].concat());
    let raw = inputs.iter().map(|input| [&[0][..], &archive(input)].concat());
    built.chain(raw).collect()
}
