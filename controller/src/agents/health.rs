//! What this replica says of its health, by name: of its parts, and of the services that it offers.
//!
//! ```text
//!   Picture: is it whole, is the API server heard ─┐
//!   Fence: does this replica lead ─────────────────┼─► Standing ──► statuses ──► grpc.health.v1, on both ports
//!   serve: have agents and operators a port ───────┘    (pure)
//! ```

use std::convert::Infallible;
use std::time::Duration;

use muster_proto::answer::Statuses;
use muster_proto::health::health_check_response::ServingStatus;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::edge::Fence;
use crate::watch::{Health, Picture, Standing as Known};

/// Until it is looked at again.
const LOOK: Duration = Duration::from_secs(1);
/// How long something may be wrong with following a kind before the API server counts as gone: tries are at most 8 s apart.
const TROUBLED: Duration = Duration::from_secs(15);
/// How long nothing may be heard of a kind: a watch that is silent for 100 s is begun anew.
const SILENT: Duration = Duration::from_mins(2);

/// Where a replica stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Whether it has seen the whole cluster once.
    pub(super) is_synced: bool,
    /// Whether it hears what happens in it.
    pub(super) hears: bool,
    /// Whether it leads.
    pub(super) leads: bool,
    /// Whether agents and operators are served.
    pub(super) serves: bool,
}

/// The status of every name.
///
/// The parts are those of the whole controller. A service is well where all its RPCs are answered: `muster.v1.Fleet` only by the replica
/// that leads, for the others launch nothing, so that a client that balances by health finds the one that does.
pub(super) fn statuses(standing: Standing) -> Statuses {
    let Standing { is_synced, hears, leads, serves } = standing;
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
            // Health and reflection: whoever reads this has reached them.
            _ => true,
        };
        (service, is_well)
    });
    let status = |is_well| if is_well { ServingStatus::Serving } else { ServingStatus::NotServing };
    parts.into_iter().chain(services).map(|(name, is_well)| (name.to_owned(), status(is_well))).collect()
}

/// Whether the API server says what happens to each kind.
fn hears(kinds: &[Health]) -> bool {
    kinds.iter().all(|kind| {
        let longest = if kind.trouble.is_some() { TROUBLED } else { SILENT };
        kind.standing == Known::Listing || kind.silence.is_some_and(|silence| silence < longest)
    })
}

/// Looks for ever, and says what has changed.
pub(super) async fn keep(
    picture: &Picture,
    fence: &Fence,
    serves: watch::Receiver<bool>,
    statuses_tx: &watch::Sender<Statuses>,
) -> Infallible {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Standing::default();
    loop {
        ticks.tick().await;
        let standing = Standing {
            is_synced: picture.is_synced(),
            hears: hears(&picture.health()),
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
    use crate::state::Kind;

    /// The names that are well.
    fn well(standing: Standing) -> Vec<String> {
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
        let at_first = Standing::default();
        assert_eq!(well(at_first), with(&[]));
        let synced = Standing { is_synced: true, hears: true, ..at_first };
        assert_eq!(well(synced), with(&["", "controller.KubeApi"]));
        assert_eq!(well(Standing { hears: false, ..synced }), with(&[""]), "what was seen is there still");
        let leads = Standing { leads: true, ..synced };
        assert_eq!(well(leads), with(&["", "controller.KubeApi", "controller.Provisioner"]));
        let gateway =
            ["controller.AgentGateway", "muster.v1.Diagnosis", "muster.v1.Enrolment", "muster.v1.NodeReports"];
        let serves = [&["", "controller.KubeApi"][..], &gateway].concat();
        assert_eq!(well(Standing { serves: true, ..synced }), with(&serves), "it does not lead");
        let all = [&serves[..], &["controller.Fleet", "controller.Provisioner", "muster.v1.Fleet"]].concat();
        assert_eq!(well(Standing { serves: true, ..leads }), with(&all));
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
            // The picture is not whole then, which says it.
            (pods(None, None, Known::Listing), true),
        ] {
            assert_eq!(hears(&[nodes.clone(), kind.clone()]), expected, "{kind:?}");
        }
    }
}
