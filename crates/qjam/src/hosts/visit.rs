//! A connection to a host without a master: somebody goes there, asks, measures, and leaves.

use super::{CacheOrder, CacheState};
use crate::engine::HostAddress;
use crate::engine::ssh::link::Link;
use crate::engine::ssh::{self, Shipped};
use crate::error::{StartFailure, Step};
use bytes::Bytes;
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::job::Death;
use qjam_core::wire::{FromHost, ToHost};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A worker process on a host says hello within this time.
const JOINED_WITHIN: Duration = Duration::from_secs(5);
/// Looking, removing and setting take no longer; another process may have the cache locked for a while.
const CACHE_WITHIN: Duration = Duration::from_secs(60);
/// Comparing reads all there is.
const VERIFY_WITHIN: Duration = Duration::from_secs(3600);
/// How many round trips are timed, and how long at most.
const ROUND_TRIPS: u64 = 21;
const ROUND_TRIPS_WITHIN: Duration = Duration::from_millis(1500);
/// What is sent first to see how fast it goes. Eight times as much follows, and so on, until that would take longer
/// than this.
const LOAD_BYTES_MIN: u64 = 64 << 10;
const LOAD_BYTES_MAX: u64 = 32 << 20;
const LOAD_TAKES_MAX: Duration = Duration::from_secs(2);
const LOAD_WITHIN: Duration = Duration::from_secs(5);
/// Complaints of a host that are shown; it could go on for ever.
const TROUBLES_MAX: usize = 16;

/// A connection without a master.
pub(super) struct Visit {
    pub(super) link: Link,
    /// Whether the executable had to be sent.
    pub(super) copied: bool,
    /// What the host complained about meanwhile.
    pub(super) troubles: Vec<String>,
}

impl Visit {
    /// Goes there, as far as the supervisor's hello. The last of the steps is that one, which is not over then.
    pub(super) fn to(
        address: &HostAddress,
        shipped: &Shipped,
        progress: &mut dyn FnMut(Step, Duration),
    ) -> Result<(Visit, Vec<(Step, Duration)>), StartFailure> {
        let connected =
            ssh::start(address, shipped, ssh::Patience::USUAL, &AtomicBool::new(false), progress)?;
        let (mut steps, copied) = (connected.timings.clone(), connected.copied);
        let since = Instant::now();
        let link = Link::greet(connected)?;
        steps.push((Step::Handshake, since.elapsed()));
        Ok((Visit { link, copied, troubles: Vec::new() }, steps))
    }

    /// The first of what comes that `wanted` takes; `None` when it does not come in time.
    fn wait<T>(
        &mut self,
        within: Duration,
        mut wanted: impl FnMut(FromHost) -> Option<T>,
    ) -> Result<Option<T>, StartFailure> {
        let deadline = Instant::now() + within;
        loop {
            match self.link.converse(deadline) {
                Ok(Some(FromHost::Trouble(text))) => {
                    if self.troubles.len() < TROUBLES_MAX {
                        self.troubles.push(text);
                    }
                }
                // Nobody has asked for a result.
                Ok(Some(FromHost::OpenPart { .. })) => {
                    return Err(self.failure("it broke the protocol: a result of nothing".into()));
                }
                Ok(Some(message)) => {
                    if let Some(found) = wanted(message) {
                        return Ok(Some(found));
                    }
                }
                Ok(None) => return Ok(None),
                Err(why) => return Err(self.failure(why)),
            }
        }
    }

    fn failure(&mut self, what: String) -> StartFailure {
        let words = self.link.last_words();
        StartFailure {
            step: Step::Handshake,
            what,
            words: if words.is_empty() { Vec::new() } else { vec![words] },
            remedy:
                "try again; if it stays, see whether the host's memory or its limits on processes are used up"
                    .into(),
        }
    }

