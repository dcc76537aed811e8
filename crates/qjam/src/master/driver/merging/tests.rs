//! Merging by several threads against the tree on one.

use super::*;
use crate::codec::{Encoder, Wire};
use crate::engine::queue::EventQueue;
use crate::engine::seat::PartValue;
use crate::function::{Function, Job};
use crate::{Ctx, Nothing, Rng};
use bytes::Bytes;
use qjam_core::job::FaultKind;
use qjam_core::reduce::{Cut, Tree};
use std::sync::Arc;
use std::time::Duration;

fn numbers(_: &(), _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    vec![f64::from(ctx.chunk()); 3]
}

fn small_integers(_: &(), _: &Nothing, _: &Ctx) -> Vec<u8> {
    vec![100; 3]
}

fn begin(function: Function, cut: Cut) -> WideMerge {
    WideMerge::new(function, Tree::new(cut), Arc::new(EventQueue::new().unwrap()))
}

fn encoded<T: Wire>(value: &T) -> PartValue {
    let mut encoder = Encoder::new();
    value.encode(&mut encoder);
    PartValue::Encoded(encoder.to_bytes())
}

/// Numbers whose sum depends on the order of adding.
fn rugged(rng: &mut Rng, length: usize) -> Vec<f64> {
    (0..length).map(|_| rng.uniform() * 10f64.powi(rng.below(25) as i32 - 12)).collect()
}

#[test]
fn whoever_merges_and_whatever_comes_first_the_bits_are_those_of_the_tree() {
    let mut pool = Helpers::default();
    let mut rng = Rng::keyed(7, 0, 0);
    for round in 0..200 {
        let cut = Cut::new(1 + rng.below(40) as u32, 0);
        let values: Vec<Vec<f64>> = (0..cut.blocks()).map(|_| rugged(&mut rng, 50)).collect();
        let mut serial = Tree::new(cut);
        for (block, value) in values.iter().enumerate() {
            let add = |left: &mut Vec<f64>, right: Vec<f64>| {
                left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
                Ok::<(), ()>(())
            };
            serial.insert(cut.node(block as u32), value.clone(), add).unwrap();
        }
        let wide = begin(numbers.erase(), cut);
        let mut order: Vec<u32> = (0..cut.blocks()).collect();
        for n in (1..order.len()).rev() {
            order.swap(n, rng.below(n as u64 + 1) as usize);
        }
        for block in order {
            wide.add(cut.node(block), encoded(&values[block as usize]));
            wide.ask(round % 5, &mut pool);
            if rng.below(3) == 0 {
                wide.step();
            }
        }
        let root = wide.finish().unwrap().unwrap().downcast::<Vec<f64>>().unwrap();
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&root), bits(&serial.take_root().unwrap()), "round {round}");
    }
}

#[test]
fn what_cannot_be_read_or_merged_is_a_fault_and_nobody_waits_for_the_rest() {
    let mut pool = Helpers::default();
    for helpers in [0, 3] {
        let cut = Cut::new(9, 0);
        let wide = begin(small_integers.erase(), cut);
        for block in 0..9 {
            wide.add(cut.node(block), encoded(&vec![100_u8; 3]));
            wide.ask(helpers, &mut pool);
        }
        let fault = wide.finish().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Merge, "{fault:?}");
        assert!(fault.message.contains("overflow"), "{fault:?}");

        let wide = begin(numbers.erase(), cut);
        for block in 0..9 {
            let bad = PartValue::Encoded(vec![0xFF; 5].into());
            wide.add(cut.node(block), if block == 4 { bad } else { encoded(&vec![1.0; 3]) });
            wide.ask(helpers, &mut pool);
        }
        assert_eq!(wide.finish().unwrap_err().kind, FaultKind::Result);
    }
}

/// Bytes that somebody counts.
struct Counted(Bytes, #[expect(dead_code, reason = "it is counted")] Arc<()>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn a_round_that_is_dropped_while_others_merge_it_leaves_nothing() {
    let mut pool = Helpers::default();
    let views = Arc::new(());
    for _ in 0..50 {
        let cut = Cut::new(32, 0);
        let wide = begin(numbers.erase(), cut);
        for block in 0..32 {
            let PartValue::Encoded(bytes) = encoded(&vec![1.0; 1000]) else { unreachable!("it was encoded") };
            wide.add(cut.node(block), PartValue::Encoded(Bytes::from_owner(Counted(bytes, views.clone()))));
            wide.ask(2, &mut pool);
        }
        drop(wide);
    }
    let begun = Instant::now();
    while Arc::strong_count(&views) > 1 {
        assert!(begun.elapsed() < Duration::from_secs(180), "a helper keeps what nobody wants");
        std::thread::yield_now();
    }
}
