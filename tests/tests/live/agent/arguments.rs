//! The arguments that the agent predicts are those that systemd really passes: units with drop-ins and environment files,
//! written by dice, started by the systemd of a machine, each with a program that writes down what it was given.

use std::fmt::Write as _;
use std::path::Path;

use fs_err as fs;
use muster_bootstrap::words::unit::command_line;
use muster_tests::machine::Image;
use muster_tests::{Ground, on_site};

use super::MOST;

/// Units that are tried. `ARGUMENTS_SEED` in the environment gives others.
const UNITS: usize = 1_500;
const SEED: u64 = 0x6172_6776;

/// A small generator of numbers (xorshift), so that a failure can be had again from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % sides
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.roll(choices.len())]
    }

    /// Some pieces, one after the other.
    fn pieces(&mut self, choices: &[&str], most: usize) -> String {
        (0..self.roll(most + 1)).map(|_| self.pick(choices)).collect()
    }
}

const NAMES: [&str; 5] = ["A", "B", "ARGS", "_c1", "NODEADM_KUBELET_ARGS"];
/// What values are made of, in files and directives.
const PIECES: [&str; 38] = [
    "a",
    "\u{7}",
    "--v=2",
    "=",
    ",",
    " ",
    "  ",
    "\t",
    "\"",
    "\"",
    "'",
    "'",
    "\\",
    "\\\\",
    "\\\"",
    "\\n",
    "\\s",
    "\\x41",
    "\\101",
    "\\q",
    "\\u00e9",
    "$",
    "$$",
    "$A",
    "${A}",
    "${",
    "}",
    "%%",
    "é",
    "—",
    "#",
    ";",
    "`",
    "<5%",
    "--node-labels=\"a=b\"",
    "karpenter.sh/unregistered:NoExecute",
    "\\\n  ",
    "!",
];
const SPECIFIERS: [&str; 7] = ["%H", "%n", "%N", "%p", "%t", "%U", "%E"];
/// What only a file can hold: line ends of all kinds, comments, names that are none.
const OF_FILES: [&str; 12] = [
    "\n",
    "\r\n",
    "\r",
    "# c\n",
    "; c \\\n d\n",
    "\nexport A=1\n",
    "\n A = x \n",
    "\n=\n",
    "\n1A=x\n",
    "\nB=\n",
    "\nA\n",
    "\u{feff}",
];
/// Words of a command line.
const WORDS: [&str; 24] = [
    "$A",
    "$B",
    "$ARGS",
    "${A}",
    "${B}",
    "x${A}y",
    "\"${A} z\"",
    "'$B'",
    "$$A",
    "$NODEADM_KUBELET_ARGS",
    "$UNSET",
    "${UNSET}",
    "$_c1",
    "--v=2",
    "\"a b\"",
    "\\;",
    "'",
    "\\q",
    "%%",
    "%H",
    "-",
    "\"\"",
    "$",
    "a$B",
];

struct Case {
    unit: String,
    drop_in: Option<String>,
    files: Vec<(String, String)>,
}

fn case(number: usize, dice: &mut Dice) -> Case {
    let mut files = Vec::new();
    let mut unit = String::from("[Service]\nType=oneshot\n");
    setting(&mut unit, number, &mut files, dice);
    let _infallible = writeln!(unit, "{}", exec(number, dice));
    if dice.roll(3) == 0 {
        setting(&mut unit, number, &mut files, dice);
    }
    let drop_in = (dice.roll(3) == 0).then(|| {
        let mut text = String::from("[Service]\n");
        setting(&mut text, number, &mut files, dice);
        if dice.roll(3) == 0 {
            let _infallible = writeln!(text, "ExecStart=\n{}", exec(number, dice));
        }
        text
    });
    Case { unit, drop_in, files }
}

fn value(dice: &mut Dice) -> String {
    let mut text = dice.pieces(&PIECES, 10);
    if dice.roll(8) == 0 {
        text.push_str(dice.pick(&SPECIFIERS));
    }
    text
}

/// Some lines of `Environment=` and `EnvironmentFile=`.
fn setting(unit: &mut String, number: usize, files: &mut Vec<(String, String)>, dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        let name = dice.pick(&NAMES);
        let line = match dice.roll(12) {
            0 => "Environment=".to_owned(),
            1 => "EnvironmentFile=".to_owned(),
            2 => "EnvironmentFile=-/srv/cases/none".to_owned(),
            3 => format!("UnsetEnvironment={name}"),
            4 => format!("# Environment={name}=commented \\"),
            5 => format!("Environment={name}={}", value(dice)),
            6 => format!("Environment={}", value(dice)),
            7 => format!("Environment='{name}={}'", value(dice)),
            8 => format!("Environment=\"{name}={}\" {}=x", value(dice), dice.pick(&NAMES)),
            _ => {
                let path = format!("/srv/cases/{number}-{}", files.len());
                files.push((path.clone(), file(dice)));
                format!("EnvironmentFile={}{path}", dice.pick(&["", "-"]))
            }
        };
        unit.push_str(&line);
        unit.push_str(if dice.roll(20) == 0 { "\r\n" } else { "\n" });
    }
}

fn file(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.roll(4) {
        if dice.roll(3) == 0 {
            text.push_str(dice.pick(&OF_FILES));
        }
        let _infallible = write!(text, "{}={}{}", dice.pick(&NAMES), value(dice), dice.pick(&["\n", "\n", "\r\n", ""]));
    }
    text
}

