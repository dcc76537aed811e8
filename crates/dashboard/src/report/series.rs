//! The numbers that a program reported of itself, such as objective and gap.
//!
//! Up to [`POINTS_MAX`] points of a name are all kept. Of more, each run of neighbours keeps its lowest and its highest point, so
//! that no spike is lost.

use qjam::runs::Metric;
use serde::Serialize;

/// A series has about so many points at most.
const POINTS_MAX: usize = 2000;
/// So many names are shown.
const NAMES_MAX: usize = 12;

/// The values of one name.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Series {
    /// What it is.
    pub(super) name: String,
    /// How many values were reported.
    pub(super) reported: usize,
    /// When, in microseconds since the run began.
    pub(super) at_us: Vec<u64>,
    /// How many rounds had their value by then.
    pub(super) rounds: Vec<u64>,
    /// The values; those that are not finite are `null` in JSON.
    pub(super) values: Vec<f64>,
}

/// One series for each name, in the order in which they first appear.
pub(super) fn of(metrics: &[Metric]) -> Vec<Series> {
    let mut names: Vec<&str> = Vec::new();
    for metric in metrics {
        if !names.contains(&metric.name.as_str()) && names.len() < NAMES_MAX {
            names.push(&metric.name);
        }
    }
    names.into_iter().map(|name| series(name, metrics)).collect()
}

fn series(name: &str, metrics: &[Metric]) -> Series {
    let all: Vec<&Metric> = metrics.iter().filter(|metric| metric.name == name).collect();
    let mut series = Series { name: name.to_owned(), reported: all.len(), ..Series::default() };
    let mut push = |metric: &Metric| {
        series.at_us.push(metric.at_us);
        series.rounds.push(metric.rounds);
        series.values.push(metric.value);
    };
    if all.len() <= POINTS_MAX {
        all.iter().for_each(|metric| push(metric));
        return series;
    }
    for group in all.chunks(all.len().div_ceil(POINTS_MAX / 2)) {
        let order = |a: &(usize, &&Metric), b: &(usize, &&Metric)| a.1.value.total_cmp(&b.1.value);
        let low = group.iter().enumerate().min_by(order).map_or(0, |(at, _)| at);
        let high = group.iter().enumerate().max_by(order).map_or(0, |(at, _)| at);
        push(group[low.min(high)]);
        if low != high {
            push(group[low.max(high)]);
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(n: u64) -> Vec<Metric> {
        // Metrics are made by reading; this is what a file with so many would give.
        let folder = std::env::temp_dir().join(format!("qjam-series-{}-{n}", std::process::id()));
        let m = qjam::Master::builder().run_folder(&folder).connect("local:1").expect("a master");
        for i in 0..n {
            m.record_metric("cost", if i == n / 2 { 1e9 } else { i as f64 });
        }
        drop(m);
        let path = qjam::runs::find(Some(&folder), "last").expect("a run");
        let story = qjam::runs::Story::read(&path).expect("its story");
        std::fs::remove_dir_all(&folder).expect("the folder goes");
        story.metrics
    }

    #[test]
    fn long_series_are_thinned_and_keep_their_spikes() {
        let few = &of(&metrics(10))[0];
        assert_eq!((few.reported, few.values.len()), (10, 10));
        let many = &of(&metrics(9_999))[0];
        assert_eq!(many.reported, 9_999);
        assert!(many.values.len() <= POINTS_MAX, "{}", many.values.len());
        assert!(many.values.contains(&1e9), "the spike is there");
        assert!(many.at_us.is_sorted() && many.rounds.is_sorted());
    }
}
