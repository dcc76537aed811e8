//! Clusters that nobody at hand has.

use super::*;
use crate::random::Rng;

#[test]
fn two_thousand_workers_finish_though_hundreds_of_them_fail() {
    let mut rng = Rng::new(2000);
    let mut plan = Plan::calm(2_000).round(round(2_500, 150));
    for _ in 0..200 {
        let seat = rng.below(2_000) as u32;
        let fault = match rng.below(10) {
            0..6 => Fault::Crash { seat },
            6 | 7 => Fault::Stop { seat, for_span: None },
            8 => Fault::Stop { seat, for_span: Some(Span::from_ms(11_000)) },
            _ => Fault::Cut { seat, master_learns: None, worker_learns: Span::from_ms(5_000) },
        };
        plan = plan.fault(Time(rng.below(200_000)), fault);
    }
    plan.faults.sort_by_key(|(at, _)| *at);
    let ending = play(&plan);
    assert!(all_have_values(&ending));
    assert!(ending.tally.lost > 100 && ending.tally.suspected > 20, "{}", ending.tally);
}
