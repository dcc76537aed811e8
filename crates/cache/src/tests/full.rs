use super::*;
use std::process::Command;

#[test]
fn a_full_disk_moves_what_was_written_to_memory() {
    for room_bytes in [0, 100, 150_000, 270_000, 300_128, 300_300] {
        let place = TestFolder::new();
        let mut cache = place.open();
        cache.disk_left_bytes = Some(room_bytes);
        let ids: Vec<_> = (0..6).map(|n| add(&mut cache, n, 100_000).0).collect();
        assert!(ids.iter().all(|id| has_good(&mut cache, id)), "{room_bytes}");
        let trouble = cache.trouble().unwrap();
        assert!(trouble.contains("No space left") && trouble.contains("97.7 KiB"), "{trouble}");
        assert!(trouble.contains(&place.0.display().to_string()) && trouble.contains("memory"), "{trouble}");
        assert_eq!(cache.trouble(), None);
        assert!(cache.usage().memory_bytes > 300_000);
        drop(cache);
        let mut cache = place.open();
        let kept = ids.iter().filter(|id| has_good(&mut cache, id)).count() as u64;
        assert_eq!(kept, room_bytes / 100_128);
    }
}

#[test]
fn memory_does_not_stand_in_for_a_full_disk_without_end() {
    let place = TestFolder::new();
    let mut cache = place.open();
    cache.disk_left_bytes = Some(0);
    cache.memory_bytes_max = 350_000;
    let ids: Vec<_> = (0..3).map(|n| add(&mut cache, n, 100_000).0).collect();
    let (header, _, id) = chunk(3, 100_000);
    let Err(error) = cache.begin(id, header) else { panic!("a fourth") };
    let text = error.to_string();
    assert!(text.contains("293") && text.contains("341.8 KiB"), "{text}");
    assert!(ids.iter().all(|id| has_good(&mut cache, id)), "what is there stays");
}

/// Runs one of the programs below in a mount namespace where these commands were run first; `$D` is a directory.
fn with_mounts(name: &str, commands: &str) {
    let place = TestFolder::new();
    let root = rustix::process::geteuid().is_root();
    let output = Command::new("unshare")
        .args(if root { &["-m"][..] } else { &["-r", "-m"] })
        .args(["sh", "-ec", &format!("{commands}\nexec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .env("D", &place.0)
        .envs(as_program(name, &place.0))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let may_mount = root || output.status.success() || said.contains(BEGUN);
    assert!(may_mount, "NOT TESTED, since this user may not mount anything: {said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_real_full_disk_is_survived() {
    with_mounts("full disk", "mount -t tmpfs -o size=1m tmpfs $D");
}

/// On a file system of 1 MiB.
pub(super) fn on_a_full_disk(dir: &Path) {
    // Packs of 256 KiB.
    const CAP: u64 = 2 << 20;
    let mut cache = Cache::open(Some(dir), CAP);
    let ids: Vec<_> = (0..30).map(|n| add(&mut cache, n, 100_000).0).collect();
    assert!(ids.iter().all(|id| has_good(&mut cache, id)));
    assert!(cache.trouble().unwrap().contains("No space left") && cache.trouble().is_none());
    assert!(cache.usage().memory_bytes > 2_000_000);
    drop(cache);
    // What did fit is there, and makes room when nobody uses it.
    let mut cache = Cache::open(Some(dir), CAP);
    let kept = ids.iter().filter(|id| cache.index.contains_key(id)).count();
    assert!((8..=10).contains(&kept), "{kept}");
    let new: Vec<_> = (50..55).map(|n| add(&mut cache, n, 100_000).0).collect();
    assert_eq!((cache.trouble(), cache.usage().memory_bytes), (None, 0));
    assert!(new.iter().all(|id| has_good(&mut cache, id)));
}

#[test]
fn a_read_only_directory_is_read_and_the_rest_is_in_memory() {
    with_mounts("read-only disk", "mount -t tmpfs tmpfs $D");
}

/// On a file system of its own.
pub(super) fn on_a_read_only_disk(dir: &Path) {
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", how]).arg(dir).status().unwrap();
        assert!(status.success());
    };
    let (old, _) = add(&mut Cache::open(Some(dir), DEFAULT_CAP_BYTES), 1, 1000);
    remount("remount,ro");
    let mut cache = Cache::open(Some(dir), DEFAULT_CAP_BYTES);
    assert!(has_good(&mut cache, &old));
    assert_eq!(cache.trouble(), None, "nothing is wrong as long as nothing is to be written");
    let (new, _) = add(&mut cache, 2, 1000);
    assert!(has_good(&mut cache, &new));
    assert!(cache.trouble().unwrap().contains("Read-only file system") && cache.trouble().is_none());
    cache.mark(&old, false);
    assert!(cache.find(&old).is_none());
    drop(cache);

    let below = dir.join("not/there");
    let mut cache = Cache::open(Some(&below), DEFAULT_CAP_BYTES);
    assert!(cache.trouble().unwrap().contains("Read-only file system"));
    add(&mut cache, 3, 1000);
    assert_eq!(cache.usage().dir, None);
}
