//! Folders and files of the cache are for their owner alone, whatever the umask and whoever made the folder before.

use super::*;
use crate::folder::own_directory;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

const UMASK: &str = "QJAM_CACHE_TEST_UMASK";

/// Keeps something in the cache of a user whose files are here, under a umask.
pub(super) fn under_a_umask(place: &Path) {
    let umask = u32::from_str_radix(&std::env::var(UMASK).unwrap(), 8).unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    let dir = home_dir().unwrap();
    assert_eq!(dir, place.join("qjam"));
    let mut cache = Cache::open(Some(&dir), DEFAULT_CAP_BYTES);
    let (id, _) = add(&mut cache, 1, 1000);
    assert!(has_good(&mut cache, &id) && cache.trouble().is_none());
    drop(cache);
    set_cap(&dir, Some(1 << 20)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_cache_is_private_whatever_the_umask_and_whoever_made_its_folder() {
    for umask in ["000", "002", "022", "077", "277"] {
        for made in [None, Some(0o755), Some(0o777), Some(0o1777), Some(0o500)] {
            let place = TestFolder::new();
            let folders = ["qjam", "qjam/cache"].map(|name| place.0.join(name));
            if let Some(made) = made {
                folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
                folders.iter().for_each(|folder| set_mode(folder, made));
            }
            let output = Command::new(std::env::current_exe().unwrap())
                .envs(as_program("umask", &place.0))
                .env("XDG_CACHE_HOME", &place.0)
                .env(UMASK, umask)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "umask {umask}, made as {made:?}: {said}");
            for folder in &folders {
                assert_eq!(mode(folder), 0o700, "umask {umask}, made as {made:?}: {}", folder.display());
            }
            let mut files = 0;
            for entry in std::fs::read_dir(&folders[1]).unwrap() {
                let path = entry.unwrap().path();
                assert_eq!(mode(&path) & 0o177, 0, "umask {umask}, made as {made:?}: {}", path.display());
                files += 1;
            }
            assert!(files >= 2, "a pack and the cap");
        }
    }
}

#[test]
fn what_others_own_is_not_used() {
    assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: files of other users");
    let place = TestFolder::new();
    let (id, _) = add(&mut place.open(), 1, 1000);
    assert!(place.open().find(&id).is_some());
    let pack = place.packs().remove(0);
    chown(&pack, Some(1234), None).unwrap();
    assert!(place.open().find(&id).is_none(), "a pack of another user");
    chown(&pack, Some(0), None).unwrap();
    for folder in [&place.0.join("cache"), &place.0] {
        chown(folder, Some(1234), None).unwrap();
        assert!(matches!(own_directory(folder), Err(CacheError::NotOurs { .. })), "{}", folder.display());
        let mut cache = place.open();
        assert!(cache.find(&id).is_none(), "{}", folder.display());
        let (kept, _) = add(&mut cache, 2, 1000);
        assert!(has_good(&mut cache, &kept), "it goes on in memory");
        assert_eq!(place.packs().len(), 1, "and writes nothing there");
        chown(folder, Some(0), None).unwrap();
    }
    assert!(place.open().find(&id).is_some());
}
