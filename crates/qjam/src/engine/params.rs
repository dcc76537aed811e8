//! The parameters of a round, in as many forms as its workers need.
//!
//! Threads of this process see them as a value, processes of this machine map them from shared memory, other machines get
//! them in pieces. Each form is made when the first worker needs it, and only then: [`Placement`] says which forms a round
//! begins with.

use super::caps::Caps;
use super::lent::Lent;
use crate::arenas::{OwnArenas, Placed};
use crate::codec::Encoder;
use crate::execution::caught;
use crate::function::{AnyShared, Function};
use crate::transport::Source;
use bytes::Bytes;
use qjam_core::job::{Fault, FaultKind};
use std::io;
use std::sync::OnceLock;

/// Parameters up to this length go inside frames.
pub(crate) const INLINE_BYTES_MAX: usize = 32 << 10;

/// The parameters of a round.
#[derive(Default)]
pub(crate) struct Parameters {
    /// Their length, encoded.
    bytes: usize,
    /// In this process's memory.
    whole: Bytes,
    /// Where the caller has them, if nobody but other machines needs them.
    lent: Option<Lent>,
    /// In shared memory.
    placed: Option<Placed>,
    /// In a buffer that the crew chose.
    buffer: Option<Box<dyn CrewBuffer>>,
    /// As a value.
    opened: OnceLock<AnyShared>,
}

/// Memory that a crew wants the parameters in.
pub(crate) trait CrewBuffer: Send + Sync {
    /// All of it.
    fn as_slice(&self) -> &[u8];
    /// The same, to be written.
    fn as_mut_slice(&mut self) -> &mut [u8];
    /// The same, when it will not be written any more.
    fn into_bytes(self: Box<Self>) -> Bytes;
}

/// Which forms of the parameters the workers of a round need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Too long for a frame.
    is_long: bool,
    threads: bool,
    processes: bool,
    others: bool,
}

impl Placement {
    /// For a round that the caller's own thread begins.
    pub(crate) fn for_caller(params: &Encoder<'_>) -> Placement {
        let is_long = params.payload_bytes() > INLINE_BYTES_MAX;
        Placement { is_long, threads: true, processes: false, others: false }
    }

    /// For a round of these workers.
    pub(crate) fn for_workers(params: &Encoder<'_>, workers: impl Iterator<Item = Caps>) -> Placement {
        let is_long = params.payload_bytes() > INLINE_BYTES_MAX;
        let mut placement = Placement { is_long, threads: false, processes: false, others: false };
        for caps in workers {
            placement.threads |= caps.in_process;
            placement.processes |= caps.is_child();
            placement.others |= !caps.same_machine;
        }
        placement
    }

    /// Whether they go into shared memory.
    pub(crate) fn is_shared(self) -> bool {
        self.is_long && self.processes
    }
}

impl Parameters {
    /// Parameters that lie in this process's memory.
    pub(crate) fn of(whole: Bytes) -> Parameters {
        Parameters { bytes: whole.len(), whole, ..Parameters::default() }
    }

    /// Parameters of which no worker will ask.
    pub(crate) fn none(params: &Encoder<'_>) -> Parameters {
        Parameters { bytes: params.payload_bytes(), ..Parameters::default() }
    }

    /// Parameters in a buffer that a crew chose.
    pub(crate) fn in_buffer(params: &Encoder<'_>, mut buffer: Box<dyn CrewBuffer>) -> Parameters {
        params.write_to(buffer.as_mut_slice());
        Parameters { bytes: params.payload_bytes(), buffer: Some(buffer), ..Parameters::default() }
    }

    /// Puts parameters where the workers of a round need them. Those that the caller lends stay where they are if only
    /// other machines need them.
    pub(crate) fn place(
        params: &Encoder<'_>,
        lent: Option<Lent>,
        placement: Placement,
        arenas: &mut OwnArenas,
    ) -> io::Result<Parameters> {
        let Placement { is_long, threads, processes, others } = placement;
        let placed = if placement.is_shared() { Some(arenas.place(params)?) } else { None };
        let lent = lent.filter(|_| is_long && others && !threads && !processes);
        let is_whole = !is_long || threads || (others && lent.is_none());
        let whole = if is_whole { params.to_bytes() } else { Bytes::new() };
        Ok(Parameters { bytes: params.payload_bytes(), whole, lent, placed, ..Parameters::default() })
    }

    /// Their length, encoded.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Whether they are too long for a frame.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes > INLINE_BYTES_MAX
    }

    /// The part of shared memory that they are in, if they are.
    pub(crate) fn placed(&self) -> Option<&Placed> {
        self.placed.as_ref()
    }

    /// Whether they are in a buffer that the crew chose.
    pub(crate) fn has_buffer(&self) -> bool {
        self.buffer.is_some()
    }

    /// The buffer that the crew chose.
    pub(crate) fn buffer(&mut self) -> Option<Box<dyn CrewBuffer>> {
        self.buffer.take()
    }

    /// All of them, where they are in this process's memory; otherwise nothing.
    pub(crate) fn whole(&self) -> Bytes {
        match &self.buffer {
            Some(buffer) => Bytes::copy_from_slice(buffer.as_slice()),
            None => self.whole.clone(),
        }
    }

    /// All of them in this process's memory. Workers may come that nobody thought of when the round began.
    pub(crate) fn make_whole(&mut self, arenas: &mut OwnArenas) -> Bytes {
        if self.whole.is_empty() {
            let lent = self.lent.as_ref().and_then(Lent::to_bytes);
            let placed = self.placed.as_ref().map(|p| arenas.memory(p.arena)[..p.bytes as usize].to_vec());
            self.whole = lent.or(placed.map(Bytes::from)).unwrap_or_default();
        }
        self.whole.clone()
    }

    /// Sees to it that long ones are in shared memory.
    pub(crate) fn share(&mut self, arenas: &mut OwnArenas) -> io::Result<()> {
        if self.is_long() && self.placed.is_none() {
            let params = self.make_whole(arenas);
            let placed = arenas.reserve(params.len())?;
            arenas.memory(placed.arena)[..params.len()].copy_from_slice(&params);
            self.placed = Some(placed);
        }
        Ok(())
    }

    /// All of them piece by piece, on their way to another machine.
    pub(crate) fn pieces(&mut self, arenas: &mut OwnArenas) -> Box<dyn Source> {
        match &self.lent {
            Some(lent) => Box::new(lent.pieces(self.bytes as u64)),
            None => Box::new(self.make_whole(arenas)),
        }
    }

    /// As a value, which is made by whoever asks first.
    pub(crate) fn open(&self, function: &Function) -> Result<AnyShared, Fault> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.clone());
        }
        let opened = caught(|| function.open_params(self.whole()))?
            .map_err(|e| Fault::new(FaultKind::Params, e.to_string()))?;
        Ok(self.opened.get_or_init(|| opened).clone())
    }
}
