//! What is missing on hosts for a Python function, told in one table before anything moves.

use super::find::THERE;
use super::runtime::InterpreterFacts;
use std::fmt;

/// The package that nothing goes without.
const NUMPY: &str = "numpy";

/// Hosts and what their interpreters lack. Printed, it is a table with a line for each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The version that is needed: major and minor.
    pub version: (u8, u8),
    /// The packages that are needed.
    pub needs: Vec<String>,
    /// The hosts, also those that have everything.
    pub lines: Vec<Line>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// What messages call it.
    pub host: String,
    /// The interpreter's path there, if there is one.
    pub interpreter: Option<String>,
    /// Its version.
    pub version: Option<(u8, u8, u8)>,
    /// The version of its NumPy.
    pub numpy: Option<String>,
    /// Packages that it lacks.
    pub missing: Vec<String>,
    /// What is wrong and what to do about it; empty if nothing is.
    pub remedy: String,
}

/// What is known of a host.
pub type HostFacts<'a> = Result<&'a InterpreterFacts, &'a str>;

/// Whether a host has all this, which is the usual case and asked before every round.
fn has_all(facts: &InterpreterFacts, needs: &[String]) -> bool {
    let has = |name: &String| name == NUMPY || facts.modules.binary_search(name).is_ok();
    facts.numpy.is_ok() && needs.iter().all(has)
}

impl Line {
    /// Whether the host can run the function.
    pub fn is_good(&self) -> bool {
        self.remedy.is_empty()
    }

    fn new(host: &str, found: HostFacts<'_>, needs: &[String], version: (u8, u8)) -> Line {
        let (major, minor) = version;
        let facts = match found {
            Ok(facts) => facts,
            Err(why) => {
                // One that was named is to be named rightly.
                let remedy = if why.starts_with("QJAM_") {
                    "name another one, or unset it".to_owned()
                } else {
                    format!("install Python {major}.{minor} with NumPy there, or name one in {THERE}")
                };
                return Line {
                    host: host.to_owned(),
                    interpreter: None,
                    version: None,
                    numpy: None,
                    missing: Vec::new(),
                    remedy: format!("{why}: {remedy}"),
                };
            }
        };
        let has = |name: &str| facts.modules.binary_search_by(|module| module.as_str().cmp(name)).is_ok();
        let has_numpy = facts.numpy.is_ok();
        let mut missing: Vec<String> =
            needs.iter().filter(|name| *name != NUMPY && !has(name)).cloned().collect();
        missing.sort();
        missing.dedup();
        if !has_numpy {
            missing.insert(0, NUMPY.to_owned());
        }
        let broken = match &facts.numpy {
            Err(why) if has(NUMPY) => format!("its NumPy does not work ({why}): "),
            _ => String::new(),
        };
        let remedy = if missing.is_empty() {
            String::new()
        } else {
            format!(
                "{broken}{} -m pip install {}, or name another interpreter in {THERE}",
                facts.interpreter,
                missing.iter().map(|name| package(name)).collect::<Vec<_>>().join(" ")
            )
        };
        Line {
            host: host.to_owned(),
            interpreter: Some(facts.interpreter.clone()),
            version: Some(facts.version),
            numpy: facts.numpy.clone().ok(),
            missing,
            remedy,
        }
    }
}

/// What an installer calls the package of a module, where that is another name.
fn package(module: &str) -> &str {
    match module {
        "PIL" => "pillow",
        "bs4" => "beautifulsoup4",
        "cv2" => "opencv-python-headless",
        "dateutil" => "python-dateutil",
        "skimage" => "scikit-image",
        "sklearn" => "scikit-learn",
        "yaml" => "pyyaml",
        other => other,
    }
}

