//! IDX and `.npz` files.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::archive::{gzip, npy, zip};
use crate::common::{Folder, Rng};
use qjam_readers::{Idx, Npz, OpenOptions, Rows, open};
use std::io::Write;

fn idx(code: u8, shape: &[u32], values: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, code, shape.len() as u8];
    shape.iter().for_each(|n| file.extend(n.to_be_bytes()));
    file.extend(values);
    file
}

#[test]
fn idx_files_are_read_plain_and_packed_in_every_type() {
    let folder = Folder::new();
    let bytes = idx(8, &[3, 2, 2], &(0..12).collect::<Vec<u8>>());
    let plain = folder.file("plain", &bytes);
    let packed = folder.file("packed.gz", gzip(&bytes));
    let (a, b) = (Idx::new(&plain).read::<u8>().unwrap(), Idx::new(&packed).read::<u8>().unwrap());
    assert_eq!(a.id(), b.id());
    assert_eq!(a.chunk(0).unwrap().row(2), [8, 9, 10, 11]);
    assert_eq!(Idx::new(&packed).read_real::<f32>().unwrap().chunk(0).unwrap().row(1), [4.0, 5.0, 6.0, 7.0]);
    let doubles: Vec<u8> = [1.5_f64, -2.0].iter().flat_map(|v| v.to_be_bytes()).collect();
    let path = folder.file("doubles", idx(14, &[2], &doubles));
    assert_eq!(Idx::new(&path).read::<f64>().unwrap().chunk(0).unwrap().as_slice(), [1.5, -2.0]);
    assert_eq!(Idx::new(&path).read_real::<f32>().unwrap().chunk(0).unwrap().as_slice(), [1.5, -2.0]);
    let path = folder.file("shorts", idx(11, &[2], &[0xff, 0xfe, 0, 5]));
    assert_eq!(Idx::new(&path).read_real::<f64>().unwrap().chunk(0).unwrap().as_slice(), [-2.0, 5.0]);
    let message = Idx::new(&path).read::<f64>().unwrap_err().to_string();
    assert!(message.contains("values are i16, but f64 was requested"), "{message}");
}

#[test]
fn damaged_idx_files_are_refused_with_what_was_found() {
    let folder = Folder::new();
    let refused = |bytes: &[u8], expected: &str| {
        for (name, bytes) in [("plain", bytes.to_vec()), ("packed.gz", gzip(bytes))] {
            let message = Idx::new(folder.file(name, bytes)).read_real::<f64>().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    };
    let whole = idx(12, &[2, 3], &[1; 24]);
    refused(&whole[..whole.len() - 1], "makes 24 bytes of values and there are 23");
    refused(&whole[..9], "ends within its header");
    refused(b"", "it starts with []");
    refused(b"PK\x03\x04", "it starts with [50, 4b, 03, 04]");
    refused(&idx(12, &[u32::MAX, 100], &[]), "and there are 0");
    refused(&idx(12, &[u32::MAX; 3], &[]), "impossibly large");
    refused(&idx(12, &[0, 3], &[]), "has no values");
    refused(&idx(7, &[1], &[]), "its type is 0x07");
    refused(&idx(8, &[], &[]), "0 dimensions");
    let longer = folder.file("longer.gz", gzip(&idx(8, &[2], &[1, 2, 3])));
    assert!(Idx::new(longer).read::<u8>().unwrap_err().to_string().contains("continues after"));
}

fn archive() -> (Vec<u8>, Vec<f64>) {
    let values: Vec<f64> = (0..60_000).map(|i| f64::from(i % 977)).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let x = npy("<f8", "(20000, 3)", &bytes);
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&x).unwrap();
    let packed = packed.finish().unwrap();
    let y = npy("|u1", "(4,)", &[1, 2, 3, 4]);
    (zip(&[("x.npy", 8, x.clone(), packed), ("s.npy", 0, x.clone(), x), ("y.npy", 0, y.clone(), y)]), values)
}

#[test]
fn arrays_are_read_from_npz_archives_stored_or_deflated() {
    let folder = Folder::new();
    let (archive, values) = archive();
    let path = folder.file("a.npz", archive);
    assert_eq!(Npz::new(&path).names().unwrap(), ["x", "s", "y"]);
    let stored = Npz::new(&path).read::<f64>("s").unwrap();
    let deflated = Npz::new(&path).read::<f64>("x").unwrap();
    let kept = || Npz::new(&path).keep_in(folder.path().join("kept")).read::<f64>("x").unwrap();
    assert_eq!([deflated.id(), kept().id(), kept().id()], [stored.id(); 3]);
    assert_eq!(deflated.partitions(1).unwrap().chunk(0).unwrap().as_slice(), values);
    assert_eq!(Npz::new(&path).read::<u8>("y").unwrap().chunk(0).unwrap().as_slice(), [1, 2, 3, 4]);
    let message = |name: &str| Npz::new(&path).read::<f64>(name).unwrap_err().to_string();
    assert!(message("z").contains("has no array \"z\"; it has \"x\", \"s\", \"y\""), "{}", message("z"));
    assert!(message("y").contains("elements of type |u1, but <f8 was requested"), "{}", message("y"));
}

