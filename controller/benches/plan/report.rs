//! The measured and the recorded side by side.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::GROWTH_LIMIT;
use super::measure::Measured;
use super::options::Options;
use super::recorded::{Recorded, recorded};
use super::workload::{Kind, Workload};

/// The workloads between which the time may grow by [`GROWTH_LIMIT`].
const GROWTH: [Workload; 2] =
    [Workload { kind: Kind::Diverse, pods: 20_000 }, Workload { kind: Kind::Diverse, pods: 100_000 }];

/// All that was measured.
pub(crate) struct Report {
    rows: Vec<Row>,
    seed: u64,
    runs: u32,
}

struct Row {
    workload: Workload,
    measured: Measured,
    recorded: Option<Recorded>,
}

impl Row {
    fn over_bound(&self) -> f64 {
        self.measured.price / self.measured.bound
    }

    fn recorded_over_bound(&self) -> Option<f64> {
        self.recorded.and_then(|recorded| Some(recorded.price / recorded.bound?))
    }

    fn times_faster(&self) -> Option<f64> {
        self.recorded.and_then(|recorded| Some(recorded.seconds? / self.measured.seconds))
    }

    /// Muster's price divided by Karpenter's, as if both had had the same pods.
    fn price_ratio(&self) -> Option<f64> {
        match self.recorded_over_bound() {
            // A few large deployments make one draw dearer than the next: what each leaves above its bound can be compared.
            Some(recorded) => Some(self.over_bound() / recorded),
            None => self.recorded.map(|recorded| self.measured.price / recorded.price),
        }
    }
}

impl Report {
    pub(crate) fn new(rows: Vec<(Workload, Measured)>, options: &Options) -> Self {
        let row = |(workload, measured)| Row { workload, measured, recorded: recorded(workload) };
        Self { rows: rows.into_iter().map(row).collect(), seed: options.seed, runs: options.runs }
    }

    /// How much longer 100,000 diverse pods take than 20,000, if both were measured.
    pub(crate) fn growth(&self) -> Option<f64> {
        let seconds =
            |workload: Workload| self.rows.iter().find(|row| row.workload == workload).map(|row| row.measured.seconds);
        let [fewer, more] = GROWTH.map(seconds);
        Some(more? / fewer?)
    }

    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        let document = json!({
            "seed": self.seed,
            "runs": self.runs,
            "workloads": rows,
            "growthFrom20000To100000": self.growth(),
            "growthLimit": GROWTH_LIMIT,
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }

    /// A table that is one in Markdown too.
    pub(crate) fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let head = [
            "workload",
            "Karpenter",
            "$/h per 1,000 pods",
            "over bound",
            "Muster",
            "$/h per 1,000 pods",
            "over bound",
            "times faster",
            "price",
        ];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(self.rows.iter().map(cells));
        let widths: Vec<usize> = (0..head.len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            writeln!(out, "| {} |", padded.collect::<Vec<_>>().join(" | "))
        };
        for (number, cells) in lines.iter().enumerate() {
            line(cells)?;
            if number == 0 {
                let rule = |(column, width): (usize, &usize)| match column {
                    0 => "-".repeat(*width),
                    _ => "-".repeat(width - 1) + ":",
                };
                line(&widths.iter().enumerate().map(rule).collect::<Vec<_>>())?;
            }
        }
        self.write_notes(out)
    }

    fn write_notes(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { rows, seed, runs } = self;
        writeln!(
            out,
            "\nMuster: median `solveSeconds` of {runs} fresh processes; `over bound`: price divided by its proven lower bound.\n\
             Karpenter: recorded, v1.14, `Solve` alone, one worker, two cores; `over bound`: by a linear program.\n\
             All workloads are own draws (seed {seed}) of the kinds that Karpenter was measured on. `price` is Muster's divided by\n\
             Karpenter's: per pod for diverse and preference, of what each leaves over its bound for the others, whose draws\n\
             differ more. Karpenter's times of those are of other draws of the same size."
        )?;
        for Row { workload, measured, .. } in rows.iter().filter(|row| row.measured.unschedulable > 0) {
            writeln!(out, "{workload}: {} pods are left over.", measured.unschedulable)?;
        }
        if let Some(growth) = self.growth() {
            let verdict = if growth <= GROWTH_LIMIT { "" } else { ": too much" };
            writeln!(
                out,
                "100,000 diverse pods take {growth:.1} times as long as 20,000 (at most {GROWTH_LIMIT}){verdict}."
            )?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 9] {
    let per_thousand = |price: f64| format!("{:.1}", price * 1_000.0 / row.workload.pods as f64);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ratio = |value: f64| format!("{value:.2}");
    let Row { workload, measured, recorded } = row;
    [
        workload.to_string(),
        or_dash(recorded.and_then(|recorded| recorded.seconds).map(duration)),
        or_dash(recorded.map(|recorded| per_thousand(recorded.price))),
        or_dash(row.recorded_over_bound().map(ratio)),
        duration(measured.seconds),
        per_thousand(measured.price),
        ratio(row.over_bound()),
        or_dash(row.times_faster().map(|times| format!("{times:.0}"))),
        or_dash(row.price_ratio().map(ratio)),
    ]
}

fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.01 => format!("{:.1} ms", seconds * 1_000.0),
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1_000.0),
        seconds if seconds < 10.0 => format!("{seconds:.2} s"),
        seconds => format!("{seconds:.1} s"),
    }
}

fn row_json(row: &Row) -> Value {
    let Row { workload, measured, recorded } = row;
    json!({
        "name": workload.to_string(),
        "pods": workload.pods,
        "muster": {
            "solveSeconds": measured.seconds,
            "fastestSeconds": measured.fastest,
            "slowestSeconds": measured.slowest,
            "nodes": measured.nodes,
            "hourlyPrice": measured.price,
            "lowerBoundHourlyPrice": measured.bound,
            "unschedulable": measured.unschedulable,
        },
        "karpenter": recorded.map(|recorded| json!({
            "seconds": recorded.seconds,
            "hourlyPrice": recorded.price,
            "lowerBoundHourlyPrice": recorded.bound,
        })),
        "timesFaster": row.times_faster(),
        "priceRatio": row.price_ratio(),
    })
}
