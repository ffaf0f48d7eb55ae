//! `cargo bench -p muster-scheduling`: what the engine's worst cases cost, beside plain first fit and the bound.
//!
//! Each kind is drawn from a seed in any size. Every run is a fresh process, which measures itself: processor time, not
//! time on the wall, and its largest memory.
//!
//! ```text
//! cargo bench -p muster-scheduling                                            # all kinds
//! cargo bench -p muster-scheduling -- --only hostile --size 250 --seed 3 --runs 1
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark"
)]

#[path = "../../tests/hostile/cases.rs"]
mod cases;
#[path = "../../tests/mixes/drawn.rs"]
mod drawn;
#[path = "../../tests/mixes/first_fit.rs"]
mod first_fit;
mod kinds;
#[path = "../../tests/mixes/market.rs"]
mod market;
mod measure;
#[path = "../../tests/oracle/random.rs"]
mod random;

use std::process::ExitCode;

use kinds::{KINDS, Kind};

/// What is measured: the options after `cargo bench --`.
struct Asked {
    only: Vec<String>,
    size: Option<usize>,
    seed: u64,
    runs: usize,
    /// Name of the kind that this process measures.
    child: Option<String>,
    is_bench: bool,
}

impl Asked {
    fn read() -> Result<Self, String> {
        let mut asked = Self { only: Vec::new(), size: None, seed: 1, runs: 9, child: None, is_bench: false };
        let mut words = std::env::args().skip(1);
        let (mut is_asked, mut is_table) = (false, true);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            let number = |text: String| text.parse::<usize>().map_err(|_| format!("`{text}` is not a number"));
            match word.as_str() {
                "--bench" => is_asked = true,
                "--only" => asked.only.push(value()?),
                "--size" => asked.size = Some(number(value()?)?),
                "--seed" => asked.seed = number(value()?)? as u64,
                "--runs" => asked.runs = number(value()?)?.max(1),
                "--child" => asked.child = Some(value()?),
                // Options of the table beside Karpenter, which `cargo bench` at the root prints with the same words.
                "--test" => is_table = false,
                "-o" | "--output" => is_table &= !value()?.eq_ignore_ascii_case("json"),
                _ => {
                    return Err(format!(
                        "`{word}` is not an option\n\nhint: --only KIND, --size N, --seed N, --runs N"
                    ));
                }
            }
        }
        asked.is_bench = is_asked && is_table;
        Ok(asked)
    }

    fn kinds(&self) -> impl Iterator<Item = &'static Kind> {
        KINDS.iter().filter(|kind| self.only.is_empty() || self.only.iter().any(|name| kind.name.starts_with(&**name)))
    }
}

fn main() -> ExitCode {
    let asked = match Asked::read() {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    if let Some(name) = &asked.child {
        let kind = KINDS.iter().find(|kind| kind.name == name).expect("a kind of this program");
        println!("{}", measure::run(kind, asked.size.unwrap_or(kind.size), asked.seed));
        return ExitCode::SUCCESS;
    }
    // `cargo test --benches` starts this program too, and there is nothing to test.
    if !asked.is_bench {
        return ExitCode::SUCCESS;
    }
    if asked.kinds().next().is_some() {
        measure::print_header();
    }
    for kind in asked.kinds() {
        measure::print(kind, asked.size.unwrap_or(kind.size), asked.seed, asked.runs);
    }
    ExitCode::SUCCESS
}
