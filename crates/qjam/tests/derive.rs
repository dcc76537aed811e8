//! What `#[derive(qjam::Wire)]` and `#[derive(qjam::Sum)]` write.

use qjam::codec::Width;
use qjam::{DecodeError, Decoder, Encoder, MergeError, Reduce, Sum, Wire};
use std::fmt::Debug;
use std::marker::PhantomData;

fn there_and_back<T: Wire>(value: &T) -> Result<T, DecodeError> {
    let mut out = Encoder::new();
    value.encode(&mut out);
    let mut input = Decoder::new(out.to_bytes())?;
    let back = T::decode(&mut input)?;
    input.finish()?;
    Ok(back)
}

#[track_caller]
fn check<T: Wire + PartialEq + Debug>(value: T) {
    assert_eq!(there_and_back(&value).as_ref(), Ok(&value));
}

#[derive(Wire, Sum, Debug, PartialEq, Clone, Default)]
struct Layer {
    weights: Vec<f64>,
    r#type: u32,
}

#[derive(Wire, Sum, Debug, PartialEq, Clone, Default)]
struct Net {
    layers: Vec<Layer>,
    cost: f64,
}

#[derive(Wire, Sum, Debug, PartialEq, Clone, Copy)]
struct Pair(u8, f32);

#[derive(Wire, Sum, Debug, PartialEq, Clone, Copy, Default)]
struct Unit;

#[derive(Wire, Sum, Debug, PartialEq)]
struct Both<A, B: Copy, const N: usize>
where
    A: Clone,
{
    a: A,
    b: [B; N],
    marker: PhantomData<A>,
}

#[derive(Wire, Debug, PartialEq)]
enum Step {
    Stop,
    Turn(f64, bool),
    Go { by: Vec<f32>, then: Option<Box<Step>> },
    Nested(Layer, (Pair, Unit)),
}

#[derive(Wire, Debug, PartialEq)]
enum Never {}

/// Names that what is written must not confuse with its own.
#[derive(Wire, Sum, Debug, PartialEq)]
struct Confusing {
    out: u32,
    input: u32,
    right: Vec<u32>,
    error: u8,
    field_0: u8,
}

