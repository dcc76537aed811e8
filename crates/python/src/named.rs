//! What a pickle names, and what it does with each name, found out without running it.
//!
//! Comes in: a pickle from another machine. Goes out: the modules and attributes that reading it would look up, each with its uses:
//! called, made without a call of its constructor, filled with items or attributes, or put into the value as it is. Whoever reads the
//! pickle afterwards decides by that list. Nothing is imported, called or allocated by a length that the pickle claims.
//!
//! The machine here follows CPython's, but knows only what its picklers write in protocols 4 and 5, and refuses everything else:
//! a stream that the two could read differently is not a stream of ours. Of each object on the stack it knows as much as a decision
//! needs: a text, a name, something that was made from a name, or anything else.

/// The object itself is part of the value.
pub const VALUE: u8 = 1;
/// It is called with arguments.
pub const CALL: u8 = 2;
/// An instance is made by its `__new__`, with arguments.
pub const NEW: u8 = 4;
/// Items are added to what was made from it.
pub const FILL: u8 = 8;
/// What was made from it gets a state: `__setstate__`, or attributes.
pub const BUILD: u8 = 16;

/// The function that stands for a class of the user's script. It is called with the name that cloudpickle has given to the class, so
/// what it gives is a name again, with an empty module.
const SCRIPT_CLASS: (&str, &str) = ("qjam._worker.scripts", "script_class");

/// How a method of a class is written. What it gives is a name again.
const GETATTR: (&str, &str) = ("builtins", "getattr");

/// Something that a pickle looks up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The module; empty for a class of the user's script.
    pub module: String,
    /// The attribute, perhaps with dots.
    pub name: String,
    /// [`VALUE`], [`CALL`], [`NEW`], [`FILL`] and [`BUILD`], as they were met.
    pub uses: u8,
}

/// What is known of an object.
#[derive(Clone, Copy)]
enum Item {
    Text {
        at: usize,
        length: usize,
    },
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
    Made(usize),
    Other,
}

/// All that a pickle names, in the order in which it does. The error says why this is no pickle that we write.
pub fn names_in(pickle: &[u8]) -> Result<Vec<Named>, &'static str> {
    // The protocol decides how names are understood.
    let (Some(0x80), Some(4 | 5)) = (pickle.first(), pickle.get(1)) else {
        return Err("not a pickle of protocol 4 or 5");
    };
    let mut machine = Machine { pickle, at: 2, ..Machine::default() };
    while machine.step()? {}
    Ok(machine.names)
}

/// Picklers name what they use once.
const NAMES_MAX: usize = 1000;
/// Module and attribute together. Attributes of attributes could make a long name of few bytes.
const NAME_BYTES_MAX: usize = 2000;
const CUT: &str = "a pickle that is cut short";
const EMPTY: &str = "a pickle that takes what it has not put";

#[derive(Default)]
struct Machine<'a> {
    pickle: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    /// Where marks are on the stack.
    marks: Vec<usize>,
    memo: Vec<Item>,
    names: Vec<Named>,
}

