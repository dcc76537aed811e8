//! From the name of a host to a worker there that is ready; and the way back, to nothing there.

use super::conversation::Conversation;
use super::dialogue::{Dialogue, Heard, Parting, Route, Stuck};
use super::options::{self, Answer};
use super::words::{self, shown};
use super::{Shipped, StartFailure, Step, script};
use crate::engine::HostAddress;
use crate::process::Process;
use rustix::fd::OwnedFd;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::process::ChildStderr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// When a step is done the next has at least this long, as when many start on one busy machine.
const STEP_WITHIN: Duration = Duration::from_secs(6);
/// Copying takes as long as it takes, as long as it goes on.
const STALL_MAX: Duration = Duration::from_secs(10);
/// From the last byte handed to `ssh` to an answer: a few megabytes may still be on their way.
const COPIED_WITHIN: Duration = Duration::from_secs(30);
/// From there to the first word of the worker.
const RUNS_WITHIN: Duration = Duration::from_secs(10);
/// Lines of `ssh` and of the host that are shown of each.
const WORDS_MAX: usize = 6;
/// One place may hold many files.
const REMOVED_WITHIN: Duration = Duration::from_secs(60);
/// All steps of a start together, copying aside, whatever the host does.
const STEPS_WITHIN: Duration = Duration::from_secs(180);
/// A copy that is slower than this on average, after its first minute, is given up: a host could take a byte now and then for ever.
const COPY_BYTES_PER_S_MIN: u64 = 16 << 10;
const COPY_BEGINS_WITHIN: Duration = Duration::from_secs(60);
/// Copies of one start: one for each place, and one more if what arrived was damaged.
const COPIES_MAX: u32 = 5;

/// How long a host may take to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Until the connection is there, by the clock of `ssh`.
    pub(super) connect_s: u32,
    /// A copy takes at most this long, and the time that its bytes take at the slowest rate.
    pub(super) copy_begins: Duration,
    pub(super) copy_bytes_per_s_min: u64,
}

impl Patience {
    pub(crate) const USUAL: Patience = Patience {
        connect_s: 10,
        copy_begins: COPY_BEGINS_WITHIN,
        copy_bytes_per_s_min: COPY_BYTES_PER_S_MIN,
    };
    /// For a host that was connected until now.
    pub(crate) const SHORT: Patience = Patience {
        connect_s: 5,
        copy_begins: COPY_BEGINS_WITHIN,
        copy_bytes_per_s_min: COPY_BYTES_PER_S_MIN,
    };

    /// A host that does not answer is given up after this time. Each step that is done gives more.
    fn answer_within(self) -> Duration {
        Duration::from_secs(u64::from(self.connect_s) + if self == Patience::SHORT { 1 } else { 2 })
    }

    /// How long a copy of so many bytes may take.
    fn copy_within(self, bytes: u64) -> Duration {
        self.copy_begins + Duration::from_secs(bytes / self.copy_bytes_per_s_min)
    }
}

/// A worker on a host that has said it is ready. Whoever drops it ends the connection.
pub(crate) struct Connected {
    /// The `ssh`.
    pub(in crate::engine) process: Process,
    /// Our end of its standard input and output, non-blocking: frames, both ways.
    pub(crate) socket: OwnedFd,
    /// What `ssh`, the supervisor and user code write to standard error; non-blocking.
    pub(crate) stderr: ChildStderr,
    /// Bytes of the first frames, read along with the last line.
    pub(crate) leftover: Vec<u8>,
    /// The folder that is ours there.
    pub(crate) dir: String,
    /// How long each step took.
    pub(crate) timings: Vec<(Step, Duration)>,
    /// Whether the executable had to be sent.
    pub(crate) copied: bool,
}

/// What was removed from a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    /// Folders and the bytes they took on the disk.
    pub(crate) removed: Vec<(String, u64)>,
    /// Folders that could not be removed, and why.
    pub(crate) left: Vec<String>,
}

/// A failure, and whether another attempt may do better.
struct Failed {
    failure: StartFailure,
    again: Again,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    /// The way there is busy.
    Later,
    /// This `ssh` is older than an option.
    WithoutOption,
    /// What lies on the host does not run.
    WithCopy,
}

impl From<StartFailure> for Failed {
    fn from(failure: StartFailure) -> Self {
        Failed { failure, again: Again::No }
    }
}

