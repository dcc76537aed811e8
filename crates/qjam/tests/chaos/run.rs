//! One run: a program, its attacker, and what must be true when it is over.

use crate::attack::{self, Aim, Attack, Deed, MasterAt, When, Whom};
use crate::{family, victim};
use qjam::Rng;
use qjam::job::Activity;
use qjam_conformance::HANG;
use qjam_conformance::program::command;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A run that is not over by then hangs.
pub(crate) const LIMIT: Duration = HANG;
/// Whoever of the program is there so long after its end stays for ever.
const GONE_WITHIN: Duration = HANG;

/// How a run was.
#[derive(Debug, Default)]
pub(crate) struct RunResult {
    /// State in which each executor died, and whether it was killed or lost while stopped.
    pub(crate) deaths: Vec<(Activity, &'static str)>,
    /// What the master was at when it was killed, if it was.
    pub(crate) master_killed_at: Option<MasterAt>,
    /// How it ended, in a word.
    pub(crate) end: String,
    pub(crate) took: Duration,
    /// What must not be, if anything.
    pub(crate) wrong: Option<String>,
}

/// What the program has said so far.
#[derive(Debug, Default)]
struct Heard {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Heard {
    fn listen(&self, child: &mut Child) {
        let out = BufReader::new(child.stdout.take().unwrap());
        for line in out.lines().map_while(Result::ok) {
            // The harness may have begun a line of its own.
            if let Some((_, text)) = line.split_once(victim::SAYS) {
                self.lines.lock().unwrap().0.push(text.to_owned());
                self.more.notify_all();
            }
        }
        self.lines.lock().unwrap().1 = true;
        self.more.notify_all();
    }

