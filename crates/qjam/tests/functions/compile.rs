//! What the compiler says about functions that cannot be run over chunks, and that the macros work under another name.
//!
//! Programs of a few lines are given to the compiler with the library that this test was built with.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// What the compiler said, and whether it was content.
struct Compiled {
    is_good: bool,
    said: String,
}

impl Compiled {
    /// Whether the first error is this one.
    #[track_caller]
    fn begins_with(&self, sentence: &str) {
        let first = self.said.lines().find(|line| line.starts_with("error"));
        assert!(!self.is_good && first.is_some_and(|line| line.contains(sentence)), "{}", self.said);
    }

    /// Whether this is all there is, in at most so many lines.
    #[track_caller]
    fn says_only(&self, sentence: &str, lines_max: usize) {
        self.begins_with(sentence);
        let errors = self.said.lines().filter(|line| line.starts_with("error") && !line.contains("aborting"));
        assert_eq!(errors.count(), 1, "{}", self.said);
        assert!(self.said.lines().count() <= lines_max, "{}", self.said);
    }
}

/// The library that this test was built with. There may be several builds of it, with other features or of another state of the
/// sources: a symbol has the same mangled name, hash included, in the library that it comes from and in this executable.
fn library() -> PathBuf {
    let grep = |words: &[&str], files: &[PathBuf]| {
        let output = Command::new("grep").args(words).arg("--").args(files).output().expect("grep");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let executable = std::env::current_exe().expect("a path");
    // As long as this function is called here, it has a symbol.
    assert!(qjam::registry::names().next().is_some());
    let symbols = grep(
        &["-aoE", "[A-Za-z0-9_.$]+4qjam8registry5names[A-Za-z0-9_.$]*"],
        std::slice::from_ref(&executable),
    );
    let symbol = symbols.lines().next().expect("a symbol of the library");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libqjam-") && name.ends_with(".rlib")
    };
    let deps = std::fs::read_dir(executable.parent().expect("a folder")).expect("a folder");
    let all: Vec<PathBuf> = deps.map(|entry| entry.expect("an entry").path()).filter(is_library).collect();
    let found = grep(&["-lF", symbol], &all);
    let found: Vec<&str> = found.lines().collect();
    let [library] = found[..] else { panic!("{symbol} is in {found:?} of {all:?}") };
    library.into()
}

