//! `muster-agent validate` as its users see it: exit codes, text for people, the document for programs, messages.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_muster-agent"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents"))
        .env("NO_COLOR", "1")
        .arg("validate")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails early does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn shown(arguments: &[&str]) -> String {
    let output = run(arguments, "");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("exit code {:?}\n{}{}", output.status.code().unwrap(), text(output.stderr), text(output.stdout))
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["-o", "json"]].concat(), "");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["ok"] == true, output.status.code() == Some(0));
    document
}

fn codes(document: &Value) -> Vec<&str> {
    document["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_lost_taint_is_told_to_people() {
    insta::assert_snapshot!(shown(&[
        "--user-data",
        "lost-taint.sh",
        "--require-taint",
        "karpenter.sh/unregistered:NoExecute"
    ]));
}

#[test]
fn a_lost_taint_is_told_to_programs() {
    let document = json(&["--user-data", "lost-taint.sh"]);
    insta::assert_json_snapshot!(document);
}

#[test]
fn a_good_document_says_what_is_in_effect() {
    insta::assert_snapshot!(shown(&["--user-data", "al2023.mime", "--kubelet-version", "v1.34.2", "--arch", "arm64"]));
}

#[test]
fn a_node_class_is_judged_with_what_karpenter_adds() {
    let document = json(&["-f", "node-class.yaml"]);
    assert_eq!(codes(&document), ["KA08", "KA07"]);
    assert_eq!(document["effective"]["amiFamily"], "AL2023");
    assert_eq!(document["effective"]["clusterName"], Value::Null);
    let evidence = document["findings"][0]["evidence"]["source"].as_str().unwrap();
    assert!(evidence.starts_with("user data of EC2NodeClass `general` part 1, line "), "{evidence}");
}

#[test]
fn stdin_is_a_file_too() {
    let output = run(&["--user-data", "-", "--ami-family", "windows2025"], "nothing");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("error WN09"));
}

#[cfg(unix)]
#[test]
fn a_kubelet_is_asked_for_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = folder.path().join("kubelet");
    let script = "#!/bin/sh\ncase $1 in --version) echo Kubernetes v1.35.4;; *) printf -- '      --kubeconfig string\\n  -v, --v Level\\n';; esac\n";
    std::fs::write(&kubelet, script).unwrap();
    std::fs::set_permissions(&kubelet, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let document = json(&["--user-data", "al2023.mime", "--kubelet", kubelet.to_str().unwrap()]);
    assert_eq!(codes(&document), ["KA02", "KA02"], "{document}");
    std::fs::write(&kubelet, "#!/bin/sh\nexit 1\n").unwrap();
    assert_eq!(run(&["--kubelet", kubelet.to_str().unwrap()], "").status.code(), Some(3));
}

#[test]
fn a_kubelet_of_another_architecture_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let kubelet = folder.path().join("kubelet");
    let machine = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(18, 0);
    header.extend([machine, 0]);
    std::fs::write(&kubelet, header).unwrap();
    let own = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let document = json(&["--kubelet", kubelet.to_str().unwrap(), "--arch", own]);
    assert_eq!(codes(&document), ["KA24"]);
}

#[test]
fn the_files_of_a_node_are_judged() {
    let document =
        json(&["--env-file", "environment", "--kubelet-config", "kubelet.json", "--kubelet-version", "1.35"]);
    assert_eq!(codes(&document), ["KA01"]);
    assert_eq!(document["effective"]["maxPods"], 17);
    assert_eq!(document["effective"]["nodeName"], "ip-10-0-0-1.ec2.internal");
}

#[test]
fn a_fragment_of_an_environment_file_is_judged_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |text: &str| {
        let file = folder.path().join("environment");
        std::fs::write(&file, text).unwrap();
        let document = json(&["--env-file", file.to_str().unwrap()]);
        codes(&document).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(judged("KUBELET_EXTRA_ARGS='--node-labels=a=b'\n"), [""; 0]);
    assert_eq!(judged("KUBELET_ARGS='--node-ip=10.0.0.1 --max-pods=many'\n"), ["KA33"]);
    assert_eq!(judged("NODEADM_KUBELET_ARGS='--node-ip=10.0.0.1'\nKUBELET_EXTRA_ARGS='--v=2'\n"), ["KA31", "UD35"]);
}

