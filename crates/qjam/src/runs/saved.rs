//! Checkpoints of states, each in a file beside that of its run.
//!
//! A run that goes on from another is given values, and states follow from the rounds; without these files it would have
//! to run all of them again. The newest checkpoint of each hold is kept: written under another name and renamed, so that
//! there is always a whole one. They go with their run, and count with it.
//!
//! ```text
//!   offset 0   "qjamhold"      8 bytes
//!          8   hash of the rest, BLAKE3
//!         40   length of the head  u64
//!         48   head            a postcard message
//!              the states, one after the other
//! ```

use super::RunError;
use super::record::Hash;
use super::trust::Trust;
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::ids::Version;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"qjamhold";
/// States that take more than this are not kept. To make them again takes longer, but the disk is not ours alone.
const BYTES_MAX: u64 = 256 << 20;
const SUFFIX: &str = "state";

#[derive(Serialize, Deserialize)]
struct Head {
    /// The hash of all rounds that led to these states.
    chain: Hash,
    version: Version,
    lengths: Vec<u64>,
}

/// A checkpoint that an earlier run left.
pub(crate) struct Saved {
    path: PathBuf,
    trust: Trust,
    /// The hash of all rounds that led to it.
    pub(crate) chain: Hash,
    pub(crate) version: Version,
}

fn path_of(folder: &Path, id: &str, hold: u64) -> PathBuf {
    folder.join(format!("{id}.{hold}.{SUFFIX}"))
}

/// The run that a file of this name belongs to, if it is one of ours.
pub(super) fn owner(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let (id, rest) = name.split_once('.')?;
    let (hold, suffix) = rest.split_once('.')?;
    let is_ours = suffix == SUFFIX || suffix == "part";
    (is_ours && !hold.is_empty() && hold.bytes().all(|b| b.is_ascii_digit())).then_some(id)
}

/// Keeps the states of a hold instead of those that were kept before.
pub(super) fn write(
    folder: &Path,
    id: &str,
    hold: u64,
    chain: Hash,
    version: Version,
    states: &[Bytes],
) -> io::Result<()> {
    let lengths: Vec<u64> = states.iter().map(|state| state.len() as u64).collect();
    if lengths.iter().sum::<u64>() > BYTES_MAX {
        return Ok(());
    }
    let head = postcard::to_allocvec(&Head { chain, version, lengths }).map_err(io::Error::other)?;
    let length = (head.len() as u64).to_le_bytes();
    let pieces = || [&length[..], &head].into_iter().chain(states.iter().map(|state| &state[..]));
    let mut hasher = blake3::Hasher::new();
    pieces().for_each(|piece| {
        hasher.update(piece);
    });
    let (path, part) = (path_of(folder, id, hold), folder.join(format!("{id}.{hold}.part")));
    // A new file, so that it is ours: one that is there may be of an earlier write that failed, or of somebody else, who could write to
    // it later.
    let _ = std::fs::remove_file(&part);
    let options = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(rustix::fs::open(&part, options, Mode::RUSR | Mode::WUSR)?);
    let hash = hasher.finalize();
    let front = [&MAGIC[..], hash.as_bytes()];
    let written = front.into_iter().chain(pieces()).try_for_each(|piece| file.write_all(piece));
    match written.and_then(|()| std::fs::rename(&part, &path)) {
        Ok(()) => Ok(()),
        Err(e) => {
            let _ = std::fs::remove_file(&part);
            Err(e)
        }
    }
}

/// What a run has left, as far as it may be believed.
pub(super) fn list(folder: &Path, id: &str, trust: Trust) -> Vec<Saved> {
    paths(folder, id)
        .filter_map(|path| {
            let bytes = read(&path, trust)?;
            let (Head { chain, version, .. }, _) = parse(&bytes)?;
            Some(Saved { path, trust, chain, version })
        })
        .collect()
}

/// Why some of what is there is not used, though it looks like what a run has left.
pub(super) fn refused(folder: &Path, id: &str, trust: Trust) -> Vec<RunError> {
    let opened = paths(folder, id).map(|path| trust.open(&path));
    opened.filter_map(|file| file.err().filter(|why| matches!(why, RunError::NotTrusted(_)))).collect()
}

fn paths(folder: &Path, id: &str) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = entries.filter(move |path| owner(path) == Some(id));
    ours.filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
}

