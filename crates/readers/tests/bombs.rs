//! Small files that claim to be large, or unpack to very much: refused with a message, or read within bounds.
//!
//! Each file is opened by a program of its own whose address space is limited to 3 GiB; the program tells the message and the
//! most memory that it had. A process that aborts or is killed tells neither.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking, and what it measured"
)]

mod common;

use common::Folder;
use common::archive::{deflate, gzip, npy, zip};
use qjam_conformance::program::{self, Program};
use qjam_readers::{OpenOptions, open};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: program::Programs = &[("open", opened)];
qjam_conformance::hook!(PROGRAMS);

const LIMIT: u64 = 3 << 30;

/// Most memory that a file of a few kilobytes may take, with all that a test executable has besides.
const PEAK_MAX: u64 = 96 << 20;

/// Opens a file under the limit, and tells what came of it and the most memory that this took.
fn opened(argument: &str) {
    let (path, features) = argument.split_once('|').unwrap();
    // What is written is private all the same.
    rustix::process::umask(rustix::fs::Mode::empty());
    setrlimit(Resource::As, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    let options = OpenOptions { features: features.parse().ok(), threads: Some(2), ..OpenOptions::default() };
    match open(path, &options) {
        Ok(opened) => program::say(format!("{} rows", opened.rows.records())),
        Err(error) => program::say(error),
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    program::say(line.split_whitespace().nth(1).unwrap());
}

/// What a program says of a file, and the bytes of memory it had at most.
fn told(path: &Path, features: Option<u64>, cache: &Path) -> (String, u64) {
    let features = features.map_or(String::new(), |features| features.to_string());
    let mut command = program::command("open", &format!("{}|{features}", path.display()));
    command.env("XDG_CACHE_HOME", cache);
    let (said, status) = Program::run(command).finish();
    assert!(status.success() && said.len() == 2, "{}: {status}, {said:?}", path.display());
    let peak = said[1].parse::<u64>().unwrap() << 10;
    println!("{}: {} MiB, {}", path.display(), peak >> 20, said[0]);
    (said[0].clone(), peak)
}

#[track_caller]
fn refused(folder: &Folder, name: &str, content: impl AsRef<[u8]>, features: Option<u64>, words: &[&str]) {
    let path = folder.file(name, content);
    let (message, peak) = told(&path, features, &folder.path().join("cache"));
    for word in words.iter().chain([&name]) {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
    assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
    assert!(!folder.path().join("cache").exists(), "{name} leaves nothing behind");
}

#[test]
fn arrays_that_claim_more_than_they_have_are_refused_before_memory_is_taken() {
    let folder = Folder::new();
    let claims = |shape: &str| npy("<f8", shape, &[0; 800]);
    let (endless, wide) = (claims("(40, 99999999999)"), claims("(2, 30000000)"));
    for (name, file) in [("endless.npy", &endless), ("wide.npy", &wide)] {
        refused(&folder, name, file, None, &["copy it again"]);
        refused(&folder, &format!("{name}.gz"), gzip(file), None, &["columns", "confirm it with `features`"]);
        // Confirmed, what is missing is missed.
        refused(&folder, &format!("{name}.gz"), gzip(file), Some(99_999_999_999), &["copy it again"]);
    }
    let idx = [&[0, 0, 14, 2][..], &3_u32.to_be_bytes(), &0x7fff_ffff_u32.to_be_bytes(), &[0; 64]].concat();
    refused(&folder, "x.idx.gz", gzip(&idx), None, &["2147483647 columns", "`features`"]);
    refused(&folder, "x.idx.gz", gzip(&idx), Some(1 << 31), &["copy it again"]);
    let archive = |content: &[u8]| zip(&[("x.npy", 8, content.to_vec(), deflate(content))]);
    refused(&folder, "x.npz", archive(&endless), None, &["shorter than its header says"]);
    // The list of an archive can lie, too: the bytes of the member when it is unpacked.
    let mut archive = archive(&endless);
    let list = archive.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").unwrap();
    archive[list + 24..list + 28].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    refused(&folder, "lies.npz", archive, None, &["cannot contain"]);
}

#[test]
fn indices_and_shapes_of_sparse_files_that_few_values_do_not_make_likely_are_refused() {
    let folder = Folder::new();
    for index in ["4294967294", "400000000"] {
        let text = format!("1 1:1 {index}:1\n");
        refused(&folder, "x.svm", text, None, &[index, "confirm it with `features`"]);
    }
    let scipy = |format: &str, shape: [i64; 2], starts: usize| {
        let shape: Vec<u8> = shape.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut ends = vec![0; starts * 4];
        ends[starts * 4 - 4] = 1;
        let members = [
            ("indices.npy", npy("<i4", "(1,)", &[0; 4])),
            ("row.npy", npy("<i4", "(1,)", &[0; 4])),
            ("col.npy", npy("<i4", "(1,)", &[0; 4])),
            ("indptr.npy", npy("<i4", &format!("({starts},)"), &ends)),
            ("format.npy", npy("|S3", "()", format.as_bytes())),
            ("shape.npy", npy("<i8", "(2,)", &shape)),
            ("data.npy", npy("<f8", "(1,)", &1_f64.to_le_bytes())),
        ];
        zip(&members.map(|(name, content)| (name, 8, content.clone(), deflate(&content))))
    };
    for format in ["csc", "coo"] {
        refused(&folder, "x.npz", scipy(format, [2_000_000_000, 3], 4), None, &["2000000000 rows", "tocsr"]);
    }
    for format in ["csr", "csc", "coo"] {
        refused(
            &folder,
            "x.npz",
            scipy(format, [3, 2_000_000_000], 4),
            None,
            &["2000000000 columns", "`features`"],
        );
    }
    refused(&folder, "x.npz", scipy("csr", [2_000_000_000, 3], 4), None, &["memory"]);
    // Confirmed, it is read.
    let path = folder.file("x.npz", scipy("csr", [3, 2_000_000_000], 4));
    assert_eq!(told(&path, Some(1 << 31), folder.path()).0, "3 rows");
}

#[test]
fn a_table_with_millions_of_columns_is_asked_about() {
    let folder = Folder::new();
    let text = format!("{}\n", ",".repeat(12 << 20));
    refused(&folder, "x.csv.gz", gzip(text.as_bytes()), None, &["12582913 columns", "`features`"]);
}

#[test]
#[cfg(feature = "images")]
fn a_picture_of_a_billion_pixels_is_refused() {
    let folder = Folder::new();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 30_000, 30_000);
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().unwrap();
    writer.write_chunk(png::chunk::IDAT, &[0x78, 0x9c, 3, 0]).unwrap();
    drop(writer);
    folder.file("pictures/x.png", file);
    let (message, peak) = told(&folder.path().join("pictures"), None, folder.path());
    assert!(message.contains("30000 × 30000 pixels") && message.contains("resize it"), "{message}");
    assert!(peak < PEAK_MAX, "{peak} bytes");
}

#[test]
#[cfg(feature = "images")]
fn a_picture_with_more_pixels_than_its_bytes_can_have_is_refused() {
    let folder = Folder::new();
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, 8000, 8000);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    writer.write_chunk(png::chunk::IDAT, &deflate(&[0; 24_001])).unwrap();
    drop(writer);
    // A grey JPEG with one block of 8 × 8 pixels, whose header claims 8000 × 8000.
    let mut jpeg = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    jpeg.extend([1; 64]);
    jpeg.extend([0xff, 0xc0, 0, 11, 8, 0x1f, 0x40, 0x1f, 0x40, 1, 1, 0x11, 0]);
    for (class, symbol) in [(0x00, 11), (0x10, 0)] {
        jpeg.extend([0xff, 0xc4, 0, 20, class, 1]);
        jpeg.extend([0; 15]);
        jpeg.push(symbol);
    }
    jpeg.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x3f, 0xf7, 0xff, 0xd9]);
    for (name, bytes) in [("x.png", png), ("x.jpg", jpeg)] {
        let pictures = folder.path().join(format!("pictures-{name}"));
        folder.file(&format!("pictures-{name}/{name}"), bytes);
        let (message, peak) = told(&pictures, None, folder.path());
        assert!(message.contains("cannot have the 8000 × 8000 pixels"), "{message}");
        assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
    }
}