// One of the messages has the words of the system.
#[cfg(unix)]
#[test]
fn bad_usage_has_a_message_and_exit_code_2() {
    let mut text = String::new();
    for arguments in [
        &["--user-data", "none.sh"][..],
        &["--user-data", "al2023.mime", "--ami-family", "Ubuntu"],
        &["--user-data", "al2023.mime", "--kubelet-version", "new"],
        &["--user-data", "al2023.mime", "--require-taint", "a=b"],
        &["-f", "al2023.mime"],
        &["-f", "kubelet.json"],
        &["-f", "bad-class.yaml"],
        #[cfg(target_os = "linux")]
        &["--image", "--ami-family", "Windows2022"],
        &[],
    ] {
        let output = run(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        text.push_str(&format!(
            "$ muster-agent validate {}\n{}\n",
            arguments.join(" "),
            String::from_utf8(output.stderr).unwrap()
        ));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_file_that_is_too_large_says_what_to_give() {
    let output = run(&["--user-data", "-"], &"x".repeat((1 << 20) + 1));
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: `stdin` is larger than 1 MiB\n\nhint: give the document itself"), "{text}");
}

#[test]
fn an_instance_type_that_is_not_known_is_said() {
    let noted = |name: &str| {
        let output = run(&["--user-data", "al2023.mime", "--instance-type", name], "");
        String::from_utf8(output.stderr).unwrap()
    };
    let text = noted("nope.large");
    assert!(text.contains("instance type `nope.large` is not among the types known"), "{text}");
    assert!(!noted("m5.large").contains("instance type"));
}

#[test]
fn the_value_of_a_secret_is_nowhere() {
    let script = "#!/bin/bash\nTOKEN=S3cretzz\n/etc/eks/bootstrap.sh shop --kubelet-extra-args \"--v=2 $TOKEN \
                  --node-labels=a=$TOKEN\"\n";
    for form in ["table", "json"] {
        let output = run(&["--user-data", "-", "-o", form], script);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("KA04") && text.contains("[hidden]") && !text.contains("S3cretzz"), "{text}");
    }
}

fn agent(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_muster-agent")).env("NO_COLOR", "1").args(arguments).output().unwrap();
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_node_is_not_lost_because_its_agent_is() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let (code, text) = agent(&["gate", "--run-dir", place]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("muster-agent cannot be asked, the kubelet starts without it: "), "{text}");
    let (code, text) = agent(&["status", "--run-dir", place]);
    assert_eq!(code, Some(3));
    assert!(text.contains("hint: is the service running?"), "{text}");
    std::fs::write(folder.path().join("status.json"), "{").unwrap();
    assert_eq!(agent(&["status", "--run-dir", place]).0, Some(3));
}

#[test]
fn the_same_input_has_the_same_bytes() {
    let once = run(&["-f", "node-class.yaml", "-o", "json"], "").stdout;
    assert_eq!(once, run(&["-f", "node-class.yaml", "-o", "json"], "").stdout);
}

#[test]
fn a_status_that_cannot_be_told_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let told = || {
        let output = Command::new(env!("CARGO_BIN_EXE_muster-agent")).args(["status", "--run-dir", place]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    let file = folder.path().join("status.json");
    let path = file.to_str().unwrap();
    let none = told();
    assert!(none.contains(&format!("there is no status in `{path}`\n\nhint: is the service running?")), "{none}");
    assert_eq!(none.matches("status.json").count(), 1, "{none}");
    for broken in ["", "{\"phase\":", "[]"] {
        std::fs::write(&file, broken).unwrap();
        let told = told();
        assert!(told.contains(&format!("`{path}` is not a status: ")), "{told}");
        assert!(!told.contains("is the service running"), "{told}");
    }
    // A folder in its place cannot be read as a file.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let odd = told();
    assert!(odd.contains("the status cannot be read: "), "{odd}");
    assert_eq!(odd.matches("status.json").count(), 1, "{odd}");
}

#[test]
fn what_the_readme_validates_is_there_and_good() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let commands = readme.lines().filter_map(|line| line.split_once("muster-agent -- ").map(|(_, rest)| rest));
    let commands: Vec<_> = commands.filter(|rest| rest.starts_with("validate ")).collect();
    assert!(commands.len() >= 2, "{commands:?}");
    for command in commands {
        let words = command.split('#').next().unwrap_or_default().split_whitespace();
        let output = Command::new(env!("CARGO_BIN_EXE_muster-agent")).args(words).current_dir(&root).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{command}: {said}");
        assert!(!said.contains("warning"), "{command}: {said}");
    }
}
