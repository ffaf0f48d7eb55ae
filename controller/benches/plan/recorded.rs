//! What was measured of Karpenter.
//!
//! Source: the scheduler of kubernetes-sigs/karpenter v1.14 (Go, one worker, which is its default), `Solve` alone, on
//! a machine with two cores; price is the sum of the cheapest compatible offering of each node, USD per hour. Its times move
//! by 15 % from run to run. `diverse` and `preference` are the workloads of its own benchmark, the others were drawn by the
//! rules of this one. Their times are those of other draws of the same kind and size; that of `fleet` was not taken.

use super::workload::{Kind, Workload};

/// Karpenter on one workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) seconds: Option<f64>,
    /// USD per hour.
    pub(crate) price: f64,
    /// USD per hour that no plan for the same pods can undercut: a linear program over their sums of cpu, memory and slots.
    pub(crate) bound: Option<f64>,
}

const fn own(kind: Kind, pods: usize, seconds: f64, price: f64) -> (Workload, Recorded) {
    (Workload { kind, pods }, Recorded { seconds: Some(seconds), price, bound: None })
}

const fn drawn(kind: Kind, pods: usize, seconds: Option<f64>, price: f64, bound: f64) -> (Workload, Recorded) {
    (Workload { kind, pods }, Recorded { seconds, price, bound: Some(bound) })
}

const RECORDED: [(Workload, Recorded); 9] = [
    own(Kind::Diverse, 1_000, 0.79, 345.3),
    own(Kind::Diverse, 5_000, 6.03, 1_744.3),
    own(Kind::Diverse, 10_000, 16.0, 3_509.1),
    own(Kind::Diverse, 20_000, 61.4, 7_071.5),
    own(Kind::Preference, 4_000, 70.6, 3_777.0),
    drawn(Kind::Lognormal, 5_000, Some(0.89), 187.57, 132.96),
    drawn(Kind::DeploymentsPlain, 10_000, Some(2.9), 338.90, 244.77),
    drawn(Kind::Deployments, 10_000, Some(5.8), 308.47, 244.77),
    drawn(Kind::Fleet, 10_000, None, 351.78, 247.37),
];

/// The figures for `workload`, if it was measured at this size.
pub(crate) fn recorded(workload: Workload) -> Option<Recorded> {
    RECORDED.iter().find(|(other, _)| *other == workload).map(|(_, recorded)| *recorded)
}
