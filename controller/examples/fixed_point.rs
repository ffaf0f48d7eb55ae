//! Consolidates a cluster until nothing is left to do: decides, carries out, asks again. Prints each round, and how far
//! the result is above what no assignment of the same pods can undercut.
//!
//! `cargo run --release --example fixed_point -- CATALOGUE MOVE_PRICE MANIFEST…`, the price in USD per hour
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::path::PathBuf;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use muster_aws::catalogue;
use muster_manifest as manifest;
use muster_manifest::snapshot::{self, Settings as SnapshotSettings};
use muster_scheduling::disrupt::{DisruptionInput, Settings, carried_out, decide};
use muster_scheduling::model::{Catalogue, Options, Pod, Problem};
use muster_scheduling::{lower_bound_of, solve, validate_disruption};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rounds after which a cluster that still changes is said to flap.
const MOST_ROUNDS: usize = 30;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    const USAGE: &str = "usage: fixed_point CATALOGUE MOVE_PRICE MANIFEST…";
    let catalogue_file = arguments.next().ok_or(USAGE)?;
    let move_price = arguments.next().ok_or(USAGE)?;
    let move_price: f64 = move_price.to_str().ok_or(USAGE)?.parse()?;
    let types: Catalogue = catalogue::read(&std::fs::read_to_string(catalogue_file)?)?.into();
    let manifests = manifest::read(&arguments.collect::<Vec<_>>(), &mut std::io::empty())?;
    let snapshot = snapshot::assemble(&manifests, &SnapshotSettings::default(), &|_| types.clone())?;
    let mut input = snapshot.managed_nodes.disruption_input(&snapshot.problem);
    let settings = Settings { move_price, ..Settings::default() };
    let (mut going, mut moved) = (0, 0);
    let bound = bound(&input);
    println!("bound {bound:.2} $/h, before {:.2} $/h on {} nodes", price(&input), input.problem.nodes.len());
    let mut now: Timestamp = "2026-11-21T00:00:00Z".parse()?;
    for round in 1..=MOST_ROUNDS {
        #[expect(clippy::disallowed_methods, reason = "how long a decision takes is what is shown")]
        let start = Instant::now();
        let decision = decide(&input, now, &settings);
        let seconds = start.elapsed().as_secs_f64();
        if let Some(violation) = validate_disruption(&input, now, &settings, &decision).first() {
            return Err(violation.to_string().into());
        }
        if decision.commands.is_empty() {
            println!(
                "at rest after {} rounds: {:.4} of the bound, {going} nodes gone, {moved} pods moved",
                round - 1,
                price(&input) / bound
            );
            return Ok(());
        }
        let goes: usize = decision.commands.iter().map(|command| command.candidates.len()).sum();
        going += goes;
        moved += decision.pods.len();
        input = carried_out(&input, &decision, now);
        println!(
            "round {round}: {} commands, {goes} nodes go, {} pods move, {seconds:.3} s: {:.2} $/h on {} nodes, {:.4} of the bound",
            decision.commands.len(),
            decision.pods.len(),
            price(&input),
            input.problem.nodes.len(),
            price(&input) / bound
        );
        now += SignedDuration::from_mins(10);
    }
    Err("it does not come to rest".into())
}

/// USD per hour of all nodes whose price is known.
fn price(input: &DisruptionInput) -> f64 {
    (0..input.problem.nodes.len()).filter_map(|node| input.price(node)).sum()
}

/// Price that no assignment of the pods of all nodes can undercut.
fn bound(input: &DisruptionInput) -> f64 {
    let mut problem: Problem = input.problem.clone();
    for node in std::mem::take(&mut problem.nodes) {
        problem.pods.extend(node.bound.into_iter().map(|pod| Pod { name: pod.name, spec: pod.spec }));
    }
    let options = Options::default();
    let solution = solve(&problem, &options);
    lower_bound_of(&problem, &options, solution.new_nodes.iter().flat_map(|node| &node.pods).copied())
}
