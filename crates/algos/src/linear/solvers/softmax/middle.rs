//! Where numbers that may all move by the same cost least.

/// Takes off all of `b` the `t` at which `l1 Σ |bₖ − t| + l2/2 Σ (bₖ − t)²` is lowest; of several such `t` that nearest to 0.
pub(in crate::linear) fn ease(b: &mut [f64], l1: f64, l2: f64) {
    let by = middle(b, l1, l2);
    if by != 0.0 {
        b.iter_mut().for_each(|b| *b -= by);
    }
}

fn middle(b: &[f64], l1: f64, l2: f64) -> f64 {
    let k = b.len();
    if k == 0 {
        return 0.0;
    }
    let sum: f64 = b.iter().sum();
    if l1 == 0.0 {
        return sum / k as f64;
    }
    let mut sorted = b.to_vec();
    sorted.sort_by(f64::total_cmp);
    if l2 == 0.0 {
        return 0.0_f64.clamp(sorted[(k - 1) / 2], sorted[k / 2]);
    }
    // The slope in t rises; it jumps at each number, and is a line between two.
    let slope = |t: f64, below: usize| l1 * (2.0 * below as f64 - k as f64) + l2 * (k as f64 * t - sum);
    for (below, at) in sorted.iter().enumerate() {
        if slope(*at, below) >= 0.0 {
            return sum / k as f64 - l1 / l2 * (2.0 * below as f64 - k as f64) / k as f64;
        }
        if slope(*at, below + 1) >= 0.0 {
            return *at;
        }
    }
    sum / k as f64 - l1 / l2
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    #[test]
    fn nothing_near_costs_less() {
        let mut random = Rng::keyed(8, 0, 0);
        for case in 0..300_usize {
            let k = 2 + case % 6;
            let mut b: Vec<f64> = (0..k).map(|_| (2.0 * random.normal()).round() / 2.0).collect();
            let (l1, l2) = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.3, 2.0), (2.0, 0.1)][case % 5];
            let cost = |b: &[f64], t: f64| -> f64 {
                b.iter().map(|b| l1 * (b - t).abs() + 0.5 * l2 * (b - t) * (b - t)).sum()
            };
            let before = b.clone();
            ease(&mut b, l1, l2);
            assert!(cost(&b, 0.0) <= cost(&before, 0.0) + 1e-12);
            for t in [1e-3, -1e-3, 0.1, -0.1, 1.0, -1.0] {
                assert!(cost(&b, 0.0) <= cost(&b, t) + 1e-12, "{before:?} {b:?} {l1} {l2} {t}");
            }
            // Once is enough, and differences stay.
            let again = b.clone();
            ease(&mut b, l1, l2);
            assert!(b.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-12));
            assert!(b.iter().zip(&before).all(|(a, c)| ((a - b[0]) - (c - before[0])).abs() < 1e-12));
        }
    }
}
