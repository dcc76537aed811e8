//! Files as people write them: right ones, wrong ones, and those of others.

use qjam_config::{Config, ConfigError, Distrust, Places, set, unset};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A private folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("qjam-config-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        mode(&path, 0o700);
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        mode(&path, 0o600);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

fn user(path: &Path) -> Places {
    Places { user: Some(path.into()), project: None }
}

#[test]
fn values_have_the_file_and_line_they_come_from_and_the_projects_come_first() {
    let folder = Folder::new();
    let mine = folder.file(
        "config.toml",
        "workers = \"lab\"\ntuning = \"clock\"\ncache = 1_000\n\n[clusters]\nlab = \"big*8, small\"\n",
    );
    let project = folder.file("qjam.toml", "# of this project\nworkers = \"auto:lab\"\n");
    let config = Config::read(&Places { user: Some(mine.clone()), project: Some(project.clone()) }).unwrap();
    let found = |key: &str| config.get(key).map(|e| (e.value.clone(), e.file.clone(), e.line)).unwrap();
    assert_eq!(found("workers"), ("auto:lab".into(), project, 2));
    assert_eq!(found("tuning"), ("clock".into(), mine.clone(), 2));
    assert_eq!(found("cache"), ("1000".into(), mine, 3));
    let keys: Vec<&str> = config.entries().iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["cache", "tuning", "workers", "clusters.lab"]);
}

