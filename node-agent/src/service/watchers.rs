//! Watchers, which wait for changes of one part of the node and send observations. Each runs as long as the agent.

#[cfg_attr(windows, path = "watchers/services_windows.rs")]
mod services;

use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::Known;
use super::parts::{Ended, Part, Parts};
use crate::boot_state::pace::Pace;
use crate::boot_state::{Health, Observation};
use crate::preflight::credentials::OwnNode;
use crate::probes::api::{ApiServer, NodeEvent, NodeWatch, Unreachable};
use crate::probes::http::{Server, dial};
use crate::probes::kubeconfig::{Kubeconfig, Token};
use crate::probes::{documents, machine, metadata, pod_resources, supervisor};
use crate::publish::socket::Asked;

type Observed = mpsc::Sender<Observation>;
type Outcome = Result<(), Ended>;

/// Poll interval until the node is settled; afterwards it is [`IDLE`].
const BUSY: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(3);

/// Starts all watchers.
pub(super) fn spawn(
    parts: &mut Parts,
    observed: &Observed,
    known: &watch::Receiver<Known>,
    asked: &mpsc::Sender<Asked>,
    endpoint: String,
) {
    parts.spawn(Part::Services, services::follow(observed.clone(), known.clone(), asked.clone()));
    parts.spawn(Part::Health, health(observed.clone(), known.clone()));
    parts.spawn(Part::Node, node(observed.clone(), known.clone()));
    parts.spawn(Part::Devices, devices(observed.clone(), known.clone()));
    parts.spawn(Part::Notices, notices(observed.clone(), endpoint));
}

async fn send(observed: &Observed, observation: Observation) -> Outcome {
    observed.send(observation).await.map_err(|_| Ended::Ending)
}

fn pace(known: &watch::Receiver<Known>) -> Duration {
    if known.borrow().is_settled { IDLE } else { BUSY }
}

