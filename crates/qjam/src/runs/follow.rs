//! Reading a run file while it grows.
//!
//! Comes in: a run file, complete or still written by its master. Goes out: the facts so far as a [`Run`], and what was added since the
//! last look as [`Event`]s in the order of the file. Nothing is asked of the master: the follower reads the file, and sees from the lock
//! on it whether somebody still writes. A record that is not whole yet is read again with the next look.

use super::folder;
use super::reader::Reader;
use super::record::Record;
use super::run::{Gatherer, Run, State};
use super::story::{Happening, MemorySample, Metric, Share, happening};
use super::{RunError, record};
use qjam_core::ids::SeatId;
use qjam_core::journal::RoundReport;
use std::fs::File;
use std::path::Path;

/// Something that was added to a run file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A seat has a name.
    Seat {
        /// Its number.
        seat: u32,
        /// Its name.
        name: String,
    },
    /// A round began.
    RoundBegan {
        /// Its number.
        round: u64,
        /// When, in microseconds since the run began.
        at_us: u64,
        /// The place of its function in [`Run::functions`].
        function: u32,
    },
    /// A round has its value.
    RoundDone {
        /// Its number.
        round: u64,
        /// When.
        at_us: u64,
        /// Where its time went.
        report: RoundReport,
        /// Whether the value came from an earlier run.
        recalled: bool,
    },
    /// A round failed.
    RoundFailed {
        /// Its number.
        round: u64,
        /// When.
        at_us: u64,
    },
    /// A seat computed for a round.
    Computed(Share),
    /// Something happened to a worker.
    Happened(Happening),
    /// The program reported a number of itself.
    Reported(Metric),
    /// What a worker had in memory.
    Memory(MemorySample),
}

/// Reads a run file again and again.
pub struct Follower {
    /// Its own handle: whether the file is locked is asked of this one.
    file: File,
    reader: Reader<File>,
    gatherer: Gatherer,
}

impl Follower {
    /// Opens a run file. What it has so far comes with the first [`advance`](Follower::advance).
    pub fn open(path: &Path) -> Result<Follower, RunError> {
        let file = folder::open(path)?;
        let mut reader = Reader::new(file.try_clone()?, true)?;
        let Some(Record::Began(began)) = reader.next().map(|item| item.record) else {
            return Err(RunError::NotARun);
        };
        let run = Run::new(*began, path);
        Ok(Follower { file, reader, gatherer: Gatherer::new(run) })
    }

    /// Reads what was added, gives it to `each` in order, and says whether there was anything. At most `records_max` records are read,
    /// so that a caller with other things to do can do them in between.
    pub fn advance(&mut self, records_max: usize, mut each: impl FnMut(Event)) -> Result<bool, RunError> {
        // Asked before reading: what a writer wrote before it let go of the file is read below.
        let is_living = folder::is_locked(&self.file);
        self.reader.grow()?;
        let mut count = 0;
        while count < records_max
            && let Some(item) = self.reader.next()
        {
            count += 1;
            tell(&item.record, &mut each);
            self.gatherer.take_in(item.record);
        }
        self.gatherer.settle(&self.reader, is_living || count == records_max);
        Ok(count > 0)
    }

    /// The run as far as it was read. The lists of notes only grow, each to a limit. A run that nobody writes any more and that has no
    /// end was [killed](State::Killed).
    pub fn run(&self) -> &Run {
        &self.gatherer.run
    }

    /// How many rounds have begun and not ended.
    pub fn open_rounds(&self) -> usize {
        self.gatherer.open_rounds()
    }

    /// Whether more can come.
    pub fn is_running(&self) -> bool {
        self.run().state == State::Running
    }
}

/// Passes on what a record tells besides facts of the whole run.
fn tell(record: &Record, each: &mut impl FnMut(Event)) {
    match record {
        Record::Seat { seat, name } => each(Event::Seat { seat: *seat, name: name.clone() }),
        Record::RoundBegan { round, at_us, function, .. } => {
            each(Event::RoundBegan { round: *round, at_us: *at_us, function: *function });
        }
        Record::RoundDone { round, at_us, report, recalled, .. } => {
            let (round, at_us, report, recalled) = (*round, *at_us, *report, *recalled);
            each(Event::RoundDone { round, at_us, report, recalled });
        }
        Record::RoundFailed { round, at_us, .. } => {
            each(Event::RoundFailed { round: *round, at_us: *at_us });
        }
        Record::Shares { round, shares } => {
            let share = |(seat, compute_us): &(u32, u64)| Share {
                round: *round,
                seat: *seat,
                compute_us: *compute_us,
            };
            shares.iter().map(share).for_each(|share| each(Event::Computed(share)));
        }
        Record::Happened { at_us, what } => {
            if let Some((SeatId(seat), kind)) = happening(what) {
                each(Event::Happened(Happening { at_us: *at_us, seat, kind }));
            }
        }
        Record::Metric { at_us, rounds, name, value } => {
            let (at_us, rounds, name, value) = (*at_us, *rounds, name.clone(), *value);
            each(Event::Reported(Metric { at_us, rounds, name, value }));
        }
        Record::Memory { at_us, workers } => {
            workers.iter().for_each(|worker| each(Event::Memory(MemorySample::of(*at_us, worker))));
        }
        _ => {}
    }
}

