//! What user code printed, on its way to the user.

use super::{Driver, Sitting};
use crate::engine::proc::Line;
use crate::master::options::LogLine;
use qjam_core::ids::WorkerId;

impl Driver {
    pub(super) fn drain_lines(&mut self) {
        for n in 0..self.seats.len() {
            let here = &mut self.seats[n];
            let Sitting::Proc(executor) = &mut here.sitting else { continue };
            let worker = executor.worker;
            let mut lines = Vec::new();
            executor.read_lines(|line| lines.push(line));
            for line in lines {
                self.log(worker, line);
            }
        }
        for n in 0..self.seats.len() {
            let dropped = std::mem::take(&mut self.seats[n].throttle.dropped);
            if dropped > 0 {
                let text = format!("({dropped} more lines were dropped)");
                self.show(&LogLine { worker: self.seats[n].seat.name.clone(), text, is_error: true });
            }
        }
    }

    pub(super) fn log(&mut self, worker: WorkerId, line: Line) {
        let (now_us, max) = (self.now().0, self.options.lines_per_second_max);
        let Some(here) = self.seat(worker) else { return };
        if here.throttle.passes(now_us, max) {
            let worker = here.seat.name.clone();
            self.show(&LogLine { worker, text: line.text, is_error: line.is_error });
        }
    }

    /// Hands a line to the user's own code, whose panics are not ours.
    fn show(&self, line: &LogLine) {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.options.on_log)(line)));
    }
}