/// Which step it is, and how long those before it took.
struct Timeline<'a> {
    step: Step,
    since: Instant,
    /// When it is given up.
    deadline: Instant,
    /// When all of it is given up; copying moves it by the time that it takes.
    end: Instant,
    copies: u32,
    done: Vec<(Step, Duration)>,
    progress: &'a mut dyn FnMut(Step, Duration),
}

impl<'a> Timeline<'a> {
    fn new(patience: Patience, progress: &'a mut dyn FnMut(Step, Duration)) -> Self {
        let now = Instant::now();
        Timeline {
            step: Step::Connect,
            since: now,
            deadline: now + patience.answer_within(),
            end: now + STEPS_WITHIN,
            copies: 0,
            done: Vec::new(),
            progress,
        }
    }

    /// Another attempt, within the same time.
    fn restart(&mut self) {
        (self.step, self.since) = (Step::Connect, Instant::now());
        self.done.clear();
    }

    /// A step is behind us. Steps before it that nobody has mentioned took no time.
    fn passed(&mut self, step: Step, next: Step) {
        if self.step <= step {
            // An `ssh` that does not say when it has connected says nothing of logging in, either.
            if self.step == Step::Connect && step == Step::Authenticate {
                self.note(Step::Connect);
            }
            self.note(step);
        }
        self.step = self.step.max(next);
    }

    fn note(&mut self, step: Step) {
        let took = self.since.elapsed();
        self.since = Instant::now();
        self.done.push((step, took));
        self.deadline = self.deadline.max(self.since + STEP_WITHIN).min(self.end);
        (self.progress)(step, took);
    }

    /// Something new begins that has its own time.
    fn give(&mut self, time: Duration) {
        self.deadline = (Instant::now() + time).min(self.end);
    }
}

/// Makes a host a worker, up to where frames begin. `progress` is told of each step that is done.
///
/// Blocks for a time that is bounded, so it wants a thread of its own; one per host, all at once. It fails soon after
/// `stop` is set.
pub(crate) fn start(
    address: &HostAddress,
    shipped: &Shipped,
    patience: Patience,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Step, Duration),
) -> Result<Connected, StartFailure> {
    let mut route = Route::to(address, stop);
    route.patience = patience;
    start_by(&route, shipped, progress)
}

/// Removes all that is ours on a host.
pub(crate) fn clean(address: &HostAddress, stop: &AtomicBool) -> Result<Cleaned, StartFailure> {
    clean_by(&Route::to(address, stop))
}

pub(super) fn start_by(
    route: &Route<'_>,
    shipped: &Shipped,
    progress: &mut dyn FnMut(Step, Duration),
) -> Result<Connected, StartFailure> {
    let mut time = Timeline::new(route.patience, progress);
    let mut copy_anyway = false;
    again(route, |attempt| {
        time.restart();
        copy_anyway |= attempt == Again::WithCopy;
        Start { route, shipped, copy_anyway, time: &mut time }.go()
    })
}

pub(super) fn clean_by(route: &Route<'_>) -> Result<Cleaned, StartFailure> {
    let deadline = Instant::now() + route.patience.answer_within();
    again(route, |_| {
        let nonce = nonce();
        let mut dialogue = open(route, &script::clean(&nonce), &nonce)?;
        let (mut cleaned, mut step, mut until) = (Cleaned::default(), Step::Connect, deadline);
        let mut conversation = Conversation::new();
        loop {
            match dialogue.listen(until) {
                Heard::Line(line) => {
                    (step, until) = (Step::Place, Instant::now() + REMOVED_WITHIN);
                    let (word, rest) = match conversation.of_clean(&line) {
                        Ok(said) => said,
                        Err(why) => return Err(breach(&why, step, dialogue, route)),
                    };
                    match (word, rest) {
                        ("gone", rest) => {
                            let (kib, place) = rest.split_once(' ').unwrap_or((rest, ""));
                            let bytes = kib.parse::<u64>().unwrap_or(0).saturating_mul(1024);
                            cleaned.removed.push((shown(place), bytes));
                        }
                        ("left", rest) => cleaned.left.push(shown(rest)),
                        ("done", _) => return Ok(cleaned),
                        _ => {}
                    }
                }
                Heard::Passed(passed) => step = step.max(passed),
                other => return Err(cut_short(other, step, dialogue, route)),
            }
        }
    })
}

