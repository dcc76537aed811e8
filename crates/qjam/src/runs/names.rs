//! The numbers by which a run file's records name functions and data sets.

use super::record::{Record, shortened};
use super::story;
use super::writer::Writer;
use crate::dataset::CutData;
use qjam_core::ids::DataSetId;
use std::collections::HashMap;

/// Names of functions are cut off here.
const NAME_BYTES_MAX: usize = 16 << 10;

/// What is known of a function. Programs have few, so they are found by looking at each.
struct FunctionRecord {
    name: &'static str,
    /// Length of its last result.
    result_bytes: usize,
}

/// The functions and data sets that the file has named so far.
#[derive(Default)]
pub(super) struct Names {
    functions: Vec<FunctionRecord>,
    data: HashMap<DataSetId, u32>,
    /// The one that was used last: mostly it is used again.
    last_data: Option<(DataSetId, u32)>,
}

impl Names {
    /// The number of a data set. A new one is recorded.
    pub(super) fn number_of_data(&mut self, data: &CutData, writer: &mut Writer) -> u32 {
        if let Some((id, number)) = self.last_data
            && id == data.id
        {
            return number;
        }
        let next = self.data.len() as u32;
        let number = *self.data.entry(data.id).or_insert(next);
        if number == next {
            let bytes = data.chunks.iter().map(|c| c.header.bytes).sum();
            writer.put(&Record::Data { number, id: data.id.0, chunks: data.chunks.len() as u32, bytes });
            writer.put(&story::chunk_names(number, data));
        }
        self.last_data = Some((data.id, number));
        number
    }

    /// The number of a function. A new one is recorded.
    pub(super) fn number_of(&mut self, name: &'static str, writer: &mut Writer) -> u32 {
        if let Some(number) = self.find(name) {
            return number as u32;
        }
        let number = self.functions.len() as u32;
        self.functions.push(FunctionRecord { name, result_bytes: 0 });
        writer.put(&Record::Function { number, name: shortened(name, NAME_BYTES_MAX) });
        number
    }

    /// How long the last result of a function was; 0 if none is known.
    pub(super) fn last_result_bytes(&self, name: &'static str) -> usize {
        self.find(name).map_or(0, |n| self.functions[n].result_bytes)
    }

    pub(super) fn set_result_bytes(&mut self, name: &'static str, bytes: usize) {
        if let Some(n) = self.find(name) {
            self.functions[n].result_bytes = bytes;
        }
    }

    fn find(&self, name: &'static str) -> Option<usize> {
        let is_same = |known: &FunctionRecord| std::ptr::eq(known.name, name) || known.name == name;
        self.functions.iter().position(is_same)
    }
}
