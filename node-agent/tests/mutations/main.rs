//! Broken lines of the journal, with secrets planted in them, go the whole way: read, looked up, observed, reported, told on
//! the console, put into the bundle. Whatever the bytes are, nothing panics, and nothing that is told holds a piece of a secret.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed, and says on what")]

#[path = "../../../bootstrap/tests/mutations/mutate.rs"]
mod mutate;

use jiff::{SignedDuration, Timestamp};
use muster_agent::boot_state::{BootState, Notice, Observation};
use muster_agent::publish::{bundle, console};
use muster_agent::watch::journal::Line;
use muster_agent::watch::node_object::NodeObject;
use muster_bootstrap::agent_config::Mode;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::place::Source;
use muster_bootstrap::userdata::to_base64;
use muster_bootstrap::verdicts;
use mutate::{Dice, damage};

/// What must not be told: a key of AWS with its secret, tokens of EKS and of Kubernetes, a password, a launch token, the body of a
/// private key, a signature.
const SECRETS: [&str; 8] = [
    "AKIAIOSFODNN7QX3Z9KM",
    "wJ4lrX9tnF3MIk7MD8NGb2PxRf6CYz5hQ1",
    "aHR0cHM6Ly9zdHMudXMtd2VzdC0yLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1HZXRDYWxs",
    "eyJhbGciOiJ9SUzI1NiIsImtpZ5CI6IkQ",
    "hx7Tq2Mz9kLw4Rb8Vn3Jc6Pd",
    "mlt3Qx9Zr5Lk2Vn8Tb6Wd4Hs7",
    "MIIEv9IBADANBg7qhkiG9w0BAQ3FAASC",
    "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
];
/// A piece of a secret that is this long gives it away; what is shorter cannot be told from a word.
const PIECE: usize = 16;

/// How programs print secrets: `@` and the number of one of them.
const PHRASES: [&str; 14] = [
    "Authorization: Bearer @3",
    "\"Authorization\":[\"Bearer k8s-aws-v1.@2\"]",
    "token=k8s-aws-v1.@2",
    "AWS_ACCESS_KEY_ID=@0 AWS_SECRET_ACCESS_KEY=@1",
    "{\"AccessKeyId\":\"@0\",\"SecretAccessKey\":\"@1\",\"Token\":\"@3\"}",
    "http://user:@4@proxy:3128",
    "proxyconnect tcp: dial tcp: lookup user:@4@proxy",
    "launchToken: @5",
    "-----BEGIN RSA PRIVATE KEY----- @6 -----END RSA PRIVATE KEY-----",
    "GET https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&X-Amz-Credential=@0%2F20261121&X-Amz-Signature=@7",
    "Authorization: AWS4-HMAC-SHA256 Credential=@0/20261121/us-west-2/ec2/aws4_request, SignedHeaders=host, Signature=@7",
    "password: '@4'",
    "--kubeconfig-token @3",
    "err=\"unable to use secret @1\"",
];

/// Shows the input if what is done with it panics.
struct Witness<'i>(usize, &'i str);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}:\n{}", self.0, self.1);
        }
    }
}

/// A phrase with its secrets, or with base64 of them.
fn phrase(dice: &mut Dice) -> String {
    let is_wrapped = dice.roll(5) == 0;
    let mut text = (*dice.pick(&PHRASES)).to_owned();
    for (number, secret) in SECRETS.iter().enumerate() {
        let shown = if is_wrapped { to_base64(secret.as_bytes()) } else { (*secret).to_owned() };
        text = text.replace(&format!("@{number}"), &shown);
    }
    text
}

/// A text as it was printed once, with phrases in it, broken in some places.
fn broken(rows: &[(&'static str, &'static str)], dice: &mut Dice) -> (&'static str, String) {
    let (unit, text) = *dice.pick(rows);
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..dice.roll(3) {
        let at = dice.roll(bytes.len() + 1);
        bytes.splice(at..at, format!(" {} ", phrase(dice)).into_bytes());
    }
    for _ in 0..dice.roll(5) {
        damage(&mut bytes, dice);
    }
    (unit, String::from_utf8_lossy(&bytes).into_owned())
}