impl Saved {
    /// The states, if they are what was written and so many.
    pub(crate) fn load(&self, partitions: usize) -> Option<Vec<Bytes>> {
        let bytes = read(&self.path, self.trust)?;
        let (head, mut rest) = parse(&bytes)?;
        if head.lengths.len() != partitions || head.chain != self.chain {
            return None;
        }
        let mut states = Vec::with_capacity(partitions);
        for length in head.lengths {
            let (state, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            let mut aligned = AlignedBuf::zeroed(state.len());
            aligned.as_mut_slice().copy_from_slice(state);
            states.push(aligned.into_bytes());
            rest = after;
        }
        rest.is_empty().then_some(states)
    }
}

fn read(path: &Path, trust: Trust) -> Option<Vec<u8>> {
    let file = trust.open(path).ok()?;
    // A little more than the states for the head.
    let limit = BYTES_MAX + BYTES_MAX / 4;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The head and what follows it.
fn parse(bytes: &[u8]) -> Option<(Head, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (hash, rest) = rest.split_first_chunk::<32>()?;
    if blake3::hash(rest).as_bytes() != hash {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (head, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    match postcard::take_from_bytes(head) {
        Ok((head, [])) => Some((head, rest)),
        _ => None,
    }
}

/// The bytes of all states, if they are what the head says. With `sealed`, magic string and hash are put in front.
pub(super) fn parsed_bytes(bytes: &[u8], sealed: bool) -> Option<u64> {
    let front = [&MAGIC[..], blake3::hash(bytes).as_bytes()].concat();
    let file = if sealed { [&front, bytes].concat() } else { bytes.to_vec() };
    let (head, rest) = parse(&file)?;
    let total = head.lengths.iter().try_fold(0_u64, |total, length| total.checked_add(*length))?;
    (total == rest.len() as u64).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam_core::ids::RoundId;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_newest_is_found_again_and_damage_is_not_used() {
        let folder = std::env::temp_dir().join(format!("qjam-saved-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let id = "20261115T063324Z-00ff1e";
        let states = |n: u8| vec![Bytes::from(vec![n; 1000]), Bytes::new(), Bytes::from(vec![n; 3])];
        for n in 1..4 {
            write(&folder, id, 2, [n; 32], Version::after(RoundId(n.into())), &states(n)).unwrap();
        }
        let saved = list(&folder, id, Trust::Own);
        assert_eq!((saved.len(), saved[0].chain, saved[0].version), (1, [3; 32], Version::after(RoundId(3))));
        assert_eq!(saved[0].load(3), Some(states(3)));
        assert_eq!(saved[0].load(2), None, "another cut");
        assert!(list(&folder, "20261115T063324Z-00ff1f", Trust::Own).is_empty(), "another run's");
        let path = path_of(&folder, id, 2);
        let good = std::fs::read(&path).unwrap();
        for at in [0, 9, 45, 60, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            assert!(saved[0].load(3).is_none() && list(&folder, id, Trust::Own).is_empty(), "byte {at}");
        }
        for length in [0, 7, 8, 47, 48, good.len() - 1] {
            std::fs::write(&path, &good[..length]).unwrap();
            assert!(saved[0].load(3).is_none(), "{length} bytes");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_others_can_have_written_is_not_used() {
        let folder = std::env::temp_dir().join(format!("qjam-planted-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let id = "20261115T063324Z-00ff1e";
        let states = vec![Bytes::from(vec![7; 1000])];
        let write = |hold| write(&folder, id, hold, [1; 32], Version::after(RoundId(1)), &states);
        // What lies there under the name of a new file is not written to.
        let (path, part) = (path_of(&folder, id, 0), folder.join(format!("{id}.0.part")));
        std::fs::write(&part, "somebody's, with whom it stays").unwrap();
        std::fs::hard_link(&part, folder.join("kept")).unwrap();
        write(0).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("kept")).unwrap(), "somebody's, with whom it stays");
        assert!(!part.exists());
        let saved = list(&folder, id, Trust::Own);
        assert!(
            saved.len() == 1 && saved[0].load(1).is_some() && refused(&folder, id, Trust::Own).is_empty()
        );
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let is_refused = |with: &str| {
            assert!(list(&folder, id, Trust::Own).is_empty() && saved[0].load(1).is_none(), "{with}");
            let why = refused(&folder, id, Trust::Own);
            assert!(why.len() == 1 && why[0].to_string().contains(with), "{why:?}");
            assert_eq!(list(&folder, id, Trust::All).len(), 1);
        };
        for wide in [0o620, 0o602, 0o666] {
            mode(wide);
            is_refused("can be written by other users");
        }
        mode(0o600);
        assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: a file of another user");
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        is_refused("belongs to another user");
        // A link to one that may be used.
        write(1).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(path_of(&folder, id, 1), &path).unwrap();
        assert_eq!(list(&folder, id, Trust::Own).len(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_tell_whose_they_are() {
        assert_eq!(owner(Path::new("/x/abc.0.state")), Some("abc"));
        assert_eq!(owner(Path::new("abc.17.part")), Some("abc"));
        for other in ["abc.run", "abc.state", "abc..state", "abc.x.state", "abc.1.txt", "notes"] {
            assert_eq!(owner(Path::new(other)), None, "{other}");
        }
    }
}
