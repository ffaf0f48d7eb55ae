//! The page "Getting started on EKS": its commands before the first one that needs an account, run as they are written.

use std::path::Path;
use std::process::Command;

use muster_tests::replica;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/getting-started.md");
/// First line of the commands that need an account.
const MARK: &str = "# needs an AWS account";
/// Commands that fetch and build what is there for the tests already.
const BUILDS: [&str; 2] = ["git clone ", "images/controller/build"];

/// A block of code, and the paragraph before it.
struct Block {
    language: String,
    text: String,
    paragraph: String,
}

/// Returns the blocks before the first one with the mark.
fn blocks() -> Vec<Block> {
    let (mut blocks, mut paragraph, mut open) = (Vec::new(), String::new(), None::<Block>);
    for line in PAGE.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let paragraph = std::mem::take(&mut paragraph);
                open = Some(Block { language: language.to_owned(), text: String::new(), paragraph });
            }
            (Some(_), Some(_)) => {
                let block = open.take().unwrap();
                if block.text.starts_with(MARK) {
                    return blocks;
                }
                blocks.push(block);
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            // A block belongs to the paragraph before the empty line above it.
            (None, None) if line.is_empty() => paragraph += "\n",
            (None, None) if paragraph.ends_with('\n') => line.clone_into(&mut paragraph),
            (None, None) => paragraph += line,
        }
    }
    panic!("the page has no block that begins with `{MARK}`");
}

/// Returns the first file that the paragraph names.
fn file_of(paragraph: &str) -> &str {
    let mut words = paragraph.split('`').skip(1).step_by(2);
    words.find(|word| word.ends_with(".yaml")).unwrap_or_else(|| panic!("no file in: {paragraph}"))
}

fn link(program: &Path, folder: &Path) {
    std::os::unix::fs::symlink(program, folder.join(program.file_name().unwrap())).unwrap();
}

#[test]
fn what_the_page_does_without_an_account_works() {
    let (folder, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let muster = replica::built().unwrap();
    link(&muster, programs.path());
    link(&muster.with_file_name("muster-agent"), programs.path());
    let (mut script, mut builds) = (String::from("set -euo pipefail\n"), 0);
    for Block { language, text, paragraph } in blocks() {
        match language.as_str() {
            "yaml" => std::fs::write(folder.path().join(file_of(&paragraph)), text).unwrap(),
            "sh" if BUILDS.iter().any(|build| text.starts_with(build)) => builds += 1,
            "sh" => script += &text,
            _ => panic!("a block of `{language}` before the first that needs an account"),
        }
    }
    assert_eq!(builds, BUILDS.len());
    let path = std::env::var("PATH").unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(folder.path());
    bash.env("PATH", format!("{}:{path}", programs.path().display()));
    let output = bash.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{errors}");
    assert!(out.contains("general") && out.contains("sleeper ×3"), "{out}\n{errors}");
    let policy = std::fs::read_to_string(folder.path().join("policy.json")).unwrap();
    let policy: Value = serde_json::from_str(&policy).unwrap();
    assert_eq!(policy["Version"], "2012-10-17");
}
