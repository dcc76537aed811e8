//! Recipes: how a worker makes a state that it has lost, or never had.
//!
//! A recipe has a beginning for each partition (a checkpoint, or its chunk) and the rounds since, with the letters that the
//! partition found in each. It also brings the letters of the round that asks; where the state is at hand, nothing else. It is
//! shared by the partitions it is for, so that parameters are read once. Threads of the master's process get it as it is; others in
//! pieces, as one run of bytes (`core/wire/recipe.rs`).

use super::faults::caught;
use super::round::{BlockRunner, Stopped, plain};
use crate::function::{AnyShared, Function};
use crate::registry;
use crate::state::{AnyState, ErasedState};
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::ids::{RoundId, Version};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::mail::Inbox;
use qjam_core::wire::recipe::{self, Head, Recipe, Start, Step};
use qjam_data::mail::{Post, Sealed};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// A round to run again.
pub(crate) struct RecipeStep {
    pub(crate) round: RoundId,
    pub(crate) function: Arc<str>,
    pub(crate) params: Bytes,
    opened: OnceLock<Result<(Function, AnyShared), Fault>>,
}

/// What a partition finds in rounds, by the version that each begins with.
pub(crate) type Inboxes = BTreeMap<Version, Inbox<Sealed>>;

/// A recipe for some partitions.
pub(crate) struct StateRecipe {
    /// What each begins with: its version then, and the checkpoint if there is one.
    starts: HashMap<u32, (Version, Option<Bytes>)>,
    /// Oldest first.
    steps: Vec<Arc<RecipeStep>>,
    /// All partitions that it is for, and their letters.
    mail: HashMap<u32, Inboxes>,
}

/// A state that was made by a recipe.
pub(crate) struct RestoredState {
    pub(crate) state: AnyState,
    /// What it was made from, and what it is now.
    pub(crate) from: Version,
    pub(crate) version: Version,
    pub(crate) steps: u32,
}

impl RecipeStep {
    pub(crate) fn new(round: RoundId, function: Arc<str>, params: Bytes) -> Self {
        RecipeStep { round, function, params, opened: OnceLock::new() }
    }

    fn open(&self) -> Result<&(Function, AnyShared), Fault> {
        let open = || {
            let fault = Fault::new;
            let function = registry::lookup(&self.function)
                .map_err(|e| fault(FaultKind::UnknownFunction, e.to_string()))?;
            let params = caught(None, || function.open_params(self.params.clone()))?
                .map_err(|e| fault(FaultKind::Params, e.to_string()))?;
            Ok((function, params))
        };
        self.opened.get_or_init(open).as_ref().map_err(Clone::clone)
    }
}

impl StateRecipe {
    pub(crate) fn new(starts: HashMap<u32, (Version, Option<Bytes>)>, steps: Vec<Arc<RecipeStep>>) -> Self {
        let mail = starts.keys().map(|partition| (*partition, Inboxes::new())).collect();
        StateRecipe { starts, steps, mail }
    }

    /// The same with letters, also for partitions whose states it does not make.
    pub(crate) fn with_mail(mut self, mail: impl IntoIterator<Item = (u32, Inboxes)>) -> Self {
        self.mail.extend(mail);
        self
    }

    /// The same with states that somebody has kept, as these partitions begin with them.
    pub(crate) fn with_states(mut self, states: HashMap<u32, (Version, Option<Bytes>)>) -> Self {
        for partition in states.keys() {
            self.mail.entry(*partition).or_default();
        }
        self.starts.extend(states);
        self
    }

    /// What a partition finds in the round that begins with a version.
    pub(crate) fn inbox(&self, partition: u32, version: Version) -> Inbox<Sealed> {
        self.mail.get(&partition).and_then(|inboxes| inboxes.get(&version)).cloned().unwrap_or_default()
    }

    /// The same for some of its partitions.
    pub(crate) fn only(&self, partitions: &[u32]) -> StateRecipe {
        let start = |partition: &u32| Some((*partition, self.starts.get(partition)?.clone()));
        let mail = |partition: &u32| Some((*partition, self.mail.get(partition)?.clone()));
        StateRecipe {
            starts: partitions.iter().filter_map(start).collect(),
            steps: self.steps.clone(),
            mail: partitions.iter().filter_map(mail).collect(),
        }
    }

