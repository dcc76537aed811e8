//! The functions that `qjam.spark.Native` declares.
//!
//! Each is called by Java with arrays of its own. A panic does not leave a function: it becomes an exception of Java, like all else that
//! is wrong.

use crate::held::{self, Advance, Columns, Task};
use jni::JNIEnv;
use jni::errors::Result;
use jni::objects::{
    JClass, JDoubleArray, JIntArray, JLongArray, JObject, JPrimitiveArray, ReleaseMode, TypeArray,
};
use jni::sys::{jboolean, jdouble, jint, jlong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// What the exception is.
const WRONG: &str = "java/lang/IllegalArgumentException";

/// What went wrong: a call of Java, or what it gave us.
enum Wrong {
    Java(jni::errors::Error),
    Given(String),
}

impl From<jni::errors::Error> for Wrong {
    fn from(error: jni::errors::Error) -> Wrong {
        Wrong::Java(error)
    }
}

impl From<String> for Wrong {
    fn from(text: String) -> Wrong {
        Wrong::Given(text)
    }
}

/// Does what a function does; throws what is wrong.
fn guarded<'local, R>(
    env: &mut JNIEnv<'local>,
    otherwise: R,
    work: impl FnOnce(&mut JNIEnv<'local>) -> std::result::Result<R, Wrong>,
) -> R {
    let done = catch_unwind(AssertUnwindSafe(|| work(env)));
    let text = match done {
        Ok(Ok(value)) => return value,
        // Java has its own exception then.
        Ok(Err(Wrong::Java(jni::errors::Error::JavaException))) => return otherwise,
        Ok(Err(Wrong::Java(error))) => error.to_string(),
        Ok(Err(Wrong::Given(text))) => text,
        Err(_) => "the native part has a fault of its own; its message is in the executor's log".into(),
    };
    // If not even that can be thrown, Java is at its end.
    let _ = env.throw_new(WRONG, format!("qjam: {text}"));
    otherwise
}

fn doubles(env: &JNIEnv<'_>, from: &JDoubleArray<'_>) -> Result<Vec<f64>> {
    let mut to = vec![0.0; env.get_array_length(from)? as usize];
    env.get_double_array_region(from, 0, &mut to)?;
    Ok(to)
}

fn columns(
    env: &JNIEnv<'_>,
    starts: &JLongArray<'_>,
    rows: &JIntArray<'_>,
    values: &JDoubleArray<'_>,
) -> std::result::Result<Columns, Wrong> {
    let mut long = vec![0_i64; env.get_array_length(starts)? as usize];
    env.get_long_array_region(starts, 0, &mut long)?;
    let mut short = vec![0_i32; env.get_array_length(rows)? as usize];
    env.get_int_array_region(rows, 0, &mut short)?;
    let starts = long.into_iter().map(|start| start as u64).collect();
    // A negative row is none that a residual has, and is told when it is used.
    let rows = short.into_iter().map(|row| row as u32).collect();
    Ok(Columns::checked(starts, rows, doubles(env, values)?)?)
}

/// `A Δα`, the sum of squares, and the seconds that it took, as one array.
fn answer<'local>(
    env: &JNIEnv<'local>,
    mut change: Vec<f64>,
    squares: f64,
    begun: Instant,
) -> Result<JDoubleArray<'local>> {
    change.extend([squares, begun.elapsed().as_secs_f64()]);
    let array = env.new_double_array(change.len() as i32)?;
    env.set_double_array_region(&array, 0, &change)?;
    Ok(array)
}

fn none<'local>() -> JDoubleArray<'local> {
    JObject::null().into()
}

const UNFIT: &str = "a column has a row that the residual has not";

/// Steps on columns that stay in Java's memory; changes `alpha`.
#[expect(unsafe_code, reason = "Java calls it by this name, and its arrays are read where they lie")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_steps<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    starts: JLongArray<'local>,
    rows: JIntArray<'local>,
    values: JDoubleArray<'local>,
    w: JDoubleArray<'local>,
    alpha: JDoubleArray<'local>,
    settings: JDoubleArray<'local>,
    seed: jlong,
    round: jlong,
    partition: jint,
) -> JDoubleArray<'local> {
    guarded(&mut env, none(), |env| {
        let begun = Instant::now();
        let task = task(&doubles(env, &settings)?, seed, round)?;
        let (w, mut moved) = (doubles(env, &w)?, doubles(env, &alpha)?);
        let mut bounds = vec![0_i64; env.get_array_length(&starts)? as usize];
        env.get_long_array_region(&starts, 0, &mut bounds)?;
        let (all_rows, all_values) = (length(env, &rows)?, length(env, &values)?);
        let fits = bounds.first() == Some(&0) && bounds.last() == Some(&(all_rows as i64));
        if all_rows != all_values || !fits || bounds.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(Wrong::Given(format!(
                "columns that do not begin and end where {all_rows} entries do"
            )));
        }
        if bounds.len() != moved.len() + 1 {
            return Err(Wrong::Given(format!(
                "{} coordinates for {} columns",
                moved.len(),
                bounds.len() - 1
            )));
        }
        let mut other = unsafe_clone(env);
        // SAFETY: between here and the end of the block nothing is asked of Java, and the arrays are only read.
        let change = unsafe {
            let rows = env.get_array_elements_critical(&rows, ReleaseMode::NoCopyBack)?;
            let values = other.get_array_elements_critical(&values, ReleaseMode::NoCopyBack)?;
            let (rows, values): (&[i32], &[f64]) = (&rows, &values);
            // SAFETY: numbers of 32 bits either way.
            let rows = std::slice::from_raw_parts(rows.as_ptr().cast::<u32>(), rows.len());
            let column = |j: usize| {
                let range = bounds[j] as usize..bounds[j + 1] as usize;
                (&rows[range.clone()], &values[range])
            };
            held::steps(column, &w, &mut moved, &task, partition as u32)
        };
        let change = change.ok_or_else(|| UNFIT.to_owned())?;
        env.set_double_array_region(&alpha, 0, &moved)?;
        let squares = moved.iter().map(|a| a * a).sum();
        Ok(answer(env, change, squares, begun)?)
    })
}

