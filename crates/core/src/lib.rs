//! The pure heart of qjam.
pub mod chunk;
pub mod ids;
pub mod reduce;
pub mod time;
