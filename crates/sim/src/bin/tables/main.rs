//! Prints the tables of the book's pages on large clusters and on buckets, and draws their pictures.
//!
//! `tables [--only PART] [--workers-max N] [--csv DIR] [--pictures DIR]`
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command; its output is its purpose"
)]

mod costs;

use qjam_sim::bucket::study as bucket;
use qjam_sim::study::{
    SIZES, bandwidth, heartbeats, limits, picture::Picture, recovery, stragglers, table::Table,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: tables [--only PART] [--workers-max N] [--csv DIR] [--pictures DIR]

  --only PART        stragglers, bandwidth, heartbeats, recovery, limits or bucket
  --workers-max N    largest cluster (10000)
  --csv DIR          also write each table there as comma-separated values
  --pictures DIR     also draw the pictures there";

const PARTS: [&str; 6] = ["stragglers", "bandwidth", "heartbeats", "recovery", "limits", "bucket"];

struct Args {
    only: Option<String>,
    workers_max: u32,
    csv: Option<PathBuf>,
    pictures: Option<PathBuf>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args { only: None, workers_max: SIZES[SIZES.len() - 1], csv: None, pictures: None };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--workers-max" => {
                let text = value()?;
                parsed.workers_max =
                    text.parse().map_err(|_| format!("`--workers-max {text}` is no number"))?;
            }
            "--only" => {
                let part = value()?;
                if !PARTS.contains(&part.as_str()) {
                    return Err(format!("`{part}` is not one of {}", PARTS.join(", ")));
                }
                parsed.only = Some(part);
            }
            "--csv" => parsed.csv = Some(value()?.into()),
            "--pictures" => parsed.pictures = Some(value()?.into()),
            other => return Err(format!("`{other}` is not known")),
        }
    }
    if parsed.workers_max < SIZES[0] { Err(format!("at least {} workers", SIZES[0])) } else { Ok(parsed) }
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match tell(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn tell(args: &Args) -> Result<(), String> {
    let sizes: Vec<u32> = SIZES.into_iter().filter(|p| *p <= args.workers_max).collect();
    let show = |table: &Table| {
        println!("{}", table.markdown());
        args.csv.as_deref().map_or(Ok(()), |dir| write(dir, &format!("{}.csv", table.name), &table.csv()))
    };
    let draw = |picture: &Picture| {
        args.pictures
            .as_deref()
            .map_or(Ok(()), |dir| write(dir, &format!("{}.svg", picture.name), &picture.svg()))
    };
    let wants = |part: &str| args.only.as_deref().is_none_or(|only| only == part);
    // First, while nothing else runs.
    let measured = (wants("heartbeats") || wants("limits")).then(|| costs::measure(&sizes));
    if wants("stragglers") {
        for times in [stragglers::Times::Measured, stragglers::Times::TenTimes] {
            let (table, picture) = stragglers::rounds(times, &sizes);
            show(&table)?;
            draw(&picture)?;
        }
        show(&stragglers::one_slow(&sizes))?;
    }
    if wants("bandwidth") {
        let (tables, picture) = bandwidth::traffic(&sizes);
        tables.iter().try_for_each(show)?;
        draw(&picture)?;
    }
    if let Some((costs, table)) = measured.as_ref().filter(|_| wants("heartbeats")) {
        show(table)?;
        show(&heartbeats::counted(&sizes))?;
        let (table, picture) = heartbeats::shares(&sizes, *costs);
        show(&table)?;
        draw(&picture)?;
    }
    if wants("recovery") {
        let some: Vec<u32> = sizes.iter().copied().filter(|p| [10, 100, 1_000, 10_000].contains(p)).collect();
        let (table, picture) = recovery::rounds(&some);
        show(&table)?;
        draw(&picture)?;
    }
    if wants("bucket") {
        let paper: Vec<u32> = bucket::PAPER.iter().map(|(workers, _)| *workers).collect();
        show(&bucket::beside_the_paper(&paper))?;
        let (table, picture) = bucket::shapes(&sizes);
        show(&table)?;
        draw(&picture)?;
        show(&bucket::stages(&sizes))?;
        show(&bucket::copies(&sizes))?;
        show(&bucket::trouble(&sizes))?;
        show(&bucket::requests(&sizes))?;
    }
    measured.filter(|_| wants("limits")).map_or(Ok(()), |(costs, _)| show(&limits::table(costs)))
}

fn write(dir: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| format!("cannot write {}: {e}; is the folder writable?", path.display()))
}