fn clean_text(text: &str) {
    for secret in SECRETS {
        // A piece of base64 tells three bytes in four letters.
        for (shown, piece) in [(secret.to_owned(), PIECE), (to_base64(secret.as_bytes()), PIECE.div_ceil(3) * 4)] {
            for at in 0..=shown.len() - piece {
                assert!(!text.contains(&shown[at..at + piece]), "a piece of {secret} in\n{text}");
            }
        }
    }
}

/// How far the mutations came.
#[derive(Debug, Default)]
struct Tally {
    lines: usize,
    known: usize,
    verdicts: usize,
}

/// Everything that anybody is told of this course.
fn told(boot_state: &mut BootState, lines: &str, now: Timestamp, tally: &mut Tally) {
    let report = boot_state.report(now);
    clean_text(&serde_json::to_string(&report).unwrap());
    for verdict in &report.findings {
        let line = console::line(&report, verdict);
        assert!(!line.contains('\n'), "{line}");
        clean_text(&line);
    }
    tally.verdicts += report.findings.len();
    clean_text(&bundle::text(&report, &[("kubelet".to_owned(), lines.to_owned())], 512 << 10));
}

fn run(seed: u64, count: usize) -> Tally {
    let rows: Vec<(&str, &str)> = include_str!("../../data/journal-lines.tsv")
        .lines()
        .filter(|row| !row.starts_with('#'))
        .filter_map(|row| row.split_once('\t')?.1.split_once('\t'))
        .collect();
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    let mut now: Timestamp = "2026-11-21T20:00:00Z".parse().unwrap();
    let mut boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now);
    let mut printed = String::new();
    for number in 0..count {
        let (unit, text) = broken(&rows, &mut dice);
        let _witness = Witness(number, &text);
        let unit_name = format!("{unit}.service");
        let mut entry =
            serde_json::json!({"_SYSTEMD_UNIT": unit_name, "UNIT": unit_name, "MESSAGE": text, "_PID": "812"})
                .to_string()
                .into_bytes();
        if dice.roll(8) == 0 {
            damage(&mut entry, &mut dice);
        }
        now += SignedDuration::from_millis(700);
        if let Some(line) = Line::read(&String::from_utf8_lossy(&entry)) {
            tally.known += usize::from(muster_agent::watch::signatures::find(&line).is_some());
            boot_state.observe(Observation::Line(line), now);
        }
        match dice.roll(40) {
            0 => boot_state.observe(Observation::Notice(Notice::Interruption(text.clone())), now),
            1 => {
                let node = serde_json::json!({"metadata": {"name": "a"}, "spec": {"providerID": text},
                    "status": {"conditions": [{"type": "DiskPressure", "status": "True", "message": text}]}});
                boot_state.observe(Observation::Node(NodeObject::read(&node).map(Box::new)), now);
            }
            // What the program for a token says is told too.
            2 => {
                let place = Source::whole("kubeconfig, exec").anywhere();
                let finding = Finding::new(&verdicts::AU10, &text, Some((place, &text))).with_fix(&text);
                boot_state.observe(Observation::Native(Err(Box::new(finding))), now);
            }
            _ => {}
        }
        printed.push_str(&text);
        printed.push('\n');
        tally.lines += 1;
        if number % 32 == 31 {
            told(&mut boot_state, &printed, now, &mut tally);
            printed.clear();
            boot_state = BootState::new(Mode::Delegate, false, "boot".to_owned(), now);
        }
    }
    tally
}

/// A mutator that breaks all or nothing would prove little.
fn check(count: usize, tally: &Tally) {
    assert!(tally.known > count / 4 && tally.known < count && tally.verdicts > count / 10, "{tally:?}");
}

#[test]
fn no_line_panics_or_tells_a_secret() {
    let tally = run(0x6c69_6e65, 3_000);
    check(3_000, &tally);
}

/// `cargo test --release --test mutations -- --ignored`
#[test]
#[ignore = "takes a minute without optimisation"]
fn no_line_of_a_hundred_thousand_panics_or_tells_a_secret() {
    let tally = run(0x006c_6f67, 120_000);
    println!("{tally:?}");
    check(120_000, &tally);
}
