//! Parameters that stay where the caller has them while a round runs.
//!
//! `run` waits for its round, so long parameters on their way to other hosts need not be copied: pieces are taken from
//! the caller's own memory as the connections take them. The loan ends before `run` returns, however it returns; who
//! asks for a piece after that is told that the round is over.

use crate::codec::Encoder;
use crate::transport::Source;
use bytes::Bytes;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parameters that are somebody else's, as long as the loan lasts. Clones are the same loan.
#[derive(Clone)]
pub(crate) struct Lent(Arc<Mutex<Option<&'static Encoder<'static>>>>);

/// The lender's side. When it is dropped the loan is over.
pub(crate) struct Loan<'a> {
    lent: Lent,
    owner: PhantomData<&'a Encoder<'a>>,
}

impl<'a> Loan<'a> {
    /// Lends out what an encoder has borrowed.
    ///
    /// # Safety
    /// The loan must be dropped, not forgotten.
    #[expect(
        unsafe_code,
        reason = "lending memory to whoever turns the loop, for as long as this value lives"
    )]
    pub(crate) unsafe fn new(encoder: &'a Encoder<'a>) -> Loan<'a> {
        // SAFETY: the reference is only ever used with the lock held, and `drop`, which the caller promises to let
        // happen while `'a` lasts, takes it away under the same lock. Nothing is handed out but copies.
        let forever = unsafe { std::mem::transmute::<&'a Encoder<'a>, &'static Encoder<'static>>(encoder) };
        Loan { lent: Lent(Arc::new(Mutex::new(Some(forever)))), owner: PhantomData }
    }

    pub(crate) fn lent(&self) -> Lent {
        self.lent.clone()
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        *self.lent.lock() = None;
    }
}

impl Lent {
    fn lock(&self) -> MutexGuard<'_, Option<&'static Encoder<'static>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it, in memory of its own; `None` when the loan is over.
    pub(crate) fn to_bytes(&self) -> Option<Bytes> {
        self.lock().map(Encoder::to_bytes)
    }

    /// All of it, piece by piece.
    pub(crate) fn pieces(&self, bytes: u64) -> LentPieces {
        LentPieces { lent: self.clone(), at: 0, bytes }
    }
}

/// Lent parameters on their way out.
pub(crate) struct LentPieces {
    lent: Lent,
    at: u64,
    bytes: u64,
}

impl Source for LentPieces {
    fn left(&self) -> u64 {
        self.bytes - self.at
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, String> {
        let mut piece = vec![0; bytes];
        match *self.lent.lock() {
            Some(encoder) => encoder.copy_range(self.at as usize, &mut piece),
            None => return Err("the round is over".into()),
        }
        self.at += bytes as u64;
        Ok(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wire;

    #[test]
    #[expect(unsafe_code, reason = "what is tested is unsafe to make")]
    fn pieces_of_any_length_make_up_the_whole_and_end_with_the_loan() {
        let value = (7_u64, vec![1.5_f64; 5000], String::from("between"), vec![3_u8; 9000]);
        let mut encoder = Encoder::new();
        value.encode(&mut encoder);
        let whole = encoder.to_bytes();
        for step in [1, 7, 64, 4096, whole.len()] {
            // SAFETY: it is dropped at the end of this block.
            let loan = unsafe { Loan::new(&encoder) };
            let mut pieces = loan.lent().pieces(whole.len() as u64);
            let mut got = Vec::new();
            while pieces.left() > 0 {
                let next = step.min(pieces.left() as usize);
                got.extend_from_slice(&pieces.take(next).unwrap());
            }
            assert!(got == whole, "in steps of {step}");
            let mut late = loan.lent().pieces(whole.len() as u64);
            drop(loan);
            assert!(late.take(1).is_err());
        }
    }
}
