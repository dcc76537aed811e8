//! Round trips of drawn values, golden payloads, and payloads that lie.

use super::*;
use crate::Rng;
use crate::reduce::{Joined, Reduce};
use crate::store::AlignedBuf;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

fn payload_of<T: Wire>(value: &T) -> Bytes {
    let mut out = Encoder::new();
    value.encode(&mut out);
    let payload = out.to_bytes();
    assert_eq!(payload.len(), out.payload_bytes());
    payload
}

fn decode<T: Wire>(payload: Bytes) -> Result<T, DecodeError> {
    let mut input = Decoder::new(payload)?;
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

/// The same bytes at an address that is one too high for any number.
fn misaligned(payload: &[u8]) -> Bytes {
    let mut buf = AlignedBuf::zeroed(payload.len() + 1);
    buf.as_mut_slice()[1..].copy_from_slice(payload);
    buf.into_bytes().slice(1..)
}

#[track_caller]
fn check<T: Wire + PartialEq + Debug>(value: T) {
    let payload = payload_of(&value);
    assert_eq!(decode::<T>(payload.clone()).as_ref(), Ok(&value));
    assert_eq!(decode::<T>(misaligned(&payload)).as_ref(), Ok(&value));
    let mut dirty = vec![0xaa; payload.len() + 3];
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.write_to(&mut dirty);
    assert_eq!(dirty[..payload.len()], payload[..], "gaps are zeroed");
    assert_eq!(dirty[payload.len()..], [0xaa; 3], "nothing is written behind the payload");
}

/// A length near one of the places where something changes.
fn length(rng: &mut Rng) -> usize {
    let around = [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 1000];
    around[rng.below(around.len() as u64) as usize]
}

/// A 64-bit pattern of any magnitude.
fn word(rng: &mut Rng) -> u64 {
    rng.next_u64() >> rng.below(64)
}

fn vector<T>(rng: &mut Rng, mut item: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    let length = length(rng);
    (0..length).map(|_| item(rng)).collect()
}

fn text(rng: &mut Rng) -> String {
    let length = rng.below(20);
    (0..length).map(|_| ['a', 'ß', '→', '🦀', '\0'][rng.below(5) as usize]).collect()
}

#[test]
fn drawn_values_come_back() {
    for seed in 0..60 {
        let rng = &mut Rng::keyed(seed, 0, 0);
        check((word(rng) as u8, word(rng) as u16, word(rng) as u32, word(rng)));
        check((word(rng) as i8, word(rng) as i16, word(rng) as i32, word(rng) as i64, -(word(rng) as i128)));
        check((word(rng) as usize, word(rng) as isize, u128::from(word(rng)) << 64, rng.uniform() as f32));
        check((rng.below(2) == 1, text(rng), rng.normal(), ()));
        check(vector(rng, |rng| rng.normal()));
        check(vector(rng, |rng| word(rng) as u8));
        check(vector(rng, |rng| word(rng) as i16));
        check(vector(rng, |rng| word(rng) as usize));
        check(vector(rng, text));
        check(vector(rng, |rng| (rng.uniform(), word(rng) as u32)));
        check(vector(rng, |rng| [rng.uniform(), rng.normal(), 0.0]));
        check(vector(rng, |rng| [[word(rng) as u32; 2]; 3]));
        check((0..rng.below(5)).map(|_| vector(rng, Rng::normal)).collect::<Vec<_>>());
        check((rng.below(2) == 1).then(|| Box::new(vector(rng, |rng| word(rng) as f32))));
        check(
            (0..rng.below(30))
                .map(|_| (text(rng), vector(rng, |rng| word(rng) as u16)))
                .collect::<BTreeMap<_, _>>(),
        );
        check(Serde((0..rng.below(9)).map(|i| (i, text(rng))).collect::<HashMap<u64, String>>()));
    }
}

#[test]
fn extremes_come_back() {
    check((u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX, usize::MAX));
    check((i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN, isize::MIN));
    check((i8::MAX, i16::MAX, i32::MAX, i64::MAX, i128::MAX, isize::MAX));
    check([f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, -0.0]);
    check(('\0', char::MAX, String::new(), Vec::<f64>::new()));
    check((1, 2, 3, 4, 5, 6, 7, 8));
    check((vec![(); 1000], vec![[0_u8; 0]; 1000], std::marker::PhantomData::<String>));
    check([[[1.0_f32; 2]; 0]; 3]);
    let nan = f64::from_bits(0x7ff8_dead_beef_0001);
    let back: Vec<f64> = decode(payload_of(&vec![nan; 100])).unwrap();
    assert!(back.iter().all(|x| x.to_bits() == nan.to_bits()), "a NaN keeps its bits");
    let back: f64 = decode(payload_of(&nan)).unwrap();
    assert_eq!(back.to_bits(), nan.to_bits());
}

#[test]
fn equal_maps_have_equal_bytes_whatever_their_order() {
    let entries = |rng: &mut Rng| (0..rng.below(60)).map(|_| (text(rng), rng.below(9))).collect::<Vec<_>>();
    for seed in 0..40 {
        let rng = &mut Rng::keyed(seed, 0, 0);
        let ordered: BTreeMap<String, u64> = entries(rng).into_iter().collect();
        let forth: HashMap<String, u64> = ordered.clone().into_iter().collect();
        let back: HashMap<String, u64> = ordered.clone().into_iter().rev().collect();
        assert_eq!(payload_of(&forth), payload_of(&back));
        assert_eq!(payload_of(&forth), payload_of(&ordered));
        check(forth);
    }
    assert_eq!(decode::<HashMap<u8, ()>>(with_body(&[2, 5, 5])), Err(DecodeError::Order { entry: 1 }));
    check(Joined(vec![vec![1.0_f64; 70], vec![]]));
}

#[test]
fn layout_is_pinned() {
    let value = (300_u32, vec![1.0_f64; 32], vec![7_u8; 3], true);
    let payload = payload_of(&value);
    let body = [0xac, 0x02, 32, 3, 7, 7, 7, 1];
    let mut expected = Vec::new();
    expected.extend_from_slice(&(body.len() as u64).to_le_bytes());
    expected.extend_from_slice(&1_u64.to_le_bytes());
    expected.extend_from_slice(&256_u64.to_le_bytes());
    expected.extend_from_slice(&body);
    expected.resize(64, 0);
    for _ in 0..32 {
        expected.extend_from_slice(&1.0_f64.to_le_bytes());
    }
    assert_eq!(payload[..], expected);
}

#[test]
fn numbers_are_borrowed_while_encoding_and_aligned_after() {
    let numbers = vec![1.0_f64; 10_000];
    let mut out = Encoder::new();
    numbers.encode(&mut out);
    numbers[..100].encode_params(&mut out);
    assert_eq!(out.payload_bytes(), 64 + 80_000 + 800);
    let payload = out.to_bytes();
    assert!((payload.as_ptr() as usize).is_multiple_of(ALIGN));

    let mut input = Decoder::new(payload.clone()).unwrap();
    let slab: Slab<f64> = input.take_slab().unwrap();
    assert!(slab.is_shared());
    assert_eq!(slab.as_ptr() as usize, payload.as_ptr() as usize + 64, "a view, not a copy");
    assert_eq!(input.take_slab::<f64>().unwrap().len(), 100);
    input.finish().unwrap();

    let mut input = Decoder::new(misaligned(&payload)).unwrap();
    let copied: Slab<f64> = input.take_slab().unwrap();
    assert!(!copied.is_shared());
    assert_eq!(copied[..], slab[..]);
}

#[test]
fn parameters_without_size_come_back() {
    let mut out = Encoder::new();
    "größe".encode_params(&mut out);
    assert_eq!(str::decode_params(&mut Decoder::new(out.to_bytes()).unwrap()).unwrap(), "größe");
    for n in [0, 1, 100] {
        let numbers: Vec<u16> = (0..n).collect();
        let mut out = Encoder::new();
        numbers[..].encode_params(&mut out);
        let back = <[u16]>::decode_params(&mut Decoder::new(out.to_bytes()).unwrap()).unwrap();
        assert_eq!(back[..], numbers);
    }
}

type Everything = (
    u32,
    Vec<f64>,
    String,
    Option<Box<Vec<u8>>>,
    BTreeMap<i16, Vec<[f32; 2]>>,
    Serde<Vec<String>>,
    Vec<Vec<char>>,
);

fn everything(rng: &mut Rng) -> Everything {
    let entries = 0..rng.below(4);
    (
        word(rng) as u32,
        vec![1.0; 40],
        "text".into(),
        Some(Box::new(vec![1; 300])),
        entries.map(|_| (word(rng) as i16, vector(rng, |rng| [rng.uniform() as f32; 2]))).collect(),
        Serde(vec!["a".into(), "b".into()]),
        vec![vec!['x'; 3], vec![]],
    )
}

#[test]
fn short_values_have_the_same_bytes_in_a_sequence_as_one_by_one() {
    #[track_caller]
    fn same<T: Wire + PartialEq + Debug>(items: Vec<T>, width: Width) {
        assert_eq!(T::WIRE_WIDTH, width);
        let mut out = Encoder::new();
        out.put_length(items.len());
        items.iter().for_each(|item| item.encode(&mut out));
        assert_eq!(payload_of(&items), out.to_bytes());
        check(items);
    }
    let mut rng = Rng::keyed(11, 0, 0);
    for _ in 0..40 {
        same(vector(&mut rng, |r| (r.uniform(), r.uniform() as f32, r.next_u64() as u8)), Width::Exactly(13));
        same(vector(&mut rng, |r| ((), [r.uniform(); 3], r.below(2) == 1)), Width::Exactly(25));
        same(
            vector(&mut rng, |r| (word(r), word(r) as i32, word(r) as usize, r.uniform())),
            Width::AtMost(38),
        );
        same(vector(&mut rng, |r| (word(r) as i64, text(r))), Width::Any);
        same(vector(&mut rng, |r| ([r.uniform(); 512],)), Width::Exactly(4096));
        same(vector(&mut rng, |r| ([r.uniform(); 513],)), Width::Any);
    }
    same(vec![((), ()); 100], Width::Exactly(0));
    // Wider than what is made room for at once.
    same((0..5000).map(|n| (f64::from(n), n << 20)).collect(), Width::AtMost(18));
    let mut wrong = payload_of(&vec![(1.0, true), (2.0, false)]).to_vec();
    *wrong.last_mut().unwrap() = 2;
    let error = decode::<Vec<(f64, bool)>>(Bytes::from(wrong));
    assert_eq!(error, Err(DecodeError::Tag { kind: "bool", tag: 2 }));
}

#[test]
fn every_truncation_is_an_error() {
    let payload = payload_of(&everything(&mut Rng::keyed(1, 0, 0)));
    for end in 0..payload.len() {
        assert!(matches!(Decoder::new(payload.slice(..end)), Err(DecodeError::Layout { .. })), "{end}");
    }
    let mut longer = payload.to_vec();
    longer.push(0);
    assert!(matches!(Decoder::new(longer.into()), Err(DecodeError::Layout { .. })));
}

#[test]
fn every_truncation_of_the_body_is_an_error() {
    let value =
        (vec![String::from("one"), String::from("two")], 70_000_u32, [1.5_f64, 2.5], Some(vec![3_u16; 4]));
    let whole = payload_of(&value);
    for body in 0..whole.len() - 16 {
        let mut cut = whole[..16 + body].to_vec();
        cut[..8].copy_from_slice(&(body as u64).to_le_bytes());
        let result = decode::<(Vec<String>, u32, [f64; 2], Option<Vec<u16>>)>(cut.into());
        assert!(result.is_err(), "{body}: {result:?}");
    }
}

#[test]
fn damaged_payloads_never_panic() {
    let mut refused = 0;
    for seed in 0..4_000 {
        let rng = &mut Rng::keyed(seed, 1, 0);
        let mut payload = payload_of(&everything(rng)).to_vec();
        for _ in 0..1 + rng.below(4) {
            // Mostly where the lengths are.
            let reach = if rng.below(4) == 0 { payload.len() } else { payload.len().min(160) };
            payload[rng.below(reach as u64) as usize] = word(rng) as u8;
        }
        refused += u32::from(decode::<Everything>(payload.into()).is_err());
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn garbage_never_panics() {
    for seed in 0..4_000 {
        let rng = &mut Rng::keyed(seed, 2, 0);
        let body: Vec<u8> = (0..rng.below(200)).map(|_| word(rng) as u8).collect();
        let mut payload = (body.len() as u64).to_le_bytes().to_vec();
        payload.extend_from_slice(&0_u64.to_le_bytes());
        payload.extend_from_slice(&body);
        let payload = Bytes::from(payload);
        let _ = decode::<Everything>(payload.clone());
        let _ = decode::<Vec<Vec<Vec<()>>>>(payload.clone());
        let _ = decode::<BTreeMap<(), ()>>(payload.clone());
        let _ = decode::<Vec<Option<Box<(u128, char)>>>>(payload);
        let raw: Vec<u8> = (0..rng.below(100)).map(|_| rng.next_u64() as u8).collect();
        let _ = Decoder::new(raw.into());
    }
}

/// A payload that is only a body.
fn with_body(body: &[u8]) -> Bytes {
    let mut payload = (body.len() as u64).to_le_bytes().to_vec();
    payload.extend_from_slice(&0_u64.to_le_bytes());
    payload.extend_from_slice(body);
    payload.into()
}

#[test]
fn each_lie_has_its_error() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let count = |left| DecodeError::Count { claimed: u64::MAX, left };
    assert_eq!(decode::<Vec<f64>>(with_body(&huge)), Err(count(0)));
    assert_eq!(decode::<Vec<String>>(with_body(&huge)), Err(count(0)));
    assert_eq!(decode::<Vec<()>>(with_body(&huge)), Err(count(0)));
    assert_eq!(decode::<Vec<[f64; 0]>>(with_body(&[&huge[..], &[0]].concat())), Err(count(0)));
    assert_eq!(decode::<Vec<[u8; 2]>>(with_body(&[&huge[..], &[2, 0, 0]].concat())), Err(count(0)));
    assert_eq!(decode::<BTreeMap<(), ()>>(with_body(&[2])), Err(DecodeError::Order { entry: 1 }));
    assert_eq!(decode::<BTreeMap<u8, ()>>(with_body(&[2, 5, 5])), Err(DecodeError::Order { entry: 1 }));
    assert_eq!(decode::<String>(with_body(&[3, b'a', 0xff, b'b'])), Err(DecodeError::Text { at: 1 }));
    assert_eq!(decode::<String>(with_body(&[3, b'a'])), Err(DecodeError::Truncated { wanted: 3, left: 1 }));
    assert_eq!(decode::<bool>(with_body(&[2])), Err(DecodeError::Tag { kind: "bool", tag: 2 }));
    assert_eq!(decode::<char>(with_body(&[0x80, 0xb0, 0x03])), Err(DecodeError::Range { kind: "char" }));
    assert_eq!(decode::<u16>(with_body(&[0x80, 0x80, 0x04])), Err(DecodeError::Range { kind: "u16" }));
    let overlong = DecodeError::Range { kind: "a variable-length integer" };
    assert_eq!(decode::<u64>(with_body(&[0x80, 0x00])), Err(overlong.clone()));
    assert_eq!(decode::<u64>(with_body(&[0xff; 10])), Err(overlong.clone()));
    let eleven = [&[0xff; 10][..], &[1]].concat();
    assert_eq!(decode::<u64>(with_body(&eleven)), Err(overlong));
    assert_eq!(decode::<u8>(with_body(&[1, 2])), Err(DecodeError::LeftOver { bytes: 1, buffers: 0 }));
    assert_eq!(
        decode::<()>(payload_of(&vec![0_u8; 300])),
        Err(DecodeError::LeftOver { bytes: 2, buffers: 1 })
    );
    let no_buffer = [&[0xac, 0x02][..], &[0; 300]].concat();
    assert_eq!(
        decode::<Vec<u8>>(with_body(&no_buffer)),
        Err(DecodeError::Buffer { wanted: 300, found: None })
    );
    assert!(matches!(decode::<Serde<u8>>(with_body(&[7])), Err(DecodeError::Tag { tag: 7, .. })));
    assert!(matches!(
        decode::<Serde<String>>(with_body(&[0, 9])),
        Err(DecodeError::Serde { step: "read", .. })
    ));
}

#[test]
fn a_buffer_of_another_length_is_an_error() {
    let mut payload = payload_of(&vec![1_u8; 300]).to_vec();
    // The count in the body, not the table.
    payload[24..26].copy_from_slice(&[0xab, 0x02]);
    let result = decode::<Vec<u8>>(payload.into());
    assert_eq!(result, Err(DecodeError::Buffer { wanted: 299, found: Some(300) }));
}

#[test]
fn a_buffer_that_belongs_into_the_body_is_refused() {
    let mut payload = 0_u64.to_le_bytes().to_vec();
    payload.extend_from_slice(&1_u64.to_le_bytes());
    payload.extend_from_slice(&8_u64.to_le_bytes());
    payload.resize(72, 0);
    assert!(matches!(Decoder::new(payload.into()), Err(DecodeError::Layout { .. })));
}

#[derive(qjam::Wire, Debug)]
struct Chain {
    next: Option<Box<Chain>>,
}

#[derive(qjam::Wire, Debug)]
struct Tree {
    kids: Vec<Tree>,
}

#[test]
fn endless_nesting_is_an_error_and_not_the_end_of_the_stack() {
    let depth = |n| (0..n).fold(Chain { next: None }, |chain, _| Chain { next: Some(Box::new(chain)) });
    assert!(decode::<Chain>(payload_of(&depth(DEPTH_MAX))).is_ok());
    let too_deep = DecodeError::Depth { limit: DEPTH_MAX };
    assert_eq!(decode::<Chain>(with_body(&[1; 1_000_000])).unwrap_err(), too_deep);
    assert_eq!(decode::<Tree>(with_body(&[1; 1_000_000])).unwrap_err(), too_deep);
}

#[test]
fn a_serde_value_that_cannot_be_written_says_so_where_it_is_read() {
    struct Stubborn;
    impl serde::Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    impl<'de> serde::Deserialize<'de> for Stubborn {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Stubborn)
        }
    }
    let payload = payload_of(&(1_u8, Serde(Stubborn), 2_u8));
    let result = decode::<(u8, Serde<Stubborn>, u8)>(payload);
    assert!(matches!(result, Err(DecodeError::Serde { step: "written", .. })));
}