async fn health(observed: Observed, known: watch::Receiver<Known>) -> Outcome {
    let mut last = None;
    loop {
        let health = match known.borrow().health_port {
            // Without a healthz port, the state of the unit has to suffice.
            0 => None,
            port => Some(Server { host: "127.0.0.1".to_owned(), port, tls: None, proxy: None }),
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
    let mut failing_since: Option<Instant> = None;
    loop {
        let name = known.borrow_and_update().node_name.clone();
        let Some(name) = name else {
            known.changed().await.map_err(|_| Ended::Ending)?;
            continue;
        };
        let began = Instant::now();
        let pace = match follow_node(&observed, &mut known, &name, &mut token).await? {
            Followed::Watched => {
                failing_since = None;
                sleep(BUSY).await;
                continue;
            }
            Followed::Unwritten => Pace::FILES,
            Followed::Unreachable | Followed::Unlasting => Pace::WAY,
            Followed::Unadmitted => Pace::CREDENTIALS,
        };
        sleep(pace.pause(failing_since.get_or_insert(began).elapsed())).await;
    }
}

/// Result of following the Node.
#[derive(Debug, PartialEq, Eq)]
enum Followed {
    /// The Node was watched until the connection ended.
    Watched,
    /// A watch was accepted, but ended early and without an event.
    Unlasting,
    /// The API server does not answer.
    Unreachable,
    /// The kubelet's files do not exist.
    Unwritten,
    /// The credentials cannot be obtained, or are refused.
    Unadmitted,
}

/// Follows the Node until the connection ends.
async fn follow_node(
    observed: &Observed,
    known: &mut watch::Receiver<Known>,
    name: &str,
    token: &mut Option<Token>,
) -> Result<Followed, Ended> {
    let (unit, manager) = tokio::join!(supervisor::text_of("kubelet"), supervisor::environment());
    let documents = documents::read(unit.as_deref(), manager.as_deref());
    let Some((path, text)) = documents.kubeconfig else { return Ok(Followed::Unwritten) };
    let Ok(config) = Kubeconfig::of_file(&path, &text) else { return Ok(Followed::Unwritten) };
    let config = config.within(&documents.environment);
    let server = match ApiServer::connect(&config, token).await {
        Ok(server) => server,
        Err(Unreachable::Way(way)) => {
            send(observed, Observation::Lost(Some(Box::new(way)))).await?;
            return Ok(Followed::Unreachable);
        }
        // The preflight and the kubelet's log explain missing credentials.
        Err(Unreachable::CredentialCheck(_)) => return Ok(Followed::Unadmitted),
    };
    send(observed, Observation::Lost(None)).await?;
    watch_node(observed, known, name, token, server).await
}

async fn watch_node(
    observed: &Observed,
    known: &mut watch::Receiver<Known>,
    name: &str,
    token: &mut Option<Token>,
    mut server: ApiServer,
) -> Result<Followed, Ended> {
    // A watch has no event for a Node that was deleted before it began.
    if server.node(name).await == OwnNode::Absent {
        send(observed, Observation::Node(None)).await?;
    }
    let Ok(watch) = server.watch_node(name).await else {
        // A refused token is not reused.
        *token = token.take().filter(|token| !token.is_fresh(Timestamp::now()));
        return Ok(Followed::Unadmitted);
    };
    follow_watch(observed, known, name, watch).await
}

async fn follow_watch(
    observed: &Observed,
    known: &mut watch::Receiver<Known>,
    name: &str,
    mut watch: NodeWatch,
) -> Result<Followed, Ended> {
    /// Duration after which a watch counts as successful, even without events: the Node may not exist yet.
    const LASTS: Duration = Duration::from_secs(5);
    let began = Instant::now();
    let mut has_shown = false;
    loop {
        let event = tokio::select! {
            event = watch.next() => event,
            // The name changes at most until the kubelet's files exist.
            _ = known.wait_for(|known| known.node_name.as_deref() != Some(name)) => return Ok(Followed::Watched),
        };
        match event {
            NodeEvent::Is(node) => send(observed, Observation::Node(Some(node))).await?,
            NodeEvent::Gone => send(observed, Observation::Node(None)).await?,
            NodeEvent::Ended(_) if has_shown || began.elapsed() >= LASTS => return Ok(Followed::Watched),
            NodeEvent::Ended(_) => return Ok(Followed::Unlasting),
        }
        has_shown = true;
    }
}

async fn devices(observed: Observed, mut known: watch::Receiver<Known>) -> Outcome {
    let mut last = None;
    loop {
        if !known.borrow_and_update().has_resources {
            known.changed().await.map_err(|_| Ended::Ending)?;
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
    let mut silent_since: Option<Instant> = None;
    loop {
        sleep(Pace::METADATA.pause(silent_since.map_or(Duration::ZERO, |since| since.elapsed()))).await;
        let notice = match metadata::notice(&endpoint).await {
            Ok(notice) => {
                silent_since = None;
                notice
            }
            Err(_) => {
                silent_since.get_or_insert_with(Instant::now);
                None
            }
        };
        if let Some(notice) = notice
            && last.as_ref() != Some(&notice)
        {
            last = Some(notice.clone());
            send(&observed, Observation::Notice(notice)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::tests::{Answer, FAR, authority, config, server};

    async fn followed(answer: Answer) -> Followed {
        let issuer = authority();
        let address = server(&issuer, "localhost", FAR, answer).await;
        let Ok(api) = ApiServer::connect(&config(address, &issuer), &mut None).await else { panic!("it answers") };
        let watch = api.watch_node("n").await.unwrap();
        let (observed, _observed_rx) = mpsc::channel(8);
        let (_known_tx, mut known) = watch::channel(Known { node_name: Some("n".to_owned()), ..Known::default() });
        follow_watch(&observed, &mut known, "n", watch).await.unwrap()
    }

    /// Returns what is observed of the Node until its watch ends.
    async fn seen(answer: Answer) -> Vec<bool> {
        let issuer = authority();
        let address = server(&issuer, "localhost", FAR, answer).await;
        let Ok(api) = ApiServer::connect(&config(address, &issuer), &mut None).await else { panic!("it answers") };
        let (observed, mut observed_rx) = mpsc::channel(8);
        let (_known_tx, mut known) = watch::channel(Known { node_name: Some("n".to_owned()), ..Known::default() });
        watch_node(&observed, &mut known, "n", &mut None, api).await.unwrap();
        drop(observed);
        let mut nodes = Vec::new();
        while let Some(observation) = observed_rx.recv().await {
            let Observation::Node(node) = observation else { panic!("only the Node is watched") };
            nodes.push(node.is_some());
        }
        nodes
    }

    #[tokio::test]
    async fn a_node_that_is_deleted_between_two_watches_is_seen_to_be_absent() {
        let absent = seen(|line| if line.starts_with("GET /api/v1/nodes/n ") { "404 {}" } else { "200 " });
        assert_eq!(absent.await, [false]);
        let refused = seen(|line| if line.starts_with("GET /api/v1/nodes/n ") { "403 {}" } else { "200 " });
        assert!(refused.await.is_empty());
    }

    #[tokio::test]
    async fn a_watch_that_ends_before_it_has_shown_anything_was_none() {
        assert_eq!(followed(|_| "200 {\"type\":\"ERROR\",\"object\":{\"code\":410}}\n").await, Followed::Unlasting);
        assert_eq!(followed(|_| "200 ").await, Followed::Unlasting);
        assert_eq!(followed(|_| "200 {\"type\":\"DELETED\",\"object\":{}}\n").await, Followed::Watched);
    }
}
