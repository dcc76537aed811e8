//! The numbers that a program reported of itself, such as objective and gap.
//!
//! Up to [`POINTS_MAX`] points of a name are all kept. When there are more, each run of four neighbours keeps its lowest and its
//! highest point, so that no spike is lost.

use qjam::runs::Metric;
use serde::Serialize;

/// A series has so many points at most.
const POINTS_MAX: usize = 2000;
/// So many names are shown.
const NAMES_MAX: usize = 12;

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// When, in microseconds since the run began.
    pub at_us: u64,
    /// How many rounds had their value by then.
    pub rounds: u64,
    /// The value.
    pub value: f64,
}

/// The values of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    reported: usize,
    points: Vec<Point>,
    /// Points that were taken as changes.
    taken: usize,
    reported_then: usize,
}

/// The values of one name from some place on, as lists of equal length. Values that are not finite are `null` in JSON.
#[derive(Serialize)]
pub(super) struct Tail<'a> {
    name: &'a str,
    /// How many values were reported.
    reported: usize,
    from: usize,
    at_us: Vec<u64>,
    rounds: Vec<u64>,
    values: Vec<f64>,
}

impl Series {
    /// What it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many values were reported.
    pub fn reported(&self) -> usize {
        self.reported
    }

    /// The points that are kept, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    fn add(&mut self, at_us: u64, rounds: u64, value: f64) {
        self.reported += 1;
        self.points.push(Point { at_us, rounds, value });
        if self.points.len() > POINTS_MAX {
            self.points = self.points.chunks(4).flat_map(extremes).collect();
            self.taken = 0;
        }
    }

    pub(super) fn tail(&self, from: usize) -> Tail<'_> {
        let points = &self.points[from..];
        Tail {
            name: &self.name,
            reported: self.reported,
            from,
            at_us: points.iter().map(|p| p.at_us).collect(),
            rounds: points.iter().map(|p| p.rounds).collect(),
            values: points.iter().map(|p| p.value).collect(),
        }
    }
}

/// The lowest and the highest of neighbouring points, in order.
fn extremes(group: &[Point]) -> impl Iterator<Item = Point> + use<> {
    let order = |a: &(usize, &Point), b: &(usize, &Point)| a.1.value.total_cmp(&b.1.value);
    let low = group.iter().enumerate().min_by(order).map_or(0, |(at, _)| at);
    let high = group.iter().enumerate().max_by(order).map_or(0, |(at, _)| at);
    let (first, second) = (low.min(high), low.max(high));
    let second = (first != second).then(|| group[second]);
    std::iter::once(group[first]).chain(second)
}

/// Takes in a reported number. Names beyond the most that are shown are passed over.
pub(super) fn take_in(all: &mut Vec<Series>, metric: &Metric) {
    match all.iter().position(|series| series.name == metric.name) {
        Some(n) => all[n].add(metric.at_us, metric.rounds, metric.value),
        None if all.len() < NAMES_MAX => {
            let name = metric.name.clone();
            let mut series = Series { name, reported: 0, points: Vec::new(), taken: 0, reported_then: 0 };
            series.add(metric.at_us, metric.rounds, metric.value);
            all.push(series);
        }
        None => {}
    }
}

/// All series, for a page that has none.
pub(super) fn whole(all: &[Series]) -> Vec<Tail<'_>> {
    all.iter().map(|series| series.tail(0)).collect()
}

/// What has changed since this was asked last.
pub(super) fn changes(all: &mut [Series]) -> Vec<Tail<'_>> {
    let changed = all.iter_mut().filter(|series| series.reported != series.reported_then);
    changed
        .map(|series| {
            let from = std::mem::replace(&mut series.taken, series.points.len());
            series.reported_then = series.reported;
            series.tail(from)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl Iterator<Item = f64>) -> Series {
        // Metrics are made by reading, so the points are put in where a metric would be.
        let mut series =
            Series { name: "cost".into(), reported: 0, points: Vec::new(), taken: 0, reported_then: 0 };
        for (n, value) in values.enumerate() {
            series.add(n as u64, n as u64, value);
        }
        series
    }

    #[test]
    fn long_series_are_thinned_and_keep_their_spikes() {
        let few = series((0..10).map(f64::from));
        assert_eq!((few.reported(), few.points().len()), (10, 10));
        let spike = |n: i32| if n == 4_999 { 1e9 } else { f64::from(n) };
        let many = series((0..9_999).map(spike));
        assert_eq!(many.reported(), 9_999);
        assert!(many.points().len() <= POINTS_MAX, "{}", many.points().len());
        assert!(many.points().iter().any(|p| p.value == 1e9), "the spike is there");
        assert!(many.points().is_sorted_by_key(|p| p.at_us));
        assert_eq!(many.points().last().map(|p| p.value), Some(9_998.0), "the last value is there");
    }

    #[test]
    fn changes_begin_where_the_last_ones_ended_unless_points_were_left_out() {
        let mut all = vec![series((0..5).map(f64::from))];
        assert_eq!(changes(&mut all)[0].from, 0);
        assert!(changes(&mut all).is_empty());
        all[0].add(5, 5, 0.5);
        let tail = &changes(&mut all)[0];
        assert_eq!((tail.from, tail.values.as_slice()), (5, &[0.5][..]));
        (0..POINTS_MAX as u64).for_each(|n| all[0].add(n, n, 1.0));
        assert_eq!(changes(&mut all)[0].from, 0, "they were thinned");
    }
}
