//! The executable that travels to hosts.

use super::{StartFailure, Step};
use sha2::Digest;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The environment variable that names another executable to send than the one that runs.
const WORKER: &str = "QJAM_WORKER";
const THIS: &str = "/proc/self/exe";
/// Bytes that are hashed at a time: they stay in the processor's cache for the second hash.
const PIECE_BYTES: usize = 128 << 10;

/// An executable, with all that a host is told of it.
///
/// The file is kept open: what is sent is what was hashed, also when a new build takes its name meanwhile.
#[derive(Debug)]
pub(crate) struct Shipped {
    file: File,
    /// Where it came from, for messages.
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
    /// BLAKE3, 64 hexadecimal digits.
    pub(crate) hash: String,
    /// SHA-256, for which hosts have a tool; likewise.
    pub(crate) sha256: String,
    /// The machine it runs on, in the words of `uname -m`.
    pub(crate) machine: String,
    /// Whether it needs a loader and libraries of the host.
    pub(crate) is_dynamic: bool,
}

impl Shipped {
    /// The executable to send: the one named here, or by `QJAM_WORKER`, or this program. Read once per process.
    pub(crate) fn find(named: Option<&Path>) -> Result<Arc<Shipped>, StartFailure> {
        static KNOWN: Mutex<Option<Arc<Shipped>>> = Mutex::new(None);
        let path = named.map(Path::to_owned).or_else(from_environment).unwrap_or_else(|| THIS.into());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shipped) = known.as_ref().filter(|s| s.path == path) {
            return Ok(shipped.clone());
        }
        let shipped = Self::open(&path).map_err(|e| StartFailure {
            step: Step::Copy,
            what: format!("the executable to send, {}, cannot be used: {e}", path.display()),
            words: Vec::new(),
            remedy: "name a Linux executable built from this program in QJAM_WORKER, or unset it".into(),
        })?;
        let shipped = Arc::new(shipped);
        *known = Some(shipped.clone());
        Ok(shipped)
    }

    pub(super) fn open(path: &Path) -> io::Result<Shipped> {
        let file = File::open(path)?;
        let (machine, is_dynamic) = read_elf(&file)?;
        let (mut blake3, mut sha256) = (blake3::Hasher::new(), sha2::Sha256::new());
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match (&file).read(&mut piece)? {
                0 => break,
                n => {
                    blake3.update(&piece[..n]);
                    sha256.update(&piece[..n]);
                }
            }
        }
        let (length, hash) = (blake3.count(), blake3.finalize().to_hex().to_string());
        let sha256 = sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Shipped { file, path: path.to_owned(), length, hash, sha256, machine, is_dynamic })
    }

    /// Bytes from `offset` on; none means that the file has become shorter.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os(WORKER).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Whether the environment names an executable to send.
pub(crate) fn names_a_worker() -> bool {
    from_environment().is_some()
}

/// The machine of an executable, and whether it names a loader.
fn read_elf(file: &File) -> io::Result<(String, bool)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).map_err(|_| wrong("not an executable of Linux"))?;
    if !head.starts_with(b"\x7fELF") {
        return Err(wrong("not an executable of Linux"));
    }
    // Class and byte order: 64 bits, little end first, like all machines that this could travel between.
    if head[4..6] != [2, 1] {
        return Err(wrong("not for a 64-bit little-endian machine"));
    }
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let machine = match u16_at(&head, 18) {
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv64".to_owned(),
        21 => "ppc64le".to_owned(),
        other => format!("elf-machine-{other}"),
    };
    let mut table_at = [0; 8];
    table_at.copy_from_slice(&head[32..40]);
    let (table_at, entry_bytes, entries) =
        (u64::from_le_bytes(table_at), u16_at(&head, 54), u16_at(&head, 56));
    for n in 0..u64::from(entries) {
        let mut kind = [0; 4];
        let at = table_at.saturating_add(n * u64::from(entry_bytes));
        file.read_exact_at(&mut kind, at).map_err(|_| wrong("its program headers are cut off"))?;
        if u32::from_le_bytes(kind) == PT_INTERP {
            return Ok((machine, true));
        }
    }
    Ok((machine, false))
}

/// The program header that names a loader.
const PT_INTERP: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_can_be_shipped() {
        let shipped = Shipped::open(Path::new(THIS)).unwrap();
        assert_eq!(shipped.machine, std::env::consts::ARCH);
        assert_eq!(shipped.length, std::fs::metadata(THIS).unwrap().len());
        assert_eq!(shipped.hash.len(), 64);
    }

    #[test]
    fn what_is_no_executable_is_refused() {
        for path in ["/etc/passwd", "/dev/null", "/", "/nowhere"] {
            assert!(Shipped::open(Path::new(path)).is_err(), "{path}");
        }
    }
}