#[test]
fn slabs_add_up_like_vectors_whoever_has_the_memory() {
    let numbers = |salt: f64| -> Vec<f64> { (0..500).map(|i| f64::from(i) * 0.1 + salt).collect() };
    let own = |salt| Slab::from(numbers(salt));
    let view = |salt| {
        let slab = decode::<Slab<f64>>(payload_of(&own(salt))).unwrap();
        assert!(slab.is_shared());
        slab
    };
    let mut expected = numbers(0.7);
    Reduce::merge(&mut expected, numbers(-3.3));
    for (mut left, right) in
        [(own(0.7), own(-3.3)), (own(0.7), view(-3.3)), (view(0.7), own(-3.3)), (view(0.7), view(-3.3))]
    {
        left.merge(right);
        assert_eq!(left[..], expected[..]);
        assert_eq!(left.clone().into_vec(), expected);
        // And on top of what two views came to.
        left.merge(view(1.0));
        assert!(left.iter().zip(&expected).zip(numbers(1.0)).all(|((l, e), n)| *l == e + n));
    }
}

#[test]
fn slabs_that_do_not_fit_together_say_why() {
    let mut short = Slab::from(vec![1_u8; 300]);
    assert!(short.try_merge(Slab::from(vec![1_u8; 301])).is_err());
    let mut full = Slab::from(vec![255_u8; 300]);
    assert!(full.try_merge(short).unwrap_err().to_string().contains("[0]"));
}
