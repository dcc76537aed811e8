//! A few numbers in one register, with the operations the tiles of a product need.
//!
//! Left to itself the compiler turns a register tile into vectors in one version and into scalars in the next, so
//! the tiles say which registers they mean. Loads and stores take slices and are checked.
//!
//! The methods may only run where the processor has the instructions. The types are named nowhere but in the
//! wrappers of `per_level!`, which are reached through a [`Level`](super::Level) made on this processor.

/// Numbers that are handled together, each on its own.
pub(crate) trait Lanes: Copy {
    /// What is in a lane.
    type Number: Copy;

    /// How many.
    const COUNT: usize;

    /// The first numbers of a slice.
    fn load(from: &[Self::Number]) -> Self;

    /// Writes to the first places of a slice.
    fn store(self, to: &mut [Self::Number]);

    /// The same number in every lane.
    fn splat(value: Self::Number) -> Self;

    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;

    /// Says that two registers from this place on will be wanted soon. The place need not exist.
    #[inline(always)]
    fn fetch(from: &[Self::Number], at: usize) {
        let _ = (from, at);
    }

    /// The lowest `mark * COUNT + lane` among the lanes in which `self` is lowest, if there are instructions for that.
    #[inline(always)]
    fn first_lowest(self, mark: Self) -> Option<u32> {
        let _ = mark;
        None
    }

    /// Where `self` is less than `best`, it and its `mark` take the places of `best` and its mark.
    fn keep_lower(self, mark: Self, best: &mut Self, best_mark: &mut Self);
}

macro_rules! scalar {
    ($number:ident) => {
        impl Lanes for $number {
            type Number = $number;

            const COUNT: usize = 1;

            #[inline(always)]
            fn load(from: &[$number]) -> Self {
                from[0]
            }

            #[inline(always)]
            fn store(self, to: &mut [$number]) {
                to[0] = self;
            }

            #[inline(always)]
            fn splat(value: $number) -> Self {
                value
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                $number::mul_add(self, factor, term)
            }

            #[inline(always)]
            fn keep_lower(self, mark: Self, best: &mut Self, best_mark: &mut Self) {
                if self < *best {
                    (*best, *best_mark) = (self, mark);
                }
            }
        }
    };
}

/// For processors whose vectors the compiler always may use.
macro_rules! array {
    ($number:ident, $count:literal) => {
        impl Lanes for [$number; $count] {
            type Number = $number;

            const COUNT: usize = $count;

            #[inline(always)]
            fn load(from: &[$number]) -> Self {
                let mut lanes = [0.0; $count];
                lanes.copy_from_slice(&from[..$count]);
                lanes
            }

            #[inline(always)]
            fn store(self, to: &mut [$number]) {
                to[..$count].copy_from_slice(&self);
            }

            #[inline(always)]
            fn splat(value: $number) -> Self {
                [value; $count]
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                let mut sum = term;
                for i in 0..$count {
                    sum[i] = self[i].mul_add(factor[i], term[i]);
                }
                sum
            }

            #[inline(always)]
            fn keep_lower(self, mark: Self, best: &mut Self, best_mark: &mut Self) {
                for i in 0..$count {
                    self[i].keep_lower(mark[i], &mut best[i], &mut best_mark[i]);
                }
            }
        }
    };
}

scalar!(f32);
scalar!(f64);
array!(f32, 4);
array!(f64, 2);