/// Writes the file of a run that was never run, for tests and measurements of what reads run files: `rounds` rounds of `workers`
/// workers, `us_each` microseconds apart, continued by the iterator's next call. The bytes are what a master would have written.
#[doc(hidden)]
pub struct Written {
    workers: u32,
    us_each: u64,
    round: u64,
}

impl Written {
    /// The beginning of the file, and what writes the rest.
    pub fn begin(workers: u32, us_each: u64) -> (Vec<u8>, Written) {
        let mut out = record::head().to_vec();
        let began = record::Began {
            unix_us: super::process::now_us(),
            pid: std::process::id(),
            process: 0,
            nth: 0,
            host: "nowhere".into(),
            program: b"generated".to_vec(),
            program_bytes: 0,
            program_changed_us: 0,
            arguments: vec![],
            directory: b"/".to_vec(),
            version: crate::VERSION.into(),
            workers: format!("proc:{workers}"),
            seed: 0,
            resumed: None,
        };
        add(&mut out, &Record::Began(Box::new(began)));
        add(&mut out, &Record::Function { number: 0, name: "generated::round".into() });
        add(&mut out, &Record::Data { number: 0, id: [1; 32], chunks: workers, bytes: 1 << 20 });
        for seat in 0..workers {
            add(&mut out, &Record::Seat { seat, name: format!("proc:{seat}") });
        }
        (out, Written { workers, us_each, round: 0 })
    }

    /// The records of one more round.
    pub fn round(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let (round, at_us) = (self.round, self.round * self.us_each);
        self.round += 1;
        add(&mut out, &Record::RoundBegan { round, at_us, function: 0, data: 0 });
        let share = |seat: u32| (seat, self.us_each * (30 + u64::from(seat) * 7 % 60 + round % 10) / 100);
        let shares: Vec<(u32, u64)> = (0..self.workers).map(share).collect();
        let worker_us = shares.iter().map(|(_, us)| *us).max().unwrap_or(0);
        let master_us = self.us_each / 100;
        let report = RoundReport {
            round,
            total_us: self.us_each,
            worker_us,
            master_us,
            overhead_us: self.us_each.saturating_sub(worker_us + master_us),
            bytes_out: 800,
            bytes_in: 8_000,
            ..RoundReport::default()
        };
        let at_us = at_us + self.us_each;
        let kept = record::StoredValue::Nothing;
        add(&mut out, &Record::RoundDone { round, at_us, params: None, report, kept, recalled: false });
        add(&mut out, &Record::Shares { round, shares });
        let value = 1.0 / (1.0 + round as f64);
        add(&mut out, &Record::Metric { at_us, rounds: round + 1, name: "objective".into(), value });
        out
    }
}

fn add(out: &mut Vec<u8>, record: &Record) {
    let start = out.len();
    record.append(out, |_| {});
    record::seal(&mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn place(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("qjam-follow-{}-{name}.run", std::process::id()))
    }

    #[test]
    fn a_file_that_grows_byte_by_byte_is_followed_record_by_record() {
        let path = place("bytes");
        let (mut whole, mut written) = Written::begin(2, 1000);
        let first = whole.len();
        for _ in 0..3 {
            whole.extend(written.round());
        }
        std::fs::write(&path, &whole[..first]).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let mut follower = Follower::open(&path).unwrap();
        let mut events = Vec::new();
        for byte in &whole[first..] {
            file.write_all(&[*byte]).unwrap();
            follower.advance(usize::MAX, |event| events.push(event)).unwrap();
            assert!(follower.is_running());
        }
        assert_eq!(follower.run().rounds, 3);
        let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
        assert_eq!(count(|e| matches!(e, Event::Seat { .. })), 2);
        assert_eq!(count(|e| matches!(e, Event::RoundBegan { .. })), 3);
        assert_eq!(count(|e| matches!(e, Event::RoundDone { .. })), 3);
        assert_eq!(count(|e| matches!(e, Event::Computed(_))), 6);
        assert_eq!(count(|e| matches!(e, Event::Reported(_))), 3);
        drop(file);
        follower.advance(usize::MAX, |_| panic!("nothing was added")).unwrap();
        assert_eq!(follower.run().state, State::Killed, "nobody writes it any more, and it has no end");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_end_is_seen_and_what_was_read_equals_what_is_read_at_once() {
        let path = place("end");
        let (mut bytes, mut written) = Written::begin(3, 500);
        bytes.extend(written.round());
        std::fs::write(&path, &bytes).unwrap();
        let mut follower = Follower::open(&path).unwrap();
        follower.advance(2, |_| {}).unwrap();
        assert!(follower.is_running(), "there is more to read");
        while follower.advance(2, |_| {}).unwrap() {}
        add(&mut bytes, &Record::Ended { at_us: 9_000, error: Some("it failed".into()) });
        std::fs::write(&path, &bytes).unwrap();
        follower.advance(usize::MAX, |_| {}).unwrap();
        assert_eq!(follower.run().state, State::Failed("it failed".into()));
        assert_eq!(follower.run(), &Run::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
    }
}
