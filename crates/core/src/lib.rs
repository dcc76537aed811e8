//! The pure heart of qjam: types, the machines of master and worker, the wire, and the fixed order of reduction.
//!
//! Nothing in here has a clock, a thread, a file or a socket. Time and bytes are arguments; what is to be done comes
//! out as a list of actions. So the same code runs under the real engines and under the simulator, where a seed
//! decides everything.
//!
//! The modules follow the way of the data: a data set is cut into [`chunk`]s; a round over them is a [`job`]; the
//! [`scheduler`] gives its blocks out; the [`wire`] says what crosses; the [`worker`] runs them; [`reduce`] combines
//! what they give. The [`journal`] keeps what happened, and the [`tuner`] learns from it how many workers pay.

pub mod ids;
pub mod time;

pub mod chunk;
pub mod job;
pub mod lease;
pub mod order;
pub mod scheduler;
pub mod wire;
pub mod worker;

pub mod journal;
pub mod reduce;
pub mod tuner;
