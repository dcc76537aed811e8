//! How a program becomes a worker.
//!
//! The same executable is master and worker. `#[qjam::main]` and [`worker_hook!`](crate::worker_hook) call
//! [`serve_if_asked`] before the program's own code.

/// Serves and exits if this process was started as a worker; otherwise returns at once.
///
/// `#[qjam::main]` calls this first thing. Call it yourself only if you write `main` by hand.
pub fn serve_if_asked() {
    crate::execution::serve_if_started();
    // A process that a launcher has started among others serves, too, unless it is the first.
    crate::engine::ranks::join_if_launched();
}

/// Makes an executable without a `#[qjam::main]` able to be a worker: tests, doc tests, benchmarks.
///
/// Write it once anywhere in the test crate; the process then asks before `main` whether it was started as a worker.
///
/// ```
/// qjam::worker_hook!();
///
/// #[qjam::map]
/// fn rows(_: &(), x: &qjam::Dense<f64>) -> u64 {
///     x.rows() as u64
/// }
///
/// # fn main() -> qjam::Result<()> {
/// let m = qjam::Master::connect("proc:1")?;
/// let x = qjam::DataSet::dense(vec![0.5; 12], 3)?;
/// assert_eq!(m.run(rows, &(), &x)?, 4);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! worker_hook {
    () => {
        const _: () = {
            extern "C" fn before_main() {
                $crate::worker::serve_if_asked();
            }
            #[used]
            #[allow(unsafe_code, reason = "running before main is what this macro is for")]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}
