//! Scales that bring the slopes of all intercepts to 0.
//!
//! An intercept costs nothing, so a lower bound exists only where the slopes of rows add up to 0 for every class. At the best
//! intercepts they do, and near them scaling does it: with `mᵧₖ` the chances of class k over the rows of class y, the
//! scales must hold `sₖ Σₗ mₖₗ = Σᵧ sᵧ mᵧₖ`. That is what the stationary distribution of a Markov chain with these rates
//! does, which exists, is positive, and is found without a subtraction (Grassmann, Taksar, Heyman 1985).

/// Scales of the classes, the largest of which is 1; `None` where rounding left no way from one class to another.
pub(in crate::linear) fn scales(sides: &[f64], k: usize) -> Option<Vec<f64>> {
    let mut m = sides.to_vec();
    for n in (1..k).rev() {
        let out: f64 = m[n * k..][..n].iter().sum();
        if !(out > 0.0 && out.is_finite()) {
            return None;
        }
        let (before, last) = m.split_at_mut(n * k);
        for row in before.chunks_exact_mut(k) {
            row[n] /= out;
            let into = row[n];
            row[..n].iter_mut().zip(&last[..n]).for_each(|(to, from)| *to += into * from);
        }
    }
    let mut scales = vec![1.0];
    for n in 1..k {
        scales.push((0..n).map(|i| scales[i] * m[i * k + n]).sum());
    }
    let most = scales.iter().fold(0.0_f64, |most, scale| most.max(*scale));
    if !(most > 0.0 && most.is_finite()) {
        return None;
    }
    scales.iter_mut().for_each(|scale| *scale /= most);
    Some(scales)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    #[test]
    fn scaled_slopes_add_up_to_nothing() {
        let mut random = Rng::keyed(3, 0, 0);
        for k in [2, 3, 7, 20] {
            let sides: Vec<f64> = (0..k * k)
                .map(|at| if at % k == at / k { 0.0 } else { (8.0 * random.normal()).exp() })
                .collect();
            let found = scales(&sides, k).unwrap();
            assert!(found.iter().all(|s| *s > 0.0 && *s <= 1.0) && found.contains(&1.0), "{found:?}");
            for c in 0..k {
                let out: f64 = sides[c * k..][..k].iter().sum::<f64>() * found[c];
                let into: f64 = (0..k).map(|y| found[y] * sides[y * k + c]).sum();
                assert!((out - into).abs() <= 1e-13 * out, "{k} {c}: {out} {into}");
            }
        }
        // Of two classes the heavier side is made lighter.
        assert_eq!(scales(&[0.0, 4.0, 1.0, 0.0], 2), Some(vec![0.25, 1.0]));
        assert_eq!(scales(&[0.0, 1.0, 0.0, 0.0], 2), None);
    }
}
