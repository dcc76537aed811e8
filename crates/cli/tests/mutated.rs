//! Ten thousand mutated files of every kind that is parsed: each is accepted or refused, with bounded memory.
//!
//! The same targets that libFuzzer runs in the full tier, on inputs that a fixed seed draws: no panic, no abort, no input that
//! takes more memory than its target allows. The only test of its program, since it counts all memory.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the targets are written for a library of their own"
)]
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use fuzz::targets;
use qjam::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const INPUTS: usize = 10_000;

/// Numbers that break careless arithmetic.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

/// Letters that mean something in texts.
const LETTERS: &[u8] = b"0123456789,:-e\n\"{}";

fn below(rng: &mut Rng, n: usize) -> usize {
    (rng.next_u64() % n.max(1) as u64) as usize
}

/// Some bytes of an input, by place and length.
fn stretch(rng: &mut Rng, length: usize) -> std::ops::Range<usize> {
    let start = below(rng, length);
    start..(start + 1 + below(rng, 32)).min(length)
}

/// Changes an input at one place.
fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let at = below(rng, input.len());
    match below(rng, 8) {
        _ if input.is_empty() => {
            input.extend((0..below(rng, 64)).map(|_| rng.next_u64() as u8).collect::<Vec<_>>())
        }
        0 => input[at] ^= 1 << below(rng, 8),
        1 => input[at] = rng.next_u64() as u8,
        2 => {
            let (number, width) = (NUMBERS[below(rng, NUMBERS.len())], 1 << below(rng, 4));
            let bytes = if below(rng, 2) == 0 {
                number.to_le_bytes()
            } else {
                number.rotate_right(8 * width as u32).to_be_bytes()
            };
            let end = (at + width).min(input.len());
            input[at..end].copy_from_slice(&bytes[..end - at]);
        }
        3 => input.truncate(at),
        4 => drop(input.drain(stretch(rng, at + 1))),
        5 => {
            let copy = input[stretch(rng, input.len())].to_vec();
            input.splice(at..at, copy);
        }
        6 if !other.is_empty() => {
            let part = other[stretch(rng, other.len())].to_vec();
            input.splice(at..at, part);
        }
        _ => input.insert(at, LETTERS[below(rng, LETTERS.len())]),
    }
}

/// Tries an input; what was found, if anything was.
fn finding(target: &targets::Target, input: &[u8]) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(format!("{}: {} on {input:02x?}", target.name, text.unwrap_or_default()))
}

#[test]
fn ten_thousand_mutated_files_of_every_kind_are_accepted_or_refused() {
    // The library for Parquet panics, and its reader makes an error of that.
    let hook = std::panic::take_hook();
    let (is_trying, usual) = (Arc::new(AtomicBool::new(false)), Arc::new(hook));
    let (silent, told) = (is_trying.clone(), usual.clone());
    std::panic::set_hook(Box::new(move |about| {
        if !silent.load(Relaxed) {
            told(about)
        }
    }));
    let mut found = Vec::new();
    for (number, target) in targets::ALL.iter().enumerate() {
        let (seeds, mut rng) = ((target.seeds)(), Rng::keyed(16, number as u64, 0));
        let pick = |rng: &mut Rng| seeds.get(below(rng, seeds.len())).cloned().unwrap_or_default();
        let mutated = (0..INPUTS).map(|_| {
            let (mut input, other) = (pick(&mut rng), pick(&mut rng));
            (0..1 + below(&mut rng, 4)).for_each(|_| mutate(&mut rng, &mut input, &other));
            input
        });
        let tried = |input: Vec<u8>| {
            is_trying.store(true, Relaxed);
            let found = finding(target, &input);
            is_trying.store(false, Relaxed);
            found
        };
        found.extend(seeds.iter().cloned().chain(mutated).find_map(tried));
    }
    targets::tidy();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
