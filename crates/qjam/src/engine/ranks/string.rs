//! `mpi` in worker strings.

use crate::engine::kinds::EngineWords;
use crate::engine::worker_string::{Seating, Wrong, wrong};
use crate::engine::{Seat, SeatKind};

/// What to write for ranks.
const MPI: &str = "write `mpi` alone, and start the program with for example `mpirun -n 4`; a host of that name is `ssh://mpi`";

/// The engine's part of worker strings.
pub(in crate::engine) const WORDS: EngineWords =
    EngineWords { word: "mpi", parse, with_slots: ("the number of ranks is the launcher's", MPI) };

fn parse(seating: &mut Seating, item: &str, count: Option<&str>) -> Result<(), Wrong> {
    if let Some(count) = count {
        return wrong(count, "the number of ranks is the launcher's", MPI);
    }
    seating.room_for(item, 1)?;
    seating.push(SeatKind::Rank, 1, "mpi".into());
    Ok(())
}

/// Refuses other workers beside ranks, and a choice among them.
pub(in crate::engine) fn check_alone(seats: &[Seat], auto: bool) -> Result<(), Wrong> {
    if auto {
        return wrong("auto", "all ranks take part in every round", MPI);
    }
    if seats.len() > 1 {
        return wrong("mpi", "ranks do each round together, and with nobody else", MPI);
    }
    Ok(())
}
