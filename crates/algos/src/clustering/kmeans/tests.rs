//! Lloyd's algorithm in a dozen lines, and that ours does the same.
