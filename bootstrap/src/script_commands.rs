//! Commands of a part that cloud-init runs: a script, a boot hook, or `bootcmd` and `runcmd` of `#cloud-config`; and
//! the call of bootstrap.sh among them.

use crate::tree::{self, Tree};
use crate::userdata::{Part, PartKind};
use crate::words::shell::{Command, ShellWord, commands};

/// Returns the commands of a part in execution order. Line numbers are those of the part.
pub(crate) fn commands_of(part: &Part) -> Vec<Command> {
    match part.kind {
        PartKind::Shell => commands(&part.text),
        PartKind::CloudInit if part.text.trim_start().starts_with("#cloud-boothook") => commands(&part.text),
        PartKind::CloudInit if part.text.trim_start().starts_with("#cloud-config") => of_config(&part.text),
        _ => Vec::new(),
    }
}

/// Reads `bootcmd` and `runcmd`. A string is a shell command line; a list is a program with its arguments, without a
/// shell. Source: cloud-init documentation, modules Bootcmd and Runcmd.
fn of_config(text: &str) -> Vec<Command> {
    let Ok(tree) = tree::yaml(text) else { return Vec::new() };
    let mut found = Vec::new();
    for item in ["bootcmd", "runcmd"].into_iter().filter_map(|key| tree.get(key)).flat_map(Tree::items) {
        let line = item.line.max(1);
        let Some(script) = item.text() else {
            let word =
                |it: &Tree| Some(ShellWord { text: it.text()?.to_owned(), line: it.line.max(1), is_open: false });
            found.push(Command { words: item.items().iter().filter_map(word).collect() });
            continue;
        };
        // The lines of a block scalar begin after the line with its indicator.
        let shown = text.lines().nth(line - 1).unwrap_or_default().trim_end();
        let before = if shown.ends_with(['|', '>', '-', '+']) { line } else { line - 1 };
        for mut command in commands(script) {
            command.words.iter_mut().for_each(|word| word.line += before);
            found.push(command);
        }
    }
    found
}

/// Returns the words of a call of bootstrap.sh, and the index of the script among them.
pub(crate) fn bootstrap_call(command: &Command) -> Option<(&[ShellWord], usize)> {
    const WRAPPERS: [&str; 8] = ["sudo", "bash", "sh", "exec", "source", ".", "env", "nohup"];
    for (index, word) in command.words.iter().enumerate() {
        if word.text.ends_with("/bootstrap.sh") && !word.text.contains("://") {
            return Some((&command.words, index));
        }
        let is_option = word.text.starts_with('-') || word.text.contains('=');
        if !is_option && !WRAPPERS.iter().any(|wrapper| word.text.rsplit('/').next() == Some(wrapper)) {
            return None;
        }
    }
    None
}
