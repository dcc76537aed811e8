//! Loops of rounds that need no submitter: a *step* makes the next round of the value of the last one.
//!
//! A step is a registered function, as maps and folds are. It gets what the loop keeps between its rounds, and the parameters and
//! the value of the round that has ended. It returns the next round, or that the loop is over. Whoever completes a round can take
//! the step, so engines whose workers share storage run the whole loop while the program that began it is gone.
//!
//! ```text
//!   FusedRound::first ─▶ workers run its order ─▶ parts ─▶ FusedRound::follow ─┬▶ Followed::Round ─▶ …
//!                                                                              └▶ Followed::Stop: what the loop kept last
//! ```
//!
//! A step must be a pure function of its arguments: several workers may take the same one, and must come to the same bytes. The
//! test of an engine compares a fused loop with the loop of a [`Master`](crate::Master).
//!
//! ```
//! use qjam::fused::{Call, EndedRound, Followed, FusedRound, Next, StepError};
//! use qjam::{DataSet, Dense};
//!
//! #[qjam::map]
//! fn total(scale: &f64, x: &Dense<f64>) -> f64 {
//!     x.as_slice().iter().map(|v| scale * v).sum()
//! }
//!
//! /// Three rounds, each with the value of the one before.
//! fn thrice(rounds: u64, ended: EndedRound) -> Result<Next<u64>, StepError> {
//!     let (_, value) = ended.open::<f64, f64>()?;
//!     match rounds {
//!         2 => Ok(Next::Stop(value.to_bits())),
//!         _ => Ok(Next::round(rounds + 1, Call::new(total, &(value / 6.0))?)),
//!     }
//! }
//! qjam::register_steps!(thrice);
//!
//! let data = DataSet::dense(vec![1.0, 2.0, 3.0], 1)?;
//! let mut round = FusedRound::first(thrice, &0, Call::new(total, &2.0)?, &data)?;
//! let last = loop {
//!     let parts = round.order().run(0..round.order().blocks(), None).map_err(|e| format!("{e:?}"))?;
//!     match round.follow(parts)? {
//!         Followed::Round(next) => round = *next,
//!         Followed::Stop(kept) => break qjam::fused::kept::<u64>(kept)?,
//!     }
//! };
//! assert_eq!(f64::from_bits(last), 12.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod round;
mod step;

pub use round::{FollowError, Followed, FusedRound};
pub use step::{Call, EndedRound, Next, StepError, StepProgress, kept};

#[doc(hidden)]
pub use step::{STEPS, StepEntry, erased};
