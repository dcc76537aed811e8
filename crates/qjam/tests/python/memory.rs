//! What is shared, and what it costs.
