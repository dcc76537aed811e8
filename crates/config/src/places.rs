//! Where the files are looked for.

use std::path::{Path, PathBuf};

/// Name of the file in a working folder.
pub const PROJECT_FILE: &str = "qjam.toml";
/// The environment variable that names another user's file, or `off` for no files at all.
pub const VARIABLE: &str = "QJAM_CONFIG";

/// The files to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The user's file, which need not be there.
    pub user: Option<PathBuf>,
    /// The nearest `qjam.toml`, if there is one.
    pub project: Option<PathBuf>,
}

impl Places {
    /// Those of this process: its environment and its working folder.
    pub fn here() -> Places {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME").filter(|home| home.is_absolute());
        let named = path(VARIABLE);
        if named.as_deref() == Some(Path::new("off")) {
            return Places::default();
        }
        let folder = path("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
        let folder = folder.or_else(|| home.as_ref().map(|home| home.join(".config")));
        let user = named.or_else(|| folder.map(|folder| folder.join("qjam/config.toml")));
        let project = std::env::current_dir().ok().and_then(|from| project(&from, home.as_deref()));
        Places { user, project }
    }
}

/// The nearest file in a folder or above it, but not above the home folder.
fn project(from: &Path, home: Option<&Path>) -> Option<PathBuf> {
    for folder in from.ancestors() {
        let path = folder.join(PROJECT_FILE);
        if path.symlink_metadata().is_ok() {
            return Some(path);
        }
        if Some(folder) == home {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_counts_and_none_above_the_home_folder() {
        let root = std::env::temp_dir().join(format!("qjam-places-{}", std::process::id()));
        let (home, inner) = (root.join("home"), root.join("home/a/b"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(root.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project(&inner, Some(&home)), None);
        assert_eq!(project(&inner, None), Some(root.join(PROJECT_FILE)));
        std::fs::write(home.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project(&inner, Some(&home)), Some(home.join(PROJECT_FILE)));
        std::fs::write(inner.join(PROJECT_FILE), "").unwrap();
        assert_eq!(project(&inner, Some(&home)), Some(inner.join(PROJECT_FILE)));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
