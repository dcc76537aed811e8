//! A data set: an ordered list of chunks, and the source they were cut from.
//!
//! Made from values or a file by the constructors of each kind, it goes to the master together with a function. Two
//! data sets with the same chunks have the same [`DataSetId`], whatever they were made from; workers that know it need
//! nothing sent again.

pub(crate) use qjam_data::dataset::CutData;
pub use qjam_data::dataset::{DataSet, DataSetId};
