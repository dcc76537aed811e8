//! How many cores a machine has, and how many of them this process may use.
//!
//! A process may be bound to some of the cores, and its control group, or one around that, may give it less time than all of these
//! would take: a *quota*. What is started without a number of workers takes [`Cores::usable`].

use crate::memory::groups;
use std::fs;
use std::path::{Path, PathBuf};

/// The cores of this process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cores {
    /// Cores that the machine has switched on, if it tells.
    pub machine: Option<u32>,
    /// Cores that this process is bound to.
    pub bound: u32,
    /// The smallest quota.
    pub quota: Option<Quota>,
    /// How many threads make sense.
    pub usable: u32,
}

/// How much time a control group gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// In cores: 1.5 is the time of one and a half.
    pub cores: f64,
    /// The folder of the group.
    pub group: PathBuf,
}

impl Cores {
    /// Those of this process.
    pub fn here() -> Cores {
        let usable = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let bound = rustix::thread::sched_getaffinity(None).map_or(usable, |set| set.count());
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let quotas = groups::of_processors().into_iter().filter_map(|(group, is_unified)| {
            let cores = if is_unified { unified(&group)? } else { first_version(&group)? };
            Some(Quota { cores, group })
        });
        let quota = quotas.min_by(|a, b| a.cores.total_cmp(&b.cores));
        Cores { machine: online.and_then(|text| count(text.trim())), bound, quota, usable }
    }
}

/// `100000 100000`, or `max 100000`.
fn unified(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn first_version(group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// Neither `max` nor -1 is a quota.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

/// The number of cores of a list like `0-3,8`.
fn count(list: &str) -> Option<u32> {
    list.split(',').try_fold(0u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_and_quotas_are_read() {
        assert_eq!([count("0"), count("0-3,8"), count("3-1"), count("")], [Some(1), Some(5), None, None]);
        assert_eq!(
            [ratio("150000", "100000"), ratio("max", "100000"), ratio("-1", "1")],
            [Some(1.5), None, None]
        );
        let here = Cores::here();
        assert!(here.usable >= 1 && here.usable <= here.bound, "{here:?}");
    }
}
