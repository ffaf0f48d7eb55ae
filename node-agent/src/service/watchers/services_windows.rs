//! Watcher of Windows services and the event log, which also admits the kubelet.
//!
//! Windows has no hook before a service starts. Instead the agent polls the kubelet's service every quarter of a
//! second. When it has started, the agent makes the same decision as the gate on Linux, and stops the service if it is
//! not admitted. The configuration of the machine is unchanged: without the agent the kubelet starts as usual, and a
//! kubelet that ran before the agent is left alone.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Known, Observed, Outcome, send};
use crate::boot_state::Observation;
use crate::probes::journal::Journal;
use crate::probes::supervisor;
use crate::publish::socket::Asked;
use crate::service::Ended;
use crate::watch::services::Services;
use crate::watch::units::Unit;

/// Poll interval of the services. A kubelet takes seconds to register; a poll takes a millisecond.
const LOOK: Duration = Duration::from_millis(250);
/// Factor of the poll interval on a settled node.
const SETTLED: u32 = 8;
/// Read interval of the event log. A read runs a program, which costs more.
const READ: Duration = Duration::from_secs(1);
const READ_WHEN_SETTLED: Duration = Duration::from_secs(30);
/// Name of the unit that represents the image's bootstrap.
const BOOTSTRAP: &str = "eks-bootstrap";

pub(super) async fn follow(observed: Observed, known: watch::Receiver<Known>, asked: mpsc::Sender<Asked>) -> Outcome {
    let mut services = Services::default();
    let mut journal = Journal::follow();
    let mut last: Vec<Unit> = Vec::new();
    let mut read: Option<Instant> = None;
    let mut looks = 0_u32;
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let is_settled = known.borrow().is_settled;
        looks = looks.wrapping_add(1);
        if is_settled && !looks.is_multiple_of(SETTLED) {
            continue;
        }
        let mut units = Vec::new();
        let mut has_started = false;
        for service in supervisor::services().await.unwrap_or_default() {
            let look = services.look(&service);
            has_started |= look.has_started && look.unit.name == "kubelet";
            units.push(look.unit);
        }
        if has_started {
            let (answer_tx, answer_rx) = oneshot::channel();
            asked.send(answer_tx).await.map_err(|_| Ended::Ending)?;
            tokio::spawn(hold_back(answer_rx));
        }
        let pause = if is_settled { READ_WHEN_SETTLED } else { READ };
        let has_news = !units.is_empty() && units != last;
        if has_news || read.is_none_or(|at| at.elapsed() >= pause) {
            read = Some(Instant::now());
            for line in journal.news().await {
                send(&observed, Observation::Line(line)).await?;
            }
        }
        if !units.is_empty() {
            units.push(Unit { name: BOOTSTRAP.to_owned(), exists: journal.has_bootstrap(), ..Unit::default() });
            if units != last {
                send(&observed, Observation::Units(units.clone())).await?;
                last = units;
            }
        }
    }
}

/// Stops the kubelet unless it is admitted. A missing answer admits it.
async fn hold_back(answer: oneshot::Receiver<muster_proto::muster::AdmitKubeletResponse>) {
    let Ok(answer) = answer.await else { return };
    if answer.admitted {
        return;
    }
    if supervisor::order("stop", "kubelet").await {
        tracing::warn!("the kubelet is kept from running: {}: {}", answer.code, answer.message);
    } else {
        tracing::warn!("the kubelet's service cannot be stopped");
    }
}
