//! Tests that every verdict has a case and a rule, and that every code of the catalogue has a verdict.
//!
//! The verdicts of a rule are found by their mention in its source, such as `verdicts::KA17`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use muster_bootstrap::verdicts;

use super::tests::CASES;

/// Returns the codes in a text that follow `before`.
fn codes_after(text: &str, before: &str) -> BTreeSet<String> {
    let is_code = |text: &&str| {
        text.bytes().take(2).all(|it| it.is_ascii_uppercase()) && text.ends_with(|it: char| it.is_ascii_digit())
    };
    text.split(before).skip(1).filter_map(|rest| rest.get(..4)).filter(is_code).map(ToOwned::to_owned).collect()
}

fn source(path: &str) -> String {
    fs::read_to_string([env!("CARGO_MANIFEST_DIR"), "src", path].iter().collect::<PathBuf>()).unwrap()
}

fn cases() -> BTreeSet<String> {
    CASES.iter().map(|(code, _)| (*code).to_owned()).collect()
}

#[test]
fn every_verdict_of_a_preflight_has_a_case() {
    let mut raised = BTreeSet::from(["CN09", "GP01", "GP11", "GP17"].map(ToOwned::to_owned));
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src/preflight"].iter().collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = ["tests.rs", "coverage.rs"].iter().any(|name| path.ends_with(name));
        if path.extension().is_some_and(|it| it == "rs") && !is_test {
            raised.extend(codes_after(&fs::read_to_string(path).unwrap(), "verdicts::"));
        }
    }
    let mut covered = cases();
    // The cases of Windows are in the module of its rules.
    covered.extend(codes_after(&source("preflight/windows.rs"), "\""));
    let missing: Vec<_> = raised.difference(&covered).cloned().collect();
    assert!(missing.is_empty(), "add a case that leads to each: {missing:?}");
}

/// Codes that can be known before a kubelet starts. UD16 is benign, and not a code here.
const KNOWABLE: &str = "UD01 UD02 UD03 UD04 UD05 UD06 UD07 UD08 UD09 UD10 UD13 UD14 UD17 UD18 UD19 UD21 UD22 UD24 UD26 ID01 \
    ID02 ID03 ID04 ID05 ID06 ID07 ID08 ID09 ID10 ID11 ID12 ID13 ID14 KA01 KA02 KA03 KA04 KA05 KA06 KA07 KA08 KA09 KA10 KA11 \
    KA12 KA13 KA14 KA15 KA16 KA17 KA18 KA19 KA20 KA21 KA22 KA23 KA24 KA25 KA26 KA28 KA29 KA30 KA31 KA32 CR01 CR03 CR04 CR05 CR08 \
    CR11 CR13 NW01 NW02 NW03 NW04 NW05 NW06 NW07 NW10 NW11 AU01 AU02 AU04 AU05 AU07 AU08 AU10 AU11 AU14 CN07 CN09 EX03 GP01 \
    GP02 GP06 GP07 GP08 GP13 GP15 WN04 WN08 WN09 WN10";

#[test]
fn everything_that_can_be_known_has_a_case_that_leads_to_it_and_one_that_does_not() {
    let mut covered = cases();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bootstrap/tests/scenarios/cases");
    for entry in fs::read_dir(scenarios).unwrap() {
        covered.insert(entry.unwrap().file_name().to_string_lossy()[..4].to_uppercase());
    }
    let lines = include_str!("../../data/journal-lines.tsv").lines();
    covered.extend(lines.filter_map(|line| line.get(..4)).map(ToOwned::to_owned));
    // Verdicts that the node shows only later: broken device chains, EC2 notices.
    for file in ["devices/chain.rs", "boot_state/tests.rs"] {
        covered.extend(codes_after(&source(file), "\""));
    }
    let wanted = KNOWABLE.split_whitespace();
    let missing: Vec<_> = wanted.filter(|code| !covered.contains(*code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_verdict_is_there_that_nothing_leads_to() {
    let mut raised: BTreeSet<String> =
        crate::watch::signatures::all().iter().map(|it| it.verdict.code.to_owned()).collect();
    let folders = ["src", "../bootstrap/src/rules", "../bootstrap/src/families", "../bootstrap/src"];
    let mut folders: Vec<_> = folders.map(|it| Path::new(env!("CARGO_MANIFEST_DIR")).join(it)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("verdicts") {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                raised.extend(codes_after(&fs::read_to_string(path).unwrap(), "verdicts::"));
            }
        }
    }
    let idle: Vec<_> = verdicts::all().into_iter().map(|it| it.code).filter(|code| !raised.contains(*code)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}
