//! What looks for the optimum. [`train`](super::train) chooses one by what the shape of the data lets it cost.
//!
//! | solver | for | a round gives |
//! |---|---|---|
//! | [`coordinate`] | many columns; support vector machines with a plain hinge | a change of each partition's coordinates (CoCoA) |
//! | [`direct`] | few columns; many, by conjugate gradients, where the objective is smooth | sums of products of columns, or the product of their matrix with a vector; steps are computed on the master |
//! | [`softmax`] | more than two classes in one model | slopes of all classes, for Newton's method or L-BFGS |

pub mod coordinate;
pub mod direct;
pub mod softmax;
