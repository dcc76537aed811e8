//! The ROC curve of one class against the rest, counted exactly.
//!
//! A chunk sorts its scores and counts the rows of either kind at each; sorted lists are merged. So the area follows from counts
//! alone, whatever the cut, and ties are one slanted step, as in scikit-learn. The price is a number of 64 bits and two counts for
//! every different score, at the master: 24 bytes a row at most.

/// Rows of either kind at each score, from the lowest up.
#[derive(Clone, Debug, Default, PartialEq, qjam::Wire)]
pub(crate) struct Levels {
    scores: Vec<f64>,
    /// Rows of the class.
    yes: Vec<u64>,
    /// All other rows.
    no: Vec<u64>,
}

/// An ROC curve, drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The class that is told from the rest.
    pub class: f64,
    /// The area under it; NaN if all rows or none are of the class.
    pub area: f64,
    /// Share of other rows and share of rows of the class over a score, from (0, 0) to (1, 1). A few hundred of all points.
    pub points: Vec<(f64, f64)>,
}

impl Levels {
    /// Of the rows of a chunk.
    pub(crate) fn of(mut rows: Vec<(f64, bool)>) -> Levels {
        // Zeros of both signs are one score.
        rows.iter_mut().for_each(|(score, _)| *score += 0.0);
        rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut levels = Levels::default();
        for (score, is_yes) in rows {
            levels.push(score, u64::from(is_yes), u64::from(!is_yes));
        }
        levels
    }

    fn push(&mut self, score: f64, yes: u64, no: u64) {
        match (self.scores.last(), self.yes.last_mut(), self.no.last_mut()) {
            (Some(last), Some(all_yes), Some(all_no)) if *last == score => {
                *all_yes += yes;
                *all_no += no;
            }
            _ => {
                self.scores.push(score);
                self.yes.push(yes);
                self.no.push(no);
            }
        }
    }

    /// Merges two sorted lists.
    pub(crate) fn merge(&mut self, right: Levels) {
        let left = std::mem::take(self);
        let (mut i, mut j) = (0, 0);
        while i < left.scores.len() || j < right.scores.len() {
            let takes_left = match (left.scores.get(i), right.scores.get(j)) {
                (Some(a), Some(b)) => a.total_cmp(b).is_le(),
                (found, _) => found.is_some(),
            };
            if takes_left {
                self.push(left.scores[i], left.yes[i], left.no[i]);
                i += 1;
            } else {
                self.push(right.scores[j], right.yes[j], right.no[j]);
                j += 1;
            }
        }
    }

    /// The curve from the highest score down.
    pub(crate) fn curve(&self, class: f64) -> Curve {
        const POINTS_MAX: usize = 400;
        let (all_yes, all_no) = (self.yes.iter().sum::<u64>(), self.no.iter().sum::<u64>());
        let share = |part: u64, all: u64| part as f64 / all as f64;
        let (mut yes, mut no, mut doubled) = (0_u64, 0_u64, 0_u128);
        let (every, mut points) = (self.scores.len().div_ceil(POINTS_MAX).max(1), vec![(0.0, 0.0)]);
        for at in (0..self.scores.len()).rev() {
            doubled += u128::from(self.no[at]) * u128::from(2 * yes + self.yes[at]);
            yes += self.yes[at];
            no += self.no[at];
            if at % every == 0 {
                points.push((share(no, all_no), share(yes, all_yes)));
            }
        }
        let possible = 2 * u128::from(all_yes) * u128::from(all_no);
        match possible {
            0 => Curve { class, area: f64::NAN, points: vec![] },
            _ => Curve { class, area: doubled as f64 / possible as f64, points },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_count_half_and_any_cut_has_the_same_levels() {
        let rows = vec![
            (0.1, false),
            (0.4, false),
            (0.35, true),
            (0.8, true),
            (0.4, true),
            (-0.0, false),
            (0.0, true),
        ];
        let whole = Levels::of(rows.clone());
        // Pairs of one row of either kind: won, or tied for a half.
        let mut won = 0.0;
        for (yes, _) in rows.iter().filter(|row| row.1) {
            for (no, _) in rows.iter().filter(|row| !row.1) {
                won += if yes > no {
                    1.0
                } else if yes == no {
                    0.5
                } else {
                    0.0
                };
            }
        }
        assert!((whole.curve(1.0).area - won / 12.0).abs() < 1e-15);
        for cut in 0..=rows.len() {
            let mut left = Levels::of(rows[..cut].to_vec());
            left.merge(Levels::of(rows[cut..].to_vec()));
            assert_eq!(left, whole, "{cut}");
        }
        let points = whole.curve(1.0).points;
        assert_eq!((points[0], points[points.len() - 1]), ((0.0, 0.0), (1.0, 1.0)));
    }

    #[test]
    fn one_class_alone_has_no_area() {
        assert!(Levels::of(vec![(0.5, true), (0.1, true)]).curve(1.0).area.is_nan());
        assert!(Levels::default().curve(1.0).area.is_nan());
    }
}
