//! Seeds that are played with every test run. Many more are played by the command `sweep`.

use qjam_sim::{Tally, Trace, check};

#[test]
fn three_hundred_seeds_keep_every_promise() {
    let mut tally = Tally::default();
    for seed in 0..300 {
        match check(seed, 64, &mut Trace::off()) {
            Ok(ending) => tally.add(&ending),
            Err(violation) => panic!(
                "seed {seed}: {violation}\nto see it: cargo run --release -p qjam-sim --bin sweep -- \
                 --seeds {seed} --workers-max 64 --verbose"
            ),
        }
    }
    // A sweep in which nothing goes wrong shows nothing.
    assert!(tally.faults.iter().all(|n| *n > 20), "{tally}");
    assert!(tally.answers.iter().all(|n| *n > 0), "{tally}");
    assert!(tally.suspected > 10 && tally.returned > 3 && tally.blocks_discarded > 100, "{tally}");
}