    /// The partitions it is for.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.mail.keys().copied()
    }

    /// Makes the state of a partition.
    pub(crate) fn cook(
        &self,
        here: &BlockRunner,
        kind: &'static dyn ErasedState,
        index: u32,
        chunk: &(dyn Any + Send + Sync),
        init: &dyn Fn() -> Result<AnyState, Fault>,
    ) -> Result<RestoredState, Stopped> {
        let (from, checkpoint) = self.starts.get(&index).cloned().unwrap_or_default();
        let mut state = match checkpoint {
            Some(bytes) => caught(Some(index), || kind.decode(bytes))?
                .map_err(|e| plain(FaultKind::State, index, format!("its checkpoint cannot be read: {e}")))?,
            None => init()?,
        };
        let (mut version, mut count) = (from, 0);
        for step in self.steps.iter().filter(|step| Version::after(step.round) > from) {
            if here.is_cancelled() {
                return Err(Stopped::Cancelled);
            }
            let (function, params) = step.open()?;
            let is_same = function.state().is_some_and(|other| other.type_id() == kind.type_id());
            if !is_same {
                let why = format!("{} is no function for {}", step.function, kind.name());
                return Err(plain(FaultKind::State, index, why).into());
            }
            // What it sends again was delivered when the round had its value.
            let post = Post::new(index, here.cut.chunks, true, self.inbox(index, version));
            let ctx = here.ctx(step.round.0, index).with_post(post);
            caught(Some(index), || drop(function.step(&**params, chunk, &mut state, &ctx)))?;
            (version, count) = (Version::after(step.round), count + 1);
        }
        // One whose function looks whether it was cancelled may have left the last step half done.
        if here.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        Ok(RestoredState { state, from, version, steps: count })
    }

    // ---- as bytes ---------------------------------------------------------------------------------------------

    /// The recipe in pieces of at most so many bytes, and the length of it all.
    pub(crate) fn to_pieces(&self, bytes_max: usize) -> (Vec<Bytes>, u64) {
        let mut head = Head::default();
        let mut payloads: Vec<Bytes> = Vec::new();
        for (&partition, (version, checkpoint)) in self.starts.iter().collect::<BTreeMap<_, _>>() {
            let bytes = checkpoint.as_ref().map(|c| c.len() as u64);
            head.starts.push(Start { partition, version: *version, bytes });
            payloads.extend(checkpoint.clone());
        }
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for step in &self.steps {
            let next = head.functions.len() as u32;
            let function = *numbers.entry(&*step.function).or_insert(next);
            if function == next {
                head.functions.push(step.function.to_string());
            }
            head.steps.push(Step { round: step.round, function, bytes: step.params.len() as u64 });
            payloads.push(step.params.clone());
        }
        for (&partition, inboxes) in self.mail.iter().collect::<BTreeMap<_, _>>() {
            if !self.starts.contains_key(&partition) {
                head.mail_only.push(partition);
            }
            for (&version, inbox) in inboxes {
                let letter = |(from, sealed): &(u32, Sealed)| recipe::Letter {
                    from: *from,
                    kind: sealed.kind,
                    bytes: sealed.content.len() as u64,
                };
                let letters = inbox.iter().map(letter).collect();
                head.inboxes.push(recipe::Inbox { partition, version, letters });
                payloads.extend(inbox.iter().map(|(_, sealed)| sealed.content.clone()));
            }
        }
        let mut writer = Pieces { out: Vec::new(), small: Vec::new(), at: 0, bytes_max };
        writer.put(Bytes::from(head.to_bytes()));
        for payload in payloads {
            let gap = writer.at.next_multiple_of(qjam_core::wire::recipe::ALIGN) - writer.at;
            writer.put(Bytes::from(vec![0; gap as usize]));
            writer.put(payload);
        }
        writer.finish()
    }

    /// Reads a whole recipe.
    pub(crate) fn from_bytes(bytes: &Bytes) -> Result<Self, String> {
        let recipe = Recipe::parse(bytes).map_err(|e| e.to_string())?;
        let names: Vec<Arc<str>> = recipe.head.functions.iter().map(|name| name.as_str().into()).collect();
        let starts = recipe.head.starts.iter().zip(&recipe.starts);
        let starts = starts.map(|(start, place)| {
            (start.partition, (start.version, place.clone().map(|place| bytes.slice(place))))
        });
        let steps = recipe.head.steps.iter().zip(&recipe.steps).map(|(step, place)| {
            let function = names[step.function as usize].clone();
            Arc::new(RecipeStep::new(step.round, function, bytes.slice(place.clone())))
        });
        let mut mail: HashMap<u32, Inboxes> = HashMap::new();
        for partition in recipe.head.starts.iter().map(|s| s.partition).chain(recipe.head.mail_only) {
            mail.entry(partition).or_default();
        }
        for (inbox, places) in recipe.head.inboxes.iter().zip(&recipe.letters) {
            let letter = |(letter, place): (&recipe::Letter, &std::ops::Range<usize>)| {
                (letter.from, Sealed { kind: letter.kind, content: bytes.slice(place.clone()) })
            };
            let letters = inbox.letters.iter().zip(places).map(letter).collect();
            mail.entry(inbox.partition).or_default().insert(inbox.version, letters);
        }
        Ok(StateRecipe { starts: starts.collect(), steps: steps.collect(), mail })
    }
}

