//! What user code printed, on its way to the user.

use super::hosts::LINK;
use super::{Driver, Sitting, executor_in, from_token};
use crate::engine::proc::Line;
use crate::master::options::LogLine;
use qjam_core::ids::WorkerId;
use rustix::event::epoll;

impl Driver {
    /// Reads what pipes have, if any has.
    pub(super) fn read_pipes(&mut self) {
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.pipes, &mut events, Some(&now)) else { return };
        for event in events.iter() {
            let (worker, fd) = from_token(event.data.u64());
            if fd == LINK {
                self.hear_words(worker);
                continue;
            }
            let Some(executor) = executor_in(&mut self.seats, worker) else { continue };
            let mut lines = Vec::new();
            let ended = executor.read_lines(|line| lines.push(line));
            let [_, stdout, stderr] = executor.fds();
            for (pipe, _) in [stdout, stderr].into_iter().zip(ended).filter(|(_, ended)| *ended) {
                let _ = epoll::delete(&self.pipes, pipe);
            }
            for line in lines {
                self.log(worker, line);
            }
        }
    }

    /// At the end of a round: what user code printed before its last result is in the pipes by now.
    pub(super) fn drain_lines(&mut self) {
        self.read_pipes();
        for n in 0..self.seats.len() {
            let Sitting::Proc(executor) = &mut self.seats[n].sitting else { continue };
            let worker = executor.worker;
            for line in executor.take_unfinished() {
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
    pub(super) fn show(&self, line: &LogLine) {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.options.on_log)(line)));
    }
}
