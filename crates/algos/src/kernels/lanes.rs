//! A few numbers in one register, with the four operations the tiles of a product need.
//!
//! Left to itself the compiler turns a register tile into vectors in one version and into scalars in the next, so
//! the tiles say which registers they mean. Loads and stores take slices and are checked.
//!
//! The methods may only run where the processor has the instructions. The types are named nowhere but in the
//! wrappers of `per_level!`, which are reached through a [`Level`](super::Level) made on this processor.

/// Numbers that are handled together, each on its own.
pub(crate) trait Lanes: Copy {
    /// How many.
    const COUNT: usize;

    /// The first numbers of a slice.
    fn load(from: &[f64]) -> Self;

    /// Writes to the first places of a slice.
    fn store(self, to: &mut [f64]);

    /// The same number in every lane.
    fn splat(value: f64) -> Self;

    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
}

impl Lanes for f64 {
    const COUNT: usize = 1;

    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        from[0]
    }

    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        to[0] = self;
    }

    #[inline(always)]
    fn splat(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        f64::mul_add(self, factor, term)
    }
}

/// Two numbers, for processors whose vectors the compiler always may use.
impl Lanes for [f64; 2] {
    const COUNT: usize = 2;

    #[inline(always)]
    fn load(from: &[f64]) -> Self {
        [from[0], from[1]]
    }

    #[inline(always)]
    fn store(self, to: &mut [f64]) {
        to[..2].copy_from_slice(&self);
    }

    #[inline(always)]
    fn splat(value: f64) -> Self {
        [value; 2]
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        [self[0].mul_add(factor[0], term[0]), self[1].mul_add(factor[1], term[1])]
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! register {
    ($type:ident, $count:literal, $load:ident, $store:ident, $splat:ident, $mul_add:ident) => {
        #[expect(unsafe_code, reason = "vector registers are reached through intrinsics")]
        impl Lanes for std::arch::x86_64::$type {
            const COUNT: usize = $count;

            #[inline(always)]
            fn load(from: &[f64]) -> Self {
                let from: &[f64] = &from[..$count];
                // SAFETY: the slice holds that many numbers; the instruction is there, see the module.
                unsafe { std::arch::x86_64::$load(from.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, to: &mut [f64]) {
                let to: &mut [f64] = &mut to[..$count];
                // SAFETY: the slice holds that many numbers; the instruction is there, see the module.
                unsafe { std::arch::x86_64::$store(to.as_mut_ptr(), self) }
            }

            #[inline(always)]
            fn splat(value: f64) -> Self {
                // SAFETY: the instruction is there, see the module.
                unsafe { std::arch::x86_64::$splat(value) }
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                // SAFETY: the instruction is there, see the module.
                unsafe { std::arch::x86_64::$mul_add(self, factor, term) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
register!(__m256d, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd);
#[cfg(target_arch = "x86_64")]
register!(__m512d, 8, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd);