/// Whether all hosts have what a function needs; if not, what each lacks.
pub fn check(facts: &[(&str, HostFacts<'_>)], needs: &[String], version: (u8, u8)) -> Result<(), Table> {
    if facts.iter().all(|(_, found)| found.is_ok_and(|facts| has_all(facts, needs))) {
        return Ok(());
    }
    let lines: Vec<Line> =
        facts.iter().map(|(host, found)| Line::new(host, *found, needs, version)).collect();
    let mut needs = needs.to_vec();
    if !needs.iter().any(|name| name == NUMPY) {
        needs.push(NUMPY.to_owned());
    }
    needs.sort();
    needs.dedup();
    Err(Table { version, needs, lines })
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad = self.lines.iter().filter(|line| !line.is_good()).count();
        let (major, minor) = self.version;
        let hosts = if self.lines.len() == 1 { "host" } else { "hosts" };
        write!(
            f,
            "{bad} of {} {hosts} cannot run this function, which needs Python {major}.{minor} and {}:",
            self.lines.len(),
            self.needs.join(", ")
        )?;
        let dash = || "-".to_owned();
        let mut rows =
            vec![["host", "interpreter", "Python", "NumPy", "missing", "what to do"].map(String::from)];
        rows.extend(self.lines.iter().map(|line| {
            [
                line.host.clone(),
                line.interpreter.clone().unwrap_or_else(dash),
                line.version.map_or_else(dash, |(a, b, c)| format!("{a}.{b}.{c}")),
                line.numpy.clone().unwrap_or_else(dash),
                if line.missing.is_empty() { dash() } else { line.missing.join(" ") },
                if line.is_good() { "nothing".to_owned() } else { line.remedy.clone() },
            ]
        }));
        let width = |n: usize| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(width);
        for row in &rows {
            f.write_str("\n  ")?;
            for (cell, width) in row.iter().zip(widths) {
                write!(f, "{cell:<width$}  ")?;
            }
            f.write_str(&row[5])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(numpy: Result<&str, &str>, modules: &[&str]) -> InterpreterFacts {
        InterpreterFacts {
            interpreter: "/usr/bin/python3".into(),
            version: (3, 11, 2),
            blas: String::new(),
            cpu: String::new(),
            numpy: numpy.map(String::from).map_err(String::from),
            modules: modules.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    #[test]
    fn who_has_everything_passes() {
        let big = facts(Ok("1.26.4"), &["numpy", "scipy"]);
        assert_eq!(check(&[("big", Ok(&big))], &["scipy".into(), "numpy".into()], (3, 11)), Ok(()));
        assert_eq!(check(&[], &["scipy".into()], (3, 11)), Ok(()));
    }

    #[test]
    fn the_table_has_a_line_for_every_host_and_says_what_to_do() {
        let big = facts(Ok("1.26.4"), &["numpy", "scipy"]);
        let small = facts(Err("ModuleNotFoundError"), &["scipy"]);
        let old = facts(Ok("1.20.0"), &["numpy"]);
        let odd = facts(Err("ImportError: libblas"), &["numpy", "scipy"]);
        let hosts = [
            ("big", Ok(&big)),
            ("small", Ok(&small)),
            ("old", Ok(&old)),
            ("odd", Ok(&odd)),
            ("bare", Err("no Python 3.11: there is no python3")),
        ];
        let table = check(&hosts, &["scipy".into(), "scipy".into()], (3, 11)).unwrap_err();
        let missing: Vec<String> = table.lines.iter().map(|line| line.missing.join(" ")).collect();
        assert_eq!(missing, ["", "numpy", "scipy", "numpy", ""]);
        assert_eq!(table.lines.iter().filter(|line| line.is_good()).count(), 1);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "4 of 5 hosts cannot run this function, which needs Python 3.11 and numpy, scipy:"
        );
        assert!(lines[2].starts_with("  big    /usr/bin/python3  3.11.2  1.26.4"), "{text}");
        assert!(lines[2].ends_with("nothing"), "{text}");
        assert!(lines[3].contains("/usr/bin/python3 -m pip install numpy, or"), "{text}");
        assert!(lines[5].contains("its NumPy does not work (ImportError: libblas)"), "{text}");
        assert!(lines[6].contains("no Python 3.11: there is no python3: install Python 3.11"), "{text}");
    }
}
