//! What a pickle names, and what it does with each name, found out without running it.
//!
//! Comes in: a pickle from another machine. Goes out: the modules and attributes that reading it would look up, each with its uses:
//! called, made without a call of its constructor, filled with items or attributes, looked into, or put into the value as it is. Whoever
//! reads the pickle afterwards decides by that list. Nothing is imported, called or allocated by a length that the pickle claims.
//!
//! A name is not all: a harmless function can be called with harmful arguments. So [`guarded`] also gives the pickle itself, changed so
//! that whoever reads it is asked before each call and each change of an object of a package with native code ([`guards`]).
//!
//! The machine here ([`machine`]) follows CPython's, but knows only what its picklers write in protocols 4 and 5, and refuses everything
//! else: a stream that the two could read differently is not a stream of ours. Of each object on the stack it knows as much as a
//! decision needs: a text, a name, something that was made from a name, a container, or anything else.

mod guards;
mod machine;
#[cfg(test)]
mod tests;

use guards::Guards;
use machine::Machine;

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
/// An attribute of it is looked up.
pub const LOOKUP: u8 = 32;

/// Something that a pickle looks up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The module; empty for a class of the user's script.
    pub module: String,
    /// The attribute, perhaps with dots.
    pub name: String,
    /// [`VALUE`], [`CALL`], [`NEW`], [`FILL`], [`BUILD`] and [`LOOKUP`], as they were met. None if it is only named: then it is imported,
    /// and no more.
    pub uses: u8,
}

/// A pickle that was looked at, and may be read with guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// All that it names, in the order in which it does.
    pub names: Vec<Named>,
    /// The pickle with guards; `None` if it needs none.
    pub stream: Option<Vec<u8>>,
}

/// All that a pickle names, in the order in which it does. The error says why this is no pickle that we write.
pub fn names_in(pickle: &[u8]) -> Result<Vec<Named>, &'static str> {
    Ok(look_through(pickle, None)?.names)
}

/// All that a pickle names, and the pickle with guards.
///
/// The result is a pickle of the same value. Its reader has a function `persistent_load`, which is called with `(callable, arguments, 0)`
/// instead of a call, `(class, arguments, 1)` instead of `__new__`, `((class, arguments, keywords), 3)` if that has keywords, and
/// `(object, state, 2)` instead of a change of state; it gives the object. No pickle has such calls of its own: one that does is refused.
pub fn guarded(pickle: &[u8]) -> Result<Guarded, &'static str> {
    look_through(pickle, Some(Guards::default()))
}

fn look_through(pickle: &[u8], guards: Option<Guards>) -> Result<Guarded, &'static str> {
    // The protocol decides how names are understood.
    let (Some(0x80), Some(4 | 5)) = (pickle.first(), pickle.get(1)) else {
        return Err("not a pickle of protocol 4 or 5");
    };
    Machine::new(pickle, guards).run()
}
