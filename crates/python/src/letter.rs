//! A message to a child interpreter: what is asked for, and where the bytes for it lie.
//!
//! Bytes that lie in a region are told by its number. Of the others, few go inside the message and many into the slot's
//! arena. The layout is that of `child.py`.

use super::code::CodeId;
use super::pickled::Pickled;
use super::value::{Body, Leaf};
use qjam_data::store::mapped::{self, Mapped};
use std::sync::Arc;

/// Bytes that go inside a message, at most.
pub(super) const INLINE_BYTES_MAX: usize = 32 << 10;
/// References that a message has, at most; a longer table lies beside it.
pub(super) const REFERENCES_MAX: usize = 512;
pub(super) const REFERENCE_BYTES: usize = 25;
/// Arrays begin where vectors of any width may be read.
pub(super) const ALIGNED: usize = 64;

/// The kind of a call to a child interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Map = 1,
    Step = 2,
    Merge = 3,
    Forget = 4,
    Room = 5,
    PickleState = 6,
}

/// Bytes, and what they are.
pub(super) struct Part<'a> {
    pub(super) tag: u8,
    pub(super) bytes: &'a [u8],
    /// An integer instead of bytes.
    pub(super) number: i64,
    /// The region they lie in, and where.
    pub(super) place: Option<(Arc<Mapped>, usize)>,
}

/// Random numbers are keyed by the round.
pub(super) const NO_STEP: u64 = u64::MAX;

/// What is asked for.
pub(super) struct Letter<'a> {
    pub(super) asked: CallKind,
    pub(super) code: CodeId,
    pub(super) chunk: u32,
    pub(super) params: u64,
    pub(super) seed: u64,
    pub(super) round: u64,
    /// [`NO_STEP`] for none.
    pub(super) step: u64,
    pub(super) parts: Vec<Part<'a>>,
}

impl<'a> Letter<'a> {
    /// Adds bytes that are few, or in no region.
    pub(super) fn loose(&mut self, tag: u8, bytes: &'a [u8]) {
        self.parts.push(Part { tag, bytes, number: 0, place: None });
    }

    /// Adds bytes that may be in a region.
    pub(super) fn placed(&mut self, tag: u8, bytes: &'a [u8]) {
        self.parts.push(Part { tag, bytes, number: 0, place: mapped::find(bytes) });
    }

    /// Adds a pickle.
    pub(super) fn pickle(&mut self, tag: u8, pickled: &'a Pickled) {
        self.loose(tag, &pickled.stream);
        pickled.buffers.iter().for_each(|buffer| self.loose(b'b', buffer));
    }

    /// Adds a value.
    pub(super) fn value(&mut self, body: &'a Body) {
        match body {
            Body::Pickled(pickled) => self.pickle(b'P', pickled),
            Body::Numbers { shape, leaves } => {
                self.loose(b'N', shape);
                for leaf in leaves {
                    match leaf {
                        Leaf::F64(numbers) => self.loose(b'd', bytemuck::cast_slice(numbers)),
                        Leaf::F32(numbers) => self.loose(b'f', bytemuck::cast_slice(numbers)),
                        Leaf::I64(numbers) => self.loose(b'q', bytemuck::cast_slice(numbers)),
                        Leaf::Int(number) => {
                            self.parts.push(Part { tag: b'i', bytes: &[], number: *number, place: None });
                        }
                    }
                }
            }
        }
    }
}

/// Where a part is, for the child.
pub(super) struct Reference {
    pub(super) tag: u8,
    pub(super) region: u64,
    pub(super) offset: u64,
    /// Of the bytes, or the integer itself.
    pub(super) length: i64,
}

impl Reference {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.tag);
        out.extend_from_slice(&self.region.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
    }
}

/// What comes before the references.
pub(super) struct Head<'a> {
    pub(super) letter: &'a Letter<'a>,
    /// Code that will not be asked for again; zeros for none.
    pub(super) dropped: CodeId,
    /// Numbers and lengths of new mappings, whose files go along.
    pub(super) mappings: &'a [(u64, u64)],
    pub(super) gone: &'a [u64],
    pub(super) references: usize,
}

impl Head<'_> {
    pub(super) const BYTES: usize = 84;

    pub(super) fn bytes(&self) -> usize {
        Self::BYTES + self.mappings.len() * 16 + self.gone.len() * 8 + self.references * REFERENCE_BYTES
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Letter { asked, code, chunk, params, seed, round, step, .. } = self.letter;
        let counts = [self.mappings.len() as u32, self.gone.len() as u32, self.references as u32, *chunk];
        out.extend_from_slice(&[*asked as u8, 0, 0, 0]);
        counts.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        out.extend_from_slice(&code.0);
        out.extend_from_slice(&self.dropped.0);
        [params, seed, round, step].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        for (number, bytes) in self.mappings {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        self.gone.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    }
}

/// The message that has a region forgotten; nothing answers it.
pub(super) fn forget(number: u64) -> Vec<u8> {
    short(CallKind::Forget, &[], &[number])
}

/// The message that brings so much memory for results.
pub(super) fn room(bytes: u64) -> Vec<u8> {
    short(CallKind::Room, &[(0, bytes)], &[])
}

fn short(asked: CallKind, mappings: &[(u64, u64)], gone: &[u64]) -> Vec<u8> {
    let nobody = CodeId([0; 16]);
    let letter = Letter {
        asked,
        code: nobody,
        chunk: 0,
        params: 0,
        seed: 0,
        round: 0,
        step: NO_STEP,
        parts: Vec::new(),
    };
    let mut out = Vec::new();
    Head { letter: &letter, dropped: nobody, mappings, gone, references: 0 }.write(&mut out);
    out
}

/// The next place where an array may begin.
pub(super) fn align(at: usize) -> usize {
    at.next_multiple_of(ALIGNED)
}
