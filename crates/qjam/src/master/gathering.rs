//! What a master does with the records of a data set by itself: counts them, brings them home.

use super::Master;
use super::driver::RoundRequest;
use super::pending::begin;
use crate::codec::{Encoder, Params};
use crate::error::Result;
use crate::function::Function;
use crate::function::gather::Gather;
use crate::registry;
use qjam_data::Joined;
use qjam_data::derived::{Derived, Recorded, RoundData};
use std::sync::Arc;
use std::time::Instant;

impl Master {
    /// How many records there are: of a [derived](Derived) data set nobody knows without making it.
    pub fn count<C: Recorded>(&self, data: &impl RoundData<Chunk = C>) -> Result<u64> {
        self.gather(Gather::<C>::ERASED.count(), &(), data)
    }

    /// Brings all records home, in order. They must fit into the memory of the master.
    pub fn collect<C: Recorded>(&self, data: &impl RoundData<Chunk = C>) -> Result<Vec<C::Owned>> {
        let all: Joined<C::Sent> = self.gather(Gather::<C>::ERASED.own(), &u64::MAX, data)?;
        Ok(all.into_iter().map(C::received).collect())
    }

    /// Brings the first so many records home. It runs over the first chunk, then over the first two, four, eight, until
    /// there are enough, and makes no more chunks of a derived data set than that.
    ///
    /// ```
    /// # use qjam::{DataSet, Master};
    /// let lines = DataSet::text((0..10_000).map(|n| format!("line {n}\n")).collect())?.sample(0.5, 1);
    /// let m = Master::connect("local:2")?;
    /// let first = m.take(&lines, 3)?;
    /// assert_eq!(first.len(), 3);
    /// assert_eq!(first[..], m.collect(&lines)?[..3]);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn take<C: Recorded>(
        &self,
        data: &impl RoundData<Chunk = C>,
        records: usize,
    ) -> Result<Vec<C::Owned>> {
        let data = Derived::over(data);
        let mut chunks = 1;
        loop {
            let some = data.first_chunks(chunks);
            let found: Joined<C::Sent> = self.gather(Gather::<C>::ERASED.own(), &(records as u64), &some)?;
            if found.len() >= records || chunks >= data.len() {
                return Ok(found.into_iter().take(records).map(C::received).collect());
            }
            chunks = chunks.saturating_mul(2);
        }
    }

    fn gather<T, P>(&self, function: Function, params: &P, data: &impl RoundData) -> Result<T>
    where
        T: 'static,
        P: Params + ?Sized,
    {
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        let accumulator_bytes = registry::weigh(function.name())?;
        let data = data.erased();
        data.check()?;
        let (data, answer) = (data.clone(), Arc::default());
        let request = RoundRequest { function, data, answer, submitted, held: None, accumulator_bytes };
        begin(&self.shared, request, &encoder, None, None)?.wait()
    }
}
