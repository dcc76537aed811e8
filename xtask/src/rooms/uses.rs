//! The paths that a file of a crate names, without those of its tests.
//!
//! Tokens go in, with the path of the module that the file is; paths from the crate's root come out, and the modules that
//! the file declares. `self` and `super` are resolved. What stands behind `#[cfg(test)]` or `#[cfg(doctest)]` is left out,
//! so files of tests are never even opened.

use super::tokens::Token;

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileUses {
    /// Modules in files of their own, by their path.
    pub modules: Vec<Vec<String>>,
    /// Paths from the root of the crate, with the module that names them.
    pub paths: Vec<(Vec<String>, Vec<String>)>,
    /// What `use` items bring into scope: the module, the name there, and the path as it is written.
    pub imports: Vec<(Vec<String>, String, Vec<String>)>,
    /// Macros that are exported from the root.
    pub macros: Vec<String>,
}

/// Reads the tokens of the file that is this module.
pub fn read(tokens: &[Token], module: &[String]) -> FileUses {
    let mut reader =
        Reader { tokens, at: 0, module: module.to_vec(), open: Vec::new(), uses: FileUses::default() };
    reader.run();
    reader.uses
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    /// Where we are, modules in braces included.
    module: Vec<String>,
    /// For every brace that is open, whether it is that of a module.
    open: Vec<bool>,
    uses: FileUses,
}

/// What an item can begin with. A comma does not end these.
const ITEMS: &[&str] = &[
    "pub",
    "fn",
    "mod",
    "impl",
    "use",
    "struct",
    "enum",
    "const",
    "static",
    "trait",
    "type",
    "extern",
    "unsafe",
    "macro_rules",
    "async",
];

