//! One run, in full.

use super::runs::{began, named, word};
use crate::args::Show;
use crate::output;
use qjam::journal::RoundReport;
use qjam::runs::{DataInfo, FunctionInfo, Note, Round, Run, State};
use serde::Serialize;

/// So many notes of a kind are printed.
const NOTES_MAX: usize = 20;

#[derive(Serialize)]
struct Report {
    id: String,
    file: String,
    state: &'static str,
    error: Option<String>,
    began: String,
    seconds: f64,
    host: String,
    pid: u32,
    program: String,
    arguments: Vec<String>,
    directory: String,
    version: String,
    executable: Option<String>,
    workers: String,
    seed: u64,
    resumed: Option<String>,
    rounds: u64,
    computed: u64,
    recalled: u64,
    failed: u64,
    open: Vec<u64>,
    results_kept: u64,
    total: RoundReport,
    functions: Vec<FunctionInfo>,
    data: Vec<DataInfo>,
    lost: Vec<Note>,
    errors: Vec<Note>,
    waits: Vec<Note>,
    notes: Vec<Note>,
    checkpoints: u64,
    checkpoints_us: u64,
    cut_short: bool,
    full: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<Vec<RoundRow>>,
}

#[derive(Serialize)]
struct RoundRow {
    round: u64,
    began_us: u64,
    function: String,
    data: String,
    params: Option<String>,
    result: Option<String>,
    kept_bytes: Option<u64>,
    recalled: bool,
    report: Option<RoundReport>,
    error: Option<String>,
}

pub(crate) fn run(args: &Show) -> anyhow::Result<()> {
    let run = named(&args.run)?;
    let rounds = if args.rounds { Some(Run::rounds(&run.path)?) } else { None };
    if args.json {
        output::json(&Report::new(run, rounds))?;
        return Ok(());
    }
    show(&run);
    if let Some(rounds) = rounds {
        list(&rounds);
    }
    Ok(())
}

fn show(run: &Run) {
    output::heading(&format!("run {}: {}", run.id, word(&run.state)));
    if let State::Failed(error) = &run.state {
        error.lines().for_each(|line| output::line(format!("  {line}")));
    }
    let words = std::iter::once(run.program.as_os_str()).chain(run.arguments.iter().map(|a| a.as_os_str()));
    let command: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let fact = |name: &str, text: String| output::line(format!("  {name:<10} {text}"));
    fact("program", command.join(" "));
    fact("began", format!("{} UTC on {}, process {}", began(run), run.host, run.pid));
    fact("lasted", output::time(run.lasted_us));
    fact("workers", run.workers.clone());
    fact("seed", run.seed.to_string());
    fact("version", format!("{}, executable {}", run.version, hash(run.executable.as_deref())));
    if let Some(resumed) = &run.resumed {
        fact("goes on", format!("from run {resumed}: {} of its rounds", run.recalled));
    }
    for data in &run.data {
        let size = format!("{}, {}", output::count(data.chunks.into(), "chunk"), output::bytes(data.bytes));
        fact("data", format!("{}: {size}", hash(Some(&data.hash))));
    }
    let open: Vec<String> = run.open.iter().map(|(round, f)| format!("round {round}, {f}")).collect();
    if !open.is_empty() && run.state != State::Finished {
        fact("in", open.join("; "));
    }
    if run.is_cut_short {
        fact(
            "note",
            "recording had to stop before the run was over, for example because the disk was full".into(),
        );
    }
    if run.is_full {
        fact("note", "there were so many rounds that the last ones were only counted".into());
    }
    spent(run);
    notes("workers lost", &run.lost);
    notes("errors", &run.errors);
    notes("waits", &run.waits);
}

