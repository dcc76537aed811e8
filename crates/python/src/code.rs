//! The user's code as it travels, named by its content.

use bytes::Bytes;
use std::sync::Arc;

/// The name of a piece of code: a hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeId(pub [u8; 16]);

/// The user's code as it travels: functions, and the modules that go with them. Only Python reads it.
#[derive(Clone, Debug)]
pub struct Code {
    id: CodeId,
    pub(crate) blob: Bytes,
    /// What people call the function; stays on the master.
    pub(crate) name: Option<Arc<str>>,
}

impl Code {
    /// Names it.
    pub fn new(blob: Bytes) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&blake3::hash(&blob).as_bytes()[..16]);
        Code { id: CodeId(id), blob, name: None }
    }

    /// The same, for messages.
    pub fn named(self, name: &str) -> Self {
        Code { name: Some(name.into()), ..self }
    }

    /// The same in memory of its own.
    pub(crate) fn copied(&self) -> Self {
        Code { blob: Bytes::copy_from_slice(&self.blob), ..self.clone() }
    }

    /// Its name.
    pub fn id(&self) -> CodeId {
        self.id
    }

    /// What Python reads.
    pub fn blob(&self) -> &Bytes {
        &self.blob
    }
}
