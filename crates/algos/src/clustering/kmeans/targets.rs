//! Centres as chunks get them: row after row, and laid out for the kernels by whoever needs it.
//!
//! A worker opens the parameters of a round once, so each layout is made once there, by the first chunk that asks. The
//! master then neither makes nor sends what only some processors can use.

use super::bounds::{Bounds, Slack};
use super::points::View;
use super::screened::Screened;
use crate::kernels::nearest::{Panels, Real, square};
use crate::kernels::screen::Screen;
use qjam::{DecodeError, Decoder, Encoder, Params, Slab, Wire};
use std::sync::OnceLock;

/// Rows that look for their centres together.
pub(super) const BLOCK_ROWS: usize = 448;

/// So few rows are compared with all centres.
const SCREENED_ROWS_MIN: usize = 128;

/// Centres that rows are compared with.
#[derive(Clone, Debug)]
pub struct Targets<T: Real> {
    dims: u64,
    values: Slab<T>,
    /// Squared lengths, as scores have them.
    norms: Vec<T>,
    /// Whether products of bytes may sort centres out.
    screening: bool,
    panels: OnceLock<Panels<T>>,
    screen: OnceLock<Option<Screen<T>>>,
}

/// Whether sorting centres out by bytes is worth its while: with few of them or few dimensions their distances are soon
/// computed.
pub(super) fn worth_screening(centres: usize, dims: usize) -> bool {
    dims >= 64 && centres >= 64
}

impl<T: Real> Targets<T> {
    /// Row-major centres of `dims` elements.
    pub(super) fn new(values: &[T], dims: usize, screening: bool) -> Targets<T> {
        let norms = values.chunks_exact(dims).map(|c| T::from_f64(square(c))).collect();
        Targets::of(dims as u64, values.to_vec().into(), norms, screening)
    }

    fn of(dims: u64, values: Slab<T>, norms: Vec<T>, screening: bool) -> Targets<T> {
        Targets { dims, values, norms, screening, panels: OnceLock::new(), screen: OnceLock::new() }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.norms.len()
    }

    pub(super) fn dims(&self) -> usize {
        self.dims as usize
    }

    /// Panels of [`Real::WIDTH`] centres.
    pub(super) fn panels_len(&self) -> usize {
        self.len().div_ceil(T::WIDTH)
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }

    pub(super) fn norms(&self) -> &[T] {
        &self.norms
    }

    pub(super) fn panels(&self) -> &Panels<T> {
        self.panels.get_or_init(|| Panels::new(&self.values, self.dims()))
    }

    pub(super) fn screen(&self) -> Option<&Screen<T>> {
        let make = || self.screening.then(|| Screen::new(&self.values, self.dims())).flatten();
        self.screen.get_or_init(make).as_ref()
    }

    /// Writes for every row the index of its nearest centre.
    pub(super) fn nearest(&self, rows: impl View<T>, out: &mut [u32]) {
        // For few rows it costs less to compute all distances than to make bytes of the centres.
        let screen = if rows.len() < SCREENED_ROWS_MIN { None } else { self.screen() };
        let (Some(dense), Some(screen)) = (rows.dense(), screen) else {
            return rows.nearest(self.panels(), out);
        };
        let slack = Slack::new(self);
        let mut screened = Screened::new(self, screen);
        for (block, out) in out.chunks_mut(BLOCK_ROWS).enumerate() {
            let from = block * BLOCK_ROWS;
            let part = dense.part(from..from + out.len());
            let mut bounds = Bounds::unknown(part.len(), self.panels_len(), |i| square(part.row(i)).sqrt());
            screened.seek_all(part, 0..part.len(), slack, &mut bounds);
            out.copy_from_slice(bounds.nearest());
            // What is too large to have scores is left to the plain kernel, whatever that makes of it.
            let odd = |i: &u32| !slack.are_finite(bounds.lengths[*i as usize]);
            let list: Vec<u32> = (0..part.len() as u32).filter(odd).collect();
            let mut nearest = vec![0; list.len()];
            if !list.is_empty() {
                rows.part(from..from + part.len()).nearest_of(self.panels(), &list, &mut nearest);
            }
            list.iter().zip(nearest).for_each(|(i, nearest)| out[*i as usize] = nearest);
        }
    }
}

impl<T: Real> Wire for Targets<T> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.dims.encode(out);
        self.values.encode_params(out);
        self.norms.encode(out);
        self.screening.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let dims = u64::decode(input)?;
        let values = <[T]>::decode_params(input)?;
        let (norms, screening) = (Vec::<T>::decode(input)?, bool::decode(input)?);
        Ok(Targets::of(dims, values, norms, screening))
    }
}
