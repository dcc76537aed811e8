//! The result of a step with the letters that it has sent.
//!
//! Both travel, are merged and are recorded as one value, so that a letter counts exactly if its block does. The bytes of a
//! result without letters are those of the result alone.

use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::reduce::{MergeError, Reduce};
use qjam_core::mail::{Envelope, Outbox};
use qjam_data::mail::Sealed;

/// What follows a result that has letters.
const HAS_MAIL: u8 = 0x6d;

/// A result, and what its blocks have sent.
pub(crate) struct Posted<R> {
    pub(crate) value: R,
    pub(crate) outbox: Outbox<Sealed>,
}

impl<R: Wire> Wire for Posted<R> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.value.encode(out);
        if !self.outbox.is_empty() {
            out.put_u8(HAS_MAIL);
            out.put_length(self.outbox.iter().len());
            self.outbox.iter().for_each(|envelope| envelope.encode(out));
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let value = R::decode(input)?;
        if input.left() == 0 {
            return Ok(Posted { value, outbox: Outbox::default() });
        }
        if input.take_u8()? != HAS_MAIL {
            return Err(DecodeError::Range { kind: "a result followed by its mail" });
        }
        let envelopes = Vec::<Envelope<Sealed>>::decode(input)?;
        let outbox =
            Outbox::of(envelopes).ok_or(DecodeError::Range { kind: "mail in the order of senders" })?;
        Ok(Posted { value, outbox })
    }
}

impl<R: Reduce> Reduce for Posted<R> {
    fn merge(&mut self, right: Self) {
        self.value.merge(right.value);
        self.outbox.merge(right.outbox);
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.value.try_merge(right.value)?;
        self.outbox.merge(right.outbox);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn posted(from: &[u32]) -> Posted<Vec<f64>> {
        let mut outbox = Outbox::default();
        for from in from {
            outbox.put(*from, 1, Sealed { kind: 3, content: vec![7; *from as usize * 100].into() });
        }
        Posted { value: vec![0.5; 100], outbox }
    }

    fn bytes<T: Wire>(value: &T) -> Bytes {
        let mut out = Encoder::new();
        value.encode(&mut out);
        out.to_bytes()
    }

    #[test]
    fn mail_travels_behind_its_value_and_a_value_without_mail_has_its_own_bytes() {
        assert_eq!(bytes(&posted(&[])), bytes(&vec![0.5; 100]));
        for from in [&[][..], &[0], &[1, 1, 9]] {
            let whole = bytes(&posted(from));
            let mut input = Decoder::new(whole).unwrap();
            let back = Posted::<Vec<f64>>::decode(&mut input).unwrap();
            input.finish().unwrap();
            assert_eq!((back.value, back.outbox), (posted(from).value, posted(from).outbox));
        }
    }

    #[test]
    fn mail_out_of_order_is_refused() {
        let envelope = |from| Envelope { from, to: 0, letter: Sealed { kind: 0, content: Bytes::new() } };
        let mut out = Encoder::new();
        let letters = vec![envelope(2), envelope(1)];
        1_u64.encode(&mut out);
        out.put_u8(HAS_MAIL);
        letters.encode(&mut out);
        let read = Posted::<u64>::decode(&mut Decoder::new(out.to_bytes()).unwrap());
        assert!(matches!(read, Err(DecodeError::Range { .. })));
    }
}
