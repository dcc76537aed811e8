//! Makes chunks of derived data sets: opens the chunk of the source, and passes its records through the functions of the
//! lineage.
//!
//! Comes in: the lineage of a round, a chunk of a source, and the chunks that are kept open. Goes out: the chunk that the
//! function of the round gets, and whether it was there already. Records go through all functions one at a time, without a
//! list in between; only at `persist` and at the end there is a chunk. What is kept at a `persist` is kept with the open
//! chunks, under a name that follows from the operations, their parameters and the chunk of the source; where something
//! depends on the place of the chunk, from that too.

use super::chunks::OpenChunks;
use super::faults::caught;
use crate::chunk::ChunkId;
use crate::function::AnyShared;
use crate::registry;
use crate::source::location::ChunkEntry;
use bytes::Bytes;
use qjam_core::chunk::Hasher;
use qjam_core::ids::{DataSetId, RoundId};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::lineage::{Lineage, Operation, OperationKind, Stretch};
use qjam_core::records::RecordStarts;
use qjam_data::Rng;
use qjam_data::derived::Record;
use qjam_data::derived::function::ErasedRecordFunction;
use qjam_data::derived::record::{ErasedKind, ErasedSink, Item};
use std::any::TypeId;
use std::cell::Cell;
use std::sync::Arc;

/// A lineage whose functions have been found.
pub(crate) struct OpenLineage {
    lineage: Lineage,
    chains: Vec<Chain>,
}

/// What is done with the chunks of a stretch.
struct Chain {
    source: &'static dyn ErasedKind,
    stages: Vec<Stage>,
}

/// An operation that is ready to be done.
struct Stage {
    kind: OperationKind,
    function: Option<(Arc<dyn ErasedRecordFunction>, AnyShared)>,
    /// What a chunk is after it.
    makes: &'static dyn ErasedKind,
}

/// A chunk that is to be made.
pub(crate) struct Wanted<'a> {
    /// Its index in the data set.
    pub(crate) index: u32,
    pub(crate) entry: &'a ChunkEntry,
    /// What the function of the round opens chunks as.
    pub(crate) chunk_type: TypeId,
    pub(crate) function: &'static str,
    pub(crate) round: RoundId,
    /// Which records each chunk of the sources has.
    pub(crate) records: &'a RecordStarts,
}

fn fault(message: String) -> Fault {
    Fault::new(FaultKind::Chunk, message)
}

impl OpenLineage {
    /// Finds the functions and reads their parameters.
    pub(crate) fn open(lineage: &Lineage) -> Result<OpenLineage, Fault> {
        let chains = lineage.stretches.iter().map(Chain::open).collect::<Result<_, Fault>>()?;
        Ok(OpenLineage { lineage: lineage.clone(), chains })
    }

    /// A chunk as the function of the round takes it; also whether what it is made from was kept at a `persist`.
    pub(crate) fn chunk(&self, open: &OpenChunks, wanted: &Wanted<'_>) -> Result<(AnyShared, bool), Fault> {
        let at = self.lineage.stretch_of(wanted.index);
        let (number, local) = at.ok_or_else(|| fault("the lineage does not speak of this chunk".into()))?;
        let (chain, stretch) = (&self.chains[number], &self.lineage.stretches[number]);
        let last = chain.kind_after(chain.stages.len());
        if last.chunk_type() != wanted.chunk_type {
            let why = format!(
                "{} takes other chunks than {}, which the data set has",
                wanted.function,
                last.name()
            );
            return Err(fault(why));
        }
        let place = Place {
            local,
            first_record: wanted.records.range(wanted.index).start
                - wanted.records.range(wanted.index - local).start,
            index: wanted.index,
        };
        chain.chunk(open, wanted, stretch, &place)
    }
}

/// Where a chunk is.
struct Place {
    /// Its index in its stretch.
    local: u32,
    /// Its first record, counted from the beginning of its stretch.
    first_record: u64,
    index: u32,
}

impl Chain {
    fn open(stretch: &Stretch) -> Result<Chain, Fault> {
        let unknown = |e: registry::UnknownFunction| Fault::new(FaultKind::UnknownFunction, e.to_string());
        let source = registry::kind(&stretch.source).map_err(unknown)?.records();
        let mut stages: Vec<Stage> = Vec::new();
        for operation in &stretch.operations {
            let before = stages.last().map_or(source, |stage| stage.makes);
            stages.push(Stage::open(operation, before)?);
        }
        Ok(Chain { source, stages })
    }

