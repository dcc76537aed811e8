//! Rounds by workers that share nothing but a bucket: blob storage and a queue.
//!
//! Comes in: storage and the functions of the round, as the traits [`Storage`] and [`Work`]. Goes out: blobs and messages. No
//! connection joins the participants, nobody is in charge, and any of them may be gone at any moment. What holds it together:
//!
//! - A round is an *order* that nobody changes, written before any message about it is sent. Its [`Plan`] says which tasks there are
//!   and which results are merged together.
//! - A task is a message. It is invisible while a worker has it, and comes back if the worker does not say for a while that it still
//!   works. So every task is done at least once.
//! - A result has a name that follows from its place in the plan, and bits that follow from the order. Doing a task twice writes
//!   the same blob twice, and a merge reads each name once: nothing counts twice.
//! - Whoever completes a group of results merges it, in the order of the tree, and so on up to the value. Nobody waits for a reducer.
//! - Where blobs become visible late, nobody may have seen a group complete. A [watch] over the round finds that, and
//!   whatever else was lost: the submitter keeps it while it waits, or a message does if there is no submitter.
//!
//! ```text
//!   begin ──▶ order, copies │ messages: map 0 … P-1
//!                           ▼
//!              worker: take ─▶ map ─▶ result (stage 0, group g, task t)
//!                           │          all of group g there? ─▶ merge ─▶ result (stage 1, …) ─▶ … ─▶ end/value
//!                           └ dies: the message comes back               a fused step ─▶ the next order
//! ```
//!
//! A *fused* round has a step: a pure function that makes the next order, or what comes of the job, of the order and the value.
//! Whoever writes the value takes the step, and whoever finds a value that nothing has followed takes it again. The next order is
//! written only where there is none, so that it does not matter how many do. One of them sends the messages ([`begin`]). So a loop
//! of rounds needs no submitter.
//!
//! The protocol is written as `async` functions over these traits, which are run by real storage and by the simulator alike.
//! Nothing here reads a clock or starts anything: time passes in [`Storage::sleep`].

mod clearing;
pub mod keys;
pub mod message;
pub mod plan;
pub mod race;
pub mod round;
pub mod settings;
pub mod storage;
pub mod watch;
pub mod worker;

pub use clearing::outlives_its_round;
pub use message::Message;
pub use plan::{Plan, Shape};
pub use round::{Order, RoundAt, RoundHead, Sender, begin};
pub use settings::Settings;
pub use storage::{Delivery, Listed, Storage};
pub use watch::{Ending, Watch};
pub use worker::{Failed, Next, Work, Worker};
