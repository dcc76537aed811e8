//! Deadlines and limits of the scheduler.

use crate::time::Span;

/// Deadlines and limits. The defaults are what users get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A worker with blocks that is silent for this long is pinged.
    pub ping_after: Span,
    /// After this long it is suspected, and other workers also get its blocks.
    pub suspect_after: Span,
    /// After this long it is killed and counts as lost.
    pub lost_after: Span,
    /// A worker that is told to drop a round and does not within this time is killed.
    pub let_go_within: Span,
    /// The same on another host, counted from its first message after it was told: before that it may be unreachable. Long, because
    /// its supervisor applies the shorter limit, and its answer may be queued behind a large result.
    pub remote_let_go_within: Span,
    /// The same for a worker that was only late: the round has its value from another worker. Its block may run long, but not for
    /// ever.
    pub spare_within: Span,
    /// Whether blocks of slow workers are recalled, and their next share is smaller.
    pub balances: bool,
    /// Whether late blocks get a backup; only if `balances`.
    pub backs_up: bool,
    /// Blocks are recalled from a worker only if its remaining work takes at least this long.
    pub steal_min: Span,
    /// The same if either is on another host, where chunks may have to be sent first.
    pub remote_steal_min: Span,
    /// A worker started on this machine must complete its handshake within this time.
    pub start_within: Span,
    /// Pause before the second start after a failed one; doubled each time.
    pub restart_after: Span,
    /// The same for a seat on another host, where the first pause comes after a start that failed.
    pub remote_restart_after: Span,
    /// Longest pause between starts on another host.
    pub remote_restart_max: Span,
    /// A seat on another host is given up when it has been empty for this long and no other worker was up either.
    pub remote_patience: Span,
    /// How long blocks whose states were on a lost worker wait for the next worker on its seat.
    pub home_patience: Span,
    /// Number of executors that may die in a block before its round fails.
    pub kills_max: u32,
    /// Number of consecutive failed starts before a seat is given up.
    pub fruitless_max: u32,
    /// Number of consecutive workers on one other host that may be lost with blocks before any delivers one, while nobody else is
    /// up. However long each of them lived: what kills the connection with the worker, such as the host's memory limit, leaves
    /// nobody who could name the block.
    pub vain_max: u32,
    /// How long after the first of these losses the second or a later one is the last. With lives that end by themselves within half a
    /// minute, this and one more life are less than half a minute. A worker that is up by then is not ended.
    pub vain_patience: Span,
    /// A worker that lived this long and was lost begins another series of losses: what ended it is not known to be what ended those
    /// before it.
    pub vain_life: Span,
    /// A worker that lived this long counts as a successful start, even without work.
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
            backs_up: true,
            steal_min: Span(500),
            remote_steal_min: Span::from_ms(50),
            start_within: Span::from_ms(15_000),
            restart_after: Span::from_ms(50),
            remote_restart_after: Span::from_ms(500),
            remote_restart_max: Span::from_ms(10_000),
            // With the time until silence is a loss, and one more try, less than half a minute.
            remote_patience: Span::from_ms(9_000),
            home_patience: Span::from_ms(2_000),
            kills_max: 3,
            fruitless_max: 6,
            vain_max: 3,
            vain_patience: Span::from_ms(14_000),
            vain_life: Span::from_ms(30_000),
            fruitful_after: Span::from_ms(5_000),
        }
    }
}
