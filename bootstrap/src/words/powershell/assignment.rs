//! Assignments to variables, and splatting (`@name`) in calls.
//!
//! Source: about_Assignment_Operators and about_Splatting of PowerShell.

use std::collections::BTreeSet;

use super::expression::Value;
use super::{PowerShellWord, Reader, is_of_name};

/// Variables that PowerShell sets itself.
/// Source: about_Automatic_Variables and about_Preference_Variables.
const AUTOMATIC: [&str; 20] = [
    "_",
    "args",
    "error",
    "false",
    "home",
    "host",
    "input",
    "lastexitcode",
    "matches",
    "myinvocation",
    "null",
    "ofs",
    "pid",
    "profile",
    "pscommandpath",
    "pshome",
    "psscriptroot",
    "psversiontable",
    "pwd",
    "true",
];
/// Constructs that can set a variable without an assignment that names it.
const SETTERS: [&str; 7] =
    ["param", "set-variable", "new-variable", "outvariable", "invoke-expression", "iex", "import-module"];

/// Returns the names, in lower case, that a script may set; `None` if it may set any.
pub(super) fn set_names(script: &str) -> Option<BTreeSet<String>> {
    let lower = script.to_lowercase();
    let sources_another = lower.lines().any(|line| line.trim_start().starts_with(". "));
    if sources_another || SETTERS.iter().any(|setter| lower.contains(setter)) {
        return None;
    }
    let names = lower.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|char| !is_of_name(char)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start_matches(['}', ' ', '\t']);
        let sets = ["=", "+=", "-=", "++", ",", "in "].iter().any(|sign| after.starts_with(sign));
        sets.then(|| name.to_owned())
    });
    Some(names.collect())
}

impl Reader {
    /// Returns true if no statement sets the variable: in a string it expands to an empty string.
    pub(super) fn is_unset(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let is_free = !name.contains(':') && !AUTOMATIC.contains(&name.as_str()) && !name.ends_with("preference");
        is_free && !name.is_empty() && self.set_names.as_ref().is_some_and(|names| !names.contains(&name))
    }

    /// Parses the assignment at `=` or `+=`. An unknown expression is left to be read as words.
    pub(super) fn assignment(&mut self) {
        let is_added = self.script.peek_back(2) == Some('+');
        let Some(name) = self.target(if is_added { 3 } else { 2 }).filter(|_| self.assigned.is_none()) else { return };
        let old = self.variables.get(&name).cloned();
        let value = self.attempt(false, |char| matches!(char, None | Some('\n' | ';' | '}' | '#')));
        let value = if is_added { value.and_then(|value| old?.plus(value)) } else { value };
        self.assigned = Some((name, value));
    }

    /// Returns the name, in lower case, of the variable that ends `back` characters before the current position.
    fn target(&self, mut back: usize) -> Option<String> {
        while matches!(self.script.peek_back(back), Some(' ' | '\t')) {
            back += 1;
        }
        let is_braced = self.script.peek_back(back) == Some('}');
        back += usize::from(is_braced);
        let mut name = Vec::new();
        while let Some(char) = self.script.peek_back(back).filter(|char| is_of_name(*char)) {
            name.push(char);
            back += 1;
        }
        back += usize::from(is_braced && self.script.peek_back(back) == Some('{'));
        let is_variable = self.script.peek_back(back) == Some('$') && !name.is_empty();
        is_variable.then(|| name.into_iter().rev().collect::<String>().to_lowercase())
    }

    /// Expands `@name` to parameters with their values, or to values.
    pub(super) fn splatted(&mut self, word: PowerShellWord) -> Vec<PowerShellWord> {
        let name = word.text.strip_prefix('@').filter(|_| !word.is_quoted).unwrap_or_default().to_lowercase();
        let value = self.variables.get(&name).filter(|value| value.size() <= self.room);
        match value {
            Some(Value::Table(entries)) => {
                self.room -= entries.iter().map(|(key, value)| key.len() + value.size()).sum::<usize>();
                let words = entries.iter().flat_map(|(key, value)| {
                    let key = PowerShellWord { text: format!("-{key}"), ..PowerShellWord::at(word.line) };
                    [key, PowerShellWord::of(value, word.line)]
                });
                words.collect()
            }
            Some(Value::List(items)) => {
                self.room -= items.iter().map(Value::size).sum::<usize>();
                items.iter().map(|item| PowerShellWord::of(item, word.line)).collect()
            }
            _ => vec![word],
        }
    }
}