impl Machine<'_> {
    /// One instruction. Says whether there is another.
    fn step(&mut self) -> Result<bool, &'static str> {
        let instruction = *self.pickle.get(self.at).ok_or(CUT)?;
        self.at += 1;
        match instruction {
            b'.' => {
                let value = self.pop()?;
                self.put_into_value(value);
                return Ok(false);
            }
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() {
                Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
                _ => drop(self.pop()?),
            },
            b'1' => self.take_to_mark()?,
            b'N' | b'}' | b']' | b')' | 0x88 | 0x89 | 0x8f | 0x97 => self.stack.push(Item::Other),
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
            // A frame is only a hint how much to read at once.
            0x95 => drop(self.number(8)?),
            0x94 => self.memo.push(*self.top()?),
            b'h' => self.recall(1)?,
            b'j' => self.recall(4)?,
            b't' => self.gather(Item::Other)?,
            0x91 => self.gather(Item::Other)?,
            0x85 => {
                let tuple = match *self.top()? {
                    Item::Text { at, length } => Item::OneText { at, length },
                    _ => Item::Other,
                };
                self.take(1)?;
                self.stack.push(tuple);
            }
            0x86 => {
                let (second, first) = (self.pop()?, self.pop()?);
                if let (Item::Name(name), Item::Text { at, length }) = (first, second) {
                    self.stack.push(Item::NameAndText { name, at, length });
                } else {
                    self.put_into_value(first);
                    self.put_into_value(second);
                    self.stack.push(Item::Other);
                }
            }
            0x87 => {
                self.take(3)?;
                self.stack.push(Item::Other);
            }
            b'a' => {
                self.take(1)?;
                self.fill()?;
            }
            b's' => {
                self.take(2)?;
                self.fill()?;
            }
            b'e' | b'u' | 0x90 => {
                self.take_to_mark()?;
                self.fill()?;
            }
            0x93 => self.global()?,
            b'R' => self.call()?,
            0x81 => {
                self.take(1)?;
                self.make(NEW)?;
            }
            0x92 => {
                self.take(2)?;
                self.make(NEW)?;
            }
            b'b' => {
                self.take(1)?;
                match *self.top()? {
                    Item::Made(name) => self.names[name].uses |= BUILD,
                    _ => return Err("a pickle that changes something it has not made"),
                }
            }
            // A buffer beside the pickle becomes read-only.
            0x98 => drop(self.top()?),
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
        self.stack.push(Item::Other);
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
        self.stack.push(Item::Text { at, length });
        Ok(())
    }

    // ---- the stack --------------------------------------------------------------------------------------------

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
    fn take(&mut self, count: usize) -> Result<(), &'static str> {
        for _ in 0..count {
            let item = self.pop()?;
            self.put_into_value(item);
        }
        Ok(())
    }

    /// Takes everything above the last mark, and the mark.
    fn take_to_mark(&mut self) -> Result<(), &'static str> {
        let mark = self.marks.pop().ok_or(EMPTY)?;
        for at in mark..self.stack.len() {
            self.put_into_value(self.stack[at]);
        }
        self.stack.truncate(mark);
        Ok(())
    }

    fn gather(&mut self, into: Item) -> Result<(), &'static str> {
        self.take_to_mark()?;
        self.stack.push(into);
        Ok(())
    }

    fn recall(&mut self, width: usize) -> Result<(), &'static str> {
        let number = self.number(width)?;
        let item = *self.memo.get(number).ok_or(EMPTY)?;
        self.stack.push(item);
        Ok(())
    }

    // ---- names ------------------------------------------------------------------------------------------------

    fn put_into_value(&mut self, item: Item) {
        if let Item::Name(name) | Item::NameAndText { name, .. } = item {
            self.names[name].uses |= VALUE;
        }
    }

    fn words(&self, at: usize, length: usize) -> Result<&str, &'static str> {
        let bytes = self.pickle.get(at..at + length).ok_or(CUT)?;
        // Python reads halves of surrogate pairs, too; no name has them.
        str::from_utf8(bytes).map_err(|_| "a pickle with a name that is no text")
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
        self.stack.push(Item::Name(number));
        Ok(())
    }

    fn global(&mut self) -> Result<(), &'static str> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Item::Text { at, length }, Item::Text { at: module_at, length: module_length }) = (name, module)
        else {
            return Err("a pickle with a name that is no text");
        };
        let number = self.number_of(self.words(module_at, module_length)?, self.words(at, length)?);
        self.push_name(number)
    }

    /// The result of a call. Only what was named can be called.
    fn call(&mut self) -> Result<(), &'static str> {
        let arguments = self.pop()?;
        let Item::Name(function) = *self.top()? else { return Err(NOT_NAMED) };
        let Named { module, name, .. } = &self.names[function];
        match (arguments, (module.as_str(), name.as_str())) {
            (Item::OneText { at, length }, SCRIPT_CLASS) => {
                self.pop()?;
                self.names[function].uses |= CALL;
                let number = self.number_of("", self.words(at, length)?);
                self.push_name(number)
            }
            (Item::NameAndText { name, at, length }, GETATTR) => {
                self.pop()?;
                let Named { module, name, .. } = &self.names[name];
                let number = self.number_of(module, &format!("{name}.{}", self.words(at, length)?));
                self.push_name(number)
            }
            _ => {
                self.put_into_value(arguments);
                self.make(CALL)
            }
        }
    }

    fn make(&mut self, how: u8) -> Result<(), &'static str> {
        let Item::Name(name) = self.pop()? else { return Err(NOT_NAMED) };
        self.names[name].uses |= how;
        self.stack.push(Item::Made(name));
        Ok(())
    }

    /// Items are added to what is on top.
    fn fill(&mut self) -> Result<(), &'static str> {
        match *self.top()? {
            Item::Made(name) => self.names[name].uses |= FILL,
            Item::Other => {}
            _ => return Err("a pickle that changes something it has not made"),
        }
        Ok(())
    }
}