#[test]
fn structs_come_back() {
    check(Layer { weights: vec![1.5; 1000], r#type: 3 });
    check(Net { layers: vec![Layer::default(), Layer { weights: vec![1.0; 40], r#type: 1 }], cost: 0.25 });
    check(Pair(1, 2.5));
    check(Unit);
    check(Both { a: "text".to_string(), b: [1_u16, 2], marker: PhantomData });
    check(Confusing { out: 1, input: 2, right: vec![3], error: 4, field_0: 5 });
}

#[test]
fn enums_come_back() {
    check(Step::Stop);
    check(Step::Turn(1.0, true));
    check(Step::Go { by: vec![1.0; 100], then: Some(Box::new(Step::Go { by: vec![], then: None })) });
    check(Step::Nested(Layer { weights: vec![2.0], r#type: 7 }, (Pair(1, 1.0), Unit)));
    check(vec![Step::Stop, Step::Turn(0.0, false), Step::Stop]);
    check(None::<Never>);
}

#[test]
fn a_variant_that_does_not_exist_is_an_error() {
    let mut out = Encoder::new();
    out.put_varint(4);
    let read = |payload| Step::decode(&mut Decoder::new(payload).unwrap());
    assert_eq!(read(out.to_bytes()), Err(DecodeError::Tag { kind: "Step", tag: 4 }));
    let mut out = Encoder::new();
    out.put_varint(0);
    let never = Never::decode(&mut Decoder::new(out.to_bytes()).unwrap());
    assert_eq!(never, Err(DecodeError::Tag { kind: "Never", tag: 0 }));
}

#[test]
fn structs_add_up_field_by_field() {
    let net = |w: f64| Net { layers: vec![Layer { weights: vec![w; 3], r#type: 1 }; 2], cost: w };
    let mut left = net(1.0);
    left.merge(net(0.5));
    assert_eq!(left, Net { layers: vec![Layer { weights: vec![1.5; 3], r#type: 2 }; 2], cost: 1.5 });

    let mut left = Pair(1, 1.0);
    left.merge(Pair(2, 2.0));
    assert_eq!(left, Pair(3, 3.0));
    Unit.merge(Unit);

    let mut left = Both { a: 1_u64, b: [1.0, 2.0], marker: PhantomData };
    left.merge(Both { a: 2, b: [0.5, 0.5], marker: PhantomData });
    assert_eq!(left, Both { a: 3, b: [1.5, 2.5], marker: PhantomData });
}

#[test]
fn errors_carry_the_path_of_the_field() {
    let net = |widths: &[usize]| Net {
        layers: widths.iter().map(|n| Layer { weights: vec![0.0; *n], r#type: 0 }).collect(),
        cost: 0.0,
    };
    let error = net(&[2, 2, 2, 3]).try_merge(net(&[2, 2, 2, 4])).unwrap_err();
    assert_eq!(error, MergeError::Lengths { path: "layers[3].weights".into(), left: 3, right: 4 });
    let error = Pair(200, 0.0).try_merge(Pair(100, 0.0)).unwrap_err();
    assert_eq!(error, MergeError::Overflow { path: "0".into(), kind: "u8" });
    let layer = |kind| Layer { weights: vec![], r#type: kind };
    let error = layer(u32::MAX).try_merge(layer(1)).unwrap_err();
    assert_eq!(error.path(), "type");
}

#[test]
#[should_panic(expected = "the values of `weights` of two partial results have 1 and 2 elements")]
fn merge_panics_with_the_same_words() {
    let mut left = Layer { weights: vec![0.0], r#type: 0 };
    left.merge(Layer { weights: vec![0.0; 2], r#type: 0 });
}

#[derive(Wire, Debug, PartialEq, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
    z: f64,
}

#[derive(Wire, Debug, PartialEq, Clone, Copy)]
struct Mixed {
    id: u64,
    at: Point,
    good: bool,
    step: i32,
}

fn points(n: u32) -> Vec<Point> {
    (0..n).map(|n| Point { x: f64::from(n), y: -f64::from(n), z: 0.5 }).collect()
}

#[test]
fn structs_in_a_vector_have_the_bytes_that_they_have_one_by_one() {
    fn same<T: Wire + PartialEq + Debug>(items: Vec<T>) {
        let mut out = Encoder::new();
        out.put_length(items.len());
        items.iter().for_each(|item| item.encode(&mut out));
        let mut whole = Encoder::new();
        items.encode(&mut whole);
        assert_eq!(whole.to_bytes(), out.to_bytes());
        check(items);
    }
    for n in [0, 1, 2, 1000] {
        same(points(n));
        let mixed = |at: Point| Mixed { id: at.x as u64 * 99, at, good: at.x > 3.0, step: at.y as i32 };
        same(points(n).into_iter().map(mixed).collect());
        same(vec![Unit; n as usize]);
    }
}

#[test]
fn the_width_of_a_struct_is_the_sum_of_its_fields() {
    let varint = 10;
    assert_eq!(Point::WIRE_WIDTH, Width::Exactly(24));
    assert_eq!(Mixed::WIRE_WIDTH, Width::AtMost(varint + 24 + 1 + varint));
    assert_eq!(Unit::WIRE_WIDTH, Width::Exactly(0));
    assert_eq!(Pair::WIRE_WIDTH, Width::Exactly(5));
    assert_eq!(Both::<f64, u8, 3>::WIRE_WIDTH, Width::Exactly(11));
    assert_eq!([Layer::WIRE_WIDTH, Net::WIRE_WIDTH, Step::WIRE_WIDTH], [Width::Any; 3]);
}

/// A number that can be written and read only where there is room for the widest value.
#[derive(Debug, PartialEq, Clone, Copy)]
struct Short(f64);

impl Wire for Short {
    fn encode<'a>(&'a self, _: &mut Encoder<'a>) {
        panic!("written by itself");
    }

    fn decode(_: &mut Decoder) -> Result<Self, DecodeError> {
        panic!("read by itself");
    }

    const WIRE_WIDTH: Width = Width::Exactly(8);

    fn encode_short(&self, out: &mut [u8]) -> usize {
        self.0.encode_short(out)
    }

    fn decode_short(bytes: &[u8]) -> Option<Self> {
        f64::decode_short(bytes).map(Short)
    }
}

#[derive(Wire, Debug, PartialEq, Clone, Copy)]
struct Shorts {
    x: Short,
    y: Short,
}

#[test]
fn structs_of_one_width_are_written_and_read_without_asking_for_room_at_every_field() {
    for n in [1, 2, 5_000] {
        check((0..n).map(|n| Shorts { x: Short(f64::from(n)), y: Short(0.5) }).collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "a measurement; run it with --release"]
fn structs_in_a_vector_cost_about_what_vectors_of_their_fields_do() {
    const N: u32 = 1 << 20;
    /// One that is written field by field.
    struct Single(Point);
    impl Wire for Single {
        fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
            self.0.encode(out);
        }
        fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
            Point::decode(input).map(Single)
        }
    }
    fn time<T: Wire>(value: &T) -> f64 {
        let once = || {
            let start = std::time::Instant::now();
            assert!(there_and_back(value).is_ok());
            start.elapsed().as_secs_f64()
        };
        (0..15).map(|_| once()).fold(f64::INFINITY, f64::min)
    }
    let of = |f: fn(&Point) -> f64| points(N).iter().map(f).collect::<Vec<f64>>();
    let vectors = time(&(of(|p| p.x), of(|p| p.y), of(|p| p.z)));
    let singles = time(&points(N).into_iter().map(Single).collect::<Vec<_>>());
    let structs = time(&points(N));
    println!(
        "{N} structs there and back: {:.1} ms; field by field {:.1} ms; three vectors {:.1} ms",
        structs * 1e3,
        singles * 1e3,
        vectors * 1e3
    );
    // 0.2 and 1.9 on the machine that this was written on.
    assert!(structs < 0.3 * singles && structs < 2.5 * vectors);
}