#[test]
fn a_file_that_unpacks_to_more_than_half_of_the_disk_is_refused() {
    let folder = Folder::new();
    let values = 10_000_000;
    let content = npy("<f8", &format!("({values},)"), &vec![0; values * 8]);
    let path = folder.file("x.npz", zip(&[("x.npy", 8, content.clone(), deflate(&content))]));
    let cache = folder.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    // A disk of its own, with less room than twice the numbers.
    let script = "mount -t tmpfs -o size=110m none \"$1\" || { echo \"@ NOT TESTED\"; exit; }; exec \"$2\"";
    let mut command = Command::new("unshare");
    let root = rustix::process::geteuid().is_root();
    command.args(if root { &["-m"][..] } else { &["-r", "-m"] }).args(["sh", "-c", script, "sh"]);
    command.arg(&cache).arg(std::env::current_exe().unwrap()).env("XDG_CACHE_HOME", &cache);
    program::as_program(&mut command, "open", &format!("{}|", path.display()));
    let (said, status) = Program::run(command).finish();
    assert!(
        !said.is_empty() && said[0] != "NOT TESTED",
        "NOT TESTED, since this user may not mount anything"
    );
    assert!(status.success() && said[0].contains("more than half of the room on this disk"), "{said:?}");
}

/// A Parquet file with these columns of random numbers, each in one page that is packed so.
#[cfg(feature = "parquet")]
fn parquet_file(columns: usize, rows: u64, compression: parquet::basic::Compression) -> Vec<u8> {
    parquet_file_with(columns, rows, compression, false)
}