const NOT_NAMED: &str = "a pickle that calls something it has not named";

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pickle: &[u8]) -> Vec<(String, String, u8)> {
        names_in(pickle).unwrap().into_iter().map(|n| (n.module, n.name, n.uses)).collect()
    }

    fn text(text: &str) -> Vec<u8> {
        [&[0x8c, text.len() as u8], text.as_bytes()].concat()
    }

    fn stream(parts: &[&[u8]]) -> Vec<u8> {
        [&[0x80, 4][..], &parts.concat()].concat()
    }

    #[test]
    fn plain_values_name_nothing() {
        // {"a": [1, 2.5, None], "b": b"xy"}, as Python 3.11 writes it.
        let pickle = b"\x80\x05\x95'\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01G@\x04\x00\x00\x00\x00\x00\x00Ne\x8c\x01b\x94C\x02xy\x94u.";
        assert_eq!(names_in(pickle), Ok(Vec::new()));
    }

    #[test]
    fn a_call_a_state_and_a_name_in_the_value_are_told_apart() {
        let pickle = stream(&[
            &text("os"),
            &text("system"),
            b"\x93",
            &text("true"),
            b"\x85R",
            &text("m"),
            &text("C"),
            b"\x93",
            b")\x81}b\x86.",
        ]);
        assert_eq!(
            named(&pickle),
            [("os".into(), "system".into(), CALL), ("m".into(), "C".into(), NEW | BUILD)]
        );
        let pickle = stream(&[b"(", &text("m"), &text("C"), b"\x93\x94h\x00l."]);
        assert!(names_in(&pickle).is_err(), "LIST is not written by protocol 4");
        let pickle = stream(&[b"](", &text("m"), &text("C"), b"\x93\x94h\x00e."]);
        assert_eq!(named(&pickle), [("m".into(), "C".into(), VALUE)]);
    }

    #[test]
    fn the_name_of_a_script_s_class_is_the_text_it_is_called_with() {
        let function = [text("qjam._worker.scripts"), text("script_class"), vec![0x93]].concat();
        let pickle = stream(&[&function, &text("abc"), b"\x85R)\x81."]);
        let expected = [
            ("qjam._worker.scripts".into(), "script_class".into(), CALL),
            (String::new(), "abc".into(), NEW),
        ];
        assert_eq!(named(&pickle), expected);
    }

    #[test]
    fn a_method_of_a_class_is_a_name() {
        let class = [text("zoneinfo"), text("ZoneInfo"), vec![0x93]].concat();
        let getattr = [text("builtins"), text("getattr"), vec![0x93]].concat();
        let pickle = stream(&[&getattr, &class, &text("_unpickle"), b"\x86R", &text("UTC"), b"K\x01\x86R."]);
        let uses: Vec<_> = named(&pickle).into_iter().map(|(_, name, uses)| (name, uses)).collect();
        assert_eq!(
            uses,
            [("getattr".into(), 0), ("ZoneInfo".into(), 0), ("ZoneInfo._unpickle".into(), CALL)]
        );
        let pickle = stream(&[&getattr, b"]", &text("append"), b"\x86R."]);
        assert_eq!(named(&pickle), [("builtins".into(), "getattr".into(), CALL)]);
        let pickle = stream(&[&class, &text("x"), b"\x86."]);
        assert_eq!(named(&pickle), [("zoneinfo".into(), "ZoneInfo".into(), VALUE)]);
    }

    #[test]
    fn names_are_few_and_short() {
        let getattr = [text("builtins"), text("getattr"), vec![0x93, 0x94, b'0']].concat();
        let mut parts =
            vec![getattr, text(&"x".repeat(250)), vec![0x94, b'0'], text("m"), text("C"), vec![0x93]];
        // The attribute of this name of the name so far, again and again.
        for n in 2..40u8 {
            parts.push(vec![0x94, b'0', b'h', 0, b'h', n, b'h', 1, 0x86, b'R']);
        }
        parts.push(b".".to_vec());
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        assert_eq!(names_in(&stream(&parts)), Err("a pickle that names more than any of ours"));
        let name = |n: u32| [text("m"), text(&n.to_string()), vec![0x93, b'0']].concat();
        let many: Vec<u8> = (0..2000).flat_map(name).collect();
        assert_eq!(names_in(&stream(&[&many, b"N."])), Err("a pickle that names more than any of ours"));
    }

    #[test]
    fn what_changes_a_class_or_calls_a_value_is_refused() {
        let class = [text("m"), text("C"), vec![0x93]].concat();
        for rest in [&b"}b."[..], b"(K\x01e.", b"K\x01a.", b"K\x01K\x02s.", b")R)R."] {
            assert!(names_in(&stream(&[&class, rest])).is_err(), "{rest:?}");
        }
        assert!(names_in(&stream(&[b"]}b."])).is_err());
    }

    #[test]
    fn other_protocols_and_instructions_are_refused() {
        for pickle in [
            &b""[..],
            b"\x80",
            b"cos\nsystem\n(S'true'\ntR.",
            b"\x80\x02cos\nsystem\n.",
            b"\x80\x04cos\nsystem\n.",
        ] {
            assert!(names_in(pickle).is_err(), "{pickle:?}");
        }
        // PROTO in the middle, PERSID, EXT1, INST, OBJ, PUT.
        for rest in [&b"\x80\x02N."[..], b"P1\n.", b"\x82\x01.", b"(ios\nsystem\n.", b"(o.", b"Nq\x00."] {
            assert!(names_in(&stream(&[rest])).is_err(), "{rest:?}");
        }
    }

    #[test]
    fn no_prefix_and_no_length_makes_it_fail() {
        let whole =
            stream(&[&text("m"), &text("C"), b"\x93", &text("x"), b"\x85R}", b"(", &text("k"), b"K\x01ub."]);
        assert!(names_in(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(names_in(&whole[..length]).is_err());
        }
        for opcode in 0..=255u8 {
            let _ = names_in(&[&[0x80, 5, opcode][..], &[0xff; 16]].concat());
            let _ = names_in(&[&[0x80, 5, b'N', opcode][..], &[0xff; 16]].concat());
        }
    }
}
