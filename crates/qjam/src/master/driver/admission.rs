//! Refuses rounds that cannot fit into memory, with the numbers.
//!
//! What a data set takes is worked out when a round over it comes for the first time, or after workers came or went. After
//! that a round costs a look into a table and a comparison.

use super::Driver;
use super::seats::SeatRecord;
use crate::dataset::CutData;
use crate::error::Error;
use crate::memory::{self, DoesNotFit, Needs};
use qjam_core::reduce::Cut;

/// What is known of a data set and the workers of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// The changes of seats and the level of blocks this was found for.
    changes: u64,
    level: u8,
    /// What all on this machine need together.
    needs: Needs,
}

/// What all on this machine may have.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    limit: memory::Limit,
    /// The same with swap: beyond this nothing can be.
    bytes_max: u64,
}

impl Admission {
    pub(super) fn look() -> Admission {
        let limit = memory::Limit::here();
        let bytes_max = limit.bytes.saturating_add(memory::swap_bytes());
        Admission { limit, bytes_max }
    }

    /// Memory that workers of this machine may share.
    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit.bytes
    }
}

impl Driver {
    /// Whether a round may be tried. Parameters count if processes of this machine map them.
    pub(super) fn admit_memory(&mut self, data: &CutData, cut: Cut, params_bytes: u64) -> Result<(), Error> {
        let has_children = self.seats.wanted().any(|(_, record)| record.caps.is_child());
        let params_bytes = if has_children { params_bytes } else { 0 };
        self.fits(data, cut, params_bytes).map_err(|refused| Error::DoesNotFit(Box::new(refused)))
    }

    fn fits(&mut self, data: &CutData, cut: Cut, params_bytes: u64) -> Result<(), DoesNotFit> {
        let changes = self.seats.changes;
        let is_valid = |known: &Admitted| known.changes == changes && known.level == cut.level;
        let known = self.data.admitted(&data.located).and_then(|known| known.filter(is_valid));
        let needs = match known {
            Some(known) => known.needs,
            None => {
                let needs = self.needs(data, cut)?;
                if let Some(known) = self.data.admitted(&data.located) {
                    *known = Some(Admitted { changes, level: cut.level, needs });
                }
                needs
            }
        };
        let Admission { limit, bytes_max } = &self.admission;
        if needs.bytes.saturating_add(params_bytes) <= *bytes_max {
            return Ok(());
        }
        Err(refusal(format!("everything on this machine ({limit})"), *bytes_max, needs, params_bytes))
    }

    /// What all on this machine need together; an error when one of them may not have what it needs.
    fn needs(&self, data: &CutData, cut: Cut) -> Result<Needs, DoesNotFit> {
        let seats = || self.seats.wanted().map(|(_, record)| record);
        // With fewer blocks than slots it is not certain how many are at work where.
        let all_at_work = cut.blocks() >= seats().map(|seat| seat.slots).sum();
        if let Some(limit) = self.options.workers.memory_bytes_max {
            let is_limited = |seat: &&SeatRecord| seat.caps.same_machine && seat.caps.limits_memory;
            // If there is nobody else, one of them has the largest chunk some time.
            let alone = seats().all(|seat| is_limited(&seat));
            for seat in seats().filter(is_limited) {
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
        let slots = self.seats.slots_here();
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