/// Tries until it goes well, or there is no hope, or no time.
fn again<T>(
    route: &Route<'_>,
    mut attempt: impl FnMut(Again) -> Result<T, Failed>,
) -> Result<T, StartFailure> {
    let begun = Instant::now();
    let (mut mode, mut tries, mut copied_again, mut without_option) = (Again::No, 0, false, false);
    loop {
        tries += 1;
        let Failed { failure, again } = match attempt(mode) {
            Ok(good) => return Ok(good),
            Err(failed) => failed,
        };
        match again {
            Again::No => return Err(failure),
            Again::WithCopy if copied_again => return Err(failure),
            Again::WithCopy => copied_again = true,
            // It was asked for all at once; what it still does not know was not ours.
            Again::WithoutOption if without_option => return Err(failure),
            Again::WithoutOption => without_option = true,
            Again::Later => {
                // Many may have been turned away at the same moment, and must not all come back at the same moment.
                let pause = Duration::from_millis(100 + random() % (150 * tries).min(1000));
                let last = route.patience.answer_within().saturating_sub(Duration::from_secs(2));
                if begun.elapsed() + pause > last || route.stop.load(Relaxed) {
                    return Err(failure);
                }
                std::thread::sleep(pause);
            }
        }
        mode = again;
    }
}

/// One attempt.
struct Start<'a, 'p> {
    route: &'a Route<'a>,
    shipped: &'a Shipped,
    copy_anyway: bool,
    time: &'a mut Timeline<'p>,
}

impl Start<'_, '_> {
    fn go(self) -> Result<Connected, Failed> {
        let nonce = nonce();
        let command = script::place(&nonce, self.shipped, self.copy_anyway);
        let mut dialogue = open(self.route, &command, &nonce)?;
        let (mut unusable, mut dir, mut copied) = (Vec::new(), String::new(), false);
        let mut conversation = Conversation::new();
        loop {
            let line = match dialogue.listen(self.time.deadline) {
                Heard::Line(line) => line,
                Heard::Passed(Step::Connect) => {
                    self.time.passed(Step::Connect, Step::Authenticate);
                    continue;
                }
                Heard::Passed(step) => {
                    self.time.passed(step, Step::Place);
                    continue;
                }
                Heard::End if self.time.step == Step::Start => return Err(self.died(dialogue, copied)),
                other => return Err(cut_short(other, self.time.step, dialogue, self.route)),
            };
            let (word, rest) = match conversation.of_place(&line) {
                Ok(said) => said,
                Err(why) => return Err(breach(&why, self.time.step, dialogue, self.route)),
            };
            match (word, rest) {
                ("hello", here) => {
                    self.time.passed(Step::Authenticate, Step::Place);
                    if here != format!("Linux {}", self.shipped.machine) {
                        return Err(self.wrong_machine(here));
                    }
                }
                ("no", why) => unusable.push(shown(why)),
                ("nowhere", _) => return Err(self.nowhere(unusable)),
                ("want", _) => {
                    self.time.passed(Step::Place, Step::Copy);
                    self.time.copies += 1;
                    if self.time.copies > COPIES_MAX {
                        let why = format!("it wants the executable more than {COPIES_MAX} times");
                        return Err(breach(&why, Step::Copy, dialogue, self.route));
                    }
                    let begun = Instant::now();
                    let within = self.route.patience.copy_within(self.shipped.length);
                    if let Err(stuck) = dialogue.send(self.shipped, STALL_MAX, begun + within) {
                        return Err(self.stuck(stuck, dialogue));
                    }
                    self.time.end += begun.elapsed();
                    copied = true;
                    self.time.give(COPIED_WITHIN);
                }
                ("start", place) => {
                    let step = if copied { Step::Copy } else { Step::Place };
                    self.time.passed(step, Step::Start);
                    if copied {
                        self.time.give(RUNS_WITHIN);
                    }
                    dir = place.to_owned();
                }
                ("damaged", _) => {
                    let failure = StartFailure {
                        step: Step::Start,
                        what: "what arrived on the host is not what was sent".into(),
                        words: dialogue.end().said.lines().to_vec(),
                        remedy: format!("is the disk that holds {} in order?", shown(&dir)),
                    };
                    return Err(Failed { failure, again: Again::WithCopy });
                }
                ("ready", _) => {
                    self.time.passed(Step::Start, Step::Handshake);
                    let (process, socket, stderr, leftover) = dialogue.hand_over();
                    let timings = self.time.done.clone();
                    return Ok(Connected { process, socket, stderr, leftover, dir, timings, copied });
                }
                _ => {}
            }
        }
    }

