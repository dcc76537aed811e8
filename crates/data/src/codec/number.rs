//! Numbers: single ones in the body, slices of them as they lie in memory.

use super::encoder::{VARINT_BYTES_MAX, varint, zigzag};
use super::{DecodeError, Decoder, Encoder, Width, Wire};

/// A number whose slices travel as raw memory: the integers, `f32` and `f64`.
pub trait Number: Wire + bytemuck::Pod + Sync + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

/// How a number is written into room that is there: in all its bytes, or in as many as it needs.
macro_rules! short {
    (fixed, $kind:ident) => {
        const WIRE_WIDTH: Width = Width::Exactly(size_of::<$kind>());

        #[inline]
        fn encode_short(&self, out: &mut [u8]) -> usize {
            out[..size_of::<$kind>()].copy_from_slice(&self.to_le_bytes());
            size_of::<$kind>()
        }

        #[inline]
        fn decode_short(bytes: &[u8]) -> Option<Self> {
            bytes.try_into().ok().map(<$kind>::from_le_bytes)
        }
    };
    (unsigned, $kind:ident) => {
        const WIRE_WIDTH: Width = Width::AtMost(VARINT_BYTES_MAX);

        #[inline]
        fn encode_short(&self, out: &mut [u8]) -> usize {
            varint(*self as u64, out)
        }
    };
    (signed, $kind:ident) => {
        const WIRE_WIDTH: Width = Width::AtMost(VARINT_BYTES_MAX);

        #[inline]
        fn encode_short(&self, out: &mut [u8]) -> usize {
            varint(zigzag(*self as i64), out)
        }
    };
}

macro_rules! number {
    ($($kind:ident $form:ident: |$value:ident, $out:ident| $write:expr, |$input:ident| $read:expr;)*) => {$(
        impl Number for $kind {}
        impl sealed::Sealed for $kind {}

        impl Wire for $kind {
            #[inline]
            fn encode<'a>(&'a self, $out: &mut Encoder<'a>) {
                let $value = *self;
                $write
            }

            #[inline]
            fn decode($input: &mut Decoder) -> Result<Self, DecodeError> {
                $read
            }

            short!($form, $kind);

            fn encode_slice<'a>(items: &'a [Self], out: &mut Encoder<'a>) {
                out.put_numbers(items);
            }

            fn decode_vec(input: &mut Decoder) -> Result<Vec<Self>, DecodeError> {
                input.take_numbers()
            }
        }
    )*};
}

/// Brings a wide integer down to the type it was read for.
fn narrow<W, N: TryFrom<W>>(wide: W) -> Result<N, DecodeError> {
    N::try_from(wide).map_err(|_| DecodeError::Range { kind: std::any::type_name::<N>() })
}

number! {
    u8 fixed: |n, out| out.put_u8(n), |input| input.take_u8();
    u16 unsigned: |n, out| out.put_varint(n.into()), |input| narrow(input.take_varint()?);
    u32 unsigned: |n, out| out.put_varint(n.into()), |input| narrow(input.take_varint()?);
    u64 unsigned: |n, out| out.put_varint(n), |input| input.take_varint();
    u128 fixed: |n, out| out.put_fixed(&n.to_le_bytes()), |input| input.take_fixed().map(u128::from_le_bytes);
    usize unsigned: |n, out| out.put_varint(n as u64), |input| narrow(input.take_varint()?);
    i8 fixed: |n, out| out.put_u8(n as u8), |input| input.take_u8().map(|byte| byte as i8);
    i16 signed: |n, out| out.put_signed(n.into()), |input| narrow(input.take_signed()?);
    i32 signed: |n, out| out.put_signed(n.into()), |input| narrow(input.take_signed()?);
    i64 signed: |n, out| out.put_signed(n), |input| input.take_signed();
    i128 fixed: |n, out| out.put_fixed(&n.to_le_bytes()), |input| input.take_fixed().map(i128::from_le_bytes);
    isize signed: |n, out| out.put_signed(n as i64), |input| narrow(input.take_signed()?);
    f32 fixed: |n, out| out.put_fixed(&n.to_le_bytes()), |input| input.take_fixed().map(f32::from_le_bytes);
    f64 fixed: |n, out| out.put_fixed(&n.to_le_bytes()), |input| input.take_fixed().map(f64::from_le_bytes);
}