/// Compiles a program that calls the library by this name, in a crate with this manifest.
fn compile(name: &str, manifest: &str, program: &str) -> Compiled {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let library = LIBRARY.get_or_init(library);
    let deps = library.parent().expect("a folder");
    let folder = std::env::temp_dir().join(format!(
        "qjam-compile-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::create_dir_all(&folder).expect("a folder to write to");
    let source = folder.join("program.rs");
    std::fs::write(&source, program).expect("a folder to write to");
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a folder to write to");
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj", "--color", "never"])
        .args(["-A", "unused", "--crate-name", "program", "--out-dir"])
        .arg(&folder)
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .args(["--extern", &format!("{name}={}", library.display())])
        .arg(&source)
        .env("CARGO_MANIFEST_DIR", &folder)
        .output()
        .expect("a compiler");
    std::fs::remove_dir_all(&folder).expect("a folder to write to");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Compiled { is_good: output.status.success(), said }
}

/// Compiles a program that calls the library by its own name.
fn plain(program: &str) -> Compiled {
    let all = format!("use qjam::{{Ctx, DataSet, Dense, Master, State}};\n{TALLY}\n{program}");
    compile("qjam", "[dependencies]\nqjam = \"0.1\"\n", &all)
}

const TALLY: &str = "
    #[derive(Clone, qjam::Wire)]
    struct Tally(u64);

    impl State for Tally {
        type Chunk = Dense<f64>;
        fn init(_: &Dense<f64>, _: &Ctx) -> Self {
            Tally(0)
        }
    }

    #[qjam::map]
    fn step(_: &(), x: &Dense<f64>, tally: &mut Tally) -> u64 {
        tally.0 += x.rows() as u64;
        tally.0
    }";

#[test]
fn good_programs_compile() {
    let good = plain(
        "pub fn go(m: &Master, x: &DataSet<Dense<f64>>) -> qjam::Result<u64> { m.hold::<Tally>(x)?.run(step, &()) }",
    );
    assert!(good.is_good, "{}", good.said);
    let reading = plain(
        "#[qjam::map] fn look(_: &(), x: &Dense<f64>, tally: &Tally) -> u64 { tally.0 + x.rows() as u64 }
        #[qjam::map] fn see(_: &(), _: &Dense<f64>, tally: &Tally, ctx: &Ctx) -> u64 { tally.0 + ctx.round() }
        pub fn go(m: &Master, x: &DataSet<Dense<f64>>) -> qjam::Result<u64> {
            let mut held = m.hold::<Tally>(x)?;
            Ok(held.run(look, &())? + held.run(see, &())?)
        }",
    );
    assert!(reading.is_good, "{}", reading.said);
}

#[test]
fn a_function_with_a_state_given_to_run_is_told_to_hold() {
    let program =
        "pub fn go(m: &Master, x: &DataSet<Dense<f64>>) -> qjam::Result<u64> { m.run(step, &(), x) }";
    plain(program).says_only("this function changes the state `Tally` of a chunk", 30);
}

#[test]
fn what_is_neither_a_state_nor_the_context_is_told() {
    let program = "#[qjam::map] fn look(_: &(), x: &Dense<f64>, text: &String) -> u64 { (text.len() + x.rows()) as u64 }";
    plain(program).says_only("`String` is not a state that stays with a chunk", 30);
}

#[test]
fn a_function_that_returns_a_result_is_told_to_panic() {
    let program =
        "#[qjam::map] fn rows(_: &(), x: &Dense<f64>) -> Result<u64, String> { Ok(x.rows() as u64) }";
    plain(program)
        .says_only("a map returns its result and not a `Result`: to fail, panic with a message", 10);
}

#[test]
fn a_closure_that_captures_is_refused_when_it_is_compiled() {
    let program = "pub fn go(m: &Master, x: &DataSet<Dense<f64>>, k: u64) -> qjam::Result<u64> {
        m.run(move |_: &(), x: &Dense<f64>| k * x.rows() as u64, &(), x)
    }";
    plain(program)
        .says_only("a closure that captures variables, or a function pointer, cannot be run on workers", 30);
}

#[test]
fn the_macros_work_under_another_name_of_the_library() {
    let program = "
        #[derive(jam::Wire, jam::Sum, Default)]
        pub struct Sums { total: f64, rows: u64 }

        #[jam::map]
        fn rows(_: &(), x: &jam::Dense<f64>) -> u64 { x.rows() as u64 }

        #[jam::fold(accumulator_bytes = 1 << 20)]
        fn sums(_: &(), x: &jam::Dense<f64>, sums: &mut Sums) { sums.rows += x.rows() as u64; }

        #[jam::main]
        pub fn main() {}";
    let renamed = "[dependencies]\njam = { package = \"qjam\", version = \"0.1\" }\n";
    let compiled = compile("jam", renamed, program);
    assert!(compiled.is_good, "{}", compiled.said);
    // Where the manifest says nothing of it, as behind a library that passes qjam on, the attribute does.
    let said = program
        .replace("jam::map]", "jam::map(crate = jam)]")
        .replace("jam::fold(", "jam::fold(crate = jam, ")
        .replace("jam::main]", "jam::main(crate = jam)]")
        .replace("Default)]", "Default)] #[qjam(crate = jam)]");
    assert!(!compile("jam", "", program).is_good);
    let compiled = compile("jam", "", &said);
    assert!(compiled.is_good, "{}", compiled.said);
}