    /// What a chunk is after the first so many stages.
    fn kind_after(&self, count: usize) -> &'static dyn ErasedKind {
        count.checked_sub(1).map_or(self.source, |last| self.stages[last].makes)
    }

    fn chunk(
        &self,
        open: &OpenChunks,
        wanted: &Wanted<'_>,
        stretch: &Stretch,
        place: &Place,
    ) -> Result<(AnyShared, bool), Fault> {
        let persisted = (1..=self.stages.len()).filter(|n| self.stages[n - 1].kind == OperationKind::Persist);
        let names: Vec<(usize, ChunkId)> =
            persisted.map(|count| (count, name(stretch, count, wanted.entry, place))).collect();
        let key = |count: usize, id: ChunkId| (id, self.kind_after(count).chunk_type());
        let kept = names.iter().rev().find_map(|(count, id)| {
            open.derived(key(*count, *id), wanted.round).map(|chunk| (*count, chunk))
        });
        let hit = kept.is_some();
        let (mut done, mut chunk) = match kept {
            Some((count, chunk)) => (count, chunk),
            None => (0, self.opened(open, wanted)?),
        };
        let found = done;
        for (count, id) in names.into_iter().filter(|(count, _)| *count > found) {
            let (made, bytes) = self.made(&chunk, done..count, stretch, place)?;
            open.keep_derived(key(count, id), wanted.entry.id, (made.clone(), bytes), wanted.round);
            (done, chunk) = (count, made);
        }
        if done < self.stages.len() {
            chunk = self.made(&chunk, done..self.stages.len(), stretch, place)?.0;
        }
        Ok((chunk, hit))
    }

    /// The chunk of the source.
    fn opened(&self, open: &OpenChunks, wanted: &Wanted<'_>) -> Result<AnyShared, Fault> {
        let opener = |header: &_, bytes: Bytes| self.source.open(header, bytes);
        open.get_as(self.source.chunk_type(), &opener, wanted.entry, wanted.round).map(|(chunk, _)| chunk)
    }

    /// The chunk after these stages, from what there is before them, and how many bytes it takes.
    fn made(
        &self,
        from: &AnyShared,
        stages: std::ops::Range<usize>,
        stretch: &Stretch,
        place: &Place,
    ) -> Result<(AnyShared, u64), Fault> {
        let (kind, makes) = (self.kind_after(stages.start), self.kind_after(stages.end));
        let cols = self.stages[stages.clone()].iter().rev().find_map(|stage| match stage.kind {
            OperationKind::Rows { cols } => Some(cols as usize),
            _ => None,
        });
        let mut drawing: Vec<Option<Rng>> =
            stages.clone().map(|n| self.stages[n].draws(&stretch.name(n), place)).collect();
        let at = Progress { record: Cell::new(0), stage: Cell::new(stages.start) };
        let run = || {
            let mut sink = makes.sink(cols.unwrap_or_else(|| kind.cols(&**from)));
            let mut record = 0;
            kind.each(&**from, &mut |item| {
                at.record.set(record);
                let number = place.first_record + record;
                let pipe = Pipe { stages: &self.stages[..stages.end], number, at: &at };
                pipe.pass(stages.start, item, &mut drawing, &mut *sink);
                record += 1;
            });
            sink.finish()
        };
        caught(Some(place.index), run).map_err(|fault| self.blamed(fault, stretch, place, &at))
    }

    /// A fault of a function, with the whole chain and the record that it was at.
    fn blamed(&self, fault: Fault, stretch: &Stretch, place: &Place, at: &Progress) -> Fault {
        let steps: Vec<String> = stretch.operations.iter().map(ToString::to_string).collect();
        let failed = at.stage.get();
        let message = format!(
            "{} (in {} of a derived data set, at record {} of chunk {} of its source: {} → {})",
            fault.message,
            steps.get(failed).map_or("the end", String::as_str),
            at.record.get(),
            place.local,
            stretch.source,
            steps.join(" → "),
        );
        Fault { message, ..fault }
    }
}

/// Which record is being passed on, counted from 0 in what the stages begin with, and which stage has it.
struct Progress {
    record: Cell<u64>,
    stage: Cell<usize>,
}

/// The way of one record.
struct Pipe<'a> {
    stages: &'a [Stage],
    /// The record's number in its stretch.
    number: u64,
    at: &'a Progress,
}

