//! Looking after hosts, and what a run leaves alone on them.

use crate::support::{Host, command, ran, rounds, wait_until};
use std::process::{Command, Stdio};

#[test]
fn a_check_tells_of_every_step_and_leaves_no_process() {
    let far = Host::take("far");
    ran(&mut command(&["clean", "far"])).must_work();
    let first = ran(&mut command(&["check", "far"]));
    for words in [
        "✓ connect",
        "✓ authenticate",
        "✓ place",
        "✓ copy",
        "✓ start",
        "✓ handshake",
        "cores",
        "free",
        "round trip",
        "/s",
    ] {
        assert!(first.must_work().contains(words), "{words:?} is missing from:\n{}", first.out);
    }
    let second = ran(&mut command(&["check", "far*8,far", "--json"])).json();
    let host = &second["hosts"][0];
    assert_eq!(
        (&second["ok"], &host["ok"], second["hosts"].as_array().unwrap().len()),
        (&true.into(), &true.into(), 1)
    );
    let steps: Vec<&str> =
        host["steps"].as_array().unwrap().iter().map(|s| s["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["connect", "authenticate", "place", "start", "handshake"]);
    let found = &host["found"];
    assert_eq!((&found["copied"], &found["hostname"]), (&false.into(), &"far".into()));
    // Five milliseconds each way. How much longer it takes is the machine's affair.
    assert!(found["round_trip_us"].as_f64().unwrap() >= 10_000.0, "{found}");
    assert!(found["bytes_per_second"].as_f64().unwrap() > 0.0, "{found}");
    assert_eq!(found["cache_cap_bytes"], 16_u64 << 30);
    wait_until("no process is left", || far.processes().is_empty());
}

#[test]
fn a_check_of_several_hosts_fails_if_one_does_and_tells_programs_why() {
    let _slow = Host::take("slow");
    let checked = ran(&mut command(&["check", "slow", "slow:1", "--json"]));
    assert_eq!(checked.code, Some(1), "{}{}", checked.out, checked.err);
    let report = checked.json();
    let [good, bad] = [&report["hosts"][0], &report["hosts"][1]];
    assert_eq!((&report["ok"], &good["ok"], &bad["ok"]), (&false.into(), &true.into(), &false.into()));
    // Not more than 100 Mbit/s; how much less is the machine's affair.
    let bytes_per_second = good["found"]["bytes_per_second"].as_f64().unwrap();
    assert!(bytes_per_second > 0.0 && bytes_per_second < 13e6, "{good}");
    assert_eq!((&bad["host"], &bad["failure"]["step"]), (&"slow:1".into(), &"connect".into()));
    assert!(bad["found"].is_null() && good["failure"].is_null());
    for key in ["what", "remedy"] {
        assert!(!bad["failure"][key].as_str().unwrap().is_empty(), "{bad}");
    }
    assert!(bad["failure"]["words"][0].as_str().unwrap().contains("refused"), "{bad}");
}

#[test]
fn caches_are_looked_at_capped_compared_and_emptied() {
    let b = Host::take("b");
    ran(&mut command(&["clean", "b"])).must_work();
    ran(&mut command(&["bench", "transfer", "--mib", "8", "--workers", "b"])).must_work();
    let cache = |options: &[&str]| {
        let run = ran(command(&["cache", "b", "--json"]).args(options));
        (run.code, run.json()["caches"][0].clone())
    };
    let (code, held) = cache(&[]);
    assert_eq!((code, &held["host"], &held["verified"]), (Some(0), &"b".into(), &serde_json::Value::Null));
    assert!(held["bytes"].as_u64().unwrap() >= 8 << 20, "{held}");
    assert!(held["folder"].as_str().unwrap().ends_with("/.cache/qjam/cache"), "{held}");
    let chunks = held["chunks"].as_u64().unwrap();
    assert!(chunks > 0);
    let (_, verified) = cache(&["--verify"]);
    assert_eq!((&verified["verified"], &verified["damaged"]), (&chunks.into(), &0.into()));
    // A byte in the midst of the data.
    let folder = held["folder"].as_str().unwrap();
    let flip = "for f in \"$0\"/*; do [ -f \"$f\" ] && [ $(wc -c < \"$f\") -gt 4194304 ] && printf x | dd of=\"$f\" bs=1 seek=3000000 conv=notrunc; done; true";
    b.root(&["sh", "-c", flip, folder]);
    let (code, damaged) = cache(&["--verify"]);
    assert_eq!((code, &damaged["damaged"]), (Some(1), &1.into()), "{damaged}");
    let (code, again) = cache(&["--verify"]);
    assert_eq!((code, &again["verified"]), (Some(0), &(chunks - 1).into()), "{again}");
    assert_eq!(cache(&["--cap", "20G"]).1["cap_bytes"], 20_u64 << 30);
    assert_eq!(cache(&[]).1["cap_bytes"], 20_u64 << 30);
    assert_eq!(cache(&["--cap", "default"]).1["cap_bytes"], 16_u64 << 30);
    let (code, cleared) = cache(&["--clear"]);
    assert_eq!((code, &cleared["bytes"], &cleared["chunks"]), (Some(0), &0.into(), &0.into()), "{cleared}");
    assert!(cleared["removed_bytes"].as_u64().unwrap() >= 8 << 20, "{cleared}");
}

#[test]
fn cleaning_leaves_nothing() {
    let a = Host::take("a");
    let home = a.value("home_there");
    ran(&mut rounds("a")).must_work();
    assert!(a.root(&["find", home]).contains("/bin/worker-"));
    let cleaned = ran(&mut command(&["clean", "a"]));
    assert!(cleaned.must_work().contains(&format!("removed {home}/.cache/qjam, ")), "{}", cleaned.out);
    let left = a.root(&[
        "find",
        home,
        "/tmp",
        "/var/tmp",
        "/dev/shm",
        "-user",
        a.value("user"),
        "-newer",
        "/etc/passwd",
    ]);
    let left: Vec<&str> = left.lines().filter(|path| *path != home).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(ran(&mut command(&["clean", "a"])).must_work().contains("nothing of ours was there"));
    let unreachable = ran(&mut command(&["clean", "a:1", "--json"]));
    assert_eq!(
        (unreachable.code, &unreachable.json()["hosts"][0]["failure"]["step"]),
        (Some(1), &"connect".into())
    );
}

#[test]
fn a_run_opens_no_port_and_leaves_no_process() {
    let d = Host::take("d");
    let before = d.net(&["ss", "-ltn"]);
    // So many rounds that it is there for as long as anybody looks.
    let args = ["bench", "rounds", "--workers", "d*2", "--rounds", "1000000", "--sleep-ms", "200"];
    let mut run = command(&args).stdout(Stdio::null()).spawn().unwrap();
    // The login, the supervisor and the process that runs user code.
    wait_until("the run is there", || d.processes().len() >= 3);
    let during = d.net(&["ss", "-ltn"]);
    assert_eq!(before, during);
    // `timeout` passes it on.
    let interrupt = Command::new("kill").args(["-s", "INT", &run.id().to_string()]).status().unwrap();
    assert!(interrupt.success() && !run.wait().unwrap().success());
    wait_until("no process of an interrupted run is left", || d.processes().is_empty());
    ran(&mut rounds("d*2")).must_work();
    wait_until("no process is left", || d.processes().is_empty());
}
