//! The wire format between master and worker.
//!
//! [`frame`] delimits messages and detects damage; [`message`] defines their content. The five messages of a round are `task`, `state`,
//! `refs`, `result` and `error`. The others are `hello` and `welcome` (the handshake), `ping` and `pong`, `cancel` (or `spare`) and
//! `cancelled`, `recall` and `returned`, `apart`, and `bye`. This module moves no bytes; transports do.
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
//! Lengths are checked before anything is allocated: see [`frame::BODY_BYTES_MAX`] and [`frame::TAIL_BYTES_MAX`]. Larger payloads are in
//! shared memory, and the message refers to them.
//!
//! Between hosts there is no shared memory. There the same messages are inside those of [`host`], and larger payloads are sent before them
//! in segments.

pub mod frame;
pub mod host;
pub mod message;
pub mod recipe;

pub use frame::{Frame, FrameError, HEADER_BYTES, PROTOCOL};
pub use host::{FromHost, ToHost};
pub use message::{ToMaster, ToWorker};