/// Puts payloads together into pieces. What is long is cut where it lies; what is short is copied.
struct Pieces {
    out: Vec<Bytes>,
    small: Vec<u8>,
    at: u64,
    bytes_max: usize,
}

impl Pieces {
    fn put(&mut self, mut payload: Bytes) {
        self.at += payload.len() as u64;
        if payload.len() < self.bytes_max / 4 {
            if self.small.len() + payload.len() > self.bytes_max {
                self.flush();
            }
            self.small.extend_from_slice(&payload);
            return;
        }
        self.flush();
        while !payload.is_empty() {
            let piece = payload.split_to(payload.len().min(self.bytes_max));
            self.out.push(piece);
        }
    }

    fn flush(&mut self) {
        if !self.small.is_empty() {
            self.out.push(Bytes::from(std::mem::take(&mut self.small)));
        }
    }

    fn finish(mut self) -> (Vec<Bytes>, u64) {
        self.flush();
        (self.out, self.at)
    }
}

/// A recipe of which not all pieces are here.
pub(crate) struct Arriving {
    room: AlignedBuf,
    at: u64,
}

impl Arriving {
    /// Makes room; `None` when there is none.
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        Some(Arriving { room: AlignedBuf::try_zeroed(bytes)?, at: 0 })
    }

    /// Takes in the next piece. Says whether that is all.
    pub(crate) fn put(&mut self, offset: u64, piece: &[u8]) -> Result<bool, String> {
        let room = self.room.as_mut_slice();
        let all = room.len() as u64;
        if offset != self.at || piece.len() as u64 > all - offset {
            return Err(format!(
                "a piece of {} bytes at {offset}, where {} of {all} are here",
                piece.len(),
                self.at
            ));
        }
        let from = offset as usize;
        room[from..from + piece.len()].copy_from_slice(piece);
        self.at += piece.len() as u64;
        Ok(self.at == all)
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.room.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(state: usize, params: usize) -> StateRecipe {
        let starts = HashMap::from([
            (7, (Version::after(RoundId(3)), Some(Bytes::from(vec![7; state])))),
            (2, (Version::MADE, None)),
        ]);
        let step = |n: u64| RecipeStep::new(RoundId(n), "a::b".into(), Bytes::from(vec![n as u8; params]));
        let letter = |from: u32| (from, Sealed { kind: 9, content: vec![from as u8; params].into() });
        let inboxes = |letters: Vec<u32>| {
            Inboxes::from([(Version::after(RoundId(4)), letters.into_iter().map(letter).collect())])
        };
        StateRecipe::new(starts, (0..5).map(|n| Arc::new(step(n))).collect()).with_mail([
            (2, inboxes(vec![0, 0, 7])),
            (5, inboxes(vec![1])),
            (6, Inboxes::new()),
        ])
    }

    #[test]
    fn a_recipe_survives_being_cut_into_pieces() {
        for (state, params) in [(0, 0), (3, 1), (1000, 100), (100_000, 5000)] {
            let (pieces, bytes) = sample(state, params).to_pieces(4096);
            assert!(pieces.iter().all(|p| !p.is_empty() && p.len() <= 4096));
            let mut arriving = Arriving::new(bytes).unwrap();
            let mut at = 0;
            for (n, piece) in pieces.iter().enumerate() {
                assert_eq!(arriving.put(at, piece), Ok(n + 1 == pieces.len()));
                at += piece.len() as u64;
            }
            let back = StateRecipe::from_bytes(&arriving.into_bytes()).unwrap();
            assert_eq!(back.starts, sample(state, params).starts);
            assert_eq!(back.mail, sample(state, params).mail);
            let steps: Vec<_> = back.steps.iter().map(|s| (s.round.0, s.params.len())).collect();
            assert_eq!(steps, (0..5).map(|n| (n, params)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn pieces_out_of_place_are_refused() {
        let mut arriving = Arriving::new(100).unwrap();
        assert!(arriving.put(1, &[0; 10]).is_err());
        assert_eq!(arriving.put(0, &[0; 60]), Ok(false));
        assert!(arriving.put(0, &[0; 10]).is_err());
        assert!(arriving.put(60, &[0; 41]).is_err());
        assert_eq!(arriving.put(60, &[0; 40]), Ok(true));
        assert!(arriving.put(100, &[0; 1]).is_err());
    }
}
