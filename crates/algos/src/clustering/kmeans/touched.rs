//! Sums of rows by centre, of which only what was touched is kept.
//!
//! Sums of all centres have as many cells as there are centres and columns. A chunk of sparse rows touches as many cells as
//! it has values, at most; with 50 000 columns that is often a tenth of them. A batch of a few rows touches few centres.
//! Then only these cells and their places are sent home. A cell that is not there is 0, and adding 0 changes nothing: bits are those of full sums in the same order.

use super::points::View;
use crate::kernels::nearest::Real;

/// The cells of sums that are not 0 for want of rows.
#[derive(Clone, Debug, Default, PartialEq, qjam::Wire)]
pub(super) struct Touched {
    /// Columns of a centre.
    dims: u64,
    /// Where the cells of each centre start, and where the last end; empty if full sums are kept instead.
    starts: Vec<u64>,
    /// Columns, in order within a centre.
    places: Vec<u32>,
    values: Vec<f64>,
}

impl Touched {
    /// Whether so many values may leave enough cells untouched to be worth it.
    pub(super) fn worthwhile(values: usize, k: usize, dims: usize) -> bool {
        values < k * dims / 3
    }

    /// Whether full sums are kept instead.
    pub(super) fn is_unused(&self) -> bool {
        self.starts.is_empty()
    }

    /// Adds the rows in a list to their centres, those of a centre in the order of the list.
    pub(super) fn of<T: Real>(
        rows: impl View<T>,
        list: &[u32],
        nearest: &[u32],
        weights: &mut [f64],
    ) -> Touched {
        let (k, dims) = (weights.len(), rows.dims());
        let mut touched = Touched { dims: dims as u64, starts: vec![0], ..Touched::default() };
        let mut order: Vec<u32> = (0..nearest.len() as u32).collect();
        // Stable: rows of one centre stay in order.
        order.sort_by_key(|i| nearest[*i as usize]);
        let (mut sums, mut marks) = (vec![0.0; dims], vec![0_u64; dims.div_ceil(64)]);
        let mut left = order.as_slice();
        for centre in 0..k as u32 {
            let end = left.partition_point(|i| nearest[*i as usize] == centre);
            let (own, others) = left.split_at(end);
            left = others;
            for row in own.iter().map(|i| list[*i as usize] as usize) {
                weights[centre as usize] += rows.add(row, &mut sums);
                rows.mark(row, &mut marks);
            }
            if !own.is_empty() {
                touched.take(&mut sums, &mut marks);
            }
            touched.starts.push(touched.places.len() as u64);
        }
        touched
    }

    /// Moves the sums of one centre here.
    fn take(&mut self, sums: &mut [f64], marks: &mut [u64]) {
        for (word, mark) in marks.iter_mut().enumerate() {
            let mut left = std::mem::take(mark);
            while left != 0 {
                let place = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                self.places.push(place as u32);
                self.values.push(std::mem::take(&mut sums[place]));
            }
        }
    }

    fn centre(&self, j: usize) -> (&[u32], &[f64]) {
        let range = self.starts[j] as usize..self.starts[j + 1] as usize;
        (&self.places[range.clone()], &self.values[range])
    }

    /// Adds these to full sums.
    pub(super) fn add_to(&self, sums: &mut [f64]) {
        for (j, sums) in sums.chunks_exact_mut(self.dims as usize).enumerate() {
            let (places, values) = self.centre(j);
            places.iter().zip(values).for_each(|(place, value)| sums[*place as usize] += value);
        }
    }

    /// Full sums of these.
    pub(super) fn full(&self) -> Vec<f64> {
        let mut sums = vec![0.0; (self.starts.len() - 1) * self.dims as usize];
        self.add_to(&mut sums);
        sums
    }

    /// Whether these and others together would be larger than full sums.
    pub(super) fn overflows_with(&self, right: &Touched) -> bool {
        let cells = (self.starts.len() - 1) * self.dims as usize;
        !Touched::worthwhile((self.places.len() + right.places.len()) / 2, cells, 1)
    }

    /// These and their right neighbour, of as many centres.
    pub(super) fn merged(&self, right: &Touched) -> Touched {
        let room = self.places.len() + right.places.len();
        let mut both = Touched {
            dims: self.dims,
            starts: Vec::with_capacity(self.starts.len()),
            places: Vec::with_capacity(room),
            values: Vec::with_capacity(room),
        };
        both.starts.push(0);
        for j in 0..self.starts.len() - 1 {
            let ((places, values), (right_places, right_values)) = (self.centre(j), right.centre(j));
            let (mut a, mut b) = (0, 0);
            while a < places.len() && b < right_places.len() {
                let (here, there) = (places[a], right_places[b]);
                both.places.push(here.min(there));
                let mine = if here <= there { values[a] } else { 0.0 };
                let theirs = if there <= here { right_values[b] } else { 0.0 };
                both.values.push(mine + theirs);
                a += usize::from(here <= there);
                b += usize::from(there <= here);
            }
            both.places.extend_from_slice(&places[a..]);
            both.values.extend_from_slice(&values[a..]);
            both.places.extend_from_slice(&right_places[b..]);
            both.values.extend_from_slice(&right_values[b..]);
            both.starts.push(both.places.len() as u64);
        }
        both
    }
}