#[test]
fn archives_cut_short_or_changed_never_panic() {
    let folder = Folder::new();
    let (archive, _) = archive();
    let mut rng = Rng(9);
    let read = |bytes: &[u8]| {
        let path = folder.file("a.npz", bytes);
        let _ = Npz::new(&path).names();
        ["x", "y"]
            .map(|name| Npz::new(&path).read::<f64>(name).is_ok() || Npz::new(&path).read::<u8>(name).is_ok())
    };
    for _ in 0..30 {
        assert_eq!(read(&archive[..rng.below(archive.len())]), [false; 2]);
    }
    // The list and the headers, where a changed byte does most.
    for _ in 0..100 {
        let mut changed = archive.clone();
        let at = archive.len() - 1 - rng.below(400);
        changed[at] ^= 1 << rng.below(8);
        read(&changed);
    }
    let mut changed = archive.clone();
    changed[3000] ^= 1;
    assert!(!read(&changed)[0], "a deflated member has a checksum");
    assert!(
        Npz::new(folder.file("t.npz", "hello")).names().unwrap_err().to_string().contains("not a zip file")
    );
}

/// What `scipy.sparse.save_npz` makes of
///
/// ```text
/// 0 5 0
/// 1 0 2
/// ```
fn scipy(format: &str, starts: &[i32], places: &[i32], values: &[f32]) -> Vec<u8> {
    let ints = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let floats: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let shape: Vec<u8> = [2_i64, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    let members = [
        ("indices.npy", npy("<i4", &format!("({},)", places.len()), &ints(places))),
        ("indptr.npy", npy("<i4", &format!("({},)", starts.len()), &ints(starts))),
        ("format.npy", npy("|S3", "()", format.as_bytes())),
        ("shape.npy", npy("<i8", "(2,)", &shape)),
        ("data.npy", npy("<f4", &format!("({},)", values.len()), &floats)),
    ];
    let packed = |content: &Vec<u8>| {
        let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(content).unwrap();
        packed.finish().unwrap()
    };
    zip(&members.map(|(name, content)| (name, 8, content.clone(), packed(&content))))
}

#[test]
fn sparse_matrices_that_scipy_saved_are_read_by_rows() {
    let folder = Folder::new();
    let csr = folder.file("csr.npz", scipy("csr", &[0, 1, 3], &[1, 2, 0], &[5.0, 2.0, 1.0]));
    let csc = folder.file("csc.npz", scipy("csc", &[0, 1, 2, 3], &[1, 0, 1], &[1.0, 5.0, 2.0]));
    for path in [csr, csc] {
        let opened = open(&path, &OpenOptions::default()).unwrap();
        let Rows::CsrF32(rows) = &opened.rows else { panic!("they are sparse rows of 32 bits: {opened:?}") };
        let x = rows.chunk(0).unwrap();
        assert_eq!((x.rows(), x.cols(), opened.labelled), (2, 3, false));
        assert_eq!((x.row(0), x.row(1)), ((&[1][..], &[5.0][..]), (&[0, 2][..], &[1.0, 2.0][..])));
        let wide = Npz::new(&path).read_sparse::<f64>().unwrap().chunk(0).unwrap();
        assert_eq!(wide.values(), [5.0, 1.0, 2.0]);
        // One of the arrays can still be asked for.
        let data = OpenOptions { array: Some("data".into()), ..OpenOptions::default() };
        assert!(matches!(open(&path, &data).unwrap().rows, Rows::DenseF32(_)));
    }
    let dia = folder.file("dia.npz", scipy("dia", &[0, 1, 3], &[1, 2, 0], &[5.0, 2.0, 1.0]));
    let error = open(&dia, &OpenOptions::default()).unwrap_err().to_string();
    assert!(error.contains("dia.npz") && error.contains("\"dia\"") && error.contains("tocsr"), "{error}");
    let drop = OpenOptions { missing: qjam_readers::Missing::DropRow, ..OpenOptions::default() };
    let csr = folder.file("nan.npz", scipy("csr", &[0, 1, 3], &[1, 2, 0], &[5.0, f32::NAN, 1.0]));
    assert!(open(&csr, &drop).unwrap_err().to_string().contains("`missing` does not apply"));
    let error = open(&csr, &OpenOptions::default()).unwrap_err().to_string();
    assert!(error.contains("row 2, column \"3\"") && error.contains("not finite"), "{error}");
}
