//! Links between the master and its workers, as far as they matter to the machines.
//!
//! A link has two directions. Each keeps order, takes time by distance and by size, and may be slow for a while. A link
//! that is cut loses what is under way; after that each end believes in it until it learns better. A link that is held
//! up loses nothing: what is under way arrives when it is over, if both ends have the patience. There is one link
//! per incarnation, so nothing sent by or to a dead worker can reach its successor.

use qjam_core::ids::WorkerId;
use qjam_core::time::{Span, Time};
use std::collections::BTreeMap;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToMaster,
    ToWorker,
}

#[derive(Debug)]
struct Link {
    latency: Span,
    per_mib: Span,
    /// So many times slower, until then.
    slow: (u64, Time),
    /// When the last message of each direction arrives.
    last: [Time; 2],
    cut_at: Option<Time>,
    /// Since when and until when nothing comes through.
    held: (Time, Time),
    /// Whether the master has given the link up.
    is_closed: bool,
}

/// All links there ever were.
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

    /// Puts a message on its way and says when it arrives, if nothing happens to it.
    pub(crate) fn send(&mut self, now: Time, worker: WorkerId, way: Way, bytes: u64, jitter_us: u64) -> Time {
        let link = self.links.get_mut(&worker).expect("every worker has a link");
        let factor = if now < link.slow.1 { link.slow.0 } else { 1 };
        let on_wire = (link.per_mib.0 * (bytes + 64)) >> 20;
        let last = &mut link.last[way as usize];
        *last = (*last).max(now + Span((link.latency.0 + jitter_us) * factor)) + Span(on_wire * factor);
        *last
    }

    /// When everything sent so far has arrived.
    pub(crate) fn quiet_at(&self, worker: WorkerId, way: Way) -> Time {
        self.links.get(&worker).map_or(Time(0), |link| link.last[way as usize])
    }

    /// Whether a message that should arrive now does.
    pub(crate) fn delivers(&self, now: Time, worker: WorkerId) -> bool {
        self.links.get(&worker).is_some_and(|link| link.cut_at.is_none_or(|cut| now < cut))
    }

    /// Lets nothing through until then.
    pub(crate) fn hold(&mut self, now: Time, worker: WorkerId, until: Time) {
        let Some(link) = self.links.get_mut(&worker) else { return };
        let since = if now < link.held.1 { link.held.0 } else { now };
        link.held = (since, until.max(link.held.1));
        // What is sent from now on comes after what was under way.
        link.last = link.last.map(|last| last.max(link.held.1 + Span(1)));
    }

    /// Since when and until when nothing comes through, if that is so now.
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

    /// The master has learned that the worker is gone.
    pub(crate) fn close(&mut self, worker: WorkerId) {
        if let Some(link) = self.links.get_mut(&worker) {
            link.is_closed = true;
        }
    }

    /// Whether the master believes in the link.
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
        assert_eq!(network.send(Time(0), WORKER, Way::ToMaster, (1 << 20) - 64, 5), Time(1015));
        assert_eq!(network.send(Time(1), WORKER, Way::ToMaster, 0, 0), Time(1015));
        assert_eq!(network.send(Time(1), WORKER, Way::ToWorker, 0, 0), Time(11), "the other way is free");
        network.slow_down(WORKER, 10, Time(2000));
        assert_eq!(network.send(Time(1500), WORKER, Way::ToWorker, 0, 0), Time(1600));
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
        assert_eq!(network.send(Time(20), WORKER, Way::ToMaster, 0, 0), Time(51));
        network.hold(Time(30), WORKER, Time(70));
        assert_eq!(network.held(Time(69), WORKER), Some((Time(5), Time(70))));
        assert_eq!(network.held(Time(70), WORKER), None);
    }
}