fn exec(number: usize, dice: &mut Dice) -> String {
    let mut line = format!("ExecStart={}/srv/argv/{number}", dice.pick(&["", "", "", "", "-", ":", "+"]));
    for _ in 0..dice.roll(6) {
        line.push_str(dice.pick(&[" ", "  ", "\t", " \\\n  "]));
        line.push_str(dice.pick(&WORDS));
    }
    line
}

/// Writes its arguments down, each with a NUL at its end. It goes by the name of its unit.
const WRITER: &str = "#!/bin/sh\nout=/run/argv/${0##*/}\n: >\"$out.part\"\nfor word do printf '%s\\0' \"$word\" >>\"$out.part\"; done\nmv \"$out.part\" \"$out\"\n";

/// Writes the cases below `root`, as the machine has them below `/srv`.
fn write(root: &Path, cases: &[Case]) {
    for folder in ["units", "cases", "argv"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (number, case) in cases.iter().enumerate() {
        fs::write(root.join(format!("units/case-{number}.service")), &case.unit).unwrap();
        if let Some(text) = &case.drop_in {
            let folder = root.join(format!("units/case-{number}.service.d"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("10.conf"), text).unwrap();
        }
        for (path, text) in &case.files {
            fs::write(root.join(path.trim_start_matches("/srv/")), text).unwrap();
        }
        let path = root.join(format!("argv/{number}"));
        fs::write(&path, WRITER).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

/// Installs the units, starts them all, and prints: the units as systemd has them, and what each was given.
const SCRIPT: &str = "set -e\nmkdir -p /run/argv /run/systemd/system\ncp -r /srv/units/. /run/systemd/system/\nsystemctl daemon-reload\n\
    cd /srv/units\nunits=$(ls -d case-*.service)\nsystemctl cat $units >/run/argv/units 2>/dev/null || true\n\
    systemctl start $units 2>/run/argv/errors || true\n";

#[test]
fn the_arguments_that_are_predicted_are_those_that_systemd_passes() {
    on_site("arguments", Ground::Network, async |case| {
        let seed = std::env::var("ARGUMENTS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED);
        let mut dice = Dice(seed);
        let cases: Vec<Case> = (0..UNITS).map(|number| self::case(number, &mut dice)).collect();
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &cases);
        let site = case.site();
        let srv = root.path().to_owned();
        let node = site
            .boot(site.instance(), Image::Bare, move |spec| {
                for folder in ["units", "cases", "argv"] {
                    spec.files.push((srv.join(folder), format!("/srv/{folder}").into()));
                }
            })
            .await
            .unwrap();
        let machine = &node.machine;
        machine.booted(MOST).await.unwrap();
        let start = std::time::Instant::now();
        machine.run(["sh", "-c", SCRIPT]).await.unwrap();
        println!("{UNITS} units started in {:?}", start.elapsed());
        let host = machine.run(["hostname"]).await.unwrap().trim().to_owned();
        let listed = machine.run(["cat", "/run/argv/units"]).await.unwrap();
        let given =
            machine.run(["sh", "-c", "cd /run/argv; for it in [0-9]*; do printf '\\001%s\\002' $it; cat $it; done"]);
        let given = given.await.unwrap();
        let mut wrong = Vec::new();
        let (mut started, mut refused) = (0, 0);
        for (number, case) in cases.iter().enumerate() {
            let unit = as_listed(&listed, number);
            let real =
                given.split('\u{1}').filter_map(|it| it.split_once('\u{2}')).find(|(it, _)| *it == number.to_string());
            let real = real.map(|(_, words)| words.split_terminator('\0').map(ToOwned::to_owned).collect::<Vec<_>>());
            let read = |path: &str| case.files.iter().find(|(it, _)| it == path).map(|(_, text)| text.clone());
            let specifier = |letter: char| {
                let name = format!("case-{number}");
                Some(match letter {
                    'H' => host.clone(),
                    'n' => format!("{name}.service"),
                    'N' | 'p' => name,
                    't' => "/run".to_owned(),
                    'U' => "0".to_owned(),
                    'E' => "/etc".to_owned(),
                    'a' => std::env::consts::ARCH.replace('_', "-").replace("aarch64", "arm64"),
                    // The version of the image, which the host's os-release does not tell.
                    'A' => String::new(),
                    _ => return None,
                })
            };
            let predicted = command_line(&unit, &read, &specifier).ok().map(|words| words[1..].to_vec());
            if real.is_some() {
                started += 1
            } else {
                refused += 1
            }
            if predicted != real {
                wrong.push(format!(
                    "case {number}\n{unit}\n{:?}\npredicted {predicted:?}\nreal      {real:?}\n",
                    case.files
                ));
            }
        }
        println!("{started} started, {refused} refused, {} predicted wrongly", wrong.len());
        wrong.truncate(8);
        assert!(wrong.is_empty(), "seed {seed}\n{}", wrong.join("\n"));
        assert!(
            started > UNITS / 2 && refused > UNITS / 100,
            "the dice are loaded: {started} started, {refused} refused"
        );
        site.terminate(node).await.unwrap();
    });
}

/// What `systemctl cat` printed of one unit and its drop-in.
fn as_listed(listed: &str, number: usize) -> String {
    let heading = format!("# /run/systemd/system/case-{number}.service");
    let begins = |line: &str| line.starts_with("# /run/systemd/system/case-");
    let mut text = String::new();
    let mut is_own = false;
    for line in listed.split_inclusive('\n') {
        if begins(line) {
            is_own = line.trim_end() == heading || line.starts_with(&format!("{heading}.d/"));
        }
        if is_own {
            text.push_str(line);
        }
    }
    text
}
