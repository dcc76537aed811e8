//! Files that were cut, damaged or written by others.
