//! Where a user's cache is when nobody says: the same places, in the same order, on every host.

use super::folder::{is_own_directory, own_directory};
use rustix::fs::{Access, AtFlags, CWD};
use std::ffi::OsString;
use std::path::PathBuf;

/// The first place that can be used: a real directory of this user's own that can be written. It is made when it is
/// not there.
pub fn home_dir() -> Option<PathBuf> {
    places().into_iter().find(|dir| {
        own_directory(dir).is_ok()
            && rustix::fs::accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    })
}

/// The place that holds a cache, or else the first that might. Nothing is made.
pub fn present_dir() -> Option<PathBuf> {
    let places = places();
    places.iter().find(|dir| dir.join("cache").is_dir()).or(places.first()).cloned()
}

/// The folder of this name in the first place that has one of this user's own. Nothing is made.
pub fn present_folder(name: &str) -> Option<PathBuf> {
    let own = places().into_iter().filter(|dir| is_own_directory(dir));
    own.map(|dir| dir.join(name)).find(|folder| is_own_directory(folder))
}

fn places() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name);
    candidates(variable("XDG_CACHE_HOME"), variable("HOME"), rustix::process::geteuid().as_raw())
}

fn candidates(cache_home: Option<OsString>, home: Option<OsString>, uid: u32) -> Vec<PathBuf> {
    // What is relative would be another place for every working directory.
    let absolute = |path: &PathBuf| path.is_absolute();
    let under_home = || home.filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(".cache"));
    let cache_home = cache_home.filter(|path| !path.is_empty()).map(PathBuf::from).or_else(under_home);
    cache_home
        .filter(absolute)
        .map(|path| path.join("qjam"))
        .into_iter()
        .chain(["/var/tmp", "/tmp", "/dev/shm"].map(|place| PathBuf::from(format!("{place}/qjam-{uid}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_cache_comes_first_and_shared_places_carry_the_users_number() {
        let at = |cache_home: Option<&str>, home: Option<&str>| {
            candidates(cache_home.map(Into::into), home.map(Into::into), 7)[0].display().to_string()
        };
        assert_eq!(at(Some("/x"), Some("/h")), "/x/qjam");
        assert_eq!(at(Some(""), Some("/h")), "/h/.cache/qjam");
        assert_eq!(at(None, Some("/h")), "/h/.cache/qjam");
        assert_eq!(at(Some("x"), None), "/var/tmp/qjam-7");
        assert_eq!(candidates(None, None, 7).len(), 3);
    }
}