    /// Has a worker process started there, and waits for its hello.
    pub(super) fn try_worker(&mut self) -> Result<(), StartFailure> {
        let worker = WorkerId { seat: SeatId(0), incarnation: 0 };
        let welcome = ToHost::Welcome {
            memory_bytes_max: None,
            cache_bytes_max: 0,
            disk_bytes_max: None,
            deliver_after_us: 0,
            lines_per_second_max: 10,
            runtime: None,
        };
        self.link.send(&welcome, Bytes::new(), None);
        self.link.start(worker, Some(1));
        let joined: Option<Result<(), Death>> = self.wait(JOINED_WITHIN, |message| match message {
            FromHost::Joined { .. } => Some(Ok(())),
            FromHost::Died { death, .. } => Some(Err(death)),
            _ => None,
        })?;
        match joined {
            Some(Ok(())) => {
                self.link.urgent(&ToHost::Kill { worker });
                Ok(())
            }
            Some(Err(death)) => Err(self.failure(format!("a worker process that was started there {death}"))),
            None => Err(self.failure(format!(
                "a worker process that was started there said nothing for {} s",
                JOINED_WITHIN.as_secs()
            ))),
        }
    }

    pub(super) fn cache(&mut self, order: CacheOrder) -> Result<CacheState, StartFailure> {
        self.link.send(&ToHost::Cache(order.into()), Bytes::new(), None);
        let within = if order == CacheOrder::Verify { VERIFY_WITHIN } else { CACHE_WITHIN };
        let state = self.wait(within, |message| match message {
            FromHost::Cached(facts) => Some(facts.into()),
            _ => None,
        })?;
        state
            .ok_or_else(|| self.failure(format!("nothing was heard of its cache for {} s", within.as_secs())))
    }

    /// The median of a few round trips.
    pub(super) fn round_trip(&mut self) -> Result<Duration, StartFailure> {
        let begun = Instant::now();
        let mut took = Vec::new();
        while (took.len() as u64) < ROUND_TRIPS && (took.is_empty() || begun.elapsed() < ROUND_TRIPS_WITHIN) {
            let (sent, echo) = (Instant::now(), took.len() as u64 + 1);
            self.link.urgent(&ToHost::Beat { echo });
            if !self.hears(echo)? {
                return Err(self.failure(format!("no answer for {} s", LOAD_WITHIN.as_secs())));
            }
            took.push(sent.elapsed());
        }
        took.sort_unstable();
        Ok(took[took.len() / 2])
    }

    /// Bytes per second: more and more of them are sent, as long as that does not take long. The last counts, since the
    /// first few may go faster than a link does in the long run.
    pub(super) fn rate(&mut self) -> Result<Option<f64>, StartFailure> {
        let (mut bytes, mut rate) = (LOAD_BYTES_MIN, 0.0);
        while bytes <= LOAD_BYTES_MAX {
            let sent = Instant::now();
            self.link.send_load(bytes);
            if !self.hears(u64::MAX)? {
                break;
            }
            rate = bytes as f64 / sent.elapsed().as_secs_f64();
            bytes *= 8;
            if bytes as f64 / rate > LOAD_TAKES_MAX.as_secs_f64() {
                break;
            }
        }
        if rate > 0.0 {
            return Ok(Some(rate));
        }
        self.troubles.push(format!(
            "{} KiB took more than {} s to get there: the link is too slow for data",
            LOAD_BYTES_MIN >> 10,
            LOAD_WITHIN.as_secs()
        ));
        Ok(None)
    }

    fn hears(&mut self, number: u64) -> Result<bool, StartFailure> {
        let heard = self.wait(LOAD_WITHIN, |message| {
            matches!(message, FromHost::Beat { echo } if echo == number).then_some(())
        })?;
        Ok(heard.is_some())
    }

    /// Has the supervisor go, and waits a moment for that, so that nothing of it is there when we say we are done.
    pub(super) fn leave(mut self) {
        self.link.send(&ToHost::Bye, Bytes::new(), None);
        let deadline = Instant::now() + Duration::from_secs(1);
        while let Ok(Some(_)) = self.link.converse(deadline) {}
        self.link.end();
    }
}
