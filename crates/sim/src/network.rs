//! Simulated links between the master and its workers.
//!
//! A link has two directions. Each preserves order, has a latency and a bandwidth, and may be slow for a while. A link that is cut
//! loses the messages in transit; each end considers it alive until it learns otherwise. A link that is interrupted loses nothing:
//! messages arrive when the interruption ends, if both ends wait that long. There is one link per incarnation, so no message from or
//! to a dead worker can reach its successor. Comes in: messages' sizes and times. Goes out: times of arrival. Carries no content.

use qjam_core::ids::WorkerId;
use qjam_core::time::{Span, Time};
use std::collections::BTreeMap;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToMaster,
    ToWorker,
}

#[derive(Debug)]
struct Link {
    latency: Span,
    per_mib: Span,
    /// Slowdown factor and until when it applies.
    slow: (u64, Time),
    /// When the last message of each direction arrives.
    last: [Time; 2],
    cut_at: Option<Time>,
    /// Begin and end of an interruption.
    held: (Time, Time),
    /// Whether the master considers the link dead.
    is_closed: bool,
}

/// All links, including dead ones.
#[derive(Debug, Default)]
pub(crate) struct Network {
    links: BTreeMap<WorkerId, Link>,
}

impl Network {
    pub(crate) fn connect(&mut self, worker: WorkerId, latency: Span, per_mib: Span) {
        let link = Link {
            latency,
            per_mib,
            slow: (1, Time(0)),
            last: [Time(0); 2],
            cut_at: None,
            held: (Time(0), Time(0)),
            is_closed: false,
        };
        self.links.insert(worker, link);
    }

    /// Sends a message; returns its time of arrival, if it is not lost.
    pub(crate) fn send(
        &mut self,
        now: Time,
        worker: WorkerId,
        direction: Direction,
        bytes: u64,
        jitter_us: u64,
    ) -> Time {
        let link = self.links.get_mut(&worker).expect("every worker has a link");
        let factor = if now < link.slow.1 { link.slow.0 } else { 1 };
        let on_wire = (link.per_mib.0 * (bytes + 64)) >> 20;
        let last = &mut link.last[direction as usize];
        *last = (*last).max(now + Span((link.latency.0 + jitter_us) * factor)) + Span(on_wire * factor);
        *last
    }

    /// When everything sent so far has arrived.
    pub(crate) fn quiet_at(&self, worker: WorkerId, direction: Direction) -> Time {
        self.links.get(&worker).map_or(Time(0), |link| link.last[direction as usize])
    }

    /// Whether a message that is due now arrives.
    pub(crate) fn delivers(&self, now: Time, worker: WorkerId) -> bool {
        self.links.get(&worker).is_some_and(|link| link.cut_at.is_none_or(|cut| now < cut))
    }

    /// Interrupts a link until then.
    pub(crate) fn hold(&mut self, now: Time, worker: WorkerId, until: Time) {
        let Some(link) = self.links.get_mut(&worker) else { return };
        let since = if now < link.held.1 { link.held.0 } else { now };
        link.held = (since, until.max(link.held.1));
        // Later messages arrive after those in transit.
        link.last = link.last.map(|last| last.max(link.held.1 + Span(1)));
    }

    /// Begin and end of the current interruption, if there is one.
    pub(crate) fn held(&self, now: Time, worker: WorkerId) -> Option<(Time, Time)> {
        self.links.get(&worker).map(|link| link.held).filter(|(_, until)| now < *until)
    }

    pub(crate) fn slow_down(&mut self, worker: WorkerId, factor: u64, until: Time) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.slow = (factor, until);
        }
    }

    pub(crate) fn cut(&mut self, now: Time, worker: WorkerId) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.cut_at.get_or_insert(now);
        }
    }

    pub(crate) fn is_cut(&self, worker: WorkerId) -> bool {
        self.links.get(&worker).is_none_or(|link| link.cut_at.is_some())
    }

    /// Records that the master considers the link dead.
    pub(crate) fn close(&mut self, worker: WorkerId) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.is_closed = true;
        }
    }

    /// Whether the master considers the link alive.
    pub(crate) fn is_open(&self, worker: WorkerId) -> bool {
        self.links.get(&worker).is_some_and(|link| !link.is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam_core::ids::SeatId;

    const WORKER: WorkerId = WorkerId { seat: SeatId(0), incarnation: 0 };

    #[test]
    fn messages_do_not_overtake_each_other_and_large_ones_take_longer() {
        let mut network = Network::default();
        network.connect(WORKER, Span(10), Span(1000));
        assert_eq!(network.send(Time(0), WORKER, Direction::ToMaster, (1 << 20) - 64, 5), Time(1015));
        assert_eq!(network.send(Time(1), WORKER, Direction::ToMaster, 0, 0), Time(1015));
        assert_eq!(
            network.send(Time(1), WORKER, Direction::ToWorker, 0, 0),
            Time(11),
            "the other way is free"
        );
        network.slow_down(WORKER, 10, Time(2000));
        assert_eq!(network.send(Time(1500), WORKER, Direction::ToWorker, 0, 0), Time(1600));
    }

    #[test]
    fn a_cut_link_delivers_nothing_though_the_master_believes_in_it() {
        let mut network = Network::default();
        network.connect(WORKER, Span(10), Span(1000));
        network.cut(Time(5), WORKER);
        assert!(network.delivers(Time(4), WORKER) && !network.delivers(Time(5), WORKER));
        assert!(network.is_open(WORKER));
    }

    #[test]
    fn a_link_that_is_held_up_keeps_order() {
        let mut network = Network::default();
        network.connect(WORKER, Span(10), Span(1000));
        network.hold(Time(5), WORKER, Time(50));
        assert_eq!(network.held(Time(49), WORKER), Some((Time(5), Time(50))));
        assert_eq!(network.send(Time(20), WORKER, Direction::ToMaster, 0, 0), Time(51));
        network.hold(Time(30), WORKER, Time(70));
        assert_eq!(network.held(Time(69), WORKER), Some((Time(5), Time(70))));
        assert_eq!(network.held(Time(70), WORKER), None);
    }
}
