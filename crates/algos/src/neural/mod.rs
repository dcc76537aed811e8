//! Networks trained by sums of gradients over chunks.

pub mod autoencoder;
pub mod perceptron;
