//! Inwards, before anything else: rounds that cannot fit into memory are refused with the numbers.
//!
//! What a data set takes is worked out when a round over it comes for the first time, or after workers came or went. After
//! that a round costs a look into a table and a comparison.

use super::{Driver, SeatHere};
use crate::dataset::CutData;
use crate::engine::SeatKind;
use crate::memory::{self, DoesNotFit, Needs};
use qjam_core::ids::SeatId;
use qjam_core::reduce::Cut;

/// What is known of a data set and the workers of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// The seats and blocks this was found for.
    seats: u64,
    level: u8,
    /// What all on this machine need together.
    needs: Needs,
}

/// What all on this machine may have.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) limit: memory::Limit,
    /// The same with all that could be written out: beyond this nothing can be.
    bytes_max: u64,
}

impl Machine {
    pub(super) fn look() -> Machine {
        let limit = memory::Limit::here();
        let bytes_max = limit.bytes.saturating_add(memory::swap_bytes());
        Machine { limit, bytes_max }
    }
}

impl Driver {
    /// Most bytes of opened chunks that a process of this machine keeps.
    pub(super) fn cache_bytes_here(&self) -> u64 {
        let is_here =
            |here: &&SeatHere| !here.removed && !matches!(here.seat.kind, SeatKind::Host(_) | SeatKind::Rank);
        let workers = self.seats.iter().filter(is_here).count();
        self.options.cache_bytes(self.options.memory_bytes_max, self.machine.limit.bytes, workers)
    }

    /// Most bytes of opened chunks that a worker on this seat, of a host with so much memory, keeps.
    pub(super) fn cache_bytes_there(&self, seat: SeatId, memory_bytes: u64) -> u64 {
        let kind = &self.seats[seat.0 as usize].seat.kind;
        let workers = self.seats.iter().filter(|here| !here.removed && here.seat.kind == *kind).count();
        self.options.cache_bytes(self.options.memory_bytes_max, memory_bytes, workers)
    }

    /// Whether a round may be tried.
    pub(super) fn admit(&mut self, data: &CutData, cut: Cut, params_bytes: u64) -> Result<(), DoesNotFit> {
        let known = self.known.get(&data.located).and_then(|known| known.admitted);
        let needs = match known.filter(|known| known.seats == self.seats_changed && known.level == cut.level)
        {
            Some(known) => known.needs,
            None => {
                let needs = self.needs(data, cut)?;
                if let Some(known) = self.known.get_mut(&data.located) {
                    known.admitted = Some(Admitted { seats: self.seats_changed, level: cut.level, needs });
                }
                needs
            }
        };
        let needed_bytes = needs.bytes.saturating_add(params_bytes);
        if needed_bytes <= self.machine.bytes_max {
            return Ok(());
        }
        let who = format!("everything on this machine ({})", self.machine.limit);
        Err(refusal(who, self.machine.bytes_max, needs, params_bytes))
    }

    /// What all on this machine need together; an error when one of them may not have what it needs.
    fn needs(&self, data: &CutData, cut: Cut) -> Result<Needs, DoesNotFit> {
        let seats = || self.seats.iter().filter(|here| !here.removed).map(|here| &here.seat);
        // With fewer blocks than slots it is not certain how many are at work where.
        let all_at_work = cut.blocks() >= seats().map(|seat| seat.slots).sum();
        if let Some(limit) = self.options.memory_bytes_max {
            // If there is nobody else, one of them has the largest chunk some time.
            let alone = seats().all(|seat| seat.kind == SeatKind::Proc);
            for seat in seats().filter(|seat| seat.kind == SeatKind::Proc) {
                let mut needs = Needs::of(data, if all_at_work { seat.slots } else { 1 });
                if alone && needs.bytes < needs.chunk_bytes {
                    (needs.at_once, needs.bytes) = (1, needs.chunk_bytes);
                }
                if needs.bytes > limit {
                    return Err(refusal(seat.name.clone(), limit, needs, 0));
                }
            }
        }
        // On other hosts chunks are mapped from the disk.
        let here = seats().filter(|seat| !matches!(seat.kind, SeatKind::Host(_) | SeatKind::Rank));
        let slots: u32 = here.map(|seat| seat.slots).sum();
        Ok(if slots == 0 { Needs::default() } else { Needs::of(data, if all_at_work { slots } else { 1 }) })
    }
}

fn refusal(who: String, limit_bytes: u64, needs: Needs, params_bytes: u64) -> DoesNotFit {
    let Needs { at_once, bytes, chunk_bytes, chunk_records } = needs;
    DoesNotFit {
        who,
        limit_bytes,
        needed_bytes: bytes.saturating_add(params_bytes),
        params_bytes,
        chunks_at_once: at_once,
        chunk_bytes,
        chunk_records,
    }
}
