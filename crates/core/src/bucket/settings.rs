//! The times and limits of the protocol.

use crate::time::Span;

/// Times and limits. The defaults are for storage that answers in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A task comes back to the queue if its worker has said nothing for this long.
    pub hidden: Span,
    /// A worker says so often that it still works, and looks whether the round is over.
    pub extend_every: Span,
    /// A task that has been delivered more often has ended every worker that ran it.
    pub deliveries_max: u32,
    /// What was written can be seen after this time at the latest. A message whose order cannot be seen for longer is of a job
    /// that was removed.
    pub seen_within: Span,
    /// A worker that finds nothing to do asks again after this long, and then after longer and longer.
    pub idle_first: Span,
    /// The longest time between two such questions.
    pub idle_max: Span,
    /// A task that runs for longer says so in a blob, for others to see that it is late.
    pub running_after: Span,
    /// An idle worker looks for late tasks so often.
    pub help_every: Span,
    /// A task is late if it has run this many times as long as half of the others, in percent.
    pub late_percent: u64,
    /// The submitter asks for the value after this long, and then after longer and longer.
    pub wait_first: Span,
    /// The longest time between two such questions.
    pub wait_max: Span,
    /// A round without progress is looked after so often.
    pub watch_every: Span,
    /// Tasks without a result are sent again when there has been no progress for this long. Longer than `hidden` times
    /// `deliveries_max`, so that a task that ends its workers is set aside before it is sent again.
    pub resend_after: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            hidden: Span::from_ms(30_000),
            extend_every: Span::from_ms(5_000),
            deliveries_max: 4,
            seen_within: Span::from_ms(90_000),
            idle_first: Span(500),
            idle_max: Span::from_ms(1_000),
            running_after: Span::from_ms(1_000),
            help_every: Span::from_ms(1_000),
            late_percent: 150,
            wait_first: Span(200),
            wait_max: Span::from_ms(250),
            watch_every: Span::from_ms(2_000),
            resend_after: Span::from_ms(150_000),
        }
    }
}

/// Waits that grow: each is half as long again as the one before.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Span,
    first: Span,
    max: Span,
}

impl Backoff {
    /// From the first wait to the longest.
    pub fn new(first: Span, max: Span) -> Self {
        Backoff { next: first, first, max }
    }

    /// How long to wait now.
    pub fn wait(&mut self) -> Span {
        let now = self.next;
        self.next = Span((now.0 + now.0 / 2 + 1).min(self.max.0));
        now
    }

    /// Something has happened: the next wait is the first again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}
