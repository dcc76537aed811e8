//! The libraries and the dynamic linker that an executable needs, read from its headers.
//!
//! The portable executable must need neither a dynamic linker nor shared libraries, which another machine may have in an older version
//! or not at all.

/// What an executable needs besides the kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    /// Whether something must load it.
    pub interpreter: bool,
    /// How many shared libraries must be there.
    pub libraries: usize,
}

/// Kinds of segments: where the dynamic section lies, and the name of the interpreter.
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
/// The entry of the dynamic section that names a library.
const DT_NEEDED: u64 = 1;

/// Reads the headers; none when these bytes are no complete executable for 64-bit machines that count from the low end.
pub fn needs(bytes: &[u8]) -> Option<Needs> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    let mut needs = Needs { interpreter: false, libraries: 0 };
    for i in 0..count {
        let segment = table.checked_add(i * size)?;
        match number(bytes, segment, 4)? {
            PT_INTERP => needs.interpreter = true,
            PT_DYNAMIC => {
                let from = number(bytes, segment.checked_add(8)?, 8)?;
                let length = number(bytes, segment.checked_add(32)?, 8)?;
                let section = slice(bytes, from, length)?;
                let tags = section.chunks_exact(16).filter_map(|entry| number(entry, 0, 8));
                needs.libraries += tags.filter(|tag| *tag == DT_NEEDED).count();
            }
            _ => {}
        }
    }
    Some(needs)
}

/// The number of so many bytes at an offset, if it is there.
fn number(bytes: &[u8], at: u64, length: u64) -> Option<u64> {
    Some(slice(bytes, at, length)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn slice(bytes: &[u8], at: u64, length: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(length)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_executable_needs_a_linker_and_libraries() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&own).unwrap();
        assert!(needs.interpreter && needs.libraries > 0, "{needs:?}");
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_not_read() {
        assert_eq!(needs(b"#!/bin/sh\n"), None);
        let mut header = b"\x7fELF\x02\x01".to_vec();
        header.resize(64, 0);
        assert_eq!(needs(&header), Some(Needs { interpreter: false, libraries: 0 }));
        assert_eq!(needs(&header[..57]), None);
        // A table of segments that begins at the end of all numbers.
        header[32..40].fill(0xff);
        header[54..58].fill(0xff);
        assert_eq!(needs(&header), None);
    }
}
