//! Pages of runs, and comparisons of two, made from the files that real runs leave.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for runs and files that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-cli-report-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        command.args(args).current_dir(&self.0).env("NO_COLOR", "1").env("QJAM_RUNS", self.path("runs"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command starts")
    }

    /// Runs a fit of the rows in a file, and gives the name of its run.
    fn fit(&self, rows: &str) -> String {
        let args = ["fit", "kmeans", rows, "--k", "3", "--workers", "proc:2", "--out", "a.model"];
        let fitted = self.run(&args);
        assert!(fitted.status.success(), "{}", text(&fitted.stderr));
        let runs: Value = serde_json::from_slice(&self.run(&["runs", "--json"]).stdout).expect("JSON");
        runs["runs"][0]["id"].as_str().expect("a name").to_owned()
    }

    /// The page of a run, and the data in it.
    fn page(&self, run: &str) -> (String, Value) {
        let made = self.run(&["report", run, "--out", "page.html"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let page = std::fs::read_to_string(self.path("page.html")).expect("the page");
        let (_, rest) = page.split_once("id=\"data\">").expect("the data");
        let (json, _) = rest.split_once("</script>").expect("their end");
        let data = serde_json::from_str(json).expect("JSON");
        (page, data)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Rows of three columns in two chunks or more; one value differs if `changed` names its row.
fn write_rows(path: &Path, changed: Option<usize>) {
    let value = |row: usize, col: usize| match changed {
        Some(other) if (row, col) == (other, 1) => 0.5,
        _ => ((row * 3 + col) as f64 * 0.37).sin(),
    };
    let line = |row| format!("{},{},{}\n", value(row, 0), value(row, 1), value(row, 2));
    std::fs::write(path, (0..20_000).map(line).collect::<String>()).expect("rows");
}

#[test]
fn a_page_has_the_rounds_workers_and_numbers_of_its_run_and_loads_nothing() {
    let folder = Folder::new("page");
    write_rows(&folder.path("rows.csv"), None);
    let run = folder.fit("rows.csv");
    let (page, data) = folder.page(&run);
    assert_eq!(data["facts"]["state"], "finished");
    let shown: Value =
        serde_json::from_slice(&folder.run(&["show", &run, "--rounds", "--json"]).stdout).unwrap();
    let sum = |list: &Value| list.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(sum(&data["columns"]["count"]), shown["rounds"].as_u64().unwrap());
    for part in ["worker_us", "master_us", "overhead_us", "bytes_out", "bytes_in"] {
        assert_eq!(Some(sum(&data["columns"][part])), shown["total"][part].as_u64(), "{part}");
    }
    let lanes = data["lanes"]["lanes"].as_array().unwrap();
    assert_eq!(
        lanes.iter().map(|lane| lane["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["proc:0", "proc:1"]
    );
    assert!(lanes.iter().all(|lane| sum(&lane["cells"]) == lane["compute_us"].as_u64().unwrap()));
    assert!(lanes.iter().any(|lane| lane["compute_us"].as_u64() > Some(0)), "somebody computed");
    assert_eq!(data["series"][0]["name"], "centres moved");
    assert!(data["series"][0]["reported"].as_u64() > Some(0));
    for outside in ["http://", "https://", "src=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_page_has_objective_and_gap_the_tuners_reasons_and_what_a_run_was_made_of() {
    let folder = Folder::new("facts");
    write_rows(&folder.path("rows.csv"), None);
    let fit = ["fit", "ridge", "rows.csv", "--target", "2", "--tol", "1e-10", "--out", "a.model", "--json"];
    let fitted = folder.run(&[&fit[..], &["--workers", "auto:local:2"]].concat());
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    let (_, data) = folder.page("last");

    // Objective and gap of every round, over rounds and time; the last gap is what the fit has come to.
    let series = |name: &str| {
        let all = data["series"].as_array().unwrap();
        all.iter().find(|series| series["name"] == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
    };
    let numbers = |name: &str, part: &str| -> Vec<f64> {
        series(name)[part].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let (objectives, gaps) = (numbers("objective", "values"), numbers("gap", "values"));
    assert!(!gaps.is_empty() && objectives.len() == gaps.len(), "{objectives:?} {gaps:?}");
    assert!(*gaps.last().unwrap() <= 1e-10 * objectives.last().unwrap().max(1.0), "{gaps:?}");
    for part in ["rounds", "at_us"] {
        assert!(numbers("gap", part).is_sorted() && numbers("gap", part).len() == gaps.len(), "{part}");
    }

    // The tuner's choices with their reasons, among what happened.
    let said: Vec<&str> =
        data["notes"]["other"].as_array().unwrap().iter().filter_map(|note| note["text"].as_str()).collect();
    let chosen: Vec<&&str> = said.iter().filter(|text| text.contains(" gets ")).collect();
    assert!(!chosen.is_empty() && chosen.iter().all(|text| text.contains(':')), "{said:?}");

    // What it was made of, as the run file and the program itself say.
    let shown: Value = serde_json::from_slice(&folder.run(&["show", "--json"]).stdout).unwrap();
    for fact in ["seed", "version", "workers"] {
        assert!(!shown[fact].is_null() && data["facts"][fact] == shown[fact], "{fact}: {}", data["facts"]);
    }
    let version = text(&folder.run(&["--version"]).stdout);
    assert!(version.contains(data["facts"]["version"].as_str().unwrap()), "{version}");
    let hashes = |value: &Value| -> Vec<Value> {
        value.as_array().unwrap().iter().map(|data| data["hash"].clone()).collect()
    };
    assert!(!hashes(&data["data"]).is_empty() && hashes(&data["data"]) == hashes(&shown["data"]));
    assert!(hashes(&data["data"]).iter().all(|hash| hash.as_str().unwrap().len() == 64));
}

#[test]
fn a_page_has_the_memory_of_processes_and_says_nothing_of_threads() {
    let folder = Folder::new("memory");
    let memory_of = |workers: &str| -> Vec<(u64, u64)> {
        let rounds = ["bench", "rounds", "--workers", workers, "--rounds", "20", "--json"];
        assert!(folder.run(&rounds).status.success());
        let (_, data) = folder.page("last");
        let lanes = data["lanes"]["lanes"].as_array().unwrap().clone();
        let memory = |lane: &Value, what: &str| lane[what].as_u64().unwrap();
        lanes.iter().map(|lane| (memory(lane, "memory_bytes"), memory(lane, "memory_most_bytes"))).collect()
    };
    let processes = memory_of("proc:2");
    assert_eq!(processes.len(), 2);
    // A process has some memory of its own, and these have no data.
    let sensible = |(now, most): &(u64, u64)| *now > 100_000 && now <= most && *most < 1 << 30;
    assert!(processes.iter().all(sensible), "{processes:?}");
    assert_eq!(memory_of("local:2")[0], (0, 0));
}

#[test]
fn failed_and_killed_runs_have_pages_too() {
    let folder = Folder::new("failed");
    let failing = ["bench", "rounds", "--workers", "big", "--rounds", "3"];
    assert!(!folder.command(&failing).env("QJAM_SSH", "false").status().expect("it starts").success());
    let (_, data) = folder.page("last");
    assert_eq!(data["facts"]["state"], "failed");
    assert!(data["facts"]["error"].as_str().is_some_and(|why| why.contains("big")), "{}", data["facts"]);

    write_rows(&folder.path("rows.csv"), None);
    let run = folder.fit("rows.csv");
    // The file as a killed run leaves it: without its end, torn in the middle of a record.
    let whole = std::fs::read(folder.path("runs").join(format!("{run}.run"))).unwrap();
    let torn = folder.path("torn.run");
    std::fs::write(&torn, &whole[..whole.len() * 2 / 3]).unwrap();
    let (_, data) = folder.page(torn.to_str().unwrap());
    assert_eq!(data["facts"]["state"], "killed");
    assert!(!data["columns"]["first"].as_array().unwrap().is_empty());
    let empty = folder.path("empty.run");
    std::fs::write(&empty, b"").unwrap();
    let refused = folder.run(&["report", empty.to_str().unwrap()]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("cannot read run"));
}

#[test]
fn long_runs_are_summed_up_and_lose_nothing() {
    let folder = Folder::new("long");
    let rounds = ["bench", "rounds", "--workers", "local:2", "--rounds", "10000", "--json"];
    assert!(folder.run(&rounds).status.success());
    let (page, data) = folder.page("last");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let counts = data["columns"]["count"].as_array().unwrap();
    assert!(counts.len() <= 1500 && data["columns"]["rounds_each"].as_u64() > Some(1));
    let shown: Value = serde_json::from_slice(&folder.run(&["show", "--json"]).stdout).unwrap();
    assert_eq!(Some(counts.iter().filter_map(Value::as_u64).sum()), shown["rounds"].as_u64());
}

#[test]
fn a_page_never_replaces_a_file_of_another_kind_unless_told_to() {
    let folder = Folder::new("replaces");
    assert!(
        folder.run(&["bench", "rounds", "--workers", "local:1", "--rounds", "3", "--json"]).status.success()
    );
    std::fs::write(folder.path("thesis.html"), "years of work").unwrap();
    let refused = folder.run(&["report", "--out", "thesis.html"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("--force"));
    assert_eq!(std::fs::read_to_string(folder.path("thesis.html")).unwrap(), "years of work");
    for args in [
        &["report", "--out", "new.html"][..],
        &["report", "--out", "new.html"],
        &["report", "--out", "thesis.html", "--force"],
    ] {
        assert!(folder.run(args).status.success(), "{args:?}");
    }
    assert!(text(&folder.run(&["report", "--out", "-"]).stdout).starts_with("<!doctype html>"));
    let missing = folder.run(&["report", "--out", "no/such/folder/page.html"]);
    assert!(
        !missing.status.success() && text(&missing.stderr).contains("cannot write no/such/folder/page.html")
    );
}

#[test]
fn two_runs_are_equal_or_the_chunk_that_differs_is_named() {
    let folder = Folder::new("compare");
    write_rows(&folder.path("rows.csv"), None);
    let (first, again) = (folder.fit("rows.csv"), folder.fit("rows.csv"));
    let equal = folder.run(&["compare", &first, &again]);
    assert!(equal.status.success(), "{}", text(&equal.stdout));
    assert!(text(&equal.stdout).contains("rounds are equal as far as the files tell"));

    // Each of these rows lies in another chunk, and the later one is not named.
    for (row, others) in [(3, "first in chunk 0"), (19_990, "first in chunk ")] {
        write_rows(&folder.path("changed.csv"), Some(row));
        let changed = folder.fit("changed.csv");
        let found = folder.run(&["compare", &first, &changed, "--json"]);
        assert_eq!(found.status.code(), Some(1));
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        let chunk = &found["difference"]["what"]["data"];
        assert_eq!((&found["difference"]["round"], &chunk["differing"]), (&0.into(), &1.into()), "{found}");
        let last = chunk["compared"].as_u64().unwrap() - 1;
        assert!(last > 0, "the rows are in several chunks");
        assert_eq!(chunk["chunk"].as_u64(), Some(if row == 3 { 0 } else { last }));
        assert!(text(&folder.run(&["compare", &first, &changed]).stdout).contains(others));
    }
}
