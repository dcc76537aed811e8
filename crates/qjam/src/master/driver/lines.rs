//! What user code printed, on its way to the user.

use super::Driver;
use crate::engine::seat::{SeatContext, SeatEngine};
use crate::master::options::LogLine;
use crate::python::split_level;
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::wire::host::Line;

impl Driver {
    /// Reads output pipes that have something.
    pub(super) fn read_pipes(&mut self) {
        for (worker, descriptor) in self.seats.tools.poller.ready_pipes() {
            self.with_lines(worker.seat, |engine, cx| engine.read_output(worker, descriptor, cx));
        }
    }

    /// Calls the engine of a seat, and logs the lines that come of it. Nothing else that the seat has to say is heard: this
    /// is also called in the middle of an answer.
    fn with_lines(&mut self, seat: SeatId, f: impl FnOnce(&mut dyn SeatEngine, &mut SeatContext<'_>)) {
        let started = self.decider.started;
        let lines = self.seats.with(seat, started, false, |engine, cx| {
            f(engine, cx);
            engine.take_lines()
        });
        for (worker, line) in lines.map(|(lines, _)| lines).unwrap_or_default() {
            self.log(worker, line);
        }
    }

    /// At the end of a round: what user code printed before its last result is in the pipes by now.
    pub(super) fn drain_lines(&mut self) {
        self.read_pipes();
        for n in 0..self.seats.len() {
            let seat = SeatId(n as u32);
            self.with_lines(seat, |engine, _| engine.end_lines());
            let Some(record) = self.seats.record_mut(seat) else { continue };
            let dropped = std::mem::take(&mut record.throttle.dropped);
            if dropped > 0 {
                let name = record.name.clone();
                self.show(name, format!("({dropped} more lines were dropped)"), true);
            }
        }
    }

    pub(super) fn log(&mut self, worker: WorkerId, line: Line) {
        let (now_us, max) = (self.now().0, self.options.workers.lines_per_second_max);
        let Some(record) = self.seats.record_mut(worker.seat) else { return };
        if record.throttle.passes(now_us, max) {
            let name = record.name.clone();
            self.show(name, line.text, line.is_error);
        }
    }

    /// Hands a line to the user's own code, whose panics are not ours.
    pub(super) fn show(&self, worker: String, text: String, is_error: bool) {
        let (level, rest) = split_level(&text);
        let text = rest.to_owned();
        let line = LogLine { worker, text, is_error, level };
        let _ =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.options.callbacks.on_log)(&line)));
    }
}
