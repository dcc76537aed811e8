//! Data without the rows that cannot be used.
//!
//! They are left out once, before anything else, by writing the others anew: whatever comes after sees rows that are all
//! of use, and its bits are those of data that never had the bad ones. Small data is written into memory, larger into the
//! folder where readers keep what they convert, under the name of the data, where it is found again.

use super::points::Points;
use qjam::source::kept::{Keep, folder};
use qjam::{DataError, DataSet};
use std::fmt::Write;

/// What is written into memory at most, if there is a folder.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// The rows all of whose numbers are finite. There must be one.
pub(super) fn without_unusable<C: Points>(
    data: &DataSet<C>,
    weighted: bool,
) -> Result<DataSet<C>, qjam::Error> {
    let keep = match folder().filter(|_| data.bytes() > MEMORY_BYTES_MAX) {
        None => Keep::Memory,
        Some(folder) => {
            let mut name = "usable-".to_string();
            data.id().0.iter().take(16).try_for_each(|b| write!(name, "{b:02x}")).expect("a string takes it");
            Keep::File(folder.join(format!("{name}-{}.qjam", u8::from(weighted))))
        }
    };
    if let Keep::File(path) = &keep
        && let Some((there, _)) = DataSet::<C>::kept(path).map_err(qjam::Error::from)?
    {
        return Ok(there);
    }
    Ok(write(data, &keep, weighted)?)
}

fn write<C: Points>(data: &DataSet<C>, keep: &Keep, weighted: bool) -> Result<DataSet<C>, DataError> {
    let first = data.chunk(0)?;
    let mut writer = first.writer(keep)?;
    for i in 0..data.len() {
        data.chunk(i)?.write_usable(weighted, &mut writer)?;
    }
    first.written(writer)
}