/// The same environment once more: two arrays are lent out at a time.
#[expect(unsafe_code, reason = "two arrays are lent out at a time, each by an environment")]
fn unsafe_clone<'local>(env: &JNIEnv<'local>) -> JNIEnv<'local> {
    // SAFETY: both are used by this thread alone, and end with the call.
    unsafe { env.unsafe_clone() }
}

fn length<'local, T: TypeArray>(env: &JNIEnv<'local>, of: &JPrimitiveArray<'local, T>) -> Result<usize> {
    Ok(env.get_array_length(of)? as usize)
}

/// σ', λ, H from an array of the three.
fn task(settings: &[f64], seed: jlong, round: jlong) -> std::result::Result<Task, Wrong> {
    let [sigma, lambda, h] = *settings else {
        return Err(Wrong::Given(format!("{} settings instead of 3", settings.len())));
    };
    if !(sigma > 0.0 && lambda >= 0.0 && h > 0.0 && h.is_finite()) {
        return Err(Wrong::Given(format!("sigma {sigma}, lambda {lambda}, h {h}: all must be positive")));
    }
    Ok(Task { sigma, lambda, h, seed: seed as u64, round: round as u64 })
}

/// Whether the columns of a partition are here.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_has<'local>(
    _: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
) -> jboolean {
    held::has(descent as u64, partition as u32).into()
}

/// Keeps the columns of a partition.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_hold<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
    starts: JLongArray<'local>,
    rows: JIntArray<'local>,
    values: JDoubleArray<'local>,
) {
    guarded(&mut env, (), |env| {
        held::hold(descent as u64, partition as u32, columns(env, &starts, &rows, &values)?);
        Ok(())
    });
}

/// Puts a partition at a round.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_place<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
    alpha: JDoubleArray<'local>,
    round: jlong,
) {
    guarded(&mut env, (), |env| {
        let alpha = doubles(env, &alpha)?;
        let count = alpha.len();
        match held::place(descent as u64, partition as u32, alpha, round as u64) {
            true => Ok(()),
            false => Err(Wrong::Given(format!("partition {partition} has not {count} columns here"))),
        }
    });
}

/// Does a round on a partition that is here: null if it is not, or at another round.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_advance<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
    w: JDoubleArray<'local>,
    settings: JDoubleArray<'local>,
    seed: jlong,
    round: jlong,
) -> JDoubleArray<'local> {
    guarded(&mut env, none(), |env| {
        let begun = Instant::now();
        let task = task(&doubles(env, &settings)?, seed, round)?;
        match held::advance(descent as u64, partition as u32, &doubles(env, &w)?, &task) {
            Advance::Done(change, squares) => Ok(answer(env, change, squares, begun)?),
            Advance::Elsewhere => Ok(none()),
            Advance::Unfit => Err(Wrong::Given(UNFIT.into())),
        }
    })
}

/// The coordinates of a partition: null if it is not here, or another round comes next.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_coordinates<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
    round: jlong,
) -> JDoubleArray<'local> {
    guarded(&mut env, none(), |env| {
        let Some(found) = held::coordinates(descent as u64, partition as u32, round as u64) else {
            return Ok(none());
        };
        let array = env.new_double_array(found.len() as i32)?;
        env.set_double_array_region(&array, 0, &found)?;
        Ok(array)
    })
}

/// The sum of the squares of all columns' products with the residual; NaN if the partition is not here.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_slopes<'local>(
    mut env: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
    partition: jint,
    w: JDoubleArray<'local>,
) -> jdouble {
    guarded(&mut env, f64::NAN, |env| {
        let w = doubles(env, &w)?;
        Ok(held::slopes(descent as u64, partition as u32, &w).unwrap_or(f64::NAN))
    })
}

/// Forgets all of a descent.
#[expect(unsafe_code, reason = "Java calls it by this name")]
#[unsafe(no_mangle)]
pub extern "system" fn Java_qjam_spark_Native_00024_release<'local>(
    _: JNIEnv<'local>,
    _: JClass<'local>,
    descent: jlong,
) {
    held::release(descent as u64);
}
