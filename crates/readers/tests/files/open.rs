//! The one door for every kind of file.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use crate::common::Folder;
use qjam_readers::{Dtype, Kind, Labels, Missing, OpenOptions, Opened, Rows, open};
use std::io::Write;
use std::path::Path;

fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    text.push_str(&" ".repeat(117 - text.len()));
    text.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.extend(values);
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// All values, as `f64`, row after row.
fn values(opened: &Opened) -> Vec<f64> {
    match &opened.rows {
        Rows::DenseF32(data) => {
            (0..data.len()).flat_map(|i| data.chunk(i).unwrap().as_slice().to_vec()).map(f64::from).collect()
        }
        Rows::DenseF64(data) => {
            (0..data.len()).flat_map(|i| data.chunk(i).unwrap().as_slice().to_vec()).collect()
        }
        Rows::CsrF32(_) | Rows::CsrF64(_) => panic!("sparse"),
    }
}

fn plain(path: &Path) -> Opened {
    open(path, &OpenOptions::default()).unwrap()
}

#[test]
fn the_same_numbers_come_out_of_every_kind_of_file() {
    let folder = Folder::new();
    let numbers = [1.0, 2.5, -3.0, 4.0, 5.0, 6.25];
    let doubles: Vec<u8> = numbers.iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
    let big: Vec<u8> = numbers.iter().flat_map(|v: &f64| v.to_be_bytes()).collect();
    let mut idx = vec![0, 0, 14, 2, 0, 0, 0, 3, 0, 0, 0, 2];
    idx.extend(big);
    let csv = b"1,2.5\n-3,4\n5,6.25\n";
    let array = npy("<f8", "3, 2", &doubles);
    for (name, bytes, kind) in [
        ("a.npy", array.clone(), Kind::Npy),
        ("a.npy.gz", gzip(&array), Kind::Npy),
        ("a.csv", csv.to_vec(), Kind::Csv),
        ("a.csv.gz", gzip(csv), Kind::Csv),
        ("a.tsv", b"x\ty\n1\t2.5\n-3\t4\n5\t6.25".to_vec(), Kind::Csv),
        ("semicolons", b"x;y\n1;2.5\n-3;4\n5;6.25".to_vec(), Kind::Csv),
        ("spaces.txt", b"1.0 2.5\n-3 4\n5 6.25\n".to_vec(), Kind::Csv),
        ("a-idx2-double", idx.clone(), Kind::Idx),
        ("a-idx2-double.gz", gzip(&idx), Kind::Idx),
    ] {
        let opened = plain(&folder.file(name, bytes));
        assert_eq!((opened.kind, values(&opened)), (kind, numbers.to_vec()), "{name}");
        assert_eq!((opened.rows.records(), opened.rows.dtype()), (3, Dtype::F64), "{name}");
        assert!(opened.labels().unwrap().is_none(), "{name}");
    }
}

#[test]
fn arrays_of_other_types_become_real_numbers() {
    let folder = Folder::new();
    let ints: Vec<u8> = [1_i32, -2, 3, 4].iter().flat_map(|v| v.to_le_bytes()).collect();
    let path = folder.file("ints.npy", npy("<i4", "2, 2", &ints));
    let opened = plain(&path);
    assert_eq!((opened.rows.dtype(), values(&opened)), (Dtype::F64, vec![1.0, -2.0, 3.0, 4.0]));
    let floats: Vec<u8> = [0.5_f32, f32::NAN, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let path = folder.file("floats.npy", npy("<f4", "2, 2", &floats));
    assert_eq!(plain(&path).rows.dtype(), Dtype::F32);
    let options = OpenOptions { missing: Missing::DropRow, ..OpenOptions::default() };
    let opened = open(&path, &options).unwrap();
    assert_eq!((values(&opened), opened.dropped), (vec![2.0, 3.0], 1));
    let options = OpenOptions { missing: Missing::Mean, dtype: Some(Dtype::F64), ..OpenOptions::default() };
    let opened = open(&path, &options).unwrap();
    assert_eq!((values(&opened), opened.filled), (vec![0.5, 3.0, 2.0, 3.0], 1));
    // Converted, so looked through: the first NaN is named.
    let options = OpenOptions { dtype: Some(Dtype::F64), ..OpenOptions::default() };
    let message = open(&path, &options).unwrap_err().to_string();
    assert!(message.contains("row 1, column \"2\""), "{message}");
    let cut = folder.file("cut.npy.gz", gzip(&npy("<i4", "2, 2", &ints)[..140]));
    assert!(open(&cut, &OpenOptions::default()).unwrap_err().to_string().contains("16 bytes"));
}

#[test]
fn a_target_is_out_of_the_way_or_the_last_column() {
    let folder = Folder::new();
    let path = folder.file("a.csv", "town,size,price\nEly,70,1.5\nBath,100,2.5\n");
    let named =
        |target: &str, labels| OpenOptions { target: Some(target.into()), labels, ..OpenOptions::default() };
    let opened = open(&path, &named("town", Labels::Out)).unwrap();
    assert_eq!(
        (values(&opened), &opened.columns[..]),
        (vec![70.0, 1.5, 100.0, 2.5], &["size".into(), "price".into()][..])
    );
    let options = OpenOptions { without: vec!["town".into()], ..named("price", Labels::Last) };
    let opened = open(&path, &options).unwrap();
    assert_eq!(opened.labels().unwrap(), Some(vec![1.5, 2.5]));
    let message = open(&path, &named("town", Labels::Last)).unwrap_err().to_string();
    assert!(message.contains("\"Ely\" in column \"town\""), "{message}");
    let message = open(&path, &named("cost", Labels::Out)).unwrap_err().to_string();
    assert!(message.contains("no column \"cost\"; it has \"town\", \"size\", \"price\""), "{message}");
    let path = folder.file("rows", "1 1:0.5 3:2\n-1 2:1\n");
    let opened = plain(&path);
    assert_eq!((opened.kind, opened.labels().unwrap()), (Kind::Libsvm, Some(vec![1.0, -1.0])));
    assert_eq!((opened.rows.records(), opened.rows.cols().unwrap()), (2, 3));
}

#[test]
fn what_is_of_no_known_kind_is_refused_with_what_is_known() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("nothing")).unwrap();
    folder.file("both/a.png", "");
    folder.file("both/b.wav", "");
    for (name, bytes, expected) in [
        ("empty", &b""[..], "it is empty"),
        ("a.png", b"\x89PNG\r\n", "name the folder it is in"),
        ("a.h5", b"\x89HDF\r\n", "numpy.save"),
        ("random", b"\x01\x02\0\x03", "starts with [01, 02, 00, 03]"),
    ] {
        let message = open(folder.file(name, bytes), &OpenOptions::default()).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains("supported are .npy, .npz, CSV"), "{message}");
    }
    for (name, expected) in [("nothing", "without a PNG"), ("both", "both pictures and sounds")] {
        let path = folder.path().join(name);
        let message = open(&path, &OpenOptions::default()).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let message = open(folder.path().join("none"), &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.contains("none cannot be read"), "{message}");
}

#[test]
fn options_that_mean_nothing_for_the_file_are_refused() {
    let folder = Folder::new();
    let path = folder.file("a.csv", "1,2\n");
    let options = OpenOptions { zero_based: true, ..OpenOptions::default() };
    let message = open(&path, &options).unwrap_err().to_string();
    assert!(
        message.contains("read as csv, to which `zero_based` does not apply; it applies to libsvm"),
        "{message}"
    );
}
