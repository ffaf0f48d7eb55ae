//! The CRDs that are checked in are those that the types give.

use std::fs;
use std::path::PathBuf;

/// Set to rewrite the files instead of comparing them.
const REWRITE: &str = "MUSTER_REWRITE_CRDS";

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test, not configuration of a decision")]
fn checked_in_crds_are_current() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds");
    let rewrite = std::env::var(REWRITE).is_ok();
    let mut expected_files = Vec::new();
    for definition in muster_api::crds() {
        let file = format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural);
        let yaml = serde_saphyr::to_string(&definition).unwrap();
        let path = folder.join(&file);
        if rewrite {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &yaml).unwrap();
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(checked_in == yaml, "`crds/{file}` is out of date: run the test with {REWRITE}=1");
        expected_files.push(file);
    }
    let mut files: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    expected_files.sort();
    assert_eq!(files, expected_files, "`crds/` holds these files and no others");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test, not configuration of a decision")]
fn those_of_the_chart_are_the_same() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/muster-crds/templates");
    let rewrite = std::env::var(REWRITE).is_ok();
    let mut expected_files = Vec::new();
    for definition in muster_api::crds() {
        let file = format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural);
        let yaml = serde_saphyr::to_string(&definition).unwrap();
        assert!(!yaml.contains("{{"), "`{file}` would be a template");
        let (before, after) = yaml.split_once("metadata:\n").unwrap();
        assert!(after.starts_with("  name:"), "`{file}` has metadata that the chart does not know");
        let annotations = "  {{- with .Values.additionalAnnotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n";
        let template = format!("{before}metadata:\n{annotations}{after}");
        let path = folder.join(&file);
        if rewrite {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &template).unwrap();
        }
        let checked_in = fs::read_to_string(&path).unwrap_or_default();
        assert!(checked_in == template, "`{file}` of the chart is out of date: run the test with {REWRITE}=1");
        expected_files.push(file);
    }
    let mut files: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    expected_files.sort();
    assert_eq!(files, expected_files, "the chart holds these definitions and no others");
}
