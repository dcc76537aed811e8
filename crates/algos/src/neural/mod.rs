//! Networks trained by sums of gradients over chunks.

pub mod autoencoder;