    fn wrong_machine(&self, here: &str) -> Failed {
        let machine = &self.shipped.machine;
        StartFailure {
            step: Step::Place,
            what: format!(
                "the host is of another kind: {}, and the executable is for Linux {machine}",
                shown(here)
            ),
            words: Vec::new(),
            remedy: format!("leave it out; all workers run the same executable, on Linux {machine}"),
        }
        .into()
    }

    fn nowhere(&self, unusable: Vec<String>) -> Failed {
        let mib = self.shipped.length.div_ceil(1 << 20);
        StartFailure {
            step: Step::Place,
            what: format!("no folder there will do for an executable of {mib} MiB"),
            words: unusable,
            remedy: "make room in one of them, or let programs run there; or name another folder by XDG_CACHE_HOME on that host".into(),
        }
        .into()
    }

    fn stuck(&self, stuck: Stuck, dialogue: Dialogue<'_>) -> Failed {
        match stuck {
            Stuck::End => cut_short(Heard::End, Step::Copy, dialogue, self.route),
            Stuck::Stopped => cut_short(Heard::Stopped, Step::Copy, dialogue, self.route),
            Stuck::Stalled => failure(
                Step::Copy,
                format!("not a byte was accepted for {} s", STALL_MAX.as_secs()),
                dialogue.end(),
                words::silence(Step::Copy, self.route.address),
            )
            .into(),
            Stuck::Slow => failure(
                Step::Copy,
                format!(
                    "the host takes less than {} KiB/s of the executable, which has {} MiB",
                    self.route.patience.copy_bytes_per_s_min >> 10,
                    self.shipped.length.div_ceil(1 << 20)
                ),
                dialogue.end(),
                "see what slows the link; or leave the host out".into(),
            )
            .into(),
            Stuck::File(e) => StartFailure {
                step: Step::Copy,
                what: format!("{} cannot be read: {e}", self.shipped.path.display()),
                words: Vec::new(),
                remedy: "do not change the executable while it is used".into(),
            }
            .into(),
        }
    }

    /// The worker ended before it said that it was ready.
    fn died(&self, dialogue: Dialogue<'_>, copied: bool) -> Failed {
        let parting = dialogue.end();
        let code = parting.status.and_then(|s| s.code());
        let said = parting.said.lines().join("\n");
        let lacks_library = said.contains("GLIBC_")
            || said.contains("shared librar")
            || (self.shipped.is_dynamic && code == Some(127));
        let (what, remedy) = match code {
            _ if lacks_library => {
                ("the executable needs libraries that the host does not have".into(), STATIC.into())
            }
            Some(0) => (
                "the worker ended at once, as a program does that does not know it is one".into(),
                "put #[qjam::main] on the main function of the program that is sent".into(),
            ),
            Some(126) => (
                "the executable may not be run there".to_owned(),
                "see what it says; name a folder where programs may run by XDG_CACHE_HOME on that host"
                    .into(),
            ),
            // The code of `ssh` itself: there is none of the worker's, so a signal ended it, or the connection did.
            Some(255) | None => (
                "the worker was ended before it was ready".into(),
                "if it was built for the processor of this machine (target-cpu=native), build it without"
                    .into(),
            ),
            Some(code) => (
                format!("the worker ended with code {code} before it was ready"),
                "it must be a build of this program: see what it says, and what QJAM_WORKER names".to_owned(),
            ),
        };
        let again = if copied || self.copy_anyway { Again::No } else { Again::WithCopy };
        Failed { failure: failure(Step::Start, what, parting, remedy), again }
    }
}

const STATIC: &str = "send a build that brings them: `cargo xtask dist` makes one of the command; of your own program, RUSTFLAGS=\"-C target-feature=+crt-static\" cargo build --release --target x86_64-unknown-linux-gnu, and name it by QJAM_WORKER";