impl Reader<'_> {
    fn token(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn is_sign(&self, ahead: usize, sign: char) -> bool {
        self.token(ahead).is_some_and(|token| token.is_sign(sign))
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.token(ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn run(&mut self) {
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign('#') => self.attribute(),
                // In a macro: whoever uses the macro uses what it names.
                Token::Sign('$') => self.at += 2,
                Token::Sign('{') => {
                    self.open.push(false);
                    self.at += 1;
                }
                Token::Sign('}') => {
                    if self.open.pop() == Some(true) {
                        self.module.pop();
                    }
                    self.at += 1;
                }
                Token::Word(word) => match word.as_str() {
                    "mod" => self.module_item(),
                    "use" if !self.is_sign(1, '<') => self.use_item(),
                    "crate" | "super" | "self" if self.token(1) == Some(&Token::PathSep) => self.path(),
                    _ => self.at += 1,
                },
                _ => self.at += 1,
            }
        }
    }

    /// An attribute, and all that stands behind it if that is for tests only.
    fn attribute(&mut self) {
        self.at += 1;
        if self.is_sign(0, '!') {
            self.at += 1;
        }
        if !self.is_sign(0, '[') {
            return;
        }
        let start = self.at;
        self.group();
        let words: Vec<&str> = self.tokens[start..self.at]
            .iter()
            .filter_map(|t| if let Token::Word(w) = t { Some(&**w) } else { None })
            .collect();
        if words.contains(&"macro_export") {
            let rest = &self.tokens[self.at..];
            if let Some(at) = rest.iter().position(|t| t.is_word("macro_rules"))
                && let Some(Token::Word(name)) = rest.get(at + 2)
            {
                self.uses.macros.push(name.clone());
            }
        }
        let is_test = words.first() == Some(&"cfg")
            && words.iter().any(|w| matches!(*w, "test" | "doctest"))
            && !words.contains(&"not");
        if is_test {
            self.skip_item();
        } else {
            self.at = start + 1; // paths in attributes count, too
        }
    }

    /// Goes behind the bracket that closes the one here.
    fn group(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Goes behind an item, a field or a statement, with the attributes before it.
    fn skip_item(&mut self) {
        while self.is_sign(0, '#') {
            self.at += 1;
            self.group();
        }
        let first = self.word(0).unwrap_or_default().to_owned();
        let is_item = ITEMS.contains(&first.as_str());
        let is_use = first == "use"
            || first == "pub" && self.tokens[self.at..].iter().take(6).any(|t| t.is_word("use"));
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign(';') => {
                    self.at += 1;
                    return;
                }
                Token::Sign(',') if !is_item => {
                    self.at += 1;
                    return;
                }
                Token::Sign('{') => {
                    self.group();
                    if is_item && !is_use {
                        return;
                    }
                }
                Token::Sign('(' | '[') => self.group(),
                Token::Sign(')' | ']' | '}') => return,
                _ => self.at += 1,
            }
        }
    }

    fn module_item(&mut self) {
        let Some(name) = self.word(1).map(str::to_owned) else {
            self.at += 1;
            return;
        };
        let mut path = self.module.clone();
        path.push(name.clone());
        if self.is_sign(2, ';') {
            self.uses.modules.push(path);
            self.at += 3;
        } else if self.is_sign(2, '{') {
            self.module.push(name);
            self.open.push(true);
            self.at += 3;
        } else {
            self.at += 1;
        }
    }

    fn use_item(&mut self) {
        self.at += 1;
        if self.token(0) == Some(&Token::PathSep) {
            self.at += 1; // a path from outside
        }
        self.use_tree(&[]);
    }

    /// One branch of a `use`, behind `before`.
    fn use_tree(&mut self, before: &[String]) {
        let mut path = before.to_vec();
        loop {
            if self.is_sign(0, '{') {
                self.at += 1;
                while self.token(0).is_some() && !self.is_sign(0, '}') {
                    self.use_tree(&path);
                    if self.is_sign(0, ',') {
                        self.at += 1;
                    }
                }
                self.at += 1;
                return;
            }
            match self.word(0).map(str::to_owned) {
                Some(word) => path.push(word),
                None if self.is_sign(0, '*') => path.push("*".into()),
                None => {
                    self.at += 1; // not a `use` at all, or nothing that we know
                    return;
                }
            }
            self.at += 1;
            if self.token(0) != Some(&Token::PathSep) {
                break;
            }
            self.at += 1;
        }
        if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.word(0) == Some("as") {
            name = self.word(1).unwrap_or("_").to_owned();
            self.at += 2;
        }
        if let Some(absolute) = self.resolve(&path) {
            self.uses.paths.push((self.module.clone(), absolute));
        }
        self.uses.imports.push((self.module.clone(), name, path));
    }

    fn path(&mut self) {
        let mut path = Vec::new();
        while let Some(word) = self.word(0).map(str::to_owned) {
            path.push(word);
            self.at += 1;
            if self.token(0) != Some(&Token::PathSep) {
                break;
            }
            self.at += 1;
        }
        if let Some(absolute) = self.resolve(&path) {
            self.uses.paths.push((self.module.clone(), absolute));
        }
    }

    /// From the root, if the path begins with `crate`, `self` or `super`.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().checked_sub(1)?].to_vec(),
            _ => return None,
        };
        for word in &path[1..] {
            if word == "super" {
                base.pop()?;
            } else {
                base.push(word.clone());
            }
        }
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn check(module: &str, source: &str, expected: &str) {
        let module: Vec<String> = module.split("::").map(str::to_owned).collect();
        let uses = read(&tokens(source), &module);
        let shown: Vec<String> = uses.paths.iter().map(|(_, path)| path.join("::")).collect();
        assert_eq!(shown.join(" "), expected, "{source}");
    }

    #[test]
    fn uses_are_taken_apart() {
        check("a", "use crate::b::{C, d::{self, E}, f as g};", "b::C b::d b::d::E b::f");
        check("a", "use std::io; pub(crate) use crate::b; use crate::c::*;", "b c::*");
    }

    #[test]
    fn super_and_self_are_counted_from_where_they_stand() {
        check(
            "a::b",
            "use super::c; use super::super::d::E; fn f() { self::g::h() }",
            "a::c d::E a::b::g::h",
        );
        check("a", "mod inner { use super::super::x; } use super::y;", "x y");
    }

    #[test]
    fn paths_in_code_count() {
        check("a", "fn f(x: crate::b::C) { crate::d::e(crate::LIMIT); }", "b::C d::e LIMIT");
        check("a", "#[error(\"{}\", crate::b::C)] struct S;", "b::C");
        check("a", "macro_rules! m { () => { $crate::b::c(crate::d::E) } }", "d::E");
        check("a", "fn f() -> impl Sized + use<'_> { pub(crate) struct S; }", "");
    }

    #[test]
    fn what_is_for_tests_does_not() {
        check("a", "#[cfg(test)] mod tests { use crate::b; } use crate::c;", "c");
        check("a", "#[cfg(test)] use crate::{b, c}; use crate::d;", "d");
        check("a", "struct S { #[cfg(test)] x: crate::b::C, y: crate::d::E }", "d::E");
        check("a", "#[cfg(test)] #[derive(Debug)] struct S<A, B>(A, B, crate::b::C); use crate::d;", "d");
        check("a", "#[cfg(not(test))] use crate::b;", "b");
    }

    #[test]
    fn modules_in_files_and_exported_macros_are_found() {
        let source =
            "mod b; #[cfg(test)] mod tests; pub mod c; #[macro_export] macro_rules! hook { () => {} }";
        let uses = read(&tokens(source), &["a".to_owned()]);
        assert_eq!(uses.modules, [["a", "b"], ["a", "c"]]);
        assert_eq!(uses.macros, ["hook"]);
    }
}
