//! Messages in the queue, as short lines of text.
//!
//! A queue may be shared with strangers, and some queues take text only. So a message says that it is one of ours and in which
//! version, and whatever else is found is left to its owner.

use super::round::RoundAt;
use std::fmt;
use thiserror::Error;

/// What a message of ours begins with.
const MARK: &str = "qjam1";
/// Longest name of a job.
pub const JOB_BYTES_MAX: usize = 64;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// Run a task and deliver its result.
    Map {
        /// Of which round.
        at: RoundAt,
        /// Which.
        task: u32,
    },
    /// Merge a group, if its results are all there.
    Reduce {
        /// Of which round.
        at: RoundAt,
        /// The stage of the merged result.
        stage: u8,
        /// Its index there.
        index: u32,
    },
    /// Look after a round that has no submitter.
    Watch {
        /// Which.
        at: RoundAt,
    },
}

/// Why a text is no message of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It is somebody else's.
    #[error("it is no message of qjam")]
    Foreign,
    /// It begins like one of ours.
    #[error("it is a message of qjam that this version does not know")]
    Unknown,
}

impl Message {
    /// The round it is about.
    pub fn at(&self) -> &RoundAt {
        match self {
            Message::Map { at, .. } | Message::Reduce { at, .. } | Message::Watch { at } => at,
        }
    }

    /// Reads a message.
    pub fn parse(text: &str) -> Result<Message, MessageError> {
        let mut words = text.split(' ');
        if words.next() != Some(MARK) {
            return Err(MessageError::Foreign);
        }
        let mut parsed = || -> Option<Message> {
            let kind = words.next()?;
            let job = words.next().filter(|job| is_job(job))?.to_owned();
            let at = RoundAt { job, round: words.next()?.parse().ok()? };
            let message = match kind {
                "map" => Message::Map { at, task: words.next()?.parse().ok()? },
                "reduce" => {
                    let (stage, index) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                    Message::Reduce { at, stage, index }
                }
                "watch" => Message::Watch { at },
                _ => return None,
            };
            words.next().is_none().then_some(message)
        };
        parsed().ok_or(MessageError::Unknown)
    }
}

/// Whether a name of a job can be part of the names of blobs and of messages.
pub fn is_job(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=JOB_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoundAt { job, round } = self.at();
        match self {
            Message::Map { task, .. } => write!(f, "{MARK} map {job} {round} {task}"),
            Message::Reduce { stage, index, .. } => write!(f, "{MARK} reduce {job} {round} {stage} {index}"),
            Message::Watch { .. } => write!(f, "{MARK} watch {job} {round}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_trip() {
        let at = RoundAt { job: "job-7".into(), round: u64::MAX };
        let messages = [
            Message::Map { at: at.clone(), task: 3 },
            Message::Reduce { at: at.clone(), stage: 2, index: 9 },
            Message::Watch { at },
        ];
        for message in messages {
            assert_eq!(Message::parse(&message.to_string()), Ok(message));
        }
    }

    #[test]
    fn whatever_else_is_in_a_queue_is_told_apart() {
        for foreign in ["", "hello", "qjam", "{\"a\": 1}", "qjam2 map a 1 2", " qjam1 map a 1 2"] {
            assert_eq!(Message::parse(foreign), Err(MessageError::Foreign), "{foreign}");
        }
        for unknown in [
            "qjam1",
            "qjam1 map",
            "qjam1 fly a 1",
            "qjam1 map a 1",
            "qjam1 map a 1 x",
            "qjam1 map a 1 2 3",
            "qjam1 map ../a 1 2",
            "qjam1 map A 1 2",
            "qjam1 map a -1 2",
            "qjam1 reduce a 1 300 2",
            "qjam1 watch a",
        ] {
            assert_eq!(Message::parse(unknown), Err(MessageError::Unknown), "{unknown}");
        }
    }
}
