//! What an earlier run found out: its rounds, and the values of those that it kept.
//!
//! A program that is run again from its beginning asks for the same rounds in the same order. A round with the same
//! number, function, data, parameters and seed has the same value, so it is given the one in the file. A round that
//! was not finished, or whose value was not kept, is computed. If the earlier run was itself one that went on, and was
//! stopped before it had caught up, the one before it is asked, too. At the first round that is another one than the file
//! says, memory ends: from there on the program goes its own way.

use super::RunError;
use super::folder;
use super::observed::Observations;
use super::reader::{Item, Reader, Spot};
use super::record::{Began, Hash, Record, StoredValue};
use super::saved::{self, Saved};
use super::trust::Trust;
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::ids::DataSetId;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

struct Remembered {
    function: u32,
    data: u32,
    params: Option<Hash>,
    value: Option<(Spot, usize)>,
}

/// An earlier run.
pub(crate) struct EarlierRun {
    pub(crate) id: String,
    folder: PathBuf,
    trust: Trust,
    file: File,
    functions: HashMap<u32, String>,
    data: HashMap<u32, Hash>,
    rounds: HashMap<u64, Remembered>,
    observations: Observations,
    /// Rounds that were begun in all.
    end: u64,
    /// The run that this one went on from.
    before: Option<Box<EarlierRun>>,
}

/// So many runs are asked, the later first.
const RUNS_MAX: u32 = 16;

/// What memory has to say to a round.
pub(crate) enum Recalled {
    /// The value, encoded.
    Value(Bytes),
    /// It is the same round, but its value is not known.
    Compute,
    /// It is not the same round, for this reason.
    Differs(String),
    /// The earlier run did not get as far.
    End,
}

impl EarlierRun {
    /// Reads a file that may be believed; also gives who wrote it, and the hash of the executable if that is known. `words` are
    /// what the user should know.
    pub(super) fn read(
        path: &Path,
        trust: Trust,
        words: &mut Vec<String>,
    ) -> Result<(EarlierRun, Began, Option<Hash>), RunError> {
        let file = trust.open(path)?;
        trust.check_folder(path)?;
        EarlierRun::read_chain(path, file, trust, RUNS_MAX, words)
    }

    fn read_chain(
        path: &Path,
        file: File,
        trust: Trust,
        runs_max: u32,
        words: &mut Vec<String>,
    ) -> Result<(EarlierRun, Began, Option<Hash>), RunError> {
        let mut reader = Reader::new(file.try_clone()?, true)?;
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut memory = EarlierRun {
            id,
            folder: path.parent().map(Path::to_owned).unwrap_or_default(),
            trust,
            file,
            functions: HashMap::new(),
            data: HashMap::new(),
            rounds: HashMap::new(),
            observations: Observations::default(),
            end: 0,
            before: None,
        };
        let (mut began, mut executable) = (None, None);
        while let Some(item) = reader.next() {
            match &item.record {
                Record::Began(who) => began = Some(who.as_ref().clone()),
                Record::Executable(hash) => executable = Some(*hash),
                _ => memory.take_in(item),
            }
        }
        let began = began.ok_or(RunError::NotARun)?;
        let refused = saved::refused(&memory.folder, &memory.id, trust);
        words.extend(refused.iter().map(|why| format!("states are computed again: {why}")));
        if let (Some(id), Some(folder), 2..) = (&began.resumed, path.parent(), runs_max) {
            match EarlierRun::before(folder, id, trust, runs_max - 1, words) {
                Ok(before) => memory.before = Some(Box::new(before)),
                // It may be gone; what it knew and this one did not is then computed.
                Err(RunError::Io(_)) => {}
                Err(why) => words.push(format!(
                    "what run {} was given by the run before it is computed again: {why}",
                    memory.id
                )),
            }
        }
        Ok((memory, began, executable))
    }

