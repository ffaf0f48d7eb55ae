//! Broken documents of every family go the whole way: taken apart, followed through every layer, judged by every rule.
//! Whatever the bytes are, the answer is a report, never a panic, and no finding holds a piece of a secret.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed, and says on what")]
#![expect(clippy::disallowed_methods, reason = "the test is the caller who measures")]

mod mutate;

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use muster_bootstrap::agent_config::AgentConfig;
use muster_bootstrap::finding::Finding;
use muster_bootstrap::input::{Arch, File};
use muster_bootstrap::kubelet::arguments::FlagSet;
use muster_bootstrap::kubelet::taints::Taint;
use muster_bootstrap::kubelet::version::Minor;
use muster_bootstrap::node_class::Launch;
use muster_bootstrap::userdata::{UserData, to_base64};
use muster_bootstrap::{BootstrapInput, Family, Report, validate, validate_node_class};
use mutate::{Dice, damage};

/// Documents that are right, each with secrets in the places where people put them.
const DOCUMENTS: [&str; 8] = [
    include_str!("documents/al2023.mime"),
    include_str!("documents/al2.sh"),
    include_str!("documents/bottlerocket.toml"),
    include_str!("documents/windows.ps1"),
    include_str!("documents/nodeconfig.json"),
    include_str!("documents/kubelet.yaml"),
    include_str!("documents/environment"),
    include_str!("documents/agent.yaml"),
];

/// The secrets in them.
const SECRETS: [&str; 6] = [
    "wJ4lrX9tnF3MIk7MD8NGb2PxRf6CYz5hQ1",
    "hx7Tq2Mz9kLw4Rb8Vn3Jc6Pd",
    "mlt3Qx9Zr5Lk2Vn8Tb6Wd4Hs7",
    "AKIAIOSFODNN7QX3Z9KM",
    "MIIEv9IBADANBg7qhkiG9w0BAQ3FAASC",
    "eyJhbGciOiJ9SUzI1NiIsImtpZ5CI6IkQ",
];
/// A piece of a secret that is this long gives it away. The mutations tear secrets apart and put the pieces where nothing
/// names them; what is shorter cannot be told from a word.
const PIECE: usize = 16;

/// No document of a few kilobytes may take longer, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far the mutations came.
#[derive(Debug, Default)]
struct Tally {
    ok: usize,
    refused: usize,
    findings: usize,
    slowest: Duration,
}

/// Shows the input if what is done with it panics.
struct Witness<'i>(usize, &'i [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}:\n{}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}

/// A document, broken in some places, wrapped in some way.
fn broken(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = dice.pick(&DOCUMENTS).as_bytes().to_vec();
    for _ in 0..dice.roll(6) {
        damage(&mut bytes, dice);
    }
    if dice.roll(10) == 0 {
        // A piece of another document in the middle of it.
        let other = dice.pick(&DOCUMENTS).as_bytes();
        let (from, at) = (dice.roll(other.len()), dice.roll(bytes.len()));
        let to = (from + dice.roll(400)).min(other.len());
        bytes.splice(at..at, other[from..to].iter().copied());
    }
    if dice.roll(8) == 0 {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&bytes).unwrap();
        bytes = gzip.finish().unwrap();
        if dice.roll(3) == 0 {
            damage(&mut bytes, dice);
        }
    }
    if dice.roll(8) == 0 {
        bytes = to_base64(&bytes).into_bytes();
    }
    bytes
}

fn asked(bytes: &[u8], dice: &mut Dice) -> Report {
    let file = || File { name: "file".to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    let user_data = UserData::read(bytes, "user-data");
    if let Err(fault) = AgentConfig::find(&user_data) {
        clean_text(&fault.to_string());
    }
    let mut input = BootstrapInput {
        family: (dice.roll(3) > 0).then(|| *dice.pick(&Family::ALL)),
        flags: FlagSet {
            version: (dice.roll(2) == 0).then(|| Minor(u8::try_from(27 + dice.roll(13)).unwrap())),
            of_binary: (dice.roll(10) == 0).then(|| [String::from("max-pods")].into()),
        },
        arch: (dice.roll(2) == 0).then_some(Arch::Arm64),
        instance_type: (dice.roll(2) == 0).then(|| "m5.large".to_owned()),
        containerd_version: (dice.roll(2) == 0).then(|| "1.7.27".to_owned()),
        required_taints: vec![Taint::unregistered()],
        required_labels: vec!["team=a".parse().unwrap()],
        ..BootstrapInput::default()
    };
    match dice.roll(8) {
        0 => input.environment_file = Some(file()),
        1 => input.kubelet_config = vec![file()],
        2 => return validate_node_class(input, "general", &file().text, &Launch::default()),
        _ => input.user_data = Some(user_data),
    }
    let report = validate(&input);
    if dice.roll(20) == 0 {
        assert_eq!(report, validate(&input), "the same question has another answer");
    }
    report
}

fn clean_text(text: &str) {
    for secret in SECRETS {
        for at in 0..=secret.len() - PIECE {
            assert!(!text.contains(&secret[at..at + PIECE]), "{text}");
        }
    }
}

fn clean(finding: &Finding) {
    let place = finding.evidence.as_ref().map(|it| it.place.to_string()).unwrap_or_default();
    let evidence = finding.evidence.as_ref().map(|it| it.text.as_str()).unwrap_or_default();
    for text in [&finding.message, &finding.fix, &place, evidence] {
        clean_text(text);
        assert!(!text.contains('\n') && text.chars().count() <= 300, "{text}");
    }
}

fn run(seed: u64, count: usize) -> Tally {
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    for number in 0..count {
        let bytes = broken(&mut dice);
        let _witness = Witness(number, &bytes);
        let start = Instant::now();
        let report = asked(&bytes, &mut dice);
        tally.slowest = tally.slowest.max(start.elapsed());
        assert!(tally.slowest < PATIENCE, "{:?}", tally.slowest);
        report.findings.iter().for_each(clean);
        tally.findings += report.findings.len();
        if report.is_ok() { tally.ok += 1 } else { tally.refused += 1 }
    }
    tally
}

#[test]
fn the_secrets_are_in_the_documents() {
    let all = DOCUMENTS.concat();
    for secret in SECRETS {
        assert!(all.contains(secret), "{secret}");
    }
}

/// A mutator that breaks all or nothing would prove little.
fn check(count: usize, tally: &Tally) {
    assert!(tally.ok > count / 50 && tally.refused > count / 4 && tally.findings > count, "{tally:?}");
}

#[test]
fn no_mutation_panics_or_tells_a_secret() {
    let tally = run(0x6d75_7374_6572, 3_000);
    check(3_000, &tally);
}

/// `cargo test --release --workspace --test mutations -- --ignored`
#[test]
#[ignore = "takes a minute without optimisation"]
fn no_mutation_of_a_hundred_thousand_panics_or_tells_a_secret() {
    let tally = run(0x0061_6e74, 120_000);
    println!("{tally:?}");
    check(120_000, &tally);
}
