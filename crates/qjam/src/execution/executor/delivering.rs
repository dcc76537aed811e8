//! Finished subtrees on their way to the master: small ones in a frame, large ones through shared memory.

use super::{Executor, ExecutorError, io_at};
use crate::codec::Encoder;
use crate::execution::faults;
use crate::execution::round::Effort;
use crate::transport::Attachment;
use qjam_core::ids::RoundId;
use qjam_core::wire::ToMaster;
use qjam_core::wire::frame::TAIL_BYTES_MAX;
use qjam_core::wire::message::{Part, Payload, ResultMessage};
use qjam_core::worker::Delivery;

/// Payloads up to this length travel inside frames.
const INLINE_BYTES_MAX: usize = 32 << 10;

impl Executor {
    /// Sends collected subtrees: small ones in the frame, large ones through shared memory.
    pub(super) fn deliver(&mut self, round: RoundId, deliveries: Vec<Delivery>) -> Result<(), ExecutorError> {
        let (values, effort) = self.collected.remove(&round).unwrap_or_default();
        let function = self.rounds[&round].0.function.clone();
        let mut effort = effort;
        let mut parts = Vec::with_capacity(values.len());
        let mut tail = Vec::new();
        let mut attached = Vec::new();
        for ((node, value), Delivery { ranges, .. }) in values.into_iter().zip(deliveries) {
            let mut placed = Ok(Payload::Tail { offset: 0, bytes: 0 });
            let encoded = faults::caught(None, || {
                function.encode(&value, &mut |out: &Encoder<'_>| {
                    let bytes = out.payload_bytes();
                    if bytes <= INLINE_BYTES_MAX {
                        let offset = tail.len().next_multiple_of(64);
                        tail.resize(offset + bytes, 0);
                        out.write_to(&mut tail[offset..]);
                        placed = Ok(Payload::Tail { offset: offset as u32, bytes: bytes as u32 });
                    } else {
                        let make_room = || self.common.open.forget(|_| true);
                        placed = self.ours.place_within(out, &mut self.memory, make_room).map(|placed| {
                            let new = placed.introduce(&mut self.introduced);
                            if new {
                                attached.push(Attachment::File(placed.fd.clone()));
                            }
                            placed.payload(new)
                        });
                    }
                });
            });
            if let Err(fault) = encoded {
                // Its encoding is the user's code. What was encoded before it has been promised its arenas.
                self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)?;
                return self.common.send(&ToMaster::Error { round, fault }, &[], &[]);
            }
            let payload = placed.map_err(io_at("shared memory for a result"))?;
            parts.push(Part { node, ranges, payload });
            let full = tail.len() + INLINE_BYTES_MAX + 64 > TAIL_BYTES_MAX as usize
                || attached.len() == crate::transport::FDS_MAX;
            if full {
                self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)?;
            }
        }
        self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)
    }

    pub(super) fn send_parts(
        &mut self,
        round: RoundId,
        parts: &mut Vec<Part>,
        tail: &mut Vec<u8>,
        attached: &mut Vec<Attachment>,
        effort: &mut Effort,
    ) -> Result<(), ExecutorError> {
        if parts.is_empty() {
            return Ok(());
        }
        let Effort { compute_us, hits: cache_hits, misses: cache_misses, restored } = std::mem::take(effort);
        let parts = std::mem::take(parts);
        let outcome = ResultMessage { round, parts, compute_us, cache_hits, cache_misses, restored };
        self.common.send(&ToMaster::Result(outcome), tail, attached)?;
        tail.clear();
        attached.clear();
        Ok(())
    }
}
