//! What happened how often, over one run or many.

use crate::checkers::Answer;
use crate::fault::KINDS;
use qjam_core::journal::What;
use std::fmt;

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Steps of virtual time.
    pub events: u64,
    /// Virtual time.
    pub virtual_us: u64,
    /// Faults that struck, by kind.
    pub faults: [u64; KINDS.len()],
    /// Starts that came to nothing by a fault.
    pub starts_failed: u64,
    /// Processes ended by a poisonous block.
    pub poisonings: u64,
    /// Blocks run, counting each time.
    pub blocks_run: u64,
    /// Blocks given out again.
    pub blocks_retried: u64,
    /// Times that somebody was asked to give blocks back.
    pub recalls: u64,
    /// Blocks given back unstarted.
    pub blocks_stolen: u64,
    /// Late blocks given to somebody else, too.
    pub backups: u64,
    /// Blocks whose results came too late to count.
    pub blocks_discarded: u64,
    /// Blocks given to a worker again before it had noticed the end of its first run of them.
    pub blocks_back_early: u64,
    /// Results that were dropped since only a part of them was done already.
    pub parts_overlapping: u64,
    /// Chunks that workers had to ask for.
    pub chunks_fetched: u64,
    /// Roots of finished subtrees that were sent.
    pub parts: u64,
    /// Messages sent to workers, and the bytes of parameters and chunks in them.
    pub messages_out: u64,
    /// See above.
    pub bytes_out: u64,
    /// Messages sent to the master, and the bytes of results in them.
    pub messages_in: u64,
    /// See above.
    pub bytes_in: u64,
    /// States that workers had to ask for.
    pub states_asked: u64,
    /// States that were made again by running rounds again.
    pub states_restored: u64,
    /// Inboxes that workers have asked for, of partitions whose states they had.
    pub mail_asked: u64,
    /// Letters that blocks have found.
    pub letters_read: u64,
    /// Partitions that went to a worker that had none.
    pub partitions_moved: u64,
    /// Messages lost with their link.
    pub messages_lost: u64,
    /// Messages from workers that were already given up.
    pub messages_late: u64,
    /// Messages that came twice.
    pub messages_repeated: u64,
    /// Workers that were silent for long.
    pub suspected: u64,
    /// Those of them that spoke again.
    pub returned: u64,
    /// Workers lost.
    pub lost: u64,
    /// Workers killed by the master.
    pub kills: u64,
    /// Seats given up.
    pub given_up: u64,
    /// Seats taken away.
    pub removed: u64,
    /// Rounds by answer: value, fault, poison, nobody left, cancelled.
    pub answers: [u64; 5],
}

impl Tally {
    pub(crate) fn note(&mut self, what: &What) {
        match what {
            What::WorkerSuspected(_) => self.suspected += 1,
            What::WorkerReturned(_) => self.returned += 1,
            What::WorkerLost(..) => self.lost += 1,
            What::SeatGivenUp(_) => self.given_up += 1,
            What::SeatRemoved(_) => self.removed += 1,
            What::Retried { blocks, .. } => self.blocks_retried += u64::from(*blocks),
            What::Stolen { blocks, .. } => self.blocks_stolen += u64::from(*blocks),
            What::BackedUp { .. } => self.backups += 1,
            What::Moved { partitions, .. } => self.partitions_moved += partitions.len() as u64,
            What::Discarded { blocks, .. } => self.blocks_discarded += u64::from(*blocks),
            _ => {}
        }
    }

    /// Adds the counts of a run, and what its rounds were answered.
    pub(crate) fn add_run(&mut self, t: &Tally, answers: &[Answer]) {
        for (sum, n) in [
            (&mut self.events, t.events),
            (&mut self.virtual_us, t.virtual_us),
            (&mut self.starts_failed, t.starts_failed),
            (&mut self.poisonings, t.poisonings),
            (&mut self.blocks_run, t.blocks_run),
            (&mut self.blocks_retried, t.blocks_retried),
            (&mut self.recalls, t.recalls),
            (&mut self.blocks_stolen, t.blocks_stolen),
            (&mut self.backups, t.backups),
            (&mut self.blocks_discarded, t.blocks_discarded),
            (&mut self.blocks_back_early, t.blocks_back_early),
            (&mut self.parts_overlapping, t.parts_overlapping),
            (&mut self.chunks_fetched, t.chunks_fetched),
            (&mut self.parts, t.parts),
            (&mut self.messages_out, t.messages_out),
            (&mut self.bytes_out, t.bytes_out),
            (&mut self.messages_in, t.messages_in),
            (&mut self.bytes_in, t.bytes_in),
            (&mut self.states_asked, t.states_asked),
            (&mut self.states_restored, t.states_restored),
            (&mut self.mail_asked, t.mail_asked),
            (&mut self.letters_read, t.letters_read),
            (&mut self.partitions_moved, t.partitions_moved),
            (&mut self.messages_lost, t.messages_lost),
            (&mut self.messages_late, t.messages_late),
            (&mut self.messages_repeated, t.messages_repeated),
            (&mut self.suspected, t.suspected),
            (&mut self.returned, t.returned),
            (&mut self.lost, t.lost),
            (&mut self.kills, t.kills),
            (&mut self.given_up, t.given_up),
            (&mut self.removed, t.removed),
        ] {
            *sum += n;
        }
        for (sum, n) in self.faults.iter_mut().zip(t.faults) {
            *sum += n;
        }
        for answer in answers {
            let at = match answer {
                Answer::Value => 0,
                Answer::Fault => 1,
                Answer::Poison(_) => 2,
                Answer::NoWorkers => 3,
                Answer::Cancelled => 4,
            };
            self.answers[at] += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.virtual_us as f64 / 3.6e9;
        writeln!(f, "{} events in {hours:.1} hours of virtual time", self.events)?;
        let [value, fault, poison, nobody, cancelled] = self.answers;
        writeln!(
            f,
            "rounds: {value} with a value, {fault} with a fault, {poison} poisoned, {nobody} without workers, \
             {cancelled} cancelled"
        )?;
        let faults: Vec<String> =
            KINDS.iter().zip(self.faults).map(|(kind, n)| format!("{n} {kind}")).collect();
        writeln!(f, "faults: {}", faults.join(", "))?;
        writeln!(
            f,
            "workers: {} lost, {} killed by the master, {} poisoned, {} suspected, {} returned, {} starts failed, {} \
             seats given up, {} taken away",
            self.lost,
            self.kills,
            self.poisonings,
            self.suspected,
            self.returned,
            self.starts_failed,
            self.given_up,
            self.removed
        )?;
        writeln!(
            f,
            "blocks: {} run, {} given out again, {} stolen in {} recalls, {} backed up, {} discarded ({} results \
             overlapped); {} chunks fetched",
            self.blocks_run,
            self.blocks_retried,
            self.blocks_stolen,
            self.recalls,
            self.backups,
            self.blocks_discarded,
            self.parts_overlapping,
            self.chunks_fetched
        )?;
        writeln!(
            f,
            "states: {} asked for, {} made again, {} moved",
            self.states_asked, self.states_restored, self.partitions_moved
        )?;
        writeln!(f, "mail: {} inboxes asked for, {} letters found", self.mail_asked, self.letters_read)?;
        write!(
            f,
            "messages: {} lost, {} late, {} repeated",
            self.messages_lost, self.messages_late, self.messages_repeated
        )
    }
}