#[test]
fn a_name_stands_for_the_workers_of_its_cluster_and_for_nothing_else() {
    let folder = Folder::new();
    let text = "[clusters]\nlab = \"big*8, lab\"\nchosen = \"auto:proc:2\"\nbucket = \"store:file:///a,b\"\n";
    let config = Config::read(&user(&folder.file("config.toml", text))).unwrap();
    for (given, expected) in [
        ("lab", "big*8,lab"),
        ("proc:2, lab", "proc:2,big*8,lab"),
        ("auto:lab", "auto:big*8,lab"),
        ("chosen", "auto:proc:2"),
        ("auto:chosen", "auto:proc:2"),
        ("bucket", "store:file:///a,b"),
        ("ann@lab", "ann@lab"),
        ("ssh://lab", "ssh://lab"),
        ("store:file:///x,lab", "store:file:///x,lab"),
        ("local:4", "local:4"),
    ] {
        assert_eq!(config.workers(given).unwrap().text, expected, "{given}");
    }
    assert_eq!(config.workers("lab").unwrap().clusters[0].line, 2);
    for (given, words) in [
        ("lab*4", "ssh://lab*4"),
        ("lab:22", "is a cluster"),
        ("lab,bucket", "beside which no other workers can be named"),
    ] {
        let e = config.workers(given).unwrap_err().to_string();
        assert!(e.contains(words), "{given}: {e}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_file_and_line() {
    let folder = Folder::new();
    for (text, line, words) in [
        ("\nworker = \"lab\"\n", 2, &["no key `worker`", "workers, memory-limit", "[clusters]"][..]),
        ("workers = true\n", 1, &["`workers`", "in quotation marks"]),
        ("workers = \"prok:three\"\n", 1, &["`three`"]),
        ("workers = \"@hosts.txt\"\n", 1, &["@hosts.txt", "whole path"]),
        ("# x\n# y\nmemory-limit = \"much\"\n", 3, &["memory-limit", "20G"]),
        ("memory-limit = 0x10\n", 1, &["memory-limit"]),
        ("tuning = \"fast\"\n", 1, &["counted", "clock"]),
        ("ssh = \"\"\n", 1, &["ssh -F my_config"]),
        ("clusters = 3\n", 1, &["[clusters]"]),
        ("[clusters]\nlab = 4.5\n", 2, &["`lab`", "worker string"]),
        ("[clusters]\n\nproc = \"big\"\n", 3, &["`proc`", "another name"]),
        ("[clusters]\n\"a b\" = \"big\"\n", 2, &["a b", "letters"]),
        ("[clusters]\nlab = \"big*0\"\n", 2, &["`lab`"]),
        ("workers = \"a\"\nlab big\n", 2, &[]),
        ("workers = \"a\"\nworkers = \"b\"\n", 2, &["duplicate"]),
        ("[[clusters]]\n", 1, &["[clusters]"]),
    ] {
        let path = folder.file("config.toml", text);
        let e = Config::read(&user(&path)).unwrap_err();
        let shown = e.to_string();
        let ConfigError::Wrong { file, line: found, .. } = e else { panic!("{text:?}: {shown}") };
        assert_eq!((file, found), (path, line), "{text:?}: {shown}");
        for word in words {
            assert!(shown.contains(word), "{text:?}: {word:?} is missing from {shown}");
        }
    }
}

#[test]
fn a_file_of_a_project_names_no_hosts_no_clusters_and_no_ssh() {
    let folder = Folder::new();
    let mine = folder.file("config.toml", "[clusters]\nlab = \"big*8\"\n");
    for (text, is_right, words) in [
        ("workers = \"proc:4\"\n", true, ""),
        ("workers = \"auto:local:2,proc:2\"\n", true, ""),
        ("workers = \"lab,proc:2\"\n", true, ""),
        ("workers = \"mpi\"\n", true, ""),
        ("workers = \"proc:2,elsewhere\"\n", false, "`elsewhere`"),
        ("workers = \"ssh://lab\"\n", false, "send your data there"),
        ("workers = \"@/etc/hosts\"\n", false, "@/etc/hosts"),
        ("workers = \"store:file:///mnt/share\"\n", false, "store:"),
        ("workers = \"auto:store:file:///mnt/share\"\n", false, "store:"),
        ("ssh = \"sh -c anything\"\n", false, "have any command started"),
        ("[clusters]\nlab = \"elsewhere\"\n", false, "user's own file alone"),
    ] {
        let places = Places { user: Some(mine.clone()), project: Some(folder.file("qjam.toml", text)) };
        match (Config::read(&places), is_right) {
            (Ok(_), true) => {}
            (Err(e), false) => assert!(e.to_string().contains(words), "{text}: {e}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn files_that_others_can_write_are_not_believed() {
    let folder = Folder::new();
    let path = folder.file("config.toml", "ssh = \"anything\"\n");
    let project = folder.file("qjam.toml", "tuning = \"clock\"\n");
    let places = Places { user: None, project: Some(project.clone()) };
    let ignored = |places: &Places| {
        let config = Config::read(places).unwrap();
        assert_eq!(config.entries(), [] as [&qjam_config::Entry; 0]);
        config.ignored().to_vec()
    };
    for bits in [0o620, 0o602, 0o666] {
        mode(&path, bits);
        mode(&project, bits);
        let e = Config::read(&user(&path)).unwrap_err();
        assert!(matches!(e, ConfigError::NotTrusted(Distrust::Writable { .. })), "{e}");
        assert!(e.to_string().contains("chmod go-w"), "{e}");
        assert!(matches!(ignored(&places)[..], [Distrust::Writable { .. }]));
    }
    mode(&path, 0o644);
    mode(&project, 0o644);
    assert_eq!(Config::read(&places).unwrap().entries().len(), 1);
    // Their folder counts, too, unless others can replace nothing in it.
    mode(&folder.0, 0o777);
    assert!(matches!(Config::read(&user(&path)), Err(ConfigError::NotTrusted(Distrust::Writable { .. }))));
    assert!(matches!(ignored(&places)[..], [Distrust::Writable { .. }]));
    mode(&folder.0, 0o1777);
    assert_eq!(Config::read(&places).unwrap().entries().len(), 1);
    mode(&folder.0, 0o700);
    // What is behind a link is somebody's choice; of the user's own file it is the user's.
    let link = folder.0.join("link.toml");
    symlink(&project, &link).unwrap();
    assert!(matches!(ignored(&Places { user: None, project: Some(link) })[..], [Distrust::Kind { .. }]));
    let link = folder.0.join("mine.toml");
    symlink(&path, &link).unwrap();
    assert_eq!(Config::read(&user(&link)).unwrap().entries().len(), 1);
    assert!(Config::read(&user(&folder.0.join("none.toml"))).unwrap().entries().is_empty());
}

#[test]
fn files_of_another_user_are_not_believed() {
    let folder = Folder::new();
    let path = folder.file("qjam.toml", "tuning = \"clock\"\n");
    if chown(&path, Some(12345), None).is_err() {
        panic!("NOT TESTED: only root can give a file to another user; run as root");
    }
    let config = Config::read(&Places { user: None, project: Some(path.clone()) }).unwrap();
    assert!(matches!(config.ignored(), [Distrust::Owner { .. }]), "{:?}", config.ignored());
    assert!(config.entries().is_empty());
    let e = Config::read(&user(&path)).unwrap_err();
    assert!(e.to_string().contains("belongs to another user"), "{e}");
}

#[test]
fn values_are_set_and_removed_one_by_one_and_wrong_ones_leave_the_file_alone() {
    let folder = Folder::new();
    let path = folder.0.join("new/config.toml");
    set(&path, "clusters.lab", "big*8, small", false).unwrap();
    set(&path, "workers", "lab", false).unwrap();
    set(&path, "clusters.far", "there", false).unwrap();
    set(&path, "workers", "auto:lab", false).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, "workers = \"auto:lab\"\n[clusters]\nlab = \"big*8, small\"\nfar = \"there\"\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for (key, value, words) in [
        ("workers", "pro k", "pro k"),
        ("colour", "red", "clusters.NAME"),
        ("clusters.local", "big", "another name"),
        ("clusters.spark", "big", "another name"),
        ("tuning", "", "counted"),
    ] {
        let e = set(&path, key, value, false).unwrap_err().to_string();
        assert!(e.contains(words), "{key}: {e}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let project = folder.0.join("qjam.toml");
    for (key, value) in [("ssh", "anything"), ("clusters.lab", "big"), ("workers", "elsewhere")] {
        assert!(set(&project, key, value, true).is_err(), "{key}");
        assert!(!project.exists());
    }
    set(&project, "workers", "proc:2", true).unwrap();
    assert!(unset(&path, "clusters.far", false).unwrap());
    assert!(!unset(&path, "clusters.far", false).unwrap());
    assert!(unset(&path, "workers", false).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "[clusters]\nlab = \"big*8, small\"\n");
}

#[test]
fn links_of_another_user_are_not_followed_and_folders_above_count() {
    let folder = Folder::new();
    let path = folder.file("config.toml", "ssh = \"anything\"\n");
    let link = folder.0.join("link.toml");
    symlink("./config.toml", &link).unwrap();
    assert_eq!(Config::read(&user(&link)).unwrap().entries().len(), 1);
    // A link to a folder, on the way to the file.
    let way = folder.0.join("way");
    symlink(&folder.0, &way).unwrap();
    assert_eq!(Config::read(&user(&way.join("config.toml"))).unwrap().entries().len(), 1);
    // Not the nearest folder, but one above it.
    let (above, inner) = (folder.0.join("above"), folder.0.join("above/inner"));
    fs::create_dir_all(&inner).unwrap();
    mode(&inner, 0o700);
    fs::rename(&path, inner.join("config.toml")).unwrap();
    let path = inner.join("config.toml");
    mode(&above, 0o777);
    let e = Config::read(&user(&path)).unwrap_err();
    assert!(
        matches!(&e, ConfigError::NotTrusted(Distrust::Writable { what, .. }) if *what == above.canonicalize().unwrap()),
        "{e}"
    );
    // Without a file there is nothing to believe.
    assert!(Config::read(&user(&inner.join("none.toml"))).unwrap().entries().is_empty());
    mode(&above, 0o1777);
    assert_eq!(Config::read(&user(&path)).unwrap().entries().len(), 1);
    let turning = folder.0.join("turning.toml");
    symlink(&turning, &turning).unwrap();
    assert!(matches!(Config::read(&user(&turning)), Err(ConfigError::Unreadable { .. })));
    let link = folder.0.join("foreign.toml");
    symlink(&path, &link).unwrap();
    if lchown(&link, Some(12345), None).is_err() {
        panic!("NOT TESTED: only root can give a link to another user; run as root");
    }
    let e = Config::read(&user(&link)).unwrap_err();
    assert!(
        matches!(&e, ConfigError::NotTrusted(Distrust::Owner { what, .. }) if what.ends_with("foreign.toml")),
        "{e}"
    );
}

#[test]
fn a_project_file_that_cannot_be_opened_or_is_gone_keeps_nobody_from_working() {
    let folder = Folder::new();
    let path = folder.0.join("qjam.toml");
    let places = Places { user: None, project: Some(path.clone()) };
    let gone = Config::read(&places).unwrap();
    assert!(gone.ignored().is_empty() && gone.entries().is_empty());
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let config = Config::read(&places).unwrap();
    assert!(matches!(config.ignored(), [Distrust::Unreadable { .. }]), "{:?}", config.ignored());
    assert!(config.entries().is_empty());
}

#[test]
fn an_edit_changes_its_key_and_no_other() {
    let folder = Folder::new();
    for text in [
        "clusters = { lab = \"big*8\", far = \"h*2\" }\n",
        "clusters.lab = \"big*8\"\nclusters.far = \"h*2\"\n",
        "[clusters]\nlab = \"big*8\"\nfar = \"h*2\"\n",
    ] {
        for (key, value) in [
            ("clusters.lab", None),
            ("clusters.far", Some("g")),
            ("clusters.new", Some("n")),
            ("tuning", Some("clock")),
        ] {
            let path = folder.file("config.toml", text);
            let known = || -> Vec<(String, String)> {
                let config = Config::read(&user(&path)).unwrap();
                config.entries().into_iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
            };
            let mut expected = known();
            let done = match value {
                None => unset(&path, key, false).map(|was_there| assert!(was_there)),
                Some(value) => set(&path, key, value, false),
            };
            match done {
                Ok(()) => {
                    expected.retain(|(known, _)| known != key);
                    expected.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                }
                Err(e) => assert!(e.to_string().contains("edit it"), "{text} {key}: {e}"),
            }
            let mut found = known();
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{text} {key}");
        }
    }
}