#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($type:ident, $number:ident, $count:literal, $load:ident, $store:ident, $splat:ident, $mul_add:ident,
     |$score:ident, $best:ident| $less:expr, $choose:ident $(, $more:item)?) => {
        #[expect(unsafe_code, reason = "vector registers are reached through intrinsics")]
        impl Lanes for $type {
            type Number = $number;

            const COUNT: usize = $count;

            $($more)?

            #[inline(always)]
            fn load(from: &[$number]) -> Self {
                let from: &[$number] = &from[..$count];
                // SAFETY: the slice holds that many numbers; the instruction is there, see the module.
                unsafe { $load(from.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, to: &mut [$number]) {
                let to: &mut [$number] = &mut to[..$count];
                // SAFETY: the slice holds that many numbers; the instruction is there, see the module.
                unsafe { $store(to.as_mut_ptr(), self) }
            }

            #[inline(always)]
            fn splat(value: $number) -> Self {
                // SAFETY: the instruction is there, see the module.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                // SAFETY: the instruction is there, see the module.
                unsafe { $mul_add(self, factor, term) }
            }

            #[inline(always)]
            fn fetch(from: &[$number], at: usize) {
                let address = from.as_ptr().wrapping_add(at).cast::<i8>();
                // SAFETY: a hint, which reads nothing and fails on no address.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(address);
                    if size_of::<Self>() == 64 {
                        _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64));
                    }
                }
            }

            #[inline(always)]
            fn keep_lower(self, mark: Self, best: &mut Self, best_mark: &mut Self) {
                let ($score, $best) = (self, *best);
                // SAFETY: the instructions are there, see the module.
                unsafe {
                    let less = $less;
                    *best = $choose(*best, less, self);
                    *best_mark = $choose(*best_mark, less, mark);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// `_mm256_blendv_ps` with its arguments in the order of the 512-bit instruction.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an intrinsic")]
    unsafe fn choose_ps(no: __m256, mask: __m256, yes: __m256) -> __m256 {
        // SAFETY: called only where AVX2 is, like all of this module.
        unsafe { _mm256_blendv_ps(no, yes, mask) }
    }

    /// The same for doubles.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an intrinsic")]
    unsafe fn choose_pd(no: __m256d, mask: __m256d, yes: __m256d) -> __m256d {
        // SAFETY: called only where AVX2 is, like all of this module.
        unsafe { _mm256_blendv_pd(no, yes, mask) }
    }

    register!(
        __m256,
        f32,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        |score, best| _mm256_cmp_ps::<_CMP_LT_OQ>(score, best),
        choose_ps
    );
    register!(
        __m512,
        f32,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        |score, best| _mm512_cmp_ps_mask::<_CMP_LT_OQ>(score, best),
        _mm512_mask_mov_ps,
        #[inline(always)]
        fn first_lowest(self, mark: Self) -> Option<u32> {
            // SAFETY: the instructions are there, see the module.
            unsafe {
                let lowest = _mm512_set1_ps(_mm512_reduce_min_ps(self));
                let where_lowest = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self, lowest);
                let lanes = _mm512_set_ps(
                    15.0, 14.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0,
                );
                let places = _mm512_fmadd_ps(mark, _mm512_set1_ps(16.0), lanes);
                Some(_mm512_mask_reduce_min_ps(where_lowest, places) as u32)
            }
        }
    );
    register!(
        __m256d,
        f64,
        4,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        _mm256_fmadd_pd,
        |score, best| _mm256_cmp_pd::<_CMP_LT_OQ>(score, best),
        choose_pd
    );
    register!(
        __m512d,
        f64,
        8,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_set1_pd,
        _mm512_fmadd_pd,
        |score, best| _mm512_cmp_pd_mask::<_CMP_LT_OQ>(score, best),
        _mm512_mask_mov_pd,
        #[inline(always)]
        fn first_lowest(self, mark: Self) -> Option<u32> {
            // SAFETY: the instructions are there, see the module.
            unsafe {
                let lowest = _mm512_set1_pd(_mm512_reduce_min_pd(self));
                let where_lowest = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self, lowest);
                let lanes = _mm512_set_pd(7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0);
                let places = _mm512_fmadd_pd(mark, _mm512_set1_pd(8.0), lanes);
                Some(_mm512_mask_reduce_min_pd(where_lowest, places) as u32)
            }
        }
    );
}
