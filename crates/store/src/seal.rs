//! Seals blobs: what was read is what somebody who may write has written under that name.
//!
//! Every blob has a checksum over its name and content, so that a damaged one is seen and made again. With a key, which submitter
//! and workers were given out of sight of the storage, it also has an authentication code. Then whoever can write to the bucket but
//! has no key can stop a job, and nothing more: no code of theirs is run, no result of theirs is counted.

use crate::StoreError;
use bytes::Bytes;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What a sealed blob begins with.
const MARK: &[u8; 4] = b"qjs1";
/// Mark, checksum, authentication code.
const HEAD_BYTES: usize = 4 + 8 + 32;
/// A key in hexadecimal digits.
const KEY_DIGITS: usize = 64;

/// Seals blobs and opens them.
#[derive(Clone)]
pub struct Seal {
    key: Option<[u8; 32]>,
}

/// What is wrong with a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is not what was written.
    Damaged,
    /// It was written by somebody with another key, or with none.
    Forged,
    /// It was written by somebody with a key, and there is none here.
    Signed,
}

impl Seal {
    /// Checksums alone: everybody who can write to the bucket is trusted.
    pub fn without_key() -> Seal {
        Seal { key: None }
    }

    /// With the key in a file, which must be this user's alone.
    pub fn with_key_file(path: &Path) -> Result<Seal, StoreError> {
        let wrong = |problem: String| StoreError::Key { path: path.to_owned(), problem };
        let meta = fs::metadata(path).map_err(|e| wrong(format!("it cannot be read: {e}")))?;
        if meta.mode() & 0o077 != 0 || meta.uid() != rustix::process::getuid().as_raw() {
            return Err(wrong("others can read it; make it yours alone (`chmod 600`)".into()));
        }
        let text = fs::read_to_string(path).map_err(|e| wrong(format!("it cannot be read: {e}")))?;
        let key = blake3::Hash::from_hex(text.trim())
            .map_err(|_| wrong(format!("it has no key of {KEY_DIGITS} hexadecimal digits")))?;
        Ok(Seal { key: Some(*key.as_bytes()) })
    }

    /// Writes a new key into a file that is not there yet.
    pub fn make_key_file(path: &Path) -> Result<(), StoreError> {
        let wrong = |problem: String| StoreError::Key { path: path.to_owned(), problem };
        let mut key = [0; 32];
        let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty());
        if filled != Ok(key.len()) {
            return Err(wrong("the system gives no random numbers".into()));
        }
        let made = fs::File::options().write(true).create_new(true).mode(0o600).open(path);
        let text = format!("{}\n", blake3::Hash::from_bytes(key).to_hex());
        made.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| wrong(format!("it cannot be written: {e}")))
    }

    /// Whether there is a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// A blob for the bucket.
    #[cfg(any(test, feature = "objects"))]
    pub(crate) fn seal(&self, name: &str, content: &[u8]) -> Bytes {
        [&self.head(name, content)[..], content].concat().into()
    }

    /// What comes before the content, for storage that writes both without a copy.
    pub(crate) fn head(&self, name: &str, content: &[u8]) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(MARK);
        head[4..12].copy_from_slice(&checksum(name, content).to_le_bytes());
        head[12..].copy_from_slice(&self.code(name, content).unwrap_or([0; 32]));
        head
    }

    /// The content of a blob from the bucket.
    pub(crate) fn open(&self, name: &str, blob: &Bytes) -> Result<Bytes, Broken> {
        let head = blob.first_chunk::<HEAD_BYTES>().ok_or(Broken::Damaged)?;
        let content = blob.slice(HEAD_BYTES..);
        if head[..4] != MARK[..] || head[4..12] != checksum(name, &content).to_le_bytes()[..] {
            return Err(Broken::Damaged);
        }
        match self.code(name, &content) {
            // In constant time, as blake3 compares its hashes.
            Some(code) if blake3::Hash::from_bytes(code) != head_code(head) => Err(Broken::Forged),
            None if head[12..] != [0; 32] => Err(Broken::Signed),
            _ => Ok(content),
        }
    }

    fn code(&self, name: &str, content: &[u8]) -> Option<[u8; 32]> {
        let mut hasher = blake3::Hasher::new_keyed(self.key.as_ref()?);
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(content);
        Some(*hasher.finalize().as_bytes())
    }
}

fn head_code(head: &[u8; HEAD_BYTES]) -> blake3::Hash {
    let mut code = [0; 32];
    code.copy_from_slice(&head[12..]);
    blake3::Hash::from_bytes(code)
}

fn checksum(name: &str, content: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update(content);
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_read_under_its_name_and_with_its_key_alone() {
        let (none, one, other) =
            (Seal::without_key(), Seal { key: Some([1; 32]) }, Seal { key: Some([2; 32]) });
        for seal in [&none, &one] {
            let blob = seal.seal("jobs/a/order", b"content");
            assert_eq!(seal.open("jobs/a/order", &blob), Ok(Bytes::from_static(b"content")));
            assert_eq!(seal.open("jobs/b/order", &blob), Err(Broken::Damaged));
            for at in 0..blob.len() {
                let mut flipped = blob.to_vec();
                flipped[at] ^= 1;
                let is_code = (12..HEAD_BYTES).contains(&at);
                let opened = seal.open("jobs/a/order", &flipped.into());
                match (is_code, seal.has_key()) {
                    (true, false) => assert_eq!(opened, Err(Broken::Signed)),
                    (true, true) => assert_eq!(opened, Err(Broken::Forged)),
                    (false, _) => assert_eq!(opened, Err(Broken::Damaged)),
                }
            }
            for length in 0..blob.len() {
                assert!(seal.open("jobs/a/order", &blob.slice(..length)).is_err());
            }
            assert_eq!(other.open("jobs/a/order", &blob), Err(Broken::Forged));
            assert_eq!(none.open("jobs/a/order", &one.seal("jobs/a/order", b"")), Err(Broken::Signed));
        }
    }

    #[test]
    fn keys_come_from_private_files() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("qjam-key-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        Seal::make_key_file(&path).unwrap();
        assert!(Seal::with_key_file(&path).unwrap().has_key());
        assert!(Seal::make_key_file(&path).is_err(), "an old key was overwritten");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Seal::with_key_file(&path).err().unwrap().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(Seal::with_key_file(&path).err().unwrap().to_string().contains("64 hexadecimal"));
        fs::remove_file(&path).unwrap();
    }
}
