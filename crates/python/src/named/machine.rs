//! Follows a pickle instruction by instruction.

use super::guards::{Guard, Guards};
use super::{BUILD, CALL, FILL, Guarded, LOOKUP, NEW, Named, VALUE};

/// The function that stands for a class of the user's script. It is called with the name that cloudpickle has given to the class, so
/// what it gives is a name again, with an empty module.
const SCRIPT_CLASS: (&str, &str) = ("qjam._worker.scripts", "script_class");
/// How a method of a class is written. What it gives is a name again.
const GETATTR: (&str, &str) = ("builtins", "getattr");
/// Packages with native code, which believes what it is told. Their objects get their state once, before anything else refers to
/// them, and with a guard: what was checked then cannot be changed later.
const NATIVE_PACKAGES: [&str; 4] = ["numpy", "pandas", "pyarrow", "scipy"];

/// How functions begin that make an object of native code without its parts, which it gets with its state. Without them it must not be
/// used.
const MAKES_EMPTY: &str = "__pyx_unpickle_";

/// Picklers name what they use once.
const NAMES_MAX: usize = 1000;
/// Module and attribute together. Attributes of attributes could make a long name of few bytes.
const NAME_BYTES_MAX: usize = 2000;
/// How deeply objects are nested whose end, or whose hash, is computed by native code that calls itself. See [`Machine::depth`].
const DEPTH_MAX: u16 = 500;
/// The same for what is put into an object that others already refer to: their depth was computed without it.
const LATE_DEPTH_MAX: u16 = 20;
/// Objects that are hashed because they are keys, and those in them, for each byte of the pickle. Tuples that are often repeated in each
/// other have more parts than there is time.
const HASHED_PER_BYTE: u64 = 1024;
const HASHED_MIN: u64 = 1 << 20;

const CUT: &str = "a pickle that is cut short";
const EMPTY: &str = "a pickle that takes what it has not put";
const NOT_NAMED: &str = "a pickle that calls something it has not named";
const NOT_MADE: &str = "a pickle that changes something it has not made";
const CHANGED: &str = "a pickle that changes something after it was used";
const DEEP: &str = "a pickle that is nested too deeply";
const NOT_BUILT: &str = "a pickle that uses something before it has a state";
const NO_TEXT: &str = "a pickle with a name that is no text";

/// What is known of an object.
#[derive(Clone, Copy)]
struct Item {
    kind: Kind,
    /// Whether this is where the object was put when it was made, and not a reference to it. Picklers change it only here.
    is_first: bool,
    /// See [`Machine::depth`]; of an object that changes, [`Object`] has it.
    depth: u16,
    /// The number of objects in it that its hash takes into account, itself among them.
    weight: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Text {
        at: usize,
        length: usize,
    },
    EmptyTuple,
    /// A tuple with one text.
    OneText {
        at: usize,
        length: usize,
    },
    /// A tuple of a name and a text.
    NameAndText {
        name: usize,
        at: usize,
        length: usize,
    },
    Name(usize),
    /// A container, or something that was made from a name.
    Object(usize),
    /// A buffer beside the pickle.
    Buffer,
    Other,
}

impl Item {
    fn plain(kind: Kind) -> Item {
        Item { kind, is_first: true, depth: 0, weight: 1 }
    }
}

/// What is known of an object that may change.
#[derive(Clone, Copy)]
struct Object {
    source: Source,
    depth: u16,
    weight: u32,
    /// Others may refer to it.
    is_recalled: bool,
    /// It has got its state.
    is_built: bool,
}

/// Where an object is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Dictionary,
    /// A list or a set.
    Container,
    Called(usize),
    Made(usize),
}

impl Source {
    fn name(self) -> Option<usize> {
        match self {
            Source::Called(name) | Source::Made(name) => Some(name),
            Source::Dictionary | Source::Container => None,
        }
    }
}

/// What is known of several objects together.
#[derive(Clone, Copy, Default)]
struct Parts {
    depth: u16,
    weight: u32,
}

impl Parts {
    fn and(self, other: Parts) -> Parts {
        Parts { depth: self.depth.max(other.depth), weight: self.weight.saturating_add(other.weight) }
    }
}