fn spent(run: &Run) {
    let total = &run.total;
    let computed = run.rounds - run.recalled;
    output::heading(&format!(
        "{} finished ({computed} computed here, {} of them kept), {} failed",
        output::count(run.rounds, "round"),
        run.kept,
        run.failed
    ));
    let rows = run.functions.iter().map(|f| (f.name.as_str(), f.rounds, &f.total));
    let rows = std::iter::once(("all", computed, total)).chain(rows);
    let cells = rows.map(|(name, rounds, r)| {
        let share = |us: u64| {
            let percent = us.saturating_mul(100).checked_div(r.total_us).unwrap_or(0);
            format!("{} {percent:>3} %", output::time(us))
        };
        [
            name.to_owned(),
            rounds.to_string(),
            output::time(r.total_us),
            share(r.worker_us),
            share(r.master_us),
            share(r.overhead_us),
        ]
    });
    output::table(["function", "rounds", "T_total", "T_worker", "T_master", "T_overhead"], cells);
    output::line(format!(
        "  {} out, {} in; {} at hand, {} opened or sent, {} sent to other hosts",
        output::bytes(total.bytes_out),
        output::bytes(total.bytes_in),
        output::count(total.cache_hits, "chunk"),
        total.cache_misses,
        total.chunks_sent,
    ));
    output::line(format!(
        "  {} given out again, {} that came and no longer counted",
        output::count(total.retries, "block"),
        total.discarded
    ));
    output::line(format!(
        "  {} taken from slow workers before they were begun, {} given to a second worker",
        output::count(total.stolen, "block"),
        output::count(total.backups, "late block"),
    ));
    if run.checkpoints + total.restored > 0 {
        let percent = run.checkpoints_us as f64 * 100.0 / total.total_us.max(1) as f64;
        output::line(format!(
            "  {} in {} ({percent:.1} %); states of {} made again, with {} run again for them",
            output::count(run.checkpoints, "checkpoint"),
            output::time(run.checkpoints_us),
            output::count(total.restored, "partition"),
            output::count(total.replayed, "round"),
        ));
    }
}

fn notes(heading: &str, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    output::heading(&format!("{heading}: {}", notes.len()));
    for note in notes.iter().take(NOTES_MAX) {
        let whom = if note.whom.is_empty() { String::new() } else { format!("{}: ", note.whom) };
        let mut lines = note.text.lines();
        let first = lines.next().unwrap_or_default();
        output::line(format!("  {:>10}  {whom}{first}", output::time(note.at_us)));
        lines.for_each(|line| output::line(format!("              {line}")));
    }
    if notes.len() > NOTES_MAX {
        output::line(format!("  and {} more (--json has them)", notes.len() - NOTES_MAX));
    }
}

fn list(rounds: &[Round]) {
    output::heading("rounds");
    let cells = rounds.iter().map(|r| {
        let time = |f: fn(&RoundReport) -> u64| r.report.as_ref().map_or("-".into(), |r| output::time(f(r)));
        let end = match (&r.error, r.recalled, &r.report) {
            (Some(error), ..) => error.lines().next().unwrap_or_default().to_owned(),
            (None, true, _) => "recalled".into(),
            (None, false, Some(_)) => "ok".into(),
            (None, false, None) => "not finished".into(),
        };
        [
            r.round.to_string(),
            output::time(r.began_us),
            r.function.clone(),
            time(|r| r.total_us),
            time(|r| r.worker_us),
            hash(r.params.as_deref()),
            hash(r.result.as_deref()),
            end,
        ]
    });
    output::table(["round", "began", "function", "T_total", "T_worker", "params", "result", "end"], cells);
}

/// The first digits of a hash.
fn hash(hash: Option<&str>) -> String {
    hash.map_or("-".into(), |hash| hash.chars().take(12).collect())
}

impl Report {
    fn new(run: Run, rounds: Option<Vec<Round>>) -> Report {
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        Report {
            file: run.path.display().to_string(),
            state: word(&run.state),
            began: began(&run),
            seconds: run.lasted_us as f64 / 1e6,
            computed: run.rounds - run.recalled,
            error: match run.state {
                State::Failed(error) => Some(error),
                _ => None,
            },
            host: run.host,
            pid: run.pid,
            program: run.program.display().to_string(),
            arguments: run.arguments.iter().map(|a| text(a)).collect(),
            directory: run.directory.display().to_string(),
            version: run.version,
            executable: run.executable,
            workers: run.workers,
            seed: run.seed,
            resumed: run.resumed,
            rounds: run.rounds,
            recalled: run.recalled,
            failed: run.failed,
            open: run.open.into_iter().map(|(round, _)| round).collect(),
            results_kept: run.kept,
            total: run.total,
            functions: run.functions,
            data: run.data,
            lost: run.lost,
            errors: run.errors,
            waits: run.waits,
            notes: run.notes,
            checkpoints: run.checkpoints,
            checkpoints_us: run.checkpoints_us,
            cut_short: run.is_cut_short,
            full: run.is_full,
            list: rounds.map(|rounds| rounds.into_iter().map(RoundRow::new).collect()),
            id: run.id,
        }
    }
}

impl RoundRow {
    fn new(r: Round) -> RoundRow {
        RoundRow {
            round: r.round,
            began_us: r.began_us,
            function: r.function,
            data: r.data,
            params: r.params,
            result: r.result,
            kept_bytes: r.kept_bytes,
            recalled: r.recalled,
            report: r.report,
            error: r.error,
        }
    }
}
