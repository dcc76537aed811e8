//! What elementwise functions need of a register beyond a product: the four operations, limits, and a number's exponent.
//!
//! Each operation is one IEEE operation or a fixed run of them, the same in every width. A NaN that goes in comes out of
//! the limits, which the instructions for lowest and highest do only if asked in the right order.

use super::lanes::Lanes;

/// Numbers on which the four operations can be done lane by lane.
pub(crate) trait Arithmetic: Lanes {
    /// `self + other`.
    fn add(self, other: Self) -> Self;

    /// `self - other`.
    fn sub(self, other: Self) -> Self;

    /// `self * other`.
    fn mul(self, other: Self) -> Self;

    /// `self / other`.
    fn div(self, other: Self) -> Self;

    /// `term - self * factor`, rounded once.
    fn neg_mul_add(self, factor: Self, term: Self) -> Self;

    /// The limit where `self` is above it; a NaN stays.
    fn at_most(self, limit: Self) -> Self;

    /// The limit where `self` is below it; a NaN stays.
    fn at_least(self, limit: Self) -> Self;

    /// Without its sign.
    fn abs(self) -> Self;

    /// With the sign of another.
    fn with_sign(self, of: Self) -> Self;

    /// `yes` where `self < than`, else `no`; a NaN is not below anything.
    fn below(self, than: Self, yes: Self, no: Self) -> Self;

    /// `2ⁿ`, given `n + ROUND` (see [`Number`]), for `n` from the lowest to the highest exponent of normal numbers.
    fn power_of_two(self) -> Self;

    /// `n` and `m` from the root of one half to that of 2 with `self = 2ⁿ m`, for positive normal numbers.
    fn split(self) -> (Self, Self);
}

/// Layout of a number type.
pub(crate) trait Number: Copy {
    /// Adding this leaves the nearest integer in the lowest bits of the sum.
    const ROUND: Self;
    /// What counts the exponent from 0: subtracted from the bits of the exponent written into a number of that size.
    const BIASED: Self;
}

impl Number for f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const BIASED: f64 = 4_503_599_627_370_496.0 + 1023.0;
}

impl Number for f32 {
    const ROUND: f32 = 12_582_912.0;
    const BIASED: f32 = 8_388_608.0 + 127.0;
}

/// Bits of numbers: places of the fraction, 1, the root of one half, the fraction, and 2 to the number of places.
mod bits {
    pub(super) mod wide {
        pub(crate) const PLACES: u32 = 52;
        pub(crate) const ONE: u64 = 0x3ff0_0000_0000_0000;
        pub(crate) const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
        pub(crate) const FRACTION: u64 = 0x000f_ffff_ffff_ffff;
        pub(crate) const UNIT: u64 = 0x4330_0000_0000_0000;
    }
    pub(super) mod narrow {
        pub(crate) const PLACES: u32 = 23;
        pub(crate) const ONE: u32 = 0x3f80_0000;
        pub(crate) const ROOT_HALF: u32 = 0x3f35_04f3;
        pub(crate) const FRACTION: u32 = 0x007f_ffff;
        pub(crate) const UNIT: u32 = 0x4b00_0000;
    }
}

macro_rules! scalar {
    ($number:ident, $layout:ident) => {
        impl Arithmetic for $number {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                $number::mul_add(-self, factor, term)
            }

            #[inline(always)]
            fn at_most(self, limit: Self) -> Self {
                if limit < self { limit } else { self }
            }

            #[inline(always)]
            fn at_least(self, limit: Self) -> Self {
                if limit > self { limit } else { self }
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $number::abs(self)
            }

            #[inline(always)]
            fn with_sign(self, of: Self) -> Self {
                self.copysign(of)
            }

            #[inline(always)]
            fn below(self, than: Self, yes: Self, no: Self) -> Self {
                if self < than { yes } else { no }
            }

            #[inline(always)]
            fn power_of_two(self) -> Self {
                use bits::$layout::*;
                $number::from_bits((self.to_bits() << PLACES).wrapping_add(ONE))
            }

            #[inline(always)]
            fn split(self) -> (Self, Self) {
                use bits::$layout::*;
                let moved = self.to_bits().wrapping_add(ONE - ROOT_HALF);
                let exponent = $number::from_bits((moved >> PLACES) | UNIT) - $number::BIASED;
                (exponent, $number::from_bits((moved & FRACTION).wrapping_add(ROOT_HALF)))
            }
        }
    };
}

scalar!(f64, wide);
scalar!(f32, narrow);

macro_rules! array {
    ($number:ident, $count:literal) => {
        impl Arithmetic for [$number; $count] {
            array!(@binary $count, add sub mul div at_most at_least with_sign);

            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                std::array::from_fn(|i| self[i].neg_mul_add(factor[i], term[i]))
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.map($number::abs)
            }

            #[inline(always)]
            fn below(self, than: Self, yes: Self, no: Self) -> Self {
                std::array::from_fn(|i| self[i].below(than[i], yes[i], no[i]))
            }

            #[inline(always)]
            fn power_of_two(self) -> Self {
                self.map(Arithmetic::power_of_two)
            }

            #[inline(always)]
            fn split(self) -> (Self, Self) {
                let parts = self.map(Arithmetic::split);
                (parts.map(|p| p.0), parts.map(|p| p.1))
            }
        }
    };
    (@binary $count:literal, $($name:ident)*) => {
        $(
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                std::array::from_fn(|i| Arithmetic::$name(self[i], other[i]))
            }
        )*
    };
}

