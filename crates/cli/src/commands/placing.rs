//! Files that are there whole or not at all: written beside their place, and moved there at the end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where a file is until it is whole.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    aside.into()
}

/// Whether a path names something that is neither a file nor a folder: a device, a pipe. It is written to where it is, since
/// moving a file there would replace it.
pub(crate) fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Writes a file.
pub(crate) fn write(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let to = if is_special(path) { path.to_path_buf() } else { beside(path) };
    let written = File::create(&to).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    if to == path {
        return written;
    }
    written.and_then(|()| std::fs::rename(&to, path)).inspect_err(|_| {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(&to);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        assert!(is_special(Path::new("/dev/null")) && is_special(Path::new("/dev/full")));
        write(Path::new("/dev/null"), |out| out.write_all(b"gone")).unwrap();
        let full = write(Path::new("/dev/full"), |out| out.write_all(b"no room")).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(is_special(Path::new("/dev/null")) && is_special(Path::new("/dev/full")));
    }

    #[test]
    fn what_could_not_be_written_whole_leaves_what_was_there() {
        let path = std::env::temp_dir().join(format!("qjam-placing-{}", std::process::id()));
        write(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"new")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err() && !beside(&path).exists());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        std::fs::remove_file(&path).unwrap();
    }
}
