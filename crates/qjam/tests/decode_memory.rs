//! Reading garbage takes no more memory than the garbage itself could account for.

use bytes::Bytes;
use qjam::{Decoder, Dense, List, Rng, Serde, Wire, chunk::Chunk, chunk::Header, source::npy};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts what this thread holds.
struct Counting;

fn count(change: isize) {
    HELD.with(|held| {
        held.set(held.get() + change);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

#[expect(unsafe_code, reason = "counting allocations means being the allocator")]
// SAFETY: every call goes to the system's allocator with the arguments it came with; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most memory held at once while `work` ran.
fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before) as usize
}

/// Room for error messages, and for what deep nesting may take in advance.
const SLACK: usize = 64 << 10;

#[track_caller]
fn bounded<T: Wire>(payload: &Bytes, factor: usize) {
    let held = peak(|| {
        if let Ok(mut input) = Decoder::new(payload.clone()) {
            let _ = T::decode(&mut input).map(|_| input.finish());
        }
    });
    let limit = factor * payload.len() + SLACK;
    assert!(held <= limit, "{held} bytes for {} of {}", payload.len(), std::any::type_name::<T>());
}

#[derive(qjam::Wire)]
enum Tree {
    Leaf(f64),
    Node(Vec<Tree>),
}

fn payload(rng: &mut Rng) -> Bytes {
    let bytes = rng.below(3_000) as usize;
    // Half of them are long claims: bytes that continue a number.
    let huge = rng.below(2) == 1;
    let body: Vec<u8> = (0..bytes)
        .map(|_| if huge && rng.below(8) > 0 { 0xff } else { (rng.next_u64() >> rng.below(64)) as u8 })
        .collect();
    let mut payload = (body.len() as u64).to_le_bytes().to_vec();
    payload.extend_from_slice(&0_u64.to_le_bytes());
    payload.extend_from_slice(&body);
    payload.into()
}

#[test]
fn garbage_payloads_take_bounded_memory() {
    for seed in 0..3_000 {
        let payload = payload(&mut Rng::keyed(seed, 0, 0));
        bounded::<Vec<f64>>(&payload, 2);
        bounded::<Vec<u8>>(&payload, 2);
        bounded::<String>(&payload, 2);
        bounded::<(u64, Vec<[u64; 4]>)>(&payload, 3);
        // A byte each on the wire, and up to three words in a vector that may have doubled once too often.
        bounded::<Vec<Vec<u8>>>(&payload, 80);
        bounded::<Vec<Option<[u64; 2]>>>(&payload, 80);
        bounded::<Vec<String>>(&payload, 80);
        bounded::<BTreeMap<u8, u64>>(&payload, 80);
        bounded::<Vec<Tree>>(&payload, 80);
        bounded::<Serde<Vec<String>>>(&payload, 80);
    }
}

#[test]
fn claims_within_claims_do_not_add_up() {
    // Each level claims as many elements as there are bytes left, and none of them gets past its first.
    let level = [1, 0xff, 0xff, 0x03];
    let body = level.repeat(100_000);
    let mut bytes = (body.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&0_u64.to_le_bytes());
    bytes.extend_from_slice(&body);
    let payload = Bytes::from(bytes);
    let held = peak(|| assert!(Tree::decode(&mut Decoder::new(payload.clone()).unwrap()).is_err()));
    assert!(held < 10 << 20, "{held}");
}

#[test]
fn damaged_tables_take_no_memory() {
    for seed in 0..2_000 {
        let rng = &mut Rng::keyed(seed, 1, 0);
        let raw: Vec<u8> = (0..rng.below(400)).map(|_| [0, 1, 0xff][rng.below(3) as usize]).collect();
        let raw = Bytes::from(raw);
        assert!(peak(|| drop(Decoder::new(raw))) < 1024);
    }
}

#[test]
fn lying_chunk_headers_take_bounded_memory() {
    let header = |shape: Vec<u64>, dtype: &str, kind: &str| Header {
        kind: kind.into(),
        dtype: dtype.into(),
        shape,
        bytes: 100,
    };
    for n in [0, 1, 99, 100, 1 << 20, 1 << 40, u64::MAX] {
        for (shape, kind) in [(vec![n], "list"), (vec![n, n], "dense"), (vec![n, 1], "dense")] {
            for dtype in ["f64", "alloc::string::String"] {
                let header = header(shape.clone(), dtype, kind);
                let held = peak(|| {
                    let _ = Dense::<f64>::open(&header, Bytes::from_static(&[0xff; 100]));
                    let _ = List::<String>::open(&header, Bytes::from_static(&[0; 100]));
                });
                assert!(held < SLACK, "{held} for {header:?}");
            }
        }
    }
}

#[test]
fn npy_headers_take_bounded_memory() {
    let start = b"\x93NUMPY\x01\x00\x80\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
    for seed in 0..5_000 {
        let rng = &mut Rng::keyed(seed, 2, 0);
        let mut file = start.to_vec();
        file.resize(138, b' ');
        for _ in 0..rng.below(4) {
            let at = rng.below(file.len() as u64) as usize;
            let junk = b"{}()[],:'\"0123456789LTF <>|\\\x00\xff\x93";
            file[at] = junk[rng.below(junk.len() as u64) as usize];
        }
        file.truncate(rng.below(200) as usize);
        let held = peak(|| drop(npy::parse_header(&file)));
        assert!(held <= 8 * file.len() + 256, "{held} for {}", file.len());
    }
}
