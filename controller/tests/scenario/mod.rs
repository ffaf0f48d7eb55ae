//! Files that open with a comment which says what an operator has, what must come out, and why: the list of them, what their
//! comments ask for, and the snapshot of what came out.

use std::collections::BTreeSet;
use std::path::Path;

#[path = "../process/mod.rs"]
mod process;

/// A test for every name, which calls `check`, and the list of them.
macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(&stringify!($name).replace('_', "-"));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

/// The comment that a file opens with.
pub(crate) struct Header {
    lines: Vec<String>,
}

impl Header {
    /// That of scenario `name` in `folder`.
    #[track_caller]
    pub(crate) fn read(folder: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        let lines = text.lines().map_while(|line| line.strip_prefix('#')).map(|line| line.trim().to_owned());
        let lines: Vec<String> = lines.collect();
        assert!(lines.first().is_some_and(|line| !line.is_empty()), "`{name}` says nothing about itself");
        Self { lines }
    }

    /// Its first line.
    pub(crate) fn description(&self) -> &str {
        &self.lines[0]
    }

    /// The words of all lines that begin with `title: `.
    pub(crate) fn words(&self, title: &str) -> Vec<&str> {
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix(title)?.strip_prefix(": "));
        lines.flat_map(str::split_whitespace).collect()
    }
}

/// Whether each file of `folder` is among `names`, and each of those is there; `others` are no scenarios.
#[track_caller]
pub(crate) fn every_file_is_a_test(folder: &Path, names: &[&str], others: &[&str]) {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = files.filter(|file| !others.contains(&file.as_str()));
    let written: BTreeSet<String> = files.filter_map(|file| Some(file.strip_suffix(".yaml")?.into())).collect();
    let tested: BTreeSet<String> = names.iter().map(|name| name.replace('_', "-")).collect();
    assert_eq!(written, tested);
}

/// What `muster` prints for scenario `name` in `folder`; in the form for people, messages for the operator first.
#[track_caller]
pub(crate) fn muster(folder: &Path, command: &[&str], name: &str, options: &[&str], format: &str) -> String {
    let file = format!("{name}.yaml");
    let arguments = [command, &["-f", &file, "-o", format], options].concat();
    let output = process::muster(&arguments, folder, b"");
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    let printed = String::from_utf8(output.stdout).unwrap();
    if format == "table" { messages + &printed } else { printed }
}

/// Holds `shown` against the snapshot of scenario `name`, in the folder `snapshots` of the test's own.
#[track_caller]
pub(crate) fn hold(folder: &Path, name: &str, header: &Header, shown: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder.join("snapshots"));
    settings.set_description(header.description());
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, shown));
}
