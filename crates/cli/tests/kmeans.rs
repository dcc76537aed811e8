//! Learners from files, as people meet them: fit, predict, inspect, measure; every kind of file; and calls that are wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn qjam(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qjam"))
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command starts")
}

fn out(args: &[&str]) -> String {
    let output = qjam(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a call that must fail says, which is one line.
fn refused(args: &[&str]) -> String {
    let output = qjam(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{args:?}: {said}");
    said
}

/// What a call says that cannot be understood.
fn misunderstood(args: &[&str]) -> String {
    let output = qjam(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    said
}

/// The value of a key in a line of JSON.
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let rest = json.split(&format!("\"{key}\":")).nth(1).unwrap_or_else(|| panic!("no {key} in {json}"));
    rest.split([',', '}']).next().expect("there is a first part").trim_matches('"')
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-kmeans-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
        std::fs::write(&path, content).expect("a file");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn npy(columns: usize, values: &[f32]) -> Vec<u8> {
    let shape = format!("({}, {columns})", values.len() / columns);
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

/// An archive with one member, which is not packed.
fn npz(name: &str, content: &[u8]) -> Vec<u8> {
    let name = format!("{name}.npy");
    let (crc, length) = (crc32fast::hash(content).to_le_bytes(), (content.len() as u32).to_le_bytes());
    let about =
        [&[0, 0, 0, 0, 0, 0, 33, 0][..], &crc, &length, &length, &(name.len() as u16).to_le_bytes(), &[0, 0]]
            .concat();
    let member = [b"PK\x03\x04\x14\x00", &about[..], name.as_bytes(), content].concat();
    let entry = [b"PK\x01\x02\x14\x00\x14\x00", &about[..], &[0; 14], name.as_bytes()].concat();
    let [at, size] = [member.len(), entry.len()].map(|n| (n as u32).to_le_bytes());
    let end = [b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00", &size[..], &at, &[0, 0]].concat();
    [member, entry, end].concat()
}

fn parquet(columns: usize, rows: usize, value: impl Fn(usize, usize) -> f64) -> Vec<u8> {
    use parquet::column::writer::ColumnWriter;
    let fields: String = (0..columns).map(|j| format!("required double c{j};")).collect();
    let schema =
        parquet::schema::parser::parse_message_type(&format!("message t {{ {fields} }}")).expect("a schema");
    let mut bytes = Vec::new();
    let mut writer =
        parquet::file::writer::SerializedFileWriter::new(&mut bytes, schema.into(), Default::default())
            .expect("a writer");
    for begin in (0..rows).step_by(16_384) {
        let mut group = writer.next_row_group().expect("a group");
        for j in 0..columns {
            let values: Vec<f64> = (begin..rows.min(begin + 16_384)).map(|i| value(i, j)).collect();
            let mut column = group.next_column().expect("a column").expect("one more");
            if let ColumnWriter::DoubleColumnWriter(typed) = column.untyped() {
                typed.write_batch(&values, None, None).expect("values");
            }
            column.close().expect("a column");
        }
        group.close().expect("a group");
    }
    writer.close().expect("a file");
    bytes
}

fn picture(shade: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 8, 8);
    encoder.set_color(png::ColorType::Grayscale);
    let pixels: Vec<u8> = (0..64).map(|i| shade.wrapping_mul(40).wrapping_add(i)).collect();
    encoder.write_header().expect("a header").write_image_data(&pixels).expect("pixels");
    bytes
}

fn sound(step: i16) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).expect("a writer");
    (0..512_i16).for_each(|i| writer.write_sample(i.wrapping_mul(step * 100)).expect("a sample"));
    writer.finalize().expect("a file");
    bytes.into_inner()
}

/// Three groups of points in the plane.
fn point(i: usize) -> [f32; 2] {
    [(i % 3) as f32 * 10.0 + (i % 7) as f32 * 0.1, (i % 5) as f32 * 0.1 + 1.0]
}

fn points(n: usize) -> Vec<f32> {
    (0..n).flat_map(point).collect()
}

fn table(n: usize) -> String {
    let line = |i| format!("{},{},town {i}\n", point(i)[0], point(i)[1]);
    (0..n).fold("x,y,name\n".into(), |all, i| all + &line(i))
}

#[test]
fn the_inertia_that_a_fit_prints_is_the_one_in_the_models_file() {
    let folder = Folder::new("inertia");
    let (x, model) = (folder.with("x.npy", npy(2, &points(3000))), folder.file("x.model"));
    for learner in ["kmeans", "minibatch-kmeans"] {
        // Far from the end, so that other centres have another inertia.
        let more = ["--k", "3", "--workers", "local:2", "--seed", "5"];
        let fit = [&["fit", learner, &x, "--out", &model], &more[..]].concat();
        let said = out(&[&fit[..], &["--json"]].concat());
        let told = value(&said, "inertia").to_owned();
        assert!(told.parse::<f64>().expect("a number") > 0.0, "{said}");
        assert_eq!(value(&out(&["inspect", &model, "--json"]), "inertia"), told, "{learner}");
        let printed = out(&fit);
        let line = format!("inertia   {:.9e}", told.parse::<f64>().expect("a number"));
        assert!(printed.contains(&line), "{line} is not in {printed}");
        assert_eq!(value(&out(&["inspect", &model, "--json"]), "inertia"), told, "{learner}");
    }
}

#[test]
fn a_model_is_fitted_inspected_and_asked() {
    let folder = Folder::new("fit");
    let (x, model) = (folder.with("x.npy", npy(2, &points(3000))), folder.file("x.model"));
    let fit = ["fit", "kmeans", &x, "--k", "3", "--out", &model];
    let said = out(&[&fit[..], &["--workers", "local:2", "--json"]].concat());
    assert_eq!(
        (value(&said, "converged"), value(&said, "empty"), value(&said, "rows")),
        ("true", "0", "3000")
    );
    assert!(said.contains("\"sizes\":[1000,1000,1000]"), "{said}");
    let again = out(&[&fit[..], &["--workers", "proc:2", "--algorithm", "lloyd", "--json"]].concat());
    assert_eq!(value(&said, "hash"), value(&again, "hash"));
    let said = out(&fit);
    for words in [
        "kmeans: 3 clusters",
        "3000 rows x 2 columns of f32",
        "converged after",
        "rows: 1000, 1000, 1000",
        "time",
        "Next: qjam predict",
    ] {
        assert!(said.contains(words), "{words:?} is missing from {said}");
    }
    let said = out(&["inspect", &model]);
    assert!(
        said.contains("centres: 3 x 2 of F32") && said.contains("--k 3") && said.contains("rows 3000"),
        "{said}"
    );
    let said = out(&["inspect", &model, "--json"]);
    assert_eq!(
        (value(&said, "kind"), value(&said, "n_clusters"), value(&said, "init")),
        ("kmeans", "3", "k-means++")
    );
    let said = out(&["predict", &model, &x, "--workers", "local:1"]);
    let found: Vec<&str> = said.lines().collect();
    assert_eq!(found.len(), 3000);
    assert!(found[0] != found[1] && found[1] != found[2] && found[0] == found[3]);
    let (labels, text, far) = (folder.file("labels.npy"), folder.file("labels.csv"), folder.file("far.npy"));
    assert!(out(&["predict", &model, &x, "--out", &labels]).contains("3000 labels in"));
    assert_eq!(std::fs::metadata(&labels).expect("labels").len(), 128 + 4 * 3000);
    out(&["predict", &model, &x, "--out", &text]);
    assert_eq!(std::fs::read_to_string(&text).expect("labels").lines().collect::<Vec<_>>(), found);
    out(&["predict", &model, &x, "--transform", "--out", &far]);
    assert_eq!(std::fs::metadata(&far).expect("distances").len(), 128 + 4 * 3 * 3000);
}

#[test]
fn every_kind_of_file_is_fitted_asked_and_looked_into() {
    let folder = Folder::new("kinds");
    let array = npy(2, &points(300));
    let sparse: String = (0..300).map(|i| format!("1 1:{} 2:{}\n", point(i)[0], point(i)[1])).collect();
    let idx: Vec<u8> = (0..300_u32).flat_map(|i| [(i % 3 * 80) as u8, (i % 5) as u8]).collect();
    let idx = [&[0, 0, 8, 2, 0, 0, 1, 44, 0, 0, 0, 2][..], &idx].concat();
    for shade in 0..6 {
        folder.with(&format!("pictures/{shade}.png"), picture(shade));
        folder.with(&format!("sounds/{shade}.wav"), sound(i16::from(shade) + 1));
    }
    for (data, more, rows) in [
        (folder.with("x.npz", npz("x", &array)), &[][..], 300),
        (folder.with("x.csv", table(300)), &["--without", "name"], 300),
        (folder.with("x.svm", sparse), &[], 300),
        (folder.with("x.parquet", parquet(2, 300, |i, j| f64::from(point(i)[j]))), &[], 300),
        (folder.with("x-idx2", idx), &[], 300),
        (folder.file("pictures"), &["--grey", "--patches", "4"], 24),
        (folder.file("sounds"), &["--frames", "64", "--spectrum", "power"], 48),
    ] {
        let (model, labels) = (folder.file("model"), folder.file("labels.csv"));
        let said = out(&[
            &["fit", "kmeans", &data, "--k", "3", "--out", &model, "--json", "--workers", "local:1"],
            more,
        ]
        .concat());
        assert_eq!(value(&said, "rows"), rows.to_string(), "{data}");
        assert!(out(&["inspect", &model]).contains("kind kmeans, version 1"), "{data}");
        // Columns of tables are found by the names that the model has.
        let more = if data.ends_with(".csv") { &[] } else { more };
        out(&[&["predict", &model, &data, "--out", &labels, "--workers", "local:1"], more].concat());
        assert_eq!(std::fs::read_to_string(&labels).expect("labels").lines().count(), rows, "{data}");
    }
}

#[test]
fn the_other_learners_have_the_same_way() {
    let folder = Folder::new("others");
    let (x, model, answers) =
        (folder.with("x.npy", npy(2, &points(300))), folder.file("model"), folder.file("a.npy"));
    let said = out(&["fit", "minibatch-kmeans", &x, "--k", "3", "--batch", "50", "--out", &model, "--json"]);
    assert_eq!(value(&said, "k"), "3");
    out(&["predict", &model, &x, "--out", &answers]);
    let fit = ["fit", "autoencoder", &x, "--hidden", "2", "--evaluations", "9", "--out", &model];
    let said = out(&[&fit[..], &["--json", "--workers", "proc:1"]].concat());
    let again = out(&[&fit[..], &["--json", "--workers", "local:2"]].concat());
    assert_eq!(value(&said, "hash"), value(&again, "hash"));
    assert!(out(&["inspect", &model]).contains("w1: 2 x 2 of F64"));
    assert!(out(&["predict", &model, &x, "--out", &answers]).contains("300 rows of 2 numbers"));
}

#[test]
fn explain_tells_of_results_as_long_as_their_data() {
    let folder = Folder::new("long-results");
    // A chunk has a sum for each pair of columns.
    let (columns, mut state) = (120, 7_u64);
    let mut table = (0..columns).map(|c| format!("c{c}")).collect::<Vec<_>>().join(",");
    for n in 0..9_500 * columns {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        table.push_str(if n % columns == 0 { "\n" } else { "," });
        table.push_str(&(state >> 60).to_string());
    }
    let path = folder.with("x.csv", table);
    for (columns, is_told) in [("c0,c1,c2", false), ("", true)] {
        let fit = ["fit", "lasso", &path, "--target", "c119", "--explain", "--out", "/dev/null"];
        let columns = if columns.is_empty() { vec![] } else { vec!["--columns", columns] };
        let done = qjam(&[&fit[..], &columns].concat());
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{err}");
        assert_eq!(err.contains("chunks would do: `data.for_results_of("), is_told, "{err}");
    }
}

#[test]
fn an_autoencoder_that_is_wide_beside_its_data_is_cut_for_that_and_has_one_hash() {
    let folder = Folder::new("wide-network");
    let values: Vec<f32> = (0..6_800 * 80).map(|n| (n % 97) as f32 / 97.0).collect();
    let path = folder.with("x.npy", npy(80, &values));
    let fit =
        ["fit", "autoencoder", &path, "--evaluations", "3", "--explain", "--json", "--out", "/dev/null"];
    for hidden in ["60", "20", "2"] {
        let on = |workers: &str| {
            let done = qjam(&[&fit[..], &["--hidden", hidden, "--workers", workers]].concat());
            let err = String::from_utf8_lossy(&done.stderr);
            // Nothing is said of results as long as their data.
            assert!(done.status.success() && !err.contains("would do"), "{hidden}: {err}");
            value(&String::from_utf8_lossy(&done.stdout), "hash").to_owned()
        };
        let expected = on("local:1");
        assert!(["local:3", "proc:2"].iter().all(|workers| on(workers) == expected), "{hidden}");
    }
}

#[test]
fn weights_and_first_centres_may_be_given() {
    let folder = Folder::new("weights");
    let lines = |weight: &dyn Fn(usize) -> usize| {
        (0..30).fold("x,w\n".to_string(), |all, i| all + &format!("{},{}\n", (i % 2) * 10 + i % 3, weight(i)))
    };
    let (one, two) =
        (folder.with("one.csv", lines(&|_| 1)), folder.with("two.csv", lines(&|i| 1 + i % 2 * 2)));
    let (first, model) = (folder.with("first.csv", "0\n10\n"), folder.file("model"));
    let fit = |data: &str| {
        let said = out(&[
            "fit",
            "kmeans",
            data,
            "--k",
            "2",
            "--weights",
            "w",
            "--init",
            &first,
            "--out",
            &model,
            "--json",
        ]);
        said.split("\"sizes\":").nth(1).map(|rest| rest[..7].to_string())
    };
    assert_eq!(fit(&one).as_deref(), Some("[15,15]"));
    assert_eq!(fit(&two).as_deref(), Some("[15,45]"));
}

#[test]
fn an_iteration_is_measured_with_and_without_pruning() {
    let folder = Folder::new("bench");
    let (x, c) =
        (folder.with("x.npy", npy(2, &points(3000))), folder.with("c.npy", npy(2, &points(3000)[..8])));
    let to = folder.file("c2.npy");
    let args = ["bench", "kmeans", "--data", &x, "--init", &c, "--iterations", "40", "--json", "--out", &to];
    let pruned = out(&[&args[..], &["--workers", "local:2"]].concat());
    let all = out(&[&args[..], &["--workers", "proc:2", "--no-pruning"]].concat());
    for said in [&pruned, &all] {
        for key in ["ms_per_iteration", "inertia", "iterations", "hash"] {
            value(said, key);
        }
        assert_eq!((value(said, "iterations_asked"), value(said, "fixed_point")), ("40", "true"), "{said}");
    }
    // The fixed point ends it, unless everything is to be computed; the centres are the same.
    assert_eq!(value(&all, "iterations"), "40");
    assert!(value(&pruned, "iterations").parse::<u32>().expect("a number") < 40, "{pruned}");
    assert_eq!(value(&pruned, "hash"), value(&all, "hash"));
    let per = |key: &str| value(&pruned, key).parse::<f64>().expect("a number");
    assert!((per("ms_per_iteration") * 40.0 - per("ms_total")).abs() < 1e-6 * per("ms_total"));
    assert!(per("ms_per_iteration") < per("ms_per_iteration_made"));
    assert!(Path::new(&to).exists());
}

#[test]
fn data_of_four_times_the_memory_limit_is_fitted_within_it() {
    const LIMIT_BYTES: u64 = 16 << 20;
    let folder = Folder::new("memory");
    let (rows, columns) = (262_200, 32);
    let number = |i: usize, j: usize| ((i * 7 + j * 13) % 50) as f64 * 0.5 + (i % 4 * 40) as f64;
    // Rows repeat after a hundred, so that there is little to be made.
    let hundred: Vec<f32> = (0..100).flat_map(|i| (0..columns).map(move |j| number(i, j) as f32)).collect();
    let line = |i| (0..columns).map(|j| number(i, j).to_string()).collect::<Vec<_>>().join(",") + "\n";
    let (values, text) =
        (hundred.repeat(rows / 50), (0..100).map(line).collect::<String>().repeat(rows / 100));
    let (cache, model) = (folder.file("cache"), folder.file("model"));
    for data in [
        folder.with("x.npy", npy(columns, &values)),
        folder.with("x.csv", text),
        folder.with("x.parquet", parquet(columns, rows, number)),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_qjam"))
            .args([
                "fit",
                "kmeans",
                &data,
                "--k",
                "4",
                "--init",
                "random",
                "--starts",
                "1",
                "--iterations",
                "2",
            ])
            .args([
                "--memory-limit",
                "16M",
                "--workers",
                "proc:1",
                "--out",
                &model,
                "--json",
                "--keep-in",
                &cache,
            ])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the command starts");
        // Workers are ended if they take more; what this process has is looked at.
        let (status, mut most) = (format!("/proc/{}/status", child.id()), 0);
        let ended = loop {
            let now = std::fs::read_to_string(&status).unwrap_or_default();
            let line = now.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            most = most.max(kib.unwrap_or(0) << 10);
            if let Some(ended) = child.try_wait().expect("it can be waited for") {
                break ended;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        assert!(ended.success(), "{data}");
        assert!(most > 0 && most < LIMIT_BYTES, "{data}: {most} bytes");
    }
}

#[test]
fn wrong_calls_say_what_is_wrong_and_what_to_type() {
    let folder = Folder::new("wrong");
    let x = folder.with("x.npy", npy(2, &points(30)));
    let mut values = points(30);
    values[7] = f32::NAN;
    let (bad, csv) = (folder.with("bad.npy", npy(2, &values)), folder.with("x.csv", table(30)));
    let packed = parquet(2, 30, |i, j| f64::from(point(i)[j]));
    folder.with("pictures/0.png", picture(0));
    folder.with("sounds/0.wav", sound(1));
    std::fs::create_dir_all(folder.file("nothing")).expect("a folder");
    let model = folder.file("model");
    for (data, more, words) in [
        (folder.file("none.npy"), &[][..], &["none.npy", "is the path right?"][..]),
        (bad.clone(), &[], &["bad.npy", "row 3, column 1 (counted from 0) is NaN", "--skip-bad-rows"]),
        (x.clone(), &["--k", "31"], &["31 clusters of 30 rows"]),
        (x.clone(), &["--columns", "a"], &["--columns", "npy"]),
        (x.clone(), &["--init", "none.npy"], &["--init none.npy", "k-means++"]),
        (x.clone(), &["--weights", "w"], &["--weights last"]),
        (folder.with("short.npy", &npy(2, &points(30))[..150]), &[], &["short.npy", "cut short"]),
        (folder.with("empty.npy", npy(2, &[])), &[], &["empty.npy", "no rows"]),
        (csv.clone(), &[], &["x.csv, line 2, column 5", "town 0", "--without name"]),
        (csv.clone(), &["--columns", "x,z"], &["no column \"z\"", "\"y\""]),
        (csv, &["--without", "name", "--grey"], &["--grey", "images"]),
        (folder.with("ragged.csv", "a,b\n1,2\n3,4,5\n"), &[], &["line 3", "3 fields", "2"]),
        (folder.with("gap.csv", "a,b\n1,2\n3,\n"), &[], &["line 3", "\"b\" is missing", "--missing mean"]),
        (folder.with("inf.csv", "a,b\n1,2\n3,inf\n"), &[], &["line 3", "not finite", "--missing drop"]),
        (folder.with("empty.csv", ""), &[], &["empty.csv", "empty"]),
        (folder.with("head.csv", "a,b\n"), &[], &["head.csv", "no rows"]),
        (folder.with("short.csv.gz", [31, 139, 8, 0, 0, 0, 0, 0]), &[], &["short.csv.gz", "copy it again"]),
        (folder.with("zero.svm", "1 0:2\n"), &[], &["line 1, column 3", "--zero-based"]),
        (folder.with("falling.svm", "1 3:1 2:1\n"), &[], &["line 1, column 7", "must increase"]),
        (folder.with("word.svm", "1 1:one\n"), &[], &["line 1", "1:one"]),
        (folder.with("x.parquet", &packed), &["--columns", "z"], &["no column \"z\"", "\"c0\""]),
        (folder.with("short.parquet", &packed[..200]), &[], &["short.parquet"]),
        (folder.with("x.parquet", &packed), &["--header", "yes"], &["--header", "csv"]),
        (
            folder.with("x.npz", npz("x", &npy(2, &points(30)))),
            &["--array", "y"],
            &["no array \"y\"", "\"x\""],
        ),
        (folder.with("short.npz", &npz("x", &npy(2, &points(30)))[..300]), &[], &["short.npz", "truncated"]),
        (
            folder.with("x.npz", npz("x", &npy(2, &points(30)))),
            &["--zero-based"],
            &["--zero-based", "libsvm"],
        ),
        (
            folder.with("short-idx", [0, 0, 8, 2, 0, 0, 0, 9, 0, 0, 0, 2, 1]),
            &[],
            &["short-idx", "copy it again"],
        ),
        (folder.with("x-idx", [0, 0, 8, 1, 0, 0, 0, 1, 5]), &["--k", "2"], &["2 clusters of 1 rows"]),
        (folder.with("x-idx", [0, 0, 8, 1, 0, 0, 0, 1, 5]), &["--target", "a"], &["--target", "csv"]),
        (folder.file("nothing"), &[], &["nothing", "without a PNG, JPEG or WAV file"]),
        (folder.file("pictures"), &["--patches", "9"], &["0.png", "8 × 8"]),
        (folder.file("pictures"), &["--frames", "9"], &["--frames", "audio"]),
        (folder.file("sounds"), &["--frames", "9999"], &["sounds", "window"]),
        (folder.file("sounds"), &["--size", "8x8"], &["--size", "images"]),
    ] {
        let k = if more.contains(&"--k") { &[][..] } else { &["--k", "2"] };
        let said = refused(&[&["fit", "kmeans", &data, "--out", &model], k, more].concat());
        for words in words {
            assert!(said.contains(words), "{data} {more:?}: {words:?} is missing from {said}");
        }
    }
    assert!(!Path::new(&model).exists());
    assert!(
        misunderstood(&["fit", "kmeans", &x, "--k", "0", "--out", &model])
            .contains("give a whole number from 1 to")
    );
    assert!(misunderstood(&["fit", "kmeans", &x, "--out", &model]).contains("--k"));
    assert!(
        misunderstood(&["fit", "kmeans", &x, "--k", "2", "--missing", "perhaps", "--out", &model])
            .contains("`drop`")
    );
    assert!(
        misunderstood(&["fit", "autoencoder", &x, "--sparsity-target", "1", "--out", &model])
            .contains("between 0 and 1")
    );
    let said = refused(&[
        "bench",
        "kmeans",
        "--data",
        &x,
        "--init",
        &folder.with("c.npy", npy(3, &points(3))),
        "--workers",
        "local:1",
    ]);
    assert!(said.contains("columns"), "{said}");
}

#[test]
fn wrong_models_and_rows_are_told_apart() {
    let folder = Folder::new("models");
    let (x, model) = (folder.with("x.npy", npy(2, &points(30))), folder.file("x.model"));
    let bad = folder.with("bad.npy", npy(3, &points(30)));
    out(&["fit", "kmeans", &x, "--k", "3", "--out", &model, "--workers", "local:1"]);
    assert!(refused(&["predict", &model, &bad]).contains("it has 3 columns and"));
    assert!(refused(&["predict", &model, &x, "--out", "labels.xlsx"]).contains(".npy or .csv"));
    let bytes = std::fs::read(&model).expect("a model");
    let newer = String::from_utf8_lossy(&bytes).replace("\\\"version\\\":1", "\\\"version\\\":9");
    // What is no text in it is of no matter to the header.
    let newer = [&bytes[..8], &newer.as_bytes()[newer.find('{').expect("a header")..]].concat();
    for (name, content, words) in [
        ("short", &bytes[..bytes.len() - 3], "it is cut off"),
        ("newer", &newer, "version 9 of kind kmeans; this program knows versions up to 1: update it"),
        ("x.npy", &std::fs::read(&x).expect("data"), "is no model file"),
    ] {
        let said = refused(&["predict", &folder.with(name, content), &x]);
        assert!(said.contains(words), "{name}: {said}");
    }
    assert!(refused(&["inspect", &folder.file("none")]).contains("is the path right?"));
    let (gap, labels) = (folder.with("gap.csv", "x,y\n1,2\n,4\n"), folder.file("labels.csv"));
    assert!(refused(&["predict", &model, &gap]).contains("line 3"));
    out(&["predict", &model, &gap, "--missing", "0", "--out", &labels]);
    let far = folder.file("missing/folder/x.model");
    assert!(qjam(&["fit", "kmeans", &x, "--k", "3", "--out", &far]).status.code() == Some(1));
}
