//! Sums, neutral elements, and what errors say.

use super::*;
use crate::Rng;

fn merged<T: Reduce>(mut left: T, right: T) -> Result<T, MergeError> {
    left.try_merge(right).map(|()| left)
}

#[test]
fn numbers_add_and_sequences_add_element_by_element() {
    assert_eq!(merged(1.5, 2.0), Ok(3.5));
    assert_eq!(merged(-3_i32, 5), Ok(2));
    assert_eq!(merged(vec![1, 2], vec![10, 20]), Ok(vec![11, 22]));
    assert_eq!(merged([1.0, 2.0], [0.5, 0.5]), Ok([1.5, 2.5]));
    assert_eq!(merged(((), 1_u8, vec![[1_u64; 2]]), ((), 2, vec![[5, 6]])), Ok(((), 3, vec![[6, 7]])));
    assert_eq!(merged(Box::new(1), Box::new(2)), Ok(Box::new(3)));
    assert_eq!(merged(Serde(1), Serde(2)), Ok(Serde(3)));
}

#[test]
fn none_is_neutral() {
    assert_eq!(merged(None, Some(3)), Ok(Some(3)));
    assert_eq!(merged(Some(3), None), Ok(Some(3)));
    assert_eq!(merged(Some(3), Some(4)), Ok(Some(7)));
    assert_eq!(merged(None::<u8>, None), Ok(None));
}

#[test]
fn maps_are_united() {
    let map = |pairs: &[(&'static str, u32)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
    let both = merged(map(&[("a", 1), ("b", 2)]), map(&[("b", 3), ("c", 4)]));
    assert_eq!(both, Ok(map(&[("a", 1), ("b", 5), ("c", 4)])));
}

#[test]
fn maps_without_an_order_are_united_too_and_the_least_key_is_blamed() {
    let map = |pairs: &[(u32, u8)]| pairs.iter().copied().collect::<HashMap<_, _>>();
    let both = merged(map(&[(1, 1), (2, 2)]), map(&[(2, 3), (3, 4)]));
    assert_eq!(both, Ok(map(&[(1, 1), (2, 5), (3, 4)])));
    for _ in 0..20 {
        // Every map has an order of its own.
        let full = || (5..50).map(|key| (key, 200)).collect::<HashMap<u32, u8>>();
        assert_eq!(merged(full(), full()).unwrap_err().path(), "[5]");
    }
}

#[test]
fn neighbours_are_joined_in_their_order() {
    let joined = |items: &[&str]| items.iter().map(ToString::to_string).collect::<Joined<String>>();
    let (a, b, c) = (joined(&["a", "a"]), joined(&[]), joined(&["b"]));
    let left = merged(merged(a.clone(), b.clone()).unwrap(), c.clone()).unwrap();
    let right = merged(a, merged(b, c).unwrap()).unwrap();
    assert_eq!((&left, &left), (&right, &joined(&["a", "a", "b"])));
    assert_eq!(merged(Joined::default(), left.clone()), Ok(left));
}

#[test]
fn unequal_lengths_are_an_error_with_a_path() {
    fn lengths<T>(path: &str, left: usize, right: usize) -> Result<T, MergeError> {
        Err(MergeError::Lengths { path: path.into(), left, right })
    }
    assert_eq!(merged(vec![1], vec![1, 2]), lengths("", 1, 2));
    assert_eq!(merged((0, vec![1.0]), (0, vec![])), lengths("1", 1, 0));
    assert_eq!(merged(vec![vec![1], vec![]], vec![vec![1], vec![2]]), lengths("[1]", 0, 1));
    assert_eq!(merged((vec![(vec![1], 2)], 0), (vec![(vec![], 2)], 0)), lengths("0[0].0", 1, 0));
    let nested = |n| BTreeMap::from([("word", [Some(vec![0; n])])]);
    assert_eq!(merged(nested(1), nested(2)).unwrap_err().path(), "[\"word\"][0]");
}

#[test]
fn integer_overflow_is_an_error_and_not_a_wrong_sum() {
    fn overflow<T>(path: &str, kind: &'static str) -> Result<T, MergeError> {
        Err(MergeError::Overflow { path: path.into(), kind })
    }
    assert_eq!(merged(200_u8, 100), overflow("", "u8"));
    assert_eq!(merged(i64::MIN, -1), overflow("", "i64"));
    assert_eq!(merged(vec![0, u64::MAX], vec![1, 1]), overflow("[1]", "u64"));
}

#[test]
fn errors_read_as_sentences() {
    let error = merged((vec![0_u8], 1), (vec![], 1)).unwrap_err().in_field("layers");
    assert_eq!(
        error.to_string(),
        "the values of `layers.0` of two partial results have 1 and 0 elements; a function must give the same \
         length for every chunk"
    );
    assert_eq!(
        merged(255_u8, 1).unwrap_err().to_string(),
        "the values overflow u8 when added; use a wider integer or a float"
    );
    let refused = MergeError::refused("other units").in_field("x").at(3);
    assert_eq!(
        refused.to_string(),
        "the values of `[3].x` of two partial results cannot be merged: other units"
    );
}

#[test]
#[should_panic(expected = "1 and 2 elements")]
fn merge_panics_where_there_is_no_way_to_return_an_error() {
    vec![1].merge(vec![1, 2]);
}

#[test]
fn merging_is_associative_for_exact_values() {
    for seed in 0..50 {
        let rng = &mut Rng::keyed(seed, 0, 0);
        let mut draw = || {
            let some = (rng.below(2) == 1).then(|| rng.below(1000) as i32);
            let map = (0..rng.below(6)).map(|_| (rng.below(8), rng.below(100))).collect::<BTreeMap<_, _>>();
            ((0..5).map(|_| rng.below(100)).collect::<Vec<_>>(), some, map)
        };
        let (a, b, c) = (draw(), draw(), draw());
        let left = merged(merged(a.clone(), b.clone()).unwrap(), c.clone()).unwrap();
        let right = merged(a, merged(b, c).unwrap()).unwrap();
        assert_eq!(left, right);
    }
}