/// The same, with or without dictionaries.
#[cfg(feature = "parquet")]
fn parquet_file_with(
    columns: usize,
    rows: u64,
    compression: parquet::basic::Compression,
    dictionary: bool,
) -> Vec<u8> {
    use parquet::column::writer::ColumnWriter;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let names: String = (0..columns).map(|n| format!("required double c{n}; ")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message t {{ {names} }}")).unwrap();
    let properties =
        WriterProperties::builder().set_compression(compression).set_dictionary_enabled(dictionary);
    let properties = properties.set_dictionary_page_size_limit(usize::MAX);
    let properties =
        properties.set_data_page_size_limit(usize::MAX).set_data_page_row_count_limit(usize::MAX);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), properties.build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let (mut rng, mut column) = (common::Rng(7), 0);
    while let Some(mut writer) = group.next_column().unwrap() {
        let ColumnWriter::DoubleColumnWriter(typed) = writer.untyped() else { unreachable!() };
        let values: Vec<f64> = (0..rows).map(|_| f64::from_bits(rng.next() >> 2)).collect();
        typed.write_batch(&values, None, None).unwrap();
        writer.close().unwrap();
        column += 1;
    }
    assert_eq!(column, columns);
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
#[cfg(feature = "parquet")]
fn a_page_of_parquet_takes_no_memory_for_what_it_claims() {
    use parquet::basic::Compression;
    let folder = Folder::new();
    for (name, compression) in
        [("snappy", Compression::SNAPPY), ("zstd", Compression::ZSTD(Default::default()))]
    {
        let columns = 8;
        let mut file = parquet_file(columns, 1 << 17, compression);
        // The length of each page when it is unpacked is the second field of its header, in the first bytes of its column.
        let honest = varint(1 << 20);
        let places: Vec<usize> = (0..file.len() - 8)
            .filter(|at| file[*at..].starts_with(&[&[0x15, 0, 0x15], &honest[..]].concat()))
            .collect();
        assert_eq!(places.len(), columns, "{name}");
        let claim = varint((1 << 26) - 1);
        assert_eq!(claim.len(), honest.len());
        for at in places {
            file[at + 3..at + 3 + claim.len()].copy_from_slice(&claim);
        }
        let name = format!("{name}.parquet");
        let path = folder.file(&name, file);
        let (message, peak) = told(&path, None, &folder.path().join("cache"));
        // What it claims does not matter; what it has is read.
        assert_eq!(message, format!("{} rows", 1 << 17), "{name}");
        assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
    }
}

#[test]
#[cfg(feature = "parquet")]
fn a_dictionary_of_parquet_takes_no_memory_for_what_it_claims() {
    let folder = Folder::new();
    let values = 1 << 20;
    let mut file = parquet_file_with(1, values, parquet::basic::Compression::UNCOMPRESSED, true);
    // Its header: a dictionary, two lengths, and how many values it has.
    let honest = [&[0x4c, 0x15][..], &varint(values as u32)].concat();
    let at = file.windows(honest.len()).position(|bytes| bytes == honest).unwrap();
    let claim = varint((1 << 26) - 1);
    assert_eq!(claim.len() + 2, honest.len());
    file[at + 2..at + honest.len()].copy_from_slice(&claim);
    refused(&folder, "x.parquet", file, None, &["a dictionary, shorter than its values"]);
}

#[test]
#[cfg(feature = "parquet")]
fn a_parquet_file_of_a_few_bytes_does_not_unpack_to_any_number_of_rows() {
    use parquet::column::writer::ColumnWriter;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let folder = Folder::new();
    let schema = parquet::schema::parser::parse_message_type("message t { optional double x; }").unwrap();
    let properties = WriterProperties::builder().set_data_page_row_count_limit(usize::MAX);
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema.into(), properties.build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let ColumnWriter::DoubleColumnWriter(typed) = column.untyped() else { unreachable!() };
    // Rows that have no value.
    for _ in 0..30 {
        typed.write_batch(&[], Some(&[0; 1 << 20]), None).unwrap();
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    assert!(bytes.len() < 1000, "{} bytes", bytes.len());
    refused(&folder, "x.parquet", bytes, None, &["31457280 rows", "smaller row groups"]);
}

/// A number of Thrift, as headers of Parquet have it.
#[cfg(feature = "parquet")]
fn varint(number: u32) -> Vec<u8> {
    let (mut left, mut bytes) = (u64::from(number) << 1, Vec::new());
    while left >= 128 {
        bytes.push(left as u8 | 128);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

#[test]
#[cfg(feature = "parquet")]
fn a_page_of_parquet_that_unpacks_to_more_than_its_values_is_refused() {
    let folder = Folder::new();
    let mut file = parquet_file(1, 1 << 18, parquet::basic::Compression::GZIP(Default::default()));
    // In the place of what was packed, as long as that: zeros that no page of so many values has.
    let start = file.windows(3).position(|bytes| bytes == [0x1f, 0x8b, 8]).unwrap();
    let room = (1 << 20) + (900 << 10);
    let packed = deflate(&vec![0; 160 << 20]);
    assert!(packed.len() < room && start + room < file.len(), "{} bytes of {}", packed.len(), file.len());
    let mut bomb = vec![0x1f, 0x8b, 8, 0x10, 0, 0, 0, 0, 0, 255];
    // A comment and empty blocks fill it up.
    let filler = room - bomb.len() - 1 - packed.len() - 8;
    bomb.extend(vec![b' '; filler % 5]);
    bomb.push(0);
    bomb.extend([0, 0, 0, 0xff, 0xff].repeat(filler / 5));
    bomb.extend(packed);
    bomb.extend([0; 8]);
    file[start..start + bomb.len()].copy_from_slice(&bomb);
    refused(&folder, "x.parquet", file, None, &["longer than its values"]);
}

/// Files of the cache folder, with their lengths.
fn converted(cache: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(cache.join("qjam/converted")).unwrap();
    entries.map(|entry| entry.unwrap()).map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect()
}

#[test]
fn what_unpacks_to_more_than_memory_is_for_goes_to_a_private_file() {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let values = 10_000_000;
    let archive = {
        let content = npy("<f8", &format!("({values},)"), &vec![0; values * 8]);
        zip(&[("x.npy", 8, content.clone(), deflate(&content))])
    };
    // The least that such numbers take in a text, four times as much in memory.
    let text = gzip("1\n".repeat(values).as_bytes());
    for (name, content) in [("x.npz", archive), ("x.csv.gz", text)] {
        let folder = Folder::new();
        let (path, cache) = (folder.file(name, &content), folder.path().join("cache"));
        assert!(content.len() * 100 < values * 8, "{name} has {} bytes", content.len());
        // Folders that somebody made who did not think of others.
        std::fs::create_dir_all(cache.join("qjam/converted")).unwrap();
        for open in [cache.join("qjam"), cache.join("qjam/converted")] {
            std::fs::set_permissions(open, Permissions::from_mode(0o777)).unwrap();
        }
        let (message, peak) = told(&path, None, &cache);
        assert_eq!(message, format!("{values} rows"));
        // Numbers that were in memory before they were too many are not counted there: that is shared memory.
        assert!(peak < PEAK_MAX, "{name}: {peak} bytes");
        let files = converted(&cache);
        assert!(files.len() == 1 && files[0].1 > values as u64 * 8, "{files:?}");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        for path in [&files[0].0, &cache.join("qjam/converted"), &cache.join("qjam")] {
            assert_eq!(mode(path) & 0o077, 0, "{} has mode {:o}", path.display(), mode(path));
        }
        // It is found again, unless others could have written it.
        let inode = || std::fs::metadata(&files[0].0).unwrap().ino();
        let before = inode();
        assert_eq!(told(&path, None, &cache).0, message);
        assert_eq!((converted(&cache), inode()), (files.clone(), before));
        std::fs::set_permissions(&files[0].0, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(told(&path, None, &cache).0, message);
        assert!(mode(&files[0].0) & 0o077 == 0 && inode() != before, "it was made anew");
    }
}
