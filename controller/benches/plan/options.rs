//! What is to be measured: the options after `cargo bench --`.

use clap::{Parser, ValueEnum};

use super::workload::{Kind, USUAL, Workload};

/// Measure how fast `muster plan` packs and what its plans cost
#[derive(Debug, Parser)]
#[command(name = "cargo bench --")]
pub(crate) struct Options {
    /// Pods of each workload, in place of the usual sizes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200_000))]
    size: Option<u32>,
    /// Seed of the draws: same seed, same pods
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only this workload, with or without its size (`fleet`, `diverse-5000`); repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Fresh processes per workload, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// How to print the result
    #[arg(short, long, value_enum, ignore_case = true, default_value = "table")]
    output: Output,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// Given to say that nothing shall be measured
    #[arg(long, hide = true)]
    test: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl Options {
    /// `cargo bench` says so with `--bench`; `cargo test --benches` says nothing.
    pub(crate) fn is_test(&self) -> bool {
        self.test || !self.bench
    }

    pub(crate) fn as_json(&self) -> bool {
        self.output == Output::Json
    }

    /// What is to be measured.
    pub(crate) fn workloads(&self) -> Result<Vec<Workload>, String> {
        let mut chosen = Vec::new();
        for name in &self.only {
            if let Some(workload) = with_size(name) {
                chosen.push(workload);
            } else {
                let kind: Kind = name.parse()?;
                chosen.extend(USUAL.iter().filter(|workload| workload.kind == kind));
            }
        }
        if chosen.is_empty() {
            chosen.extend(USUAL);
        }
        if let Some(pods) = self.size.and_then(|size| usize::try_from(size).ok()) {
            chosen.iter_mut().for_each(|workload| workload.pods = pods);
            // The sizes of one kind stand together, and are one now.
            chosen.dedup();
        }
        Ok(chosen)
    }
}

fn with_size(name: &str) -> Option<Workload> {
    let (kind, pods) = name.rsplit_once('-')?;
    Some(Workload { kind: kind.parse().ok()?, pods: pods.parse().ok()? })
}
