//! Arithmetic on slices that gives the same bits on every processor.
//!
//! The learners' chunk functions spend their time here. Each kernel is one body in plain Rust, compiled once per
//! [`Level`] of vector instructions and chosen at run time. Two rules make the bits a function of the input alone:
//! every output element is its own chain of operations (a lane never meets its neighbour), and every product that is
//! added is one [`f64::mul_add`], rounded once whether the processor has the instruction or a library does it.
//!
//! There is nothing else to pin: tiles and blocks have fixed sizes, caches are not asked for theirs. The level is chosen
//! in one place, [`Level::best`], and can be set there by the variable `QJAM_SIMD` or by [`use_level`].
//!
//! So a laptop without AVX-512 and a server with it return the same partial result for the same chunk. The tests of
//! each kernel compare all levels the machine has, bit by bit.

pub mod aligned;
pub(crate) mod arithmetic;
pub mod deviations;
pub mod elementwise;
pub mod gram;
pub(crate) mod lanes;
pub mod multiply;
pub mod nearest;
pub mod screen;
pub mod sparse;
pub mod symmetric;
pub mod triangular;
pub mod vectors;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use thiserror::Error;

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

/// Why there is no level of that name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LevelError {
    /// No such word.
    #[error("`{name}` is no level of vector instructions; give plain, avx2, avx512, or auto for the widest")]
    Unknown {
        /// What was given.
        name: String,
    },
    /// The processor lacks the instructions.
    #[error("this processor has no {name}; its levels are: {has}")]
    Absent {
        /// What was given.
        name: String,
        /// What there is.
        has: String,
    },
}

/// The level in use: 0 until it is known, else one more than its place among [`NAMES`].
static IN_USE: AtomicU8 = AtomicU8::new(0);
const NAMES: [&str; 3] = ["plain", "avx2", "avx512"];

/// Has all kernels of this process use this level from now on, whatever `QJAM_SIMD` says.
///
/// Results have the same bits on every level; it is there to show that, and to look for the reason of a difference.
///
/// ```
/// use qjam_algos::kernels::{Level, use_level};
/// use_level(Level::named("plain")?);
/// assert_eq!(Level::best().to_string(), "plain");
/// # Ok::<(), qjam_algos::kernels::LevelError>(())
/// ```
pub fn use_level(level: Level) {
    IN_USE.store(level.place() + 1, Relaxed);
}

impl Level {
    /// The level in use: the one given to [`use_level`], else that named in the environment by `QJAM_SIMD` (`plain`,
    /// `avx2`, `avx512`, or `auto`), else the widest of this processor.
    ///
    /// Panics, which fails a round with that message, if the variable names no level of this processor.
    pub fn best() -> Level {
        let place = IN_USE.load(Relaxed);
        if place != 0 {
            // Only a level that exists here was stored.
            return Level(match place {
                #[cfg(target_arch = "x86_64")]
                3 => Width::Avx512,
                #[cfg(target_arch = "x86_64")]
                2 => Width::Avx2,
                _ => Width::Plain,
            });
        }
        let level = match std::env::var("QJAM_SIMD") {
            Ok(name) => Level::named(&name).unwrap_or_else(|error| panic!("QJAM_SIMD: {error}")),
            Err(_) => Level::widest(),
        };
        use_level(level);
        level
    }

    /// The level of this name, if the processor has it.
    pub fn named(name: &str) -> Result<Level, LevelError> {
        if matches!(name, "" | "auto") {
            return Ok(Level::widest());
        }
        if !NAMES.contains(&name) {
            return Err(LevelError::Unknown { name: name.into() });
        }
        let levels = Level::available();
        levels.iter().copied().find(|level| level.name() == name).ok_or_else(|| LevelError::Absent {
            name: name.into(),
            has: levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The widest level of this processor.
    pub fn widest() -> Level {
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

    fn place(self) -> u8 {
        match self.0 {
            Width::Plain => 0,
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => 1,
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => 2,
        }
    }

    fn name(self) -> &'static str {
        NAMES[usize::from(self.place())]
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

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
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
    fn the_widest_level_is_the_last_available_one() {
        assert_eq!(Level::available().last(), Some(&Level::widest()));
        assert_eq!(Level::named("auto"), Ok(Level::widest()));
    }

    #[test]
    fn levels_are_found_by_the_names_they_have() {
        for level in Level::available() {
            assert_eq!(Level::named(&level.to_string()), Ok(level));
        }
        let error = Level::named("sse9").unwrap_err();
        assert!(error.to_string().contains("plain, avx2, avx512"), "{error}");
    }
}
