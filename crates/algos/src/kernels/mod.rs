//! Arithmetic on slices that gives the same bits on every processor.
//!
//! The learners' chunk functions spend their time here. Each kernel is one body in plain Rust, compiled once per
//! [`Level`] of vector instructions and chosen at run time. Two rules make the bits a function of the input alone:
//! every output element is its own chain of operations (a lane never meets its neighbour), and every product that is
//! added is one [`f64::mul_add`], rounded once whether the processor has the instruction or a library does it.
//!
//! So a laptop without AVX-512 and a server with it return the same partial result for the same chunk. The tests of
//! each kernel compare all levels the machine has, bit by bit.

pub mod aligned;
pub(crate) mod arithmetic;
pub mod elementwise;
pub(crate) mod lanes;
pub mod multiply;
pub mod nearest;
pub mod sparse;
pub mod tanh;
pub mod vectors;

/// A set of vector instructions this processor is known to have.
///
/// Values are only made by asking the processor, so holding one is the proof that its code may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// What the target always has. On x86-64 a fused multiply-add is then a library call: slow, same bits.
    Plain,
    /// 256 bits with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The widest level of this processor.
    pub fn best() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Level(Width::Avx512);
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                return Level(Width::Avx2);
            }
        }
        Level(Width::Plain)
    }

    /// All levels of this processor, the plain one first.
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level(Width::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                levels.push(Level(Width::Avx2));
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                levels.push(Level(Width::Avx512));
            }
        }
        levels
    }

    pub(crate) fn width(self) -> Width {
        self.0
    }
}

/// Compiles a body once per level and makes a function that picks one by its first argument.
///
/// The body must be `#[inline(always)]`: it is compiled anew, with other instructions, inside each wrapper. Written
/// `body<Lanes>`, it also gets the widest register of doubles of the level as its type argument; `body<Lanes32>`
/// gets that of 32-bit numbers.
macro_rules! per_level {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident) => {
        $crate::kernels::per_level! {
            @wrap [$(#[$meta])* $vis] $name [$($arg: $type),*] $body, $body, $body
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident<Lanes>) => {
        $crate::kernels::per_level! {
            @wrap [$(#[$meta])* $vis] $name [$($arg: $type),*]
            $body::<std::arch::x86_64::__m512d>, $body::<std::arch::x86_64::__m256d>, $body::<[f64; 2]>
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:ident<Lanes32>) => {
        $crate::kernels::per_level! {
            @wrap [$(#[$meta])* $vis] $name [$($arg: $type),*]
            $body::<std::arch::x86_64::__m512>, $body::<std::arch::x86_64::__m256>, $body::<[f32; 4]>
        }
    };
    (@wrap [$($head:tt)*] $name:ident [$($arg:ident: $type:ty),*] $avx512:expr, $avx2:expr, $plain:expr) => {
        $($head)* fn $name(level: $crate::kernels::Level, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512($($arg: $type),*) {
                $avx512($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) {
                $avx2($($arg),*)
            }
            match level.width() {
                $crate::kernels::Width::Plain => $plain($($arg),*),
                #[cfg(target_arch = "x86_64")]
                #[expect(unsafe_code, reason = "the instructions were found on this processor when the level was made")]
                // SAFETY: a `Level` of this width exists only where `is_x86_feature_detected!` said so.
                $crate::kernels::Width::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                #[expect(unsafe_code, reason = "the instructions were found on this processor when the level was made")]
                // SAFETY: a `Level` of this width exists only where `is_x86_feature_detected!` said so.
                $crate::kernels::Width::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}
pub(crate) use per_level;

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn best_level_is_the_last_available_one() {
        assert_eq!(Level::available().last(), Some(&Level::best()));
    }
}