    /// The run that another one names as the one that it went on from. It is in the same folder.
    fn before(
        folder: &Path,
        id: &str,
        trust: Trust,
        runs_max: u32,
        words: &mut Vec<String>,
    ) -> Result<EarlierRun, RunError> {
        // A name and no path: whoever wrote it must not choose the folder.
        if id.is_empty() || id == ".." || id == "." || id.contains(['/', '\0']) {
            return Err(RunError::NotAnId);
        }
        let path = folder::path_of(folder, id);
        let file = trust.open(&path)?;
        Ok(EarlierRun::read_chain(&path, file, trust, runs_max, words)?.0)
    }

    /// Whether the run that it went on from is known.
    #[cfg(test)]
    pub(super) fn has_before(&self) -> bool {
        self.before.is_some()
    }

    fn take_in(&mut self, item: Item) {
        match item.record {
            Record::Function { number, name } => {
                self.functions.insert(number, name);
            }
            Record::Data { number, id, .. } => {
                self.data.insert(number, id);
            }
            Record::RoundBegan { round, function, data, .. } => {
                self.end = self.end.max(round.saturating_add(1));
                self.rounds.insert(round, Remembered { function, data, params: None, value: None });
            }
            Record::RoundDone { round, params, kept, .. } => {
                if let Some(remembered) = self.rounds.get_mut(&round) {
                    remembered.params = params;
                    remembered.value = (kept == StoredValue::Bytes).then_some((item.body, item.tail_bytes));
                }
            }
            Record::Observed { name, value } => self.observations.add(name, value),
            _ => {}
        }
    }

    /// Takes the values that it, and those before it, got from elsewhere than their rounds.
    pub(super) fn take_observations(&mut self) -> Observations {
        let mut observations = std::mem::take(&mut self.observations);
        if let Some(before) = &mut self.before {
            observations.continue_with(before.take_observations());
        }
        observations
    }

    /// Checkpoints of states that it, and those before it, have left.
    pub(crate) fn saved_states(&self) -> Vec<Saved> {
        let mut saved = saved::list(&self.folder, &self.id, self.trust);
        saved.extend(self.before.iter().flat_map(|before| before.saved_states()));
        saved
    }

    /// What is known of this round.
    pub(crate) fn recall(&self, round: u64, function: &str, data: &DataSetId, params: &Hash) -> Recalled {
        let own = self.recall_own(round, function, data, params);
        let (Recalled::Compute | Recalled::End, Some(before)) = (&own, &self.before) else { return own };
        match (own, before.recall(round, function, data, params)) {
            (_, Recalled::Value(value)) => Recalled::Value(value),
            // Where the two went different ways the later one knows better.
            (own, Recalled::Differs(_) | Recalled::End) => own,
            (_, Recalled::Compute) => Recalled::Compute,
        }
    }

    fn recall_own(&self, round: u64, function: &str, data: &DataSetId, params: &Hash) -> Recalled {
        let Some(remembered) = self.rounds.get(&round) else {
            return if round < self.end { Recalled::Compute } else { Recalled::End };
        };
        match self.functions.get(&remembered.function) {
            Some(name) if name == function => {}
            Some(name) => return Recalled::Differs(format!("it ran {name}, and now it is {function}")),
            None => return Recalled::Compute,
        }
        if self.data.get(&remembered.data) != Some(&data.0) {
            return Recalled::Differs("it ran over other data".into());
        }
        let Some(recorded) = remembered.params else { return Recalled::Compute };
        if recorded != *params {
            return Recalled::Differs("its parameters were others".into());
        }
        match remembered.value.and_then(|(spot, tail_bytes)| self.load(spot, tail_bytes)) {
            Some(value) => Recalled::Value(value),
            None => Recalled::Compute,
        }
    }

    /// Reads a value again, if it is what was written.
    fn load(&self, spot: Spot, tail_bytes: usize) -> Option<Bytes> {
        let message = spot.bytes as usize - tail_bytes;
        let mut head = vec![0; message];
        self.file.read_exact_at(&mut head, spot.at).ok()?;
        let mut value = AlignedBuf::try_zeroed(tail_bytes as u64)?;
        self.file.read_exact_at(value.as_mut_slice(), spot.at + message as u64).ok()?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(value.as_mut_slice());
        (crc.finalize() == spot.crc).then(|| value.into_bytes())
    }
}
