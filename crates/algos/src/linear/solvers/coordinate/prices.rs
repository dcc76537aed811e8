//! What counted work costs: a fixed price for everything that a round does, so that the tuner's choices follow from the data.
//!
//! The prices are seconds as they were measured on two threads of one machine, on matrices of twelve shapes. Only the ratio
//! of an exchange to a pass matters, and only by its square root: prices that are off by a factor of two change a fit's time
//! by a few percent. They are part of what a result's bits depend on, and so are not changed lightly.

/// Of a round whatever its size: workers are woken up, and messages pass.
const ROUND_S: f64 = 1e-4;
/// Of a row, in every round: the vector is written, read, added and searched along.
const ROW_S: f64 = 1e-8;
/// Of a coordinate of a partition, in every round: its state is copied, and its terms are added up.
const COORDINATE_S: f64 = 5e-9;
/// Of a visit to a coordinate, besides the entries of its column.
const VISIT_S: f64 = 2e-8;
/// Of an entry of a sparse column, which is read at a place of its own, and of a full column.
const SPARSE_ENTRY_S: f64 = 4e-9;
const FULL_ENTRY_S: f64 = 1.5e-9;

/// The size of a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) entries: u64,
    pub(super) partitions: usize,
}

/// What a round costs beside its passes, and what a pass over the partitions costs, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prices {
    exchange_s: f64,
    pass_s: f64,
}

impl Prices {
    /// Counted from the size.
    pub(super) fn of(size: Size) -> Prices {
        let (rows, partitions) = (size.rows as f64, size.partitions as f64);
        let (columns, entries) = (size.columns as f64 / partitions, size.entries as f64 / partitions);
        let is_full = size.entries == size.rows as u64 * size.columns as u64;
        let entry_s = if is_full { FULL_ENTRY_S } else { SPARSE_ENTRY_S };
        Prices {
            exchange_s: ROUND_S + ROW_S * rows + COORDINATE_S * columns,
            pass_s: VISIT_S * columns + entry_s * entries,
        }
    }

    /// As they are given.
    pub(super) fn given(exchange_s: f64, pass_s: f64) -> Prices {
        Prices { exchange_s, pass_s }
    }

    /// All of a round, and the workers' share of it.
    pub(super) fn of_round(&self, passes: f64) -> (f64, f64) {
        (self.exchange_s + self.pass_s * passes, self.pass_s * passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_costs_more_with_every_size() {
        let size = Size { rows: 1000, columns: 500, entries: 20_000, partitions: 2 };
        let of = |size: Size| Prices::of(size).of_round(1.0);
        let (all_s, worker_s) = of(size);
        assert!(worker_s > 0.0 && worker_s < all_s);
        assert!(of(Size { rows: 2000, ..size }).0 > all_s);
        assert!(of(Size { columns: 1000, ..size }).1 > worker_s);
        assert!(of(Size { entries: 40_000, ..size }).1 > worker_s);
        assert!(of(Size { partitions: 4, ..size }).1 < worker_s);
        // Full columns are read in order.
        assert!(of(Size { entries: 500_000, ..size }).1 < of(Size { entries: 499_999, ..size }).1);
    }
}
