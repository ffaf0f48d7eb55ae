//! Health of this replica, by name: its parts, and the services that it serves.
//!
//! ```text
//!   ClusterCache: complete, with current watches? ──┐
//!   Fence: does this replica lead? ─────────────────┼─► ReplicaState ──► statuses ──► grpc.health.v1, on both ports
//!   serve: are agents and operators served? ────────┘   (pure)
//! ```

use std::convert::Infallible;
use std::time::Duration;

use muster_proto::answer::Statuses;
use muster_proto::health::health_check_response::ServingStatus;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::edge::Fence;
use crate::watch::{ClusterCache, Health, WatchState as Known};

/// Interval between checks.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum time of errors in watching a kind before the API server counts as unreachable: retries are at most 8 s
/// apart.
const TROUBLED: Duration = Duration::from_secs(15);
/// Maximum silence of a watch: one that is silent for 100 s is restarted.
const SILENT: Duration = Duration::from_mins(2);

/// State of a replica that its health depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReplicaState {
    /// True once it has seen the whole cluster.
    pub(super) is_synced: bool,
    /// True if its watches are current.
    pub(super) hears: bool,
    /// True if it is the leader.
    pub(super) leads: bool,
    /// True if agents and operators are served.
    pub(super) serves: bool,
}

/// Returns the status of each name.
///
/// Parts are those of the whole controller. A service is serving where all its RPCs are answered: `muster.v1.Fleet`
/// only at the leader, because other replicas do not launch. A client that balances by health finds the leader.
pub(super) fn statuses(standing: ReplicaState) -> Statuses {
    let ReplicaState { is_synced, hears, leads, serves } = standing;
    let parts = [
        ("", is_synced),
        ("controller.AgentGateway", serves),
        ("controller.Fleet", serves && leads),
        ("controller.KubeApi", is_synced && hears),
        ("controller.Provisioner", is_synced && leads),
    ];
    let services = muster_gateway::services().map(|service| {
        let is_well = match service {
            "muster.v1.Fleet" => serves && leads,
            of_gateway if of_gateway.starts_with("muster.") => serves,
            // Health and reflection: a client that reads this has reached them.
            _ => true,
        };
        (service, is_well)
    });
    let status = |is_well| if is_well { ServingStatus::Serving } else { ServingStatus::NotServing };
    parts.into_iter().chain(services).map(|(name, is_well)| (name.to_owned(), status(is_well))).collect()
}

/// Returns true if the watches of all kinds are current.
fn hears(kinds: &[Health]) -> bool {
    kinds.iter().all(|kind| {
        let longest = if kind.trouble.is_some() { TROUBLED } else { SILENT };
        kind.standing == Known::Listing || kind.silence.is_some_and(|silence| silence < longest)
    })
}

/// Checks forever, and publishes changes.
pub(super) async fn keep(
    cluster_cache: &ClusterCache,
    fence: &Fence,
    serves: watch::Receiver<bool>,
    statuses_tx: &watch::Sender<Statuses>,
) -> Infallible {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = ReplicaState::default();
    loop {
        ticks.tick().await;
        let standing = ReplicaState {
            is_synced: cluster_cache.is_synced(),
            hears: hears(&cluster_cache.health()),
            leads: fence.is_open(),
            serves: *serves.borrow(),
        };
        if std::mem::replace(&mut last, standing) != standing {
            statuses_tx.send_replace(statuses(standing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_stages::state::Kind;

    /// Returns the names that are serving.
    fn well(standing: ReplicaState) -> Vec<String> {
        let all = statuses(standing);
        assert_eq!(all.len(), 5 + muster_gateway::services().count(), "each has a name of its own");
        all.into_iter().filter(|(_, status)| *status == ServingStatus::Serving).map(|(name, _)| name).collect()
    }

    #[test]
    fn each_name_is_well_when_what_it_stands_for_is() {
        let always = [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        let with = |more: &[&str]| {
            let mut all: Vec<String> = always.iter().chain(more).map(|name| (*name).to_owned()).collect();
            all.sort_unstable();
            all
        };
        let at_first = ReplicaState::default();
        assert_eq!(well(at_first), with(&[]));
        let synced = ReplicaState { is_synced: true, hears: true, ..at_first };
        assert_eq!(well(synced), with(&["", "controller.KubeApi"]));
        assert_eq!(well(ReplicaState { hears: false, ..synced }), with(&[""]), "what was seen is there still");
        let leads = ReplicaState { leads: true, ..synced };
        assert_eq!(well(leads), with(&["", "controller.KubeApi", "controller.Provisioner"]));
        let gateway =
            ["controller.AgentGateway", "muster.v1.Diagnosis", "muster.v1.Enrolment", "muster.v1.NodeReports"];
        let serves = [&["", "controller.KubeApi"][..], &gateway].concat();
        assert_eq!(well(ReplicaState { serves: true, ..synced }), with(&serves), "it does not lead");
        let all = [&serves[..], &["controller.Fleet", "controller.Provisioner", "muster.v1.Fleet"]].concat();
        assert_eq!(well(ReplicaState { serves: true, ..leads }), with(&all));
    }

    #[test]
    fn the_api_server_is_heard_while_each_kind_is() {
        let pods = |silence: Option<u64>, trouble: Option<&str>, standing| Health {
            kind: Kind::Pod,
            standing,
            silence: silence.map(Duration::from_secs),
            trouble: trouble.map(str::to_owned),
        };
        let nodes = Health { kind: Kind::Node, ..pods(Some(1), None, Known::Following) };
        for (kind, expected) in [
            (pods(Some(119), None, Known::Following), true),
            (pods(Some(120), None, Known::Following), false),
            (pods(Some(14), Some("refused"), Known::Following), true),
            (pods(Some(15), Some("refused"), Known::Unknown), false),
            // The initial list is incomplete then, which `is_synced` shows.
            (pods(None, None, Known::Listing), true),
        ] {
            assert_eq!(hears(&[nodes.clone(), kind.clone()]), expected, "{kind:?}");
        }
    }
}