fn open<'a>(route: &Route<'a>, command: &str, nonce: &str) -> Result<Dialogue<'a>, Failed> {
    Dialogue::open(route, command, nonce).map_err(|e| {
        let (what, remedy) = match e.kind() {
            io::ErrorKind::NotFound => (
                "there is no ssh on this machine".into(),
                "install OpenSSH's client, or name another by QJAM_SSH",
            ),
            _ => (
                format!("ssh cannot be started: {e}"),
                "see what the system says; QJAM_SSH names another ssh",
            ),
        };
        StartFailure { step: Step::Connect, what, words: Vec::new(), remedy: remedy.into() }.into()
    })
}

/// A host that says something that our script does not say then.
fn breach(why: &str, step: Step, dialogue: Dialogue<'_>, route: &Route<'_>) -> Failed {
    let what = format!("the host does not do what our script does: {why}");
    let remedy = format!(
        "do not use it before you know what answers there: see what `{} /bin/sh -c true` runs",
        words::by_hand(route.address)
    );
    failure(step, what, dialogue.end(), remedy).into()
}

/// A dialogue that came to no good end, for reasons that do not depend on what it was about.
fn cut_short(heard: Heard, step: Step, dialogue: Dialogue<'_>, route: &Route<'_>) -> Failed {
    let address = route.address;
    let by_hand = words::by_hand(address);
    let parting = dialogue.end();
    if heard != Heard::End {
        let (what, remedy) = match heard {
            Heard::Babble => (
                "it prints and prints, but does not do what it is asked".into(),
                format!("`{by_hand} true` must print nothing: see the start-up files of the shell there"),
            ),
            Heard::Stopped => {
                ("it was called off".into(), "nothing: whoever wanted it does not any more".into())
            }
            _ => (
                format!("no answer within {} s", route.patience.answer_within().as_secs()),
                words::silence(step, address),
            ),
        };
        return failure(step, what, parting, remedy).into();
    }
    if step > Step::Place {
        let remedy = format!("try again; does `{by_hand}` stay connected?");
        return failure(step, "the connection ended".into(), parting, remedy).into();
    }
    match parting.status.and_then(|s| s.code()) {
        // What `ssh` ends with when it fails itself.
        Some(255) => {
            let said = parting.said.lines();
            // Before anybody has answered these may be words of `ssh` itself, so it is asked. A host's words decide nothing.
            let is_suspect = step == Step::Connect && words::unknown_option(said).is_some();
            let answer = if is_suspect { options::ask(route) } else { Answer::KnowsAll };
            if let Answer::Unprotected(option) = answer {
                return unprotected(&option, parting).into();
            }
            let without_option = answer == Answer::LeftOut;
            let Some(meaning) = words::meaning(said, address) else {
                let remedy = format!("`{by_hand} true` must work by itself");
                return failure(step, "ssh gave up".into(), parting, remedy).into();
            };
            let again = match (without_option, meaning.may_pass) {
                (true, _) => Again::WithoutOption,
                (false, true) => Again::Later,
                (false, false) => Again::No,
            };
            Failed { failure: failure(meaning.step, meaning.what.into(), parting, meaning.remedy), again }
        }
        Some(0) => {
            let what = "it lets us in, but ends the session before it does what it is asked".into();
            let remedy = format!(
                "`{by_hand} /bin/sh -c true` must work: a start-up file of the shell may say `exit`, or the account may be for something else"
            );
            failure(Step::Place, what, parting, remedy).into()
        }
        code => {
            let how = code.map_or("was killed".into(), |code| format!("ended with code {code}"));
            let what = format!("it lets us in, but the shell there {how}");
            let remedy = format!("`{by_hand} /bin/sh -c true` must work");
            failure(Step::Place, what, parting, remedy).into()
        }
    }
}

fn unprotected(option: &str, parting: Parting) -> StartFailure {
    let what = format!("ssh does not know the option {option}, which protects this machine from the host");
    let remedy = "use OpenSSH 6.8 or later; QJAM_SSH names another ssh".into();
    failure(Step::Connect, what, parting, remedy)
}

fn failure(step: Step, what: String, parting: Parting, remedy: String) -> StartFailure {
    let last = |lines: &[String]| lines[lines.len().saturating_sub(WORDS_MAX)..].to_vec();
    let mut words = last(parting.said.lines());
    words.extend(last(parting.noise.lines()));
    StartFailure { step, what, words, remedy }
}

/// What tells our lines from noise; 32 hexadecimal digits.
fn nonce() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// A number that nobody expects. The standard library takes the keys of its hash maps from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
