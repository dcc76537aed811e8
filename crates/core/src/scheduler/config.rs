//! Deadlines and limits of the scheduler.

use crate::time::Span;

/// Deadlines and limits. The defaults are what users get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A worker with blocks that says nothing for so long is asked for a sign of life.
    pub ping_after: Span,
    /// After so long others get its blocks too.
    pub suspect_after: Span,
    /// After so long it is killed and counts as lost.
    pub lost_after: Span,
    /// A worker that is told to drop a round and does not within this time is killed.
    pub let_go_within: Span,
    /// The same on another host, from the first word of it after it was told: before that it may be out of reach. Long,
    /// because its supervisor judges this, too, by the shorter time, and its answer may wait behind a large result.
    pub remote_let_go_within: Span,
    /// The same for a worker that was merely late: the round has its value from somebody else. Its block may go on for as
    /// long as it likes, but not for ever.
    pub spare_within: Span,
    /// Whether slow workers are helped, and get less the next time.
    pub balances: bool,
    /// Blocks are taken from a worker for the idle only if it has at least so much time left with what it has.
    pub steal_min: Span,
    /// The same if either is on another host, where chunks may have to be sent first.
    pub remote_steal_min: Span,
    /// A worker started here must be through its handshake within this time.
    pub start_within: Span,
    /// Pause before the second start in a row that came to nothing; doubled each time.
    pub restart_after: Span,
    /// The same for a seat on another host, where the first pause comes after a start that failed.
    pub remote_restart_after: Span,
    /// Longest pause between starts on another host.
    pub remote_restart_max: Span,
    /// A seat on another host is given up when it has been empty for so long, and nobody was up anywhere either.
    pub remote_patience: Span,
    /// So long the blocks of a worker that was lost, whose states it had, wait for the next worker on its seat.
    pub home_patience: Span,
    /// So many executors may die inside a block before its round fails.
    pub kills_max: u32,
    /// So many starts in a row may come to nothing before a seat is given up.
    pub fruitless_max: u32,
    /// A worker that lived so long did not come to nothing, even if there was no work for it.
    pub fruitful_after: Span,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            ping_after: Span::from_ms(1_000),
            suspect_after: Span::from_ms(10_000),
            lost_after: Span::from_ms(15_000),
            let_go_within: Span::from_ms(500),
            remote_let_go_within: Span::from_ms(10_000),
            spare_within: Span::from_ms(60_000),
            balances: true,
            steal_min: Span(500),
            remote_steal_min: Span::from_ms(50),
            start_within: Span::from_ms(15_000),
            restart_after: Span::from_ms(50),
            remote_restart_after: Span::from_ms(500),
            remote_restart_max: Span::from_ms(10_000),
            remote_patience: Span::from_ms(60_000),
            home_patience: Span::from_ms(2_000),
            kills_max: 3,
            fruitless_max: 6,
            fruitful_after: Span::from_ms(5_000),
        }
    }
}