impl Pipe<'_> {
    /// Passes a record on to a stage, and what comes of it to those behind.
    fn pass(&self, n: usize, item: &mut Item<'_>, drawing: &mut [Option<Rng>], sink: &mut dyn ErasedSink) {
        self.at.stage.set(n);
        let Some(stage) = self.stages.get(n) else { return sink.push(item) };
        let (own, rest) = drawing.split_first_mut().expect("each stage has a place for draws");
        let function = stage.function.as_ref();
        let call = |number: u64, item: &Item<'_>, next: &mut dyn FnMut(&mut Item<'_>)| {
            let (function, params) = function.expect("this operation has a function");
            function.call(&**params, number, item, next);
        };
        match stage.kind {
            OperationKind::Map | OperationKind::FlatMap => {
                call(0, item, &mut |made| self.pass(n + 1, made, rest, sink));
            }
            OperationKind::Numbered { first } => {
                call(first + self.number, item, &mut |made| self.pass(n + 1, made, rest, sink));
            }
            OperationKind::Filter => {
                let mut is_kept = false;
                call(0, item, &mut |made| is_kept = bool::of(made).copied().unwrap_or(false));
                if is_kept {
                    self.pass(n + 1, item, rest, sink);
                }
            }
            OperationKind::Rows { cols } => {
                let (function, params) = function.expect("this operation has a function");
                function.row(&**params, item, &mut |row, found| {
                    assert!(
                        found as u64 == cols,
                        "{} gave a row of {found} numbers, and rows have {cols}",
                        function.name()
                    );
                    self.pass(n + 1, row, rest, sink);
                });
            }
            OperationKind::Sample { fraction, .. } => {
                let rng = own.as_mut().expect("a sample draws");
                if rng.next_u64() >> 11 < fraction {
                    self.pass(n + 1, item, rest, sink);
                }
            }
            OperationKind::Part(_) | OperationKind::Persist => self.pass(n + 1, item, rest, sink),
        }
    }
}

impl Stage {
    fn open(operation: &Operation, before: &'static dyn ErasedKind) -> Result<Stage, Fault> {
        let kind = operation.kind;
        if operation.function.is_empty() {
            let needs_none = matches!(
                kind,
                OperationKind::Sample { .. } | OperationKind::Part(_) | OperationKind::Persist
            );
            return match needs_none {
                true => Ok(Stage { kind, function: None, makes: before }),
                false => Err(fault(format!("{operation} of a derived data set has no function"))),
            };
        }
        let function = registry::record_function(&operation.function)
            .map_err(|e| Fault::new(FaultKind::UnknownFunction, e.to_string()))?;
        if function.input().chunk_type() != before.chunk_type() {
            let why = format!(
                "{} takes records of {} and gets those of {}",
                function.name(),
                function.input().name(),
                before.name()
            );
            return Err(fault(why));
        }
        let makes = match kind {
            OperationKind::Filter => before,
            OperationKind::Rows { .. } => registry::rows_of(function.output()).ok_or_else(|| {
                fault(format!(
                    "{} gives {}, of which no rows can be made",
                    function.name(),
                    function.output().name()
                ))
            })?,
            _ => function.output(),
        };
        let payload = aligned(&operation.params);
        let params = caught(None, || function.open_params(payload))?
            .map_err(|e| Fault::new(FaultKind::Params, e.to_string()))?;
        Ok(Stage { kind, function: Some((function, params)), makes })
    }

    /// The numbers that it draws for a chunk: keyed by its seed, by what it is applied to, and by the chunk.
    fn draws(&self, applied_to: &[u8; 32], place: &Place) -> Option<Rng> {
        let OperationKind::Sample { seed, .. } = self.kind else { return None };
        let name = u64::from_le_bytes(applied_to[..8].try_into().expect("eight bytes"));
        Some(Rng::keyed(seed, name, place.local))
    }
}

/// Bytes where numbers may lie.
fn aligned(bytes: &[u8]) -> Bytes {
    let mut copy = crate::store::AlignedBuf::zeroed(bytes.len());
    copy.as_mut_slice().copy_from_slice(bytes);
    copy.into_bytes()
}

/// The name of the chunk that there is after the first so many operations.
fn name(stretch: &Stretch, count: usize, entry: &ChunkEntry, place: &Place) -> ChunkId {
    let mut hasher = Hasher::new(&entry.header);
    hasher.update(&entry.id.0);
    hasher.update(&DataSetId(stretch.name(count)).0);
    if stretch.depends_on_place(count) {
        hasher.update(&place.local.to_le_bytes());
        hasher.update(&place.first_record.to_le_bytes());
    }
    hasher.finish()
}
