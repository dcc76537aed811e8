//! What looks for the optimum. [`train`](super::train) chooses one by the shape of the data.
//!
//! | solver | for | a round gives |
//! |---|---|---|
//! | [`coordinate`] | many columns; support vector machines with a plain hinge | a change of each partition's coordinates (CoCoA) |
//! | [`direct`] | few columns | sums of products of columns; the step is computed on the master |
//! | [`softmax`] | more than two classes in one model | slopes of all classes, for Newton's method or L-BFGS |

pub mod coordinate;
pub mod direct;
pub mod softmax;