    /// Waits until it has said this so many times. Says whether it has.
    fn wait_for(&self, what: &str, times: u64, until: Instant) -> bool {
        let mut lines = self.lines.lock().unwrap();
        loop {
            if lines.0.iter().filter(|line| *line == what).count() as u64 >= times {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if lines.1 || left.is_zero() {
                return false;
            }
            lines = self.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    fn is_over(&self) -> bool {
        self.lines.lock().unwrap().1
    }

    fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().0.clone()
    }
}

/// One run from beginning to end.
pub(crate) fn run(seed: u64, run: u64, aim: Aim) -> RunResult {
    let (_, workers, pace) = victim::setting(seed, run);
    let mut rng = Rng::keyed(seed, run, 1);
    let attacks = attack::draw(&mut rng, workers, &pace, aim);
    let mark = format!("{}-{seed}-{run}", std::process::id());
    let home = std::env::temp_dir().join(format!("qjam-chaos-{mark}"));
    std::fs::create_dir(&home).unwrap();
    let runs = std::env::temp_dir().join(format!("qjam-chaos-{mark}-runs"));
    let mut child = command(victim::RUN, &format!("{seed} {run}"))
        .env(family::MARK, &mark)
        // Whatever it writes, it writes here.
        .env("TMPDIR", &home)
        .env("HOME", &home)
        .env("XDG_CACHE_HOME", &home)
        // But for what every run leaves.
        .env("QJAM_RUNS", &runs)
        .current_dir(&home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let master = child.id();
    let heard = Heard::default();
    let (began, listened, master_killed_at) = std::thread::scope(|scope| {
        scope.spawn(|| heard.listen(&mut child));
        // It works out the right bits first, and only then begins.
        heard.wait_for("starting", 1, Instant::now() + 2 * LIMIT);
        let began = Instant::now();
        let scene = Scene { mark: &mark, master, heard: &heard, until: began + LIMIT };
        let killed_at = scene.attack(&attacks, &mut rng);
        let listened = family::listens(&family::members(&mark));
        // A program that hangs is ended, so that this thread is.
        while !heard.is_over() && Instant::now() < scene.until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !heard.is_over() {
            family::signal(master, Signal::KILL);
        }
        (began, listened, killed_at)
    });
    let status = child.wait().unwrap();
    let mut outcome = RunResult { took: began.elapsed(), master_killed_at, ..RunResult::default() };
    let said = heard.all();
    let master_was_stopped =
        attacks.iter().any(|a| matches!((a.whom, a.deed), (Whom::Master, Deed::Stop { .. })));
    let wrong = judge(&said, &mut outcome)
        .or(listened)
        .or_else(|| left_behind(&mark))
        .or_else(|| litter(&home))
        .or_else(|| unrecorded(&runs, &said, master_was_stopped));
    outcome.wrong = wrong
        .map(|what| format!("{what}\n  attacks {attacks:?}\n  it said {said:?}\n  and ended with {status}"));
    let _ = std::fs::remove_dir_all(&home);
    let _ = std::fs::remove_dir_all(&runs);
    outcome
}

/// The stage of a run, as its attacker sees it.
struct Scene<'a> {
    mark: &'a str,
    master: u32,
    heard: &'a Heard,
    until: Instant,
}

impl Scene<'_> {
    /// Carries the attacks out. Says what the master was at if it was killed.
    fn attack(&self, attacks: &[Attack], rng: &mut Rng) -> Option<MasterAt> {
        let mut known = BTreeSet::new();
        for Attack { when, whom, deed } in attacks {
            if !self.wait_for(*when, &known) {
                return None; // it is over, or hangs
            }
            let victims = self.victims(*whom, rng);
            match deed {
                Deed::Kill => victims.iter().for_each(|pid| family::signal(*pid, Signal::KILL)),
                Deed::Stop { wake_after_ms } => {
                    let mut victims = victims;
                    victims.retain(|pid| *pid == self.master || family::is_executor(*pid));
                    victims.iter().for_each(|pid| family::signal(*pid, Signal::STOP));
                    if let Some(ms) = *wake_after_ms {
                        std::thread::spawn(move || {
                            std::thread::sleep(Duration::from_millis(ms));
                            victims.iter().for_each(|pid| family::signal(*pid, Signal::CONT));
                        });
                    }
                }
            }
            if matches!((whom, deed), (Whom::Master, Deed::Kill)) {
                return Some(self.at());
            }
            known = self.executors();
        }
        None
    }

    /// Waits for the moment. Says whether it came.
    fn wait_for(&self, when: When, known: &BTreeSet<u32>) -> bool {
        match when {
            When::AfterStart(ms) => {
                let came = self.heard.wait_for("starting", 1, self.until);
                std::thread::sleep(Duration::from_millis(ms));
                came
            }
            When::InRound { round, ms } => {
                let came = self.heard.wait_for("round", round + 1, self.until);
                std::thread::sleep(Duration::from_millis(ms));
                came
            }
            When::AfterRound { round, ms } => {
                let came = self.heard.wait_for("right", round + 1, self.until);
                std::thread::sleep(Duration::from_millis(ms));
                came
            }
            When::Newborn => {
                let soon = Instant::now() + Duration::from_millis(200);
                while Instant::now() < soon && !self.heard.is_over() {
                    if self.executors().iter().any(|pid| !known.contains(pid)) {
                        return true;
                    }
                }
                !self.heard.is_over()
            }
        }
    }

    fn executors(&self) -> BTreeSet<u32> {
        family::members(self.mark).into_iter().filter(|pid| *pid != self.master).collect()
    }

    fn victims(&self, whom: Whom, rng: &mut Rng) -> Vec<u32> {
        let all: Vec<u32> = self.executors().into_iter().collect();
        match whom {
            Whom::Master => vec![self.master],
            Whom::All => all,
            // Numbers grow, unless they have just begun anew.
            Whom::Youngest => all.last().copied().into_iter().collect(),
            Whom::Some if all.is_empty() => all,
            Whom::Some => {
                let sure = rng.below(all.len() as u64) as usize;
                let tossed = all.iter().enumerate().filter(|(n, _)| *n == sure || rng.below(2) == 0);
                tossed.map(|(_, pid)| *pid).collect()
            }
        }
    }

    /// What the master was last heard to do.
    fn at(&self) -> MasterAt {
        match self.heard.all().last().map(String::as_str) {
            None | Some("starting") => MasterAt::Starting,
            Some("round") => MasterAt::Round,
            Some(_) => MasterAt::Rest,
        }
    }
}

/// Whether the run ended as it may, and where its executors died.
fn judge(said: &[String], outcome: &mut RunResult) -> Option<String> {
    outcome.deaths = said.iter().filter_map(|line| death(line)).collect();
    if outcome.took >= LIMIT {
        outcome.end = "hang".into();
        return Some(format!("it was not over after {:?}", outcome.took));
    }
    if said.iter().any(|line| line == "wrong") {
        outcome.end = "wrong".into();
        return Some("wrong bits".into());
    }
    let error = said.iter().find_map(|line| line.strip_prefix("error "));
    let is_whole = said.last().is_some_and(|line| line == "end");
    outcome.end = match (error, outcome.master_killed_at, is_whole) {
        (Some(kind), _, _) => format!("error {kind}"),
        (None, _, true) => "right".into(),
        (None, Some(_), false) => "master killed".into(),
        (None, None, false) => {
            outcome.end = "broken off".into();
            return Some("it ended in the middle and nobody had killed it".into());
        }
    };
    // Errors that follow from being killed; anything else was not what happened.
    let is_legal = error.is_none_or(|kind| ["Poison", "NoWorkers", "Start"].contains(&kind));
    (!is_legal).then(|| format!("an error that does not tell what happened: {error:?}"))
}

/// `death Mapping Signal(9)`.
fn death(line: &str) -> Option<(Activity, &'static str)> {
    let mut words = line.strip_prefix("death ")?.split(' ');
    let activity = match words.next()? {
        "Starting" => Activity::Starting,
        "Receiving" => Activity::Receiving,
        "Mapping" => Activity::Mapping,
        "Sending" => Activity::Sending,
        _ => Activity::Idle,
    };
    let cause = match words.next()? {
        "Signal(9)" => "killed",
        _ => "stopped",
    };
    Some((activity, cause))
}

/// Processes that outlived the run.
fn left_behind(mark: &str) -> Option<String> {
    let end = Instant::now() + GONE_WITHIN;
    loop {
        let left = family::members(mark);
        if left.is_empty() {
            return None;
        }
        if Instant::now() >= end {
            let names: Vec<String> = left.iter().map(|pid| family::describe(*pid)).collect();
            left.into_iter().for_each(|pid| family::signal(pid, Signal::KILL));
            return Some(format!("{names:?} are left behind"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the run file should say and does not: rounds that the program had the values of, and for whom it waited when
/// that took much longer than the two seconds after which it is told. Who is stopped cannot say anything.
fn unrecorded(folder: &std::path::Path, said: &[String], was_stopped: bool) -> Option<String> {
    let right = said.iter().filter(|line| *line == "right").count() as u64;
    let file = qjam::runs::list(folder).ok()?.pop();
    let read = file.as_deref().map(|file| (qjam::runs::Run::read(file), qjam::runs::Run::rounds(file)));
    let (run, rounds) = match read {
        Some((Ok(run), Ok(rounds))) => (run, rounds),
        _ if right == 0 => return None, // killed at its very beginning
        other => return Some(format!("no run file to read: {other:?}")),
    };
    if run.rounds + 1 < right {
        return Some(format!("{right} rounds were right, and {} are recorded", run.rounds));
    }
    let is_told = |round: &qjam::runs::Round, total_us: u64| {
        let during = round.began_us + 1_900_000..=round.began_us + total_us;
        run.waits.iter().any(|wait| during.contains(&wait.at_us) && wait.text.contains("proc:"))
    };
    let long = rounds.iter().filter_map(|r| Some((r, r.report?.total_us))).filter(|(_, us)| *us > 8_000_000);
    let untold =
        long.filter(|(round, us)| !was_stopped && !is_told(round, *us)).map(|(round, _)| round.round);
    let untold: Vec<u64> = untold.collect();
    (!untold.is_empty()).then(|| format!("for whom rounds {untold:?} waited was not told: {:?}", run.waits))
}

/// Files that outlived the run.
fn litter(home: &std::path::Path) -> Option<String> {
    let names: Vec<_> = std::fs::read_dir(home).unwrap().flatten().map(|entry| entry.file_name()).collect();
    (!names.is_empty()).then(|| format!("files are left: {names:?}"))
}
