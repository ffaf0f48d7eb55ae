//! Measures one problem in a process of its own, and prints the medians.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

use muster_scheduling::model::{Options, Problem};
use muster_scheduling::{Solution, lower_bound, replay, solve, validate};

use crate::first_fit;
use crate::kinds::Kind;

/// Figures of one process, as it prints them for its parent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Processor seconds of `solve`.
    solve: f64,
    /// Processor seconds of the validator, the bound and the replay.
    validate: f64,
    bound: f64,
    replay: f64,
    /// Megabytes of the process before `solve`, and at most until it has returned.
    input: f64,
    memory: f64,
    pods: f64,
    nodes: f64,
    left: f64,
    price: f64,
    least: f64,
    /// USD per hour of plain first fit; 0 if it does not know the rules.
    first_fit: f64,
    violations: f64,
    /// New nodes of the first pods that are not those that they get without the rest.
    changed: f64,
}

impl Figures {
    fn all(&mut self) -> [&mut f64; 14] {
        [
            &mut self.solve,
            &mut self.validate,
            &mut self.bound,
            &mut self.replay,
            &mut self.input,
            &mut self.memory,
            &mut self.pods,
            &mut self.nodes,
            &mut self.left,
            &mut self.price,
            &mut self.least,
            &mut self.first_fit,
            &mut self.violations,
            &mut self.changed,
        ]
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut own = *self;
        own.all().iter().try_for_each(|one| write!(f, "{} ", **one))
    }
}

impl FromStr for Figures {
    type Err = std::num::ParseFloatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut figures = Self::default();
        for (one, word) in figures.all().into_iter().zip(text.split_whitespace()) {
            *one = word.parse()?;
        }
        Ok(figures)
    }
}

/// Processor seconds of this thread until now, by Linux.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// A line of the process's status in megabytes, by Linux.
fn memory(line: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = text.lines().find_map(|one| one.strip_prefix(line)?.split_whitespace().next()?.parse::<f64>().ok());
    found.unwrap_or(f64::NAN) / 1024.0
}

fn price(solution: &Solution) -> f64 {
    solution.new_nodes.iter().map(|node| node.price).sum()
}

/// Measures one problem in this process.
pub fn run(kind: &Kind, size: usize, seed: u64) -> Figures {
    let options = Options::default();
    let problem = (kind.make)(size, seed);
    let mut figures = Figures { pods: problem.pods.len() as f64, input: memory("VmRSS:"), ..Figures::default() };
    let at = processor();
    let solution = solve(&problem, &options);
    figures.solve = processor() - at;
    figures.memory = memory("VmHWM:");
    figures.nodes = solution.new_nodes.len() as f64;
    figures.left = solution.unschedulable.len() as f64;
    figures.price = price(&solution);
    let at = processor();
    figures.violations = validate(&problem, &options, &solution).len() as f64;
    figures.validate = processor() - at;
    let at = processor();
    figures.least = lower_bound(&problem, &options, &solution);
    figures.bound = processor() - at;
    let at = processor();
    replay(&problem, &options, &solution);
    figures.replay = processor() - at;
    if kind.first_fit {
        figures.first_fit = first_fit::price(&problem).0;
    }
    if kind.others > 0 {
        figures.changed = changed(&problem, &solution, kind.others) as f64;
    }
    figures
}

/// Number of nodes with one of the first pods that these do not get alone.
fn changed(problem: &Problem, solution: &Solution, others: usize) -> usize {
    let mut alone = problem.clone();
    alone.pods.truncate(others);
    let alone = solve(&alone, &Options::default());
    let now = solution.new_nodes.iter().filter(|node| node.pods.iter().any(|&pod| pod < others));
    let same = now.clone().filter(|node| alone.new_nodes.contains(node)).count();
    now.count().max(alone.new_nodes.len()) - same
}

pub fn print_header() {
    println!("CPU seconds are medians; memory is the process's largest until the plan is made, and its input's share.");
    println!(
        "{:<17} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>6} {:>6} {:>10} {:>10} {:>8} {:>6}",
        "kind",
        "pods",
        "solve s",
        "valid s",
        "bound s",
        "replay s",
        "MB",
        "input",
        "nodes",
        "left",
        "USD/h",
        "first fit",
        "x bound",
        "faults"
    );
}

/// Measures one kind in `runs` processes, and prints a line.
pub fn print(kind: &Kind, size: usize, seed: u64, runs: usize) {
    let own = std::env::current_exe().expect("the path of this program");
    let mut all: Vec<Figures> = Vec::new();
    for _ in 0..runs {
        let mut command = Command::new(&own);
        command.args(["--child", kind.name, "--size", &size.to_string(), "--seed", &seed.to_string()]);
        let output = command.output().expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        match text.parse() {
            Ok(figures) if output.status.success() => all.push(figures),
            _ => {
                println!("{:<17} failed: {} {}", kind.name, output.status, String::from_utf8_lossy(&output.stderr));
                return;
            }
        }
    }
    let mut median = all[0];
    for (at, one) in median.all().into_iter().enumerate() {
        let mut values: Vec<f64> = all.iter_mut().map(|figures| *figures.all()[at]).collect();
        values.sort_by(f64::total_cmp);
        *one = values[values.len() / 2];
    }
    let Figures { solve, validate, bound, replay, input, memory, pods, nodes, left, .. } = median;
    let Figures { price, least, first_fit, violations, changed, .. } = median;
    println!(
        "{:<17} {pods:>6} {solve:>8.3} {validate:>8.3} {bound:>8.3} {replay:>8.3} {memory:>7.0} {input:>7.0} {nodes:>6} \
         {left:>6} {price:>10.3} {first_fit:>10.3} {:>8.4} {:>6}",
        kind.name,
        price / least,
        violations + changed,
    );
}
