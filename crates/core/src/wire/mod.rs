//! What bytes between master and worker mean.
//!
//! [`frame`] says where a message begins and ends and whether it is whole; [`message`] what it says. The five messages
//! of a round are `task`, `state`, `refs`, `result` and `error`; around them stand `hello` and `welcome` (the
//! handshake), `ping` and `pong`, `cancel` (or `spare`) and `cancelled`, `recall` and `returned`, `apart`, and `bye`.
//!
//! ```text
//!   master                                   worker
//!     │ ◀───────────────── hello (protocol) ── │
//!     │ ── welcome ──────────────────────────▶ │
//!     │ ── task (function, θ, blocks) ───────▶ │
//!     │ ◀─ state (blocked, missing hashes) ─── │   only for chunks it has not got
//!     │ ── refs (where the bytes are) ───────▶ │
//!     │ ◀─ state (behind, partitions) ──────── │   only for states it has not got, or not as the round wants them
//!     │ ── recipe (checkpoint, rounds since) ▶ │   in pieces
//!     │ ◀─ state (running) ─────────────────── │   only while a block runs for over a second
//!     │ ── recall (so many blocks) ──────────▶ │   only while somebody is idle and this one seems slow
//!     │ ◀─ returned (what it had not started) ─│
//!     │ ── apart (a block that is late) ─────▶ │   only when somebody else got it, too
//!     │ ◀─ result (roots of finished subtrees) │   or error
//! ```
//!
//! Numbers of bytes are bounded before anything is allocated: see [`frame::BODY_BYTES_MAX`] and
//! [`frame::TAIL_BYTES_MAX`]. What is larger lies in shared memory and the message says where.
//!
//! Between hosts there is no shared memory. There the same messages go inside those of [`host`], and what is larger
//! goes before them in segments.

pub mod frame;
pub mod host;
pub mod message;
pub mod recipe;

pub use frame::{Frame, FrameError, HEADER_BYTES, PROTOCOL};
pub use host::{FromHost, ToHost};
pub use message::{ToMaster, ToWorker};
