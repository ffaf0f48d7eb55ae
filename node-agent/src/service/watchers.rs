//! The watchers: each waits for its part of the node to change and sends what it saw. Each runs as long as the agent.

use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Known;
use crate::course::{Health, Observation};
use crate::probes::api::{ApiServer, NodeEvent, Unreachable};
use crate::probes::http::{Server, dial};
use crate::probes::journal::Journal;
use crate::probes::kubeconfig::{Kubeconfig, Token};
use crate::probes::{documents, machine, metadata, pod_resources, systemd};

type Observed = mpsc::Sender<Observation>;
type Outcome = Result<(), String>;

/// While something is on its way it is looked at this often, else at [`IDLE`].
const BUSY: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(3);
/// Units are looked at when the journal tells of them, and at this pace in case it does not.
const UNITS: Duration = Duration::from_secs(10);
/// AWS asks to look for notices every five seconds.
const NOTICES: Duration = Duration::from_secs(5);

/// Starts all of them.
pub(super) fn spawn(
    parts: &mut JoinSet<Outcome>,
    observed: &Observed,
    known: &watch::Receiver<Known>,
    endpoint: String,
) {
    parts.spawn(units_and_journal(observed.clone()));
    parts.spawn(health(observed.clone(), known.clone()));
    parts.spawn(node(observed.clone(), known.clone()));
    parts.spawn(devices(observed.clone(), known.clone()));
    parts.spawn(notices(observed.clone(), endpoint));
}

async fn send(observed: &Observed, observation: Observation) -> Outcome {
    observed.send(observation).await.map_err(|_| "the agent is ending".to_owned())
}

fn pace(known: &watch::Receiver<Known>) -> Duration {
    if known.borrow().is_settled { IDLE } else { BUSY }
}

async fn units_and_journal(observed: Observed) -> Outcome {
    loop {
        // Without `journalctl` units are still followed.
        let mut journal = Journal::follow().ok();
        loop {
            if let Some(units) = systemd::units().await {
                send(&observed, Observation::Units(units)).await?;
            }
            let mut has_news = false;
            let pause = sleep(UNITS);
            tokio::pin!(pause);
            while !has_news {
                let line = async {
                    match &mut journal {
                        Some(journal) => journal.next().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    line = line => match line {
                        Some(line) => {
                            has_news = line.is_of_systemd;
                            send(&observed, Observation::Line(line)).await?;
                        }
                        None => {
                            journal = None;
                        }
                    },
                    () = &mut pause => has_news = true,
                }
            }
            if journal.is_none() {
                break;
            }
            // systemd says several things about one change.
            while let Some(Ok(Some(line))) = match &mut journal {
                Some(journal) => Some(timeout(Duration::from_millis(50), journal.next()).await),
                None => None,
            } {
                send(&observed, Observation::Line(line)).await?;
            }
        }
    }
}

async fn health(observed: Observed, known: watch::Receiver<Known>) -> Outcome {
    let mut last = None;
    loop {
        let health = match known.borrow().health_port {
            // Where there is no port the unit's state has to do.
            0 => None,
            port => Some(Server { host: "127.0.0.1".to_owned(), port, tls: None }),
        };
        let health = match health {
            Some(server) => ask_health(&server).await,
            None => Health::Well,
        };
        if last != Some(health) {
            last = Some(health);
            send(&observed, Observation::Health(health)).await?;
        }
        sleep(pace(&known)).await;
    }
}

async fn ask_health(server: &Server) -> Health {
    let within = Duration::from_secs(1);
    let Ok(mut connection) = dial(server, within).await else { return Health::Silent };
    let Ok(request) = Request::builder().uri("/healthz").body(Full::default()) else { return Health::Silent };
    match connection.ask(request, within).await {
        Ok(answer) if answer.status.is_success() => Health::Well,
        Ok(_) => Health::Unwell,
        Err(_) => Health::Silent,
    }
}

async fn node(observed: Observed, mut known: watch::Receiver<Known>) -> Outcome {
    let mut token: Option<Token> = None;
    loop {
        let name = known.borrow_and_update().node_name.clone();
        let Some(name) = name else {
            known.changed().await.map_err(|_| "the agent is ending".to_owned())?;
            continue;
        };
        follow_node(&observed, &mut known, &name, &mut token).await?;
        sleep(BUSY).await;
    }
}

/// Follows the Node until the connection ends.
async fn follow_node(
    observed: &Observed,
    known: &mut watch::Receiver<Known>,
    name: &str,
    token: &mut Option<Token>,
) -> Outcome {
    let unit = systemd::text_of("kubelet").await;
    let Some((_, text)) = documents::read(unit.as_deref()).kubeconfig else { return Ok(()) };
    let read = |path: &str| fs_err::read(path).ok();
    let Ok(config) = Kubeconfig::read(&text, &read) else { return Ok(()) };
    let server = match ApiServer::connect(&config, token).await {
        Ok(server) => server,
        Err(Unreachable::Way(way)) => return send(observed, Observation::Lost(Some(Box::new(way)))).await,
        // Why credentials cannot be had is the preflight's to tell, and the kubelet's own words in the journal.
        Err(Unreachable::Standing(_)) => return Ok(()),
    };
    send(observed, Observation::Lost(None)).await?;
    let Ok(mut watch) = server.watch_node(name).await else {
        // A token that is refused is not used again.
        *token = token.take().filter(|token| !token.is_fresh(Timestamp::now()));
        return Ok(());
    };
    loop {
        let event = tokio::select! {
            event = watch.next() => event,
            // The name is known for good once the kubelet's files are there.
            _ = known.wait_for(|known| known.node_name.as_deref() != Some(name)) => return Ok(()),
        };
        match event {
            NodeEvent::Is(node) => send(observed, Observation::Node(Some(node))).await?,
            NodeEvent::Gone => send(observed, Observation::Node(None)).await?,
            NodeEvent::Ended(_) => return Ok(()),
        }
    }
}

async fn devices(observed: Observed, mut known: watch::Receiver<Known>) -> Outcome {
    let mut last = None;
    loop {
        if !known.borrow_and_update().has_resources {
            known.changed().await.map_err(|_| "the agent is ending".to_owned())?;
            continue;
        }
        let mut sightings = machine::hardware();
        sightings.healthy = pod_resources::healthy().await;
        sightings.registry = sightings.healthy.is_some().then(machine::has_plugin_registry);
        if last.as_ref() != Some(&sightings) {
            last = Some(sightings.clone());
            send(&observed, Observation::Devices(Box::new(sightings))).await?;
        }
        sleep(pace(&known)).await;
    }
}

async fn notices(observed: Observed, endpoint: String) -> Outcome {
    let mut last = None;
    loop {
        sleep(NOTICES).await;
        let notice = metadata::notice(&endpoint).await;
        if let Some(notice) = notice
            && last.as_ref() != Some(&notice)
        {
            last = Some(notice.clone());
            send(&observed, Observation::Notice(notice)).await?;
        }
    }
}
