//! A round that was submitted and not waited for yet.

use super::driver::{Answer, Driver, RoundRequest};
use super::shared_loop::SharedLoop;
use super::watch;
use crate::codec::Encoder;
use crate::ctx::Cancelled;
use crate::engine::lent::Lent;
use crate::error::{Error, Result};
use qjam_core::ids::RoundId;
use qjam_core::journal::RoundReport;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Begins a round. A caller that lends the parameters waits at once; otherwise a thread of the master's goes on with it.
pub(super) fn begin<T>(
    shared: &Arc<SharedLoop>,
    request: RoundRequest,
    params: &Encoder<'_>,
    lent: Option<Lent>,
    cancelled: Option<Cancelled>,
) -> Result<Pending<T>> {
    let answer = request.answer.clone();
    let urgent = lent.is_none();
    let submit = |driver: &mut Driver| {
        let (round, job) = driver.submit(request, params, lent);
        (round, job, driver.relief_after(round))
    };
    let (round, job, relief_after) = shared.with(urgent, submit).ok_or(Error::NoMaster)?;
    if let Some(job) = job {
        let inside = relief_after.map(|after| shared.inside(after));
        let outcome = job.run(cancelled.or_else(watch::current));
        drop(inside);
        shared.with(false, |driver| driver.end_on_crew(round, outcome));
    }
    let shared = shared.clone();
    Ok(Pending { shared, round, answer, is_over: false, report: None, output: PhantomData })
}

/// A round that was submitted. Dropping it without waiting cancels it.
#[must_use = "a pending round that is dropped is cancelled"]
pub struct Pending<T> {
    shared: Arc<SharedLoop>,
    round: RoundId,
    answer: Arc<Answer>,
    is_over: bool,
    report: Option<RoundReport>,
    output: PhantomData<fn() -> T>,
}

impl<T: 'static> Pending<T> {
    /// Waits for the value.
    pub fn wait(mut self) -> Result<T> {
        Ok(self.answer_within(None)?.expect("without a limit there is an answer"))
    }

    /// Waits for the value, but not longer than this; `None` if it is not there by then. The round goes on.
    ///
    /// # Panics
    /// When the value, or an error, has been given before.
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<Option<T>> {
        self.answer_within(Some(limit))
    }

    /// The round itself, unless it was refused because another one changes the same states.
    pub(super) fn unless_busy(mut self) -> Result<Self> {
        match self.answer.take_busy() {
            Some(busy) => {
                self.is_over = true;
                Err(busy)
            }
            None => Ok(self),
        }
    }

    pub(super) fn answer_within(&mut self, limit: Option<Duration>) -> Result<Option<T>> {
        assert!(!self.is_over, "this round has given its value already");
        let answer = &self.answer;
        answer.awaited.get_or_init(Instant::now);
        let wait = |limit| self.shared.drive(limit, |_| answer.is_given().then_some(()));
        let is_there = match (limit, watch::current()) {
            (None, Some(called_off)) => watch::wait(&called_off, wait)?,
            _ => wait(limit)?.is_some(),
        };
        if !is_there {
            return Ok(None);
        }
        self.is_over = true;
        self.report = *answer.report.lock().unwrap_or_else(PoisonError::into_inner);
        let value = answer.take().expect("an answer is taken once")?;
        Ok(Some(*value.downcast().expect("the function gives its own type")))
    }

    pub(super) fn wait_while(
        mut self,
        pause: Duration,
        mut goes_on: impl FnMut(&Self) -> bool,
    ) -> Result<(T, Option<RoundReport>)> {
        // Who watches this thread is asked as in any other wait, whatever the caller asks by itself.
        let watching = watch::current();
        let pause = if watching.is_some() { pause.min(watch::PAUSE) } else { pause };
        loop {
            if watching.as_ref().is_some_and(|called_off| called_off()) {
                return Err(Error::Cancelled);
            }
            if let Some(value) = self.answer_within(Some(pause))? {
                return Ok((value, self.report));
            }
            if !goes_on(&self) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Who has not delivered yet, for people.
    pub fn waiting_for(&self) -> String {
        let round = self.round;
        self.shared.with(false, |driver| driver.waiting_for(round)).unwrap_or_default()
    }

    /// Whether the value, or an error, is there.
    pub fn is_done(&self) -> bool {
        self.is_over || self.answer.is_given()
    }

    /// Where the time went, once the value has been taken with [`wait_at_most`](Pending::wait_at_most).
    pub fn report(&self) -> Option<RoundReport> {
        self.report
    }

    /// Stops the round. Workers that do not stop by themselves within half a second are killed and started again;
    /// threads (`local`) and ranks (`mpi`) can only be asked, through [`Ctx::cancelled`](crate::Ctx::cancelled).
    pub fn cancel(self) {}
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if !self.is_over {
            let round = self.round;
            self.shared.with(true, |driver| driver.cancel(round));
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.round)
    }
}
