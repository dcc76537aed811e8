//! What can be wrong with a payload.

/// Why bytes are not the value they were said to be.
///
/// Both sides run the same executable, so none of these comes from ordinary use: they mean damaged bytes, or a
/// hand-written [`Wire`](crate::Wire) whose two halves disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The payload's own table does not describe its bytes.
    #[error("a payload of {bytes} bytes does not have the layout its header gives: {problem}")]
    Layout {
        /// Length of the payload.
        bytes: usize,
        /// What does not add up.
        problem: &'static str,
    },
    /// The body ended within a value.
    #[error("the payload ends too early: {wanted} more bytes were expected and {left} are left")]
    Truncated {
        /// Bytes the value still needed.
        wanted: usize,
        /// Bytes there were.
        left: usize,
    },
    /// A sequence claims more elements than the payload can hold.
    #[error("a sequence claims {claimed} elements, more than the {left} bytes left can hold")]
    Count {
        /// Elements claimed.
        claimed: u64,
        /// Bytes left of body and buffers.
        left: usize,
    },
    /// A raw buffer is missing or has another length than the body says.
    #[error("a raw buffer of {wanted} bytes was expected and {} found", match .found { Some(n) => format!("one of {n} bytes"), None => "none".into() })]
    Buffer {
        /// Bytes the body asks for.
        wanted: usize,
        /// Bytes of the next buffer, if there is one.
        found: Option<usize>,
    },
    /// An integer does not fit its type, or is written in more bytes than it needs.
    #[error("an integer is out of range for {kind}")]
    Range {
        /// The type it was read for.
        kind: &'static str,
    },
    /// A number that selects a variant selects none.
    #[error("{kind} has no variant number {tag}")]
    Tag {
        /// The type it was read for.
        kind: &'static str,
        /// The number found.
        tag: u64,
    },
    /// Text is not UTF-8.
    #[error("text is not valid UTF-8 from its byte {at} on")]
    Text {
        /// Where it stops being valid.
        at: usize,
    },
    /// The keys of a map do not ascend, so it was not written by an encoder.
    #[error("the keys of a map are not in ascending order (entry {entry})")]
    Order {
        /// The entry whose key is not above the one before it.
        entry: u64,
    },
    /// Values lie within one another more deeply than is allowed.
    #[error(
        "values are nested more than {limit} deep; flatten the type, for example with indices into a vector"
    )]
    Depth {
        /// The limit.
        limit: u32,
    },
    /// A serde value could not be written or read.
    #[error("the serde value {kind} could not be {step}: {reason}")]
    Serde {
        /// The type.
        kind: &'static str,
        /// `written` on the side that sent it, or `read` here.
        step: &'static str,
        /// What postcard says.
        reason: String,
    },
    /// A value was read whole and something is left.
    #[error("{bytes} bytes of the body and {buffers} buffers are left over after the value")]
    LeftOver {
        /// Bytes of the body not read.
        bytes: usize,
        /// Buffers not read.
        buffers: usize,
    },
}