pub(super) struct Machine<'a> {
    pickle: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    /// Where marks are on the stack.
    marks: Vec<usize>,
    memo: Vec<Item>,
    objects: Vec<Object>,
    names: Vec<Named>,
    hashed: u64,
    guards: Option<Guards>,
}

impl<'a> Machine<'a> {
    /// Begins after the protocol.
    pub(super) fn new(pickle: &'a [u8], guards: Option<Guards>) -> Self {
        Machine {
            pickle,
            at: 2,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            objects: Vec::new(),
            names: Vec::new(),
            hashed: 0,
            guards,
        }
    }

    pub(super) fn run(mut self) -> Result<Guarded, &'static str> {
        while self.step()? {}
        let stream = self.guards.and_then(|guards| guards.finish(self.pickle, self.at));
        Ok(Guarded { names: self.names, stream })
    }

    /// One instruction. Says whether there is another.
    fn step(&mut self) -> Result<bool, &'static str> {
        if let Some(guards) = &mut self.guards {
            guards.reach(self.pickle, self.at);
        }
        let instruction = *self.pickle.get(self.at).ok_or(CUT)?;
        self.at += 1;
        match instruction {
            b'.' => {
                self.take(1)?;
                return Ok(false);
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() {
                Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
                _ => drop(self.pop()?),
            },
            b'1' => drop(self.take_to_mark()?),
            b'N' | 0x88 | 0x89 => self.push(Kind::Other),
            b')' => self.push(Kind::EmptyTuple),
            b'}' => self.push_object(Source::Dictionary, Parts::default()),
            b']' | 0x8f => self.push_object(Source::Container, Parts::default()),
            0x97 => self.push(Kind::Buffer),
            b'K' => self.skip_and_push(1)?,
            b'M' => self.skip_and_push(2)?,
            b'J' => self.skip_and_push(4)?,
            b'G' => self.skip_and_push(8)?,
            // Integers of any length, and bytes.
            0x8a | b'C' => self.counted(1)?,
            b'B' => self.counted(4)?,
            0x8e | 0x96 => self.counted(8)?,
            0x8b => {
                if self.pickle.get(self.at + 3).is_some_and(|byte| *byte >= 0x80) {
                    return Err("a pickle with a negative length");
                }
                self.counted(4)?;
            }
            0x8c => self.text(1)?,
            b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            0x95 => self.frame()?,
            0x94 => {
                let item = Item { is_first: false, ..*self.top()? };
                self.memo.push(item);
            }
            b'h' => self.recall(1)?,
            b'j' => self.recall(4)?,
            b't' => {
                let (_, parts) = self.take_to_mark()?;
                self.push_tuple(Kind::Other, parts)?;
            }
            0x91 => {
                let (_, parts) = self.take_to_mark()?;
                self.hash(parts)?;
                // Its hash is computed once.
                self.push_tuple(Kind::Other, Parts { weight: 0, ..parts })?;
            }
            0x85 => {
                let kind = match self.top()?.kind {
                    Kind::Text { at, length } => Kind::OneText { at, length },
                    _ => Kind::Other,
                };
                let parts = self.take(1)?;
                self.push_tuple(kind, parts)?;
            }
            0x86 => self.tuple_of_two()?,
            0x87 => {
                let parts = self.take(3)?;
                self.push_tuple(Kind::Other, parts)?;
            }
            b'a' => {
                let parts = self.take(1)?;
                self.fill(parts)?;
            }
            b's' => {
                let value = self.take(1)?;
                let key = self.take(1)?;
                self.hash(key)?;
                self.fill(key.and(value))?;
            }
            b'e' => {
                let (_, parts) = self.take_to_mark()?;
                self.fill(parts)?;
            }
            b'u' => {
                let (keys, parts) = self.take_to_mark()?;
                self.hash(keys)?;
                self.fill(parts)?;
            }
            0x90 => {
                let (_, parts) = self.take_to_mark()?;
                self.hash(parts)?;
                self.fill(parts)?;
            }
            0x93 => self.global()?,
            b'R' => self.call()?,
            0x81 => self.new_object(Guard::New)?,
            0x92 => self.new_object(Guard::NewWithKeywords)?,
            b'b' => self.build()?,
            // A buffer beside the pickle becomes read-only.
            0x98 => {
                if !matches!(self.top()?.kind, Kind::Buffer) {
                    return Err(NOT_MADE);
                }
            }
            _ => return Err("a pickle with an instruction that is not used here"),
        }
        Ok(true)
    }

    // ---- bytes ------------------------------------------------------------------------------------------------

    fn bytes(&mut self, count: usize) -> Result<&[u8], &'static str> {
        let end = self.at.checked_add(count).ok_or(CUT)?;
        let bytes = self.pickle.get(self.at..end).ok_or(CUT)?;
        self.at = end;
        Ok(bytes)
    }

    /// A number of so many bytes, the lowest first.
    fn number(&mut self, bytes: usize) -> Result<usize, &'static str> {
        let number =
            self.bytes(bytes)?.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| CUT)
    }

    fn skip_and_push(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.bytes(bytes)?;
        self.push(Kind::Other);
        Ok(())
    }

    fn counted(&mut self, width: usize) -> Result<(), &'static str> {
        let length = self.number(width)?;
        self.skip_and_push(length)
    }

    fn text(&mut self, width: usize) -> Result<(), &'static str> {
        let length = self.number(width)?;
        let at = self.at;
        self.bytes(length)?;
        self.push(Kind::Text { at, length });
        Ok(())
    }

    /// Only a hint how much to read at once.
    fn frame(&mut self) -> Result<(), &'static str> {
        let at = self.at - 1;
        let length = self.number(8)?;
        if let Some(guards) = &mut self.guards {
            guards.begin_frame(self.pickle, at, length);
        }
        Ok(())
    }

    /// The reader is asked before the instruction that was just read.
    fn guard(&mut self, guard: Guard) {
        if let Some(guards) = &mut self.guards {
            guards.put(self.pickle, self.at - 1, guard);
        }
    }

    // ---- the stack --------------------------------------------------------------------------------------------

    fn push(&mut self, kind: Kind) {
        self.stack.push(Item::plain(kind));
    }

    fn push_object(&mut self, source: Source, parts: Parts) {
        let Parts { depth, weight } = parts;
        let weight = weight.saturating_add(1);
        self.push(Kind::Object(self.objects.len()));
        self.objects.push(Object { source, depth, weight, is_recalled: false, is_built: false });
    }

    fn push_tuple(&mut self, kind: Kind, parts: Parts) -> Result<(), &'static str> {
        let depth = deeper(parts.depth)?;
        self.stack.push(Item { kind, is_first: true, depth, weight: parts.weight.saturating_add(1) });
        Ok(())
    }

    /// What lies below the last mark is out of reach.
    fn pop(&mut self) -> Result<Item, &'static str> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err(EMPTY);
        }
        self.stack.pop().ok_or(EMPTY)
    }

    fn top(&self) -> Result<&Item, &'static str> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err(EMPTY);
        }
        self.stack.last().ok_or(EMPTY)
    }

    /// Takes so many objects, which become parts of others.
    fn take(&mut self, count: usize) -> Result<Parts, &'static str> {
        let mut parts = Parts::default();
        for _ in 0..count {
            let item = self.pop()?;
            self.put_into_value(item)?;
            parts = parts.and(self.parts(item));
        }
        Ok(parts)
    }

    /// Takes everything above the last mark, and the mark. Says what is known of every other one, beginning with the first, and of all.
    fn take_to_mark(&mut self) -> Result<(Parts, Parts), &'static str> {
        let mark = self.marks.pop().ok_or(EMPTY)?;
        let (mut keys, mut all) = (Parts::default(), Parts::default());
        for at in mark..self.stack.len() {
            let item = self.stack[at];
            self.put_into_value(item)?;
            all = all.and(self.parts(item));
            if (at - mark) % 2 == 0 {
                keys = keys.and(self.parts(item));
            }
        }
        self.stack.truncate(mark);
        Ok((keys, all))
    }

    fn tuple_of_two(&mut self) -> Result<(), &'static str> {
        let (second, first) = (self.pop()?, self.pop()?);
        let parts = self.parts(first).and(self.parts(second));
        if let (Kind::Name(name), Kind::Text { at, length }) = (first.kind, second.kind) {
            return self.push_tuple(Kind::NameAndText { name, at, length }, parts);
        }
        self.put_into_value(first)?;
        self.put_into_value(second)?;
        self.push_tuple(Kind::Other, parts)
    }

    fn recall(&mut self, width: usize) -> Result<(), &'static str> {
        let number = self.number(width)?;
        let item = *self.memo.get(number).ok_or(EMPTY)?;
        if let Kind::Object(object) = item.kind {
            self.must_have_state(object)?;
            self.objects[object].is_recalled = true;
        }
        self.stack.push(item);
        Ok(())
    }

    // ---- how deep and how large -------------------------------------------------------------------------------

    /// How many objects are in each other whose end or hash takes the stack of the thread: tuples, frozen sets, and what was called
    /// or belongs to a package with native code. Python itself looks after the end of lists, dictionaries, sets and objects of classes
    /// in Python, however deep they are.
    fn depth(&self, item: Item) -> u16 {
        match item.kind {
            Kind::Object(object) => self.objects[object].depth,
            _ => item.depth,
        }
    }

    fn parts(&self, item: Item) -> Parts {
        let weight = match item.kind {
            Kind::Object(object) => self.objects[object].weight,
            _ => item.weight,
        };
        Parts { depth: self.depth(item), weight }
    }

    /// These are hashed.
    fn hash(&mut self, keys: Parts) -> Result<(), &'static str> {
        self.hashed += u64::from(keys.weight);
        if self.hashed > HASHED_MIN + HASHED_PER_BYTE * self.pickle.len() as u64 {
            return Err("a pickle whose keys take too long to hash");
        }
        Ok(())
    }

    /// An object gets parts.
    fn add_parts(&mut self, object: usize, depth: u16) -> Result<(), &'static str> {
        let known = &mut self.objects[object];
        if known.is_recalled && depth > LATE_DEPTH_MAX {
            return Err(DEEP);
        }
        known.depth = known.depth.max(depth);
        Ok(())
    }

    // ---- names ------------------------------------------------------------------------------------------------

    fn put_into_value(&mut self, item: Item) -> Result<(), &'static str> {
        match item.kind {
            Kind::Name(name) | Kind::NameAndText { name, .. } => self.names[name].uses |= VALUE,
            Kind::Object(object) => self.must_have_state(object)?,
            _ => {}
        }
        Ok(())
    }

    fn must_have_state(&self, object: usize) -> Result<(), &'static str> {
        match self.objects[object] {
            Object { source: Source::Called(name), is_built: false, .. }
                if self.names[name].name.starts_with(MAKES_EMPTY) =>
            {
                Err(NOT_BUILT)
            }
            _ => Ok(()),
        }
    }

    fn words(&self, at: usize, length: usize) -> Result<&str, &'static str> {
        let bytes = self.pickle.get(at..at + length).ok_or(CUT)?;
        // Python reads halves of surrogate pairs, too; no name has them.
        str::from_utf8(bytes).map_err(|_| NO_TEXT)
    }

    /// The number of a name. Picklers write each of them once, so there are few.
    fn number_of(&self, module: &str, name: &str) -> Result<usize, Named> {
        let known = self.names.iter().position(|named| named.name == name && named.module == module);
        known.ok_or_else(|| Named { module: module.into(), name: name.into(), uses: 0 })
    }

    fn push_name(&mut self, number: Result<usize, Named>) -> Result<(), &'static str> {
        let number = match number {
            Ok(number) => number,
            Err(named)
                if self.names.len() == NAMES_MAX
                    || named.module.len() + named.name.len() > NAME_BYTES_MAX =>
            {
                return Err("a pickle that names more than any of ours");
            }
            Err(named) => {
                self.names.push(named);
                self.names.len() - 1
            }
        };
        self.push(Kind::Name(number));
        Ok(())
    }

    fn global(&mut self) -> Result<(), &'static str> {
        let (name, module) = (self.pop()?.kind, self.pop()?.kind);
        let (Kind::Text { at, length }, Kind::Text { at: module_at, length: module_length }) = (name, module)
        else {
            return Err(NO_TEXT);
        };
        let number = self.number_of(self.words(module_at, module_length)?, self.words(at, length)?);
        self.push_name(number)
    }

    /// Whether objects that were made from a name believe what they are told.
    fn is_native(&self, name: usize) -> bool {
        let package = self.names[name].module.split('.').next().unwrap_or_default();
        NATIVE_PACKAGES.contains(&package)
    }

    // ---- what is done with them -------------------------------------------------------------------------------

    /// The result of a call. Only what was named can be called.
    fn call(&mut self) -> Result<(), &'static str> {
        let arguments = self.pop()?;
        let Kind::Name(function) = self.pop()?.kind else { return Err(NOT_NAMED) };
        self.guard(Guard::Call);
        self.names[function].uses |= CALL;
        let Named { module, name, .. } = &self.names[function];
        match (arguments.kind, (module.as_str(), name.as_str())) {
            (Kind::OneText { at, length }, SCRIPT_CLASS) => {
                let number = self.number_of("", self.words(at, length)?);
                self.push_name(number)
            }
            (Kind::NameAndText { name, at, length }, GETATTR) => {
                self.names[name].uses |= LOOKUP;
                let Named { module, name, .. } = &self.names[name];
                let number = self.number_of(module, &format!("{name}.{}", self.words(at, length)?));
                self.push_name(number)
            }
            (_, SCRIPT_CLASS | GETATTR) => Err("a pickle that looks up something it has not named"),
            _ => {
                self.put_into_value(arguments)?;
                let parts = self.parts(arguments);
                let depth = deeper(parts.depth)?;
                self.push_object(Source::Called(function), Parts { depth, ..parts });
                Ok(())
            }
        }
    }

    fn new_object(&mut self, guard: Guard) -> Result<(), &'static str> {
        let has_keywords = matches!(guard, Guard::NewWithKeywords);
        let is_empty = !has_keywords && matches!(self.top()?.kind, Kind::EmptyTuple);
        let mut parts = self.take(if has_keywords { 2 } else { 1 })?;
        let Kind::Name(class) = self.pop()?.kind else { return Err(NOT_NAMED) };
        self.names[class].uses |= NEW;
        // Most objects of the user's classes are made without arguments.
        if !is_empty {
            self.guard(guard);
            parts.depth = deeper(parts.depth)?;
        }
        self.push_object(Source::Made(class), parts);
        Ok(())
    }

    /// What is on top gets a state.
    fn build(&mut self) -> Result<(), &'static str> {
        let state = *self.top()?;
        let parts = self.take(1)?;
        let Item { kind: Kind::Object(number), is_first, .. } = *self.top()? else { return Err(NOT_MADE) };
        let object = self.objects[number];
        let name = object.source.name().ok_or(NOT_MADE)?;
        self.names[name].uses |= BUILD;
        let is_native = self.is_native(name);
        if is_native && (!is_first || object.is_recalled || object.is_built) {
            return Err(CHANGED);
        }
        let is_dictionary = match state.kind {
            Kind::Object(state) => self.objects[state].source == Source::Dictionary,
            _ => false,
        };
        // Objects of the user's classes get their attributes from a dictionary, which runs nothing.
        if is_native || !is_dictionary || matches!(object.source, Source::Called(_)) {
            self.guard(Guard::Build);
        }
        self.add_parts(number, if is_native { deeper(parts.depth)? } else { parts.depth })?;
        self.objects[number].is_built = true;
        Ok(())
    }

    /// Items are added to what is on top.
    fn fill(&mut self, parts: Parts) -> Result<(), &'static str> {
        let Item { kind: Kind::Object(number), is_first, .. } = *self.top()? else { return Err(NOT_MADE) };
        let depth = match self.objects[number].source {
            Source::Dictionary | Source::Container if !is_first => return Err(CHANGED),
            Source::Dictionary | Source::Container => parts.depth,
            Source::Made(name) => {
                self.names[name].uses |= FILL;
                parts.depth
            }
            Source::Called(name) => {
                self.names[name].uses |= FILL;
                deeper(parts.depth)?
            }
        };
        self.add_parts(number, depth)
    }
}

fn deeper(depth: u16) -> Result<u16, &'static str> {
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(DEEP) }
}
