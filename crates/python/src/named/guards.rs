//! Puts guards into a pickle: its reader is asked before the instructions that call and change something.
//!
//! An instruction that is guarded takes its operands from the stack. Instead of it the pickle gets instructions that put these
//! operands into a tuple and call the reader's `persistent_load` with it, whose result takes the place of that of the instruction.
//! Frames, which say how much to read at once, get the lengths that they then have.

/// What is asked before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guard {
    Call,
    New,
    NewWithKeywords,
    Build,
}

impl Guard {
    /// A number that says which it is (`BININT1`), a tuple of it and the operands, and the call (`BINPERSID`).
    fn instructions(self) -> &'static [u8] {
        match self {
            Guard::Call => b"K\x00\x87Q",
            Guard::New => b"K\x01\x87Q",
            Guard::Build => b"K\x02\x87Q",
            // There are no tuples of four.
            Guard::NewWithKeywords => b"\x87K\x03\x86Q",
        }
    }
}

/// `FRAME`, and the number of bytes of its length.
const FRAME: u8 = 0x95;
const LENGTH_BYTES: usize = 8;

/// The pickle with guards, as far as it has been looked through.
#[derive(Default)]
pub(super) struct Guards {
    out: Vec<u8>,
    /// Up to here the original has been copied.
    copied: usize,
    frame: Option<Frame>,
    has_any: bool,
}

struct Frame {
    /// Where its content begins in the result, and where it ends in the original.
    begin: usize,
    end: usize,
}

impl Guards {
    /// The instruction of one byte at this place gets a guard.
    pub(super) fn put(&mut self, pickle: &[u8], at: usize, guard: Guard) {
        self.copy_to(pickle, at);
        self.out.extend_from_slice(guard.instructions());
        self.copied = at + 1;
        self.has_any = true;
    }

    /// A frame of this length begins with the instruction at this place.
    pub(super) fn begin_frame(&mut self, pickle: &[u8], at: usize, length: usize) {
        self.copy_to(pickle, at);
        self.end_frame();
        self.out.push(FRAME);
        self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        self.copied = at + 1 + LENGTH_BYTES;
        self.frame = Some(Frame { begin: self.out.len(), end: self.copied.saturating_add(length) });
    }

    /// An instruction begins at this place.
    pub(super) fn reach(&mut self, pickle: &[u8], at: usize) {
        if self.frame.as_ref().is_some_and(|frame| frame.end <= at) {
            self.copy_to(pickle, at);
            self.end_frame();
        }
    }

    /// The result, if it differs from the original, which ends here.
    pub(super) fn finish(mut self, pickle: &[u8], at: usize) -> Option<Vec<u8>> {
        self.copy_to(pickle, at);
        self.end_frame();
        self.has_any.then_some(self.out)
    }

    fn copy_to(&mut self, pickle: &[u8], at: usize) {
        self.out.extend_from_slice(&pickle[self.copied..at]);
        self.copied = at;
    }

    fn end_frame(&mut self) {
        if let Some(Frame { begin, .. }) = self.frame.take() {
            let length = (self.out.len() - begin) as u64;
            self.out[begin - LENGTH_BYTES..begin].copy_from_slice(&length.to_le_bytes());
        }
    }
}