array!(f64, 2);
array!(f32, 4);

/// Registers. `cast` and `back` look at the bits as integers, `set` repeats an integer.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($type:ident, $number:ident, $layout:ident, $int:ty,
     $add:ident $sub:ident $mul:ident $div:ident $fnmadd:ident $min:ident $max:ident,
     $cast:ident $back:ident $set:ident $add_int:ident $left:ident $right:ident $and:ident $or:ident $and_not:ident,
     |$a:ident, $b:ident, $yes:ident, $no:ident| $choose:expr) => {
        #[expect(unsafe_code, reason = "vector registers are reached through intrinsics")]
        impl Arithmetic for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: the instruction is there, see the module of lanes; so for all below.
                unsafe { $add(self, other) }
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $sub(self, other) }
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $mul(self, other) }
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $div(self, other) }
            }

            #[inline(always)]
            fn neg_mul_add(self, factor: Self, term: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fnmadd(self, factor, term) }
            }

            #[inline(always)]
            fn at_most(self, limit: Self) -> Self {
                // SAFETY: as above. Of a NaN and a number the instruction takes the second.
                unsafe { $min(limit, self) }
            }

            #[inline(always)]
            fn at_least(self, limit: Self) -> Self {
                // SAFETY: as above. Of a NaN and a number the instruction takes the second.
                unsafe { $max(limit, self) }
            }

            #[inline(always)]
            fn abs(self) -> Self {
                // SAFETY: as above.
                unsafe { $back($and_not($cast(Self::splat(-0.0)), $cast(self))) }
            }

            #[inline(always)]
            fn with_sign(self, of: Self) -> Self {
                // SAFETY: as above.
                unsafe {
                    let sign = $cast(Self::splat(-0.0));
                    $back($or($and_not(sign, $cast(self)), $and(sign, $cast(of))))
                }
            }

            #[inline(always)]
            fn below(self, than: Self, $yes: Self, $no: Self) -> Self {
                let ($a, $b) = (self, than);
                // SAFETY: as above.
                unsafe { $choose }
            }

            #[inline(always)]
            fn power_of_two(self) -> Self {
                use bits::$layout::*;
                // SAFETY: as above.
                unsafe { $back($add_int($left::<{ PLACES as _ }>($cast(self)), $set(ONE as $int))) }
            }

            #[inline(always)]
            fn split(self) -> (Self, Self) {
                use bits::$layout::*;
                // SAFETY: as above.
                unsafe {
                    let moved = $add_int($cast(self), $set((ONE - ROOT_HALF) as $int));
                    let exponent = $back($or($right::<{ PLACES as _ }>(moved), $set(UNIT as $int)));
                    let fraction = $and(moved, $set(FRACTION as $int));
                    let fraction = $back($add_int(fraction, $set(ROOT_HALF as $int)));
                    (exponent.sub(Self::splat($number::BIASED)), fraction)
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::{Arithmetic, Lanes, Number, bits};
    use std::arch::x86_64::*;

    register!(
        __m512d, f64, wide, i64,
        _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_fnmadd_pd _mm512_min_pd _mm512_max_pd,
        _mm512_castpd_si512 _mm512_castsi512_pd _mm512_set1_epi64 _mm512_add_epi64
        _mm512_slli_epi64 _mm512_srli_epi64 _mm512_and_si512 _mm512_or_si512 _mm512_andnot_si512,
        |a, b, yes, no| _mm512_mask_mov_pd(no, _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b), yes)
    );
    register!(
        __m256d, f64, wide, i64,
        _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_div_pd _mm256_fnmadd_pd _mm256_min_pd _mm256_max_pd,
        _mm256_castpd_si256 _mm256_castsi256_pd _mm256_set1_epi64x _mm256_add_epi64
        _mm256_slli_epi64 _mm256_srli_epi64 _mm256_and_si256 _mm256_or_si256 _mm256_andnot_si256,
        |a, b, yes, no| _mm256_blendv_pd(no, yes, _mm256_cmp_pd::<_CMP_LT_OQ>(a, b))
    );
    register!(
        __m512, f32, narrow, i32,
        _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fnmadd_ps _mm512_min_ps _mm512_max_ps,
        _mm512_castps_si512 _mm512_castsi512_ps _mm512_set1_epi32 _mm512_add_epi32
        _mm512_slli_epi32 _mm512_srli_epi32 _mm512_and_si512 _mm512_or_si512 _mm512_andnot_si512,
        |a, b, yes, no| _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), yes)
    );
    register!(
        __m256, f32, narrow, i32,
        _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_fnmadd_ps _mm256_min_ps _mm256_max_ps,
        _mm256_castps_si256 _mm256_castsi256_ps _mm256_set1_epi32 _mm256_add_epi32
        _mm256_slli_epi32 _mm256_srli_epi32 _mm256_and_si256 _mm256_or_si256 _mm256_andnot_si256,
        |a, b, yes, no| _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
    );
}
