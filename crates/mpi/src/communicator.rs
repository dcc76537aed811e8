//! All ranks of `MPI_COMM_WORLD`, in a communicator of our own.

use crate::ends;
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::ffi;
use mpi::point_to_point::Status;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Destination, Root, Source};
use qjam::engine::ranks::{Arrived, Communicator, Unusable};
use std::sync::{Mutex, PoisonError};

/// The library, started.
pub(crate) struct World {
    rank: u32,
    size: u32,
    /// A copy of all ranks' communicator: messages of the user's own do not meet ours.
    all: SimpleCommunicator,
    /// Ends the library when it is dropped.
    universe: Mutex<Option<Universe>>,
}

#[expect(unsafe_code, reason = "handles of the library may be used by whichever thread")]
// SAFETY: the library has promised that any thread may call it as long as one does at a time (`Threading::Serialized` was
// asked for and checked), and `qjam` promises to call a communicator by one thread at a time.
unsafe impl Send for World {}

#[expect(unsafe_code, reason = "handles of the library may be used by whichever thread")]
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    pub(crate) fn join() -> Result<Box<dyn Communicator>, Unusable> {
        ends::prepare();
        let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
            return Err(Unusable("the program has started it already; qjam must be the first".into()));
        };
        if threading < Threading::Serialized {
            let library = library();
            return Err(Unusable(format!(
                "{library} lets only its first thread call it ({threading:?}), and qjam needs any one thread at a time (Serialized): \
                 use a library that was built with support for threads"
            )));
        }
        let world = universe.world();
        let all = world.duplicate();
        let (rank, size) = (all.rank().unsigned_abs(), all.size().unsigned_abs());
        ends::catch_signals();
        Ok(Box::new(World { rank, size, all, universe: Mutex::new(Some(universe)) }))
    }
}

/// The library and its version, which it says before it is started, too.
pub(crate) fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_else(|_| "an MPI library without a name".into());
    // Some say a page, and put tabs into it.
    let line = text.lines().next().unwrap_or_default().trim_end_matches('\0');
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn arrived(status: &Status) -> Arrived {
    let bytes = status.count(<u8 as mpi::traits::Equivalence>::equivalent_datatype());
    Arrived {
        from: status.source_rank().unsigned_abs(),
        tag: status.tag(),
        bytes: bytes.unsigned_abs() as usize,
    }
}

impl Communicator for World {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn library(&self) -> String {
        library()
    }

    fn send(&self, to: u32, tag: i32, message: &[u8]) {
        self.all.process_at_rank(to as i32).send_with_tag(message, tag);
    }

    fn probe(&self, from: Option<u32>, tag: i32) -> Option<Arrived> {
        let status = match from {
            Some(from) => self.all.process_at_rank(from as i32).immediate_probe_with_tag(tag),
            None => self.all.any_process().immediate_probe_with_tag(tag),
        };
        status.as_ref().map(arrived)
    }

    fn receive(&self, from: u32, tag: i32, into: &mut [u8]) -> usize {
        let status = self.all.process_at_rank(from as i32).receive_into_with_tag(into, tag);
        arrived(&status).bytes
    }

    fn broadcast(&self, bytes: &mut [u8]) {
        self.all.process_at_rank(0).broadcast_into(bytes);
    }

    fn sum(&self, values: &mut [f64]) {
        let own = values.to_vec();
        self.all.all_reduce_into(&own[..], values, SystemOperation::sum());
    }

    fn at_exit(&self, f: extern "C" fn()) {
        ends::at_exit(f);
    }

    fn leave(&self) {
        ends::release_signals();
        drop(self.universe.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn abort(&self, code: i32) -> ! {
        ends::release_signals();
        self.all.abort(code)
    }
}

const _: () = {
    // The handle that `mpi` wraps must be ours to send: a number or a pointer that the library looks up.
    assert!(size_of::<ffi::MPI_Comm>() <= size_of::<usize>());
};
