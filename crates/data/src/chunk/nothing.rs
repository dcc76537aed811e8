//! The chunk of a run without a data set.

use super::{Chunk, ChunkError, Header, expect_kind};
use bytes::Bytes;

/// No data at all: for functions that only use their parameters and their [`Ctx`](crate::Ctx), such as a simulation
/// that draws from `ctx.rng()`.
///
/// ```
/// use qjam::{Ctx, Nothing};
///
/// #[qjam::map]
/// fn darts(throws: &u64, _: &Nothing, ctx: &Ctx) -> u64 {
///     let mut rng = ctx.rng();
///     (0..*throws).filter(|_| rng.uniform().powi(2) + rng.uniform().powi(2) < 1.0).count() as u64
/// }
///
/// let hits = darts(&10_000, &Nothing, &Ctx::for_test(1, 0, 0));
/// assert!((7_700..8_000).contains(&hits));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Nothing {
    /// The one header such chunks have.
    pub fn header() -> Header {
        Header { kind: "nothing".into(), dtype: String::new(), shape: Vec::new(), bytes: 0 }
    }
}

impl Chunk for Nothing {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        let [] = expect_kind(header, &bytes, "nothing")?;
        if header.bytes != 0 {
            return Err(ChunkError::Bytes { expected: 0, found: header.bytes });
        }
        Ok(Nothing)
    }
}
