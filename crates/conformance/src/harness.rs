//! The `main` of a test executable that checks promises: what `cargo test` expects of one, and a word more.
//!
//! Its arguments are those of Rust's own harness, as far as `cargo xtask` and people use them: parts of names to run, `--exact`,
//! `--skip NAME`, `--test-threads N`, `--list`, `--ignored`. What an engine does not promise is a line that says so, and is
//! counted as that: neither passed nor ignored.

use crate::Engine;
use crate::promise::{PROMISES, Promise};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Arguments of a test executable.
#[derive(Default)]
struct Arguments {
    parts: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
    threads: Option<usize>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Arguments {
        let mut arguments = Arguments::default();
        while let Some(word) = words.next() {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            match key.as_str() {
                "--exact" => arguments.exact = true,
                "--list" => arguments.list = true,
                "--ignored" => arguments.ignored = true,
                "--skip" => arguments.skipped.extend(value.or_else(|| words.next())),
                "--test-threads" => {
                    arguments.threads = value.or_else(|| words.next()).and_then(|number| number.parse().ok());
                }
                "--format" | "--color" if value.is_none() => drop(words.next()),
                flag if flag.starts_with('-') => {}
                part => arguments.parts.push(part.to_owned()),
            }
        }
        arguments
    }

    fn wants(&self, name: &str) -> bool {
        let fits = |part: &String| if self.exact { name == part } else { name.contains(part.as_str()) };
        (self.parts.is_empty() || self.parts.iter().any(fits)) && !self.skipped.iter().any(fits)
    }
}

/// What threads said when they panicked, by name.
type Said = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Keeps what is said in panics until it is known whether they were part of a promise. Before anything else has a hook.
fn quiet_panics() -> Said {
    let said = Said::default();
    let kept = said.clone();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let mut said = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        said.entry(thread.name().unwrap_or("(no name)").to_owned()).or_default().push(info.to_string());
    }));
    said
}

/// Checks all promises, and these besides, on every engine. The result is the executable's exit code.
pub fn run(engines: &[Engine], own: &[Promise]) -> ExitCode {
    let arguments = Arguments::read(std::env::args().skip(1));
    let every = || engines.iter().flat_map(|e| PROMISES.iter().chain(own).map(move |promise| (e, promise)));
    let name = |e: &Engine, promise: &Promise| format!("{}::{}", e.name, promise.name);
    if arguments.list {
        if !arguments.ignored {
            every().for_each(|(e, promise)| println!("{}: test", name(e, promise)));
        }
        return ExitCode::SUCCESS;
    }
    // None takes so long that it would be left to the long tests.
    let wanted =
        |(e, promise): &(&Engine, &Promise)| !arguments.ignored && arguments.wants(&name(e, promise));
    let (promised, absent): (Vec<_>, Vec<_>) =
        every().filter(wanted).partition(|(e, promise)| promise.missing(e).is_empty());
    let said = quiet_panics();
    println!("\nrunning {} tests", promised.len());
    for (e, promise) in &absent {
        println!(
            "test {} ... not promised by this engine, which lacks {:?}",
            name(e, promise),
            promise.missing(e)
        );
    }
    let (begun, next, failed) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Promises mostly wait, for processes to start and to die.
    let usual = || 2 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.unwrap_or_else(usual).max(1) {
            scope.spawn(|| {
                while let Some((e, promise)) = promised.get(next.fetch_add(1, Relaxed)) {
                    let name = name(e, promise);
                    // A thread of its own, so that what it says when it panics has the name.
                    let test = std::thread::Builder::new().name(name.clone());
                    let ended =
                        test.spawn_scoped(scope, || catch_unwind(AssertUnwindSafe(|| (promise.check)(e))));
                    let is_well = matches!(ended.expect("a thread").join(), Ok(Ok(())));
                    println!("test {name} ... {}", if is_well { "ok" } else { "FAILED" });
                    let words = said.lock().unwrap().remove(&name).unwrap_or_default();
                    if !is_well {
                        println!("{}", words.join("\n"));
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; {} not promised; finished in {:.2}s",
        if failed.is_empty() { "ok" } else { "FAILED" },
        promised.len() - failed.len(),
        failed.len(),
        every().count() - promised.len() - absent.len(),
        absent.len(),
        begun.elapsed().as_secs_f64(),
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
