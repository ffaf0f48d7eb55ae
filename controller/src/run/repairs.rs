//! Log and metrics of repairs.

use jiff::Timestamp;
use muster_scheduling::disrupt::{Cause, Decision, DisruptionInput, RepairDue};
use muster_stages::disruption::CommandStart;

use super::metrics::Metrics;

/// Logs and records the conditions for which nodes are repaired.
pub(super) fn tell(
    metrics: &Metrics,
    (decision, input): (&Decision, &DisruptionInput),
    command_starts: &[CommandStart],
    now: Timestamp,
) {
    let repairs = command_starts.iter().filter(|one| one.cause == Cause::Unhealthy);
    let commands = repairs.filter_map(|one| decision.commands.get(one.number));
    for &node in commands.flat_map(|command| &command.candidates).chain(&decision.reboots) {
        let managed_node = input.managed_nodes[node].as_ref();
        let Some(RepairDue { condition, drain, action }) = managed_node.and_then(|it| it.repair_due(now)) else {
            continue;
        };
        let (name, due) = (&input.problem.nodes[node].name, condition.due());
        let drain_seconds = drain.map(|drain| drain.as_secs());
        metrics.repairing(name, &condition.condition);
        tracing::info!(node = %name, %condition, %due, drain_seconds, ?action, "repairing a node");
    }
}
