//! The communicator with what messages of any length, and waits that do not burn cores, need on top.

use super::Communicator;
use super::comm::Arrived;
use super::pool::{Borrowed, Pool};
use super::wire::tag;
use crate::codec::Encoder;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer ones are sent in pieces: lengths of messages are 32 bits wide.
const PIECE_BYTES: usize = 256 << 20;
/// What goes into one message with its description.
pub(super) const SHORT_BYTES: usize = 32 << 10;

/// This process among the ranks.
pub(super) struct Link {
    comm: Box<dyn Communicator>,
    /// Held while the library is called: user code may ask whether it was cancelled from a thread of its own.
    turn: Mutex<()>,
    pub(super) pool: Pool,
}

impl Link {
    pub(super) fn new(comm: Box<dyn Communicator>) -> Self {
        Link { comm, turn: Mutex::default(), pool: Pool::default() }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rank(&self) -> u32 {
        self.comm.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.comm.size()
    }

    pub(super) fn library(&self) -> String {
        self.comm.library()
    }

    pub(super) fn send(&self, to: u32, tag: i32, message: &[u8]) {
        let _turn = self.turn();
        self.comm.send(to, tag, message);
    }

    /// Sends what may be long, to one who knows its length.
    pub(super) fn send_long(&self, to: u32, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.send(to, tag::PAYLOAD, piece);
        }
    }

    /// The same for what an encoder has borrowed: its buffers go out from where they are.
    pub(super) fn send_encoded(&self, to: u32, encoder: &Encoder<'_>) {
        let mut small = Vec::new();
        encoder.each_piece(|piece| {
            if piece.len() < SHORT_BYTES {
                small.extend_from_slice(piece);
            } else {
                self.send_long(to, &small);
                small.clear();
                self.send_long(to, piece);
            }
        });
        self.send_long(to, &small);
    }

    /// Receives what may be long, in whatever pieces it comes.
    pub(super) fn receive_long(&self, from: u32, into: &mut [u8]) {
        let _turn = self.turn();
        let mut at = 0;
        while at < into.len() {
            let end = (at + PIECE_BYTES).min(into.len());
            at += self.comm.receive(from, tag::PAYLOAD, &mut into[at..end]);
        }
    }

    pub(super) fn broadcast(&self, bytes: &mut [u8]) {
        let _turn = self.turn();
        for piece in bytes.chunks_mut(PIECE_BYTES) {
            self.comm.broadcast(piece);
        }
    }

    pub(super) fn sum(&self, values: &mut [f64]) {
        let _turn = self.turn();
        values.chunks_mut(PIECE_BYTES / size_of::<f64>()).for_each(|piece| self.comm.sum(piece));
    }

    /// Waits for a message. While it waits, `look` is called now and then.
    pub(super) fn wait(&self, from: Option<u32>, tag: i32, mut look: impl FnMut()) -> (u32, Borrowed) {
        let mut pause = Pause::default();
        loop {
            if let Some(message) = self.next(from, tag) {
                return message;
            }
            look();
            pause.rest();
        }
    }

    /// The next message, if one is there.
    pub(super) fn next(&self, from: Option<u32>, tag: i32) -> Option<(u32, Borrowed)> {
        let _turn = self.turn();
        let arrived = self.comm.probe(from, tag)?;
        Some(self.take(arrived))
    }

    /// The same, unless another thread is at it.
    pub(super) fn next_unless_busy(&self, from: Option<u32>, tag: i32) -> Option<(u32, Borrowed)> {
        let _turn = self.turn.try_lock().ok()?;
        let arrived = self.comm.probe(from, tag)?;
        Some(self.take(arrived))
    }

    fn take(&self, Arrived { from, tag, bytes }: Arrived) -> (u32, Borrowed) {
        let mut buf = self.pool.take(bytes as u64).expect("memory for a message that is here already");
        let got = self.comm.receive(from, tag, buf.as_mut_slice());
        assert!(got == bytes, "{got} bytes of a message of {bytes}");
        (from, buf)
    }

    pub(super) fn at_exit(&self, f: extern "C" fn()) {
        self.comm.at_exit(f);
    }

    pub(super) fn leave(&self) {
        let _turn = self.turn();
        self.comm.leave();
    }

    pub(super) fn abort(&self, code: i32) -> ! {
        self.comm.abort(code)
    }
}

/// How somebody waits: giving way between two questions at first, then sleeping, longer and longer.
///
/// The library has nothing to sleep on, so whoever waits must ask again and again. Rounds follow each other within
/// microseconds, and there asking pays. Giving way costs little where nobody else wants the core, and where somebody does
/// it is what lets the others come to an end. A rank that waits while the program reads its data should leave the core
/// alone.
#[derive(Default)]
struct Pause {
    since: Option<Instant>,
    asked: u32,
}

/// Giving way goes on for so long, and after that naps are a part of the time waited so far.
const GIVES_WAY: Duration = Duration::from_millis(2);
const NAP_SHARE: u32 = 32;
const NAP_MAX: Duration = Duration::from_millis(1);
/// The clock is looked at every so many questions, as it costs as much as one.
const LOOK_EVERY: u32 = 16;

impl Pause {
    fn rest(&mut self) {
        self.asked = self.asked.wrapping_add(1);
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.asked.is_multiple_of(LOOK_EVERY) {
            return std::thread::yield_now();
        }
        match since.elapsed() {
            waited if waited < GIVES_WAY => std::thread::yield_now(),
            waited => {
                std::thread::sleep((waited / NAP_SHARE).min(NAP_MAX));
                // Every question from now on is worth a nap.
                self.asked = LOOK_EVERY - 1;
            }
        }
    }
}
