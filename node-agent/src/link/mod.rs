//! Stream to the controller: the node proves once per boot which instance it is, then sends its reports.
//!
//! ```text
//!  user data ─► AgentConfig.controller ─┐      absent: the link is disabled
//!  metadata ──► document, credentials ──┤
//!  key: one per boot, readable by root ─┤
//!                                       ▼
//!            dial (TLS 1.3, pinned authority) ─► enrol ─► Credential ─► dial ─► follow ◄─► controller
//!                 ▲                                       (hours)                ▲  │
//!                 └──── backoff with jitter ◄──── end of the connection ◄────────┼──┘
//!  Readers ─► Report ─► wire: bounded, verdict once it has held for a while ─────┘
//! ```
//!
//! Nothing on the node waits for the link. Reports that cannot be sent are sent later, and the boot continues without a
//! controller.

mod dial;
mod enrol;
mod fault;
mod follow;
mod keys;
#[cfg(test)]
mod skew;
mod wire;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use muster_bootstrap::agent_config::Controller;
use muster_bootstrap::userdata::UserData;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::enrol::Credential;
pub use self::fault::{Fault, WayFault};
pub use self::keys::Keys;
use crate::boot_state::pace::Pace;
use crate::preflight::agent_config;
use crate::preflight::identity::Metadata;
use crate::probes::fault::MetadataFault;
use crate::probes::metadata::Proofs;
use crate::probes::{machine, metadata};
use crate::publish::bundle;
use crate::report::Report;

/// Minimum and maximum pause between attempts, with jitter. After a restart of its controller, a fleet of 10,000 nodes
/// reconnects within a minute, at a few hundred handshakes per second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Minimum pause after a refusal, which the same evidence would get again until an operator intervenes.
const REFUSED: Duration = Duration::from_secs(5 * 60);
/// Duration after which a connection counts as successful, so that the backoff is reset.
const GOOD: Duration = Duration::from_secs(60);

/// The node as the link uses it: source of evidence and logs, and receiver of events.
pub trait Node: Send + Sync + 'static {
    /// Returns the evidence of the instance's identity.
    fn proofs(&self) -> impl Future<Output = Result<Proofs, MetadataFault>> + Send;

    /// Returns the local address to connect from, if one machine simulates many nodes. By default the route decides.
    fn address(&self) -> Option<IpAddr> {
        None
    }

    /// Returns recent logs with the report, without secrets and in at most `largest` bytes; `None` if the node keeps no
    /// logs.
    fn logs(&self, report: Report, largest: usize) -> impl Future<Output = Option<String>> + Send {
        let _unread = (report, largest);
        async { None }
    }

    /// Handles an event of the link.
    fn on_news(&self, news: &News<'_>);
}

/// Event of a link. `Display` is the line for the log.
#[derive(Debug)]
pub enum News<'n> {
    /// The controller issued a certificate for the node's key.
    Enrolled,
    /// The controller accepted the stream.
    Followed,
    /// The controller stored everything up to the report with this sequence number.
    Kept(u64),
    /// An attempt failed, for another reason than the previous one.
    Failed(&'n Fault),
}

impl fmt::Display for News<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enrolled => f.write_str("the controller knows this node"),
            Self::Followed => f.write_str("the controller listens"),
            Self::Kept(sequence) => write!(f, "the controller keeps report {sequence}"),
            Self::Failed(fault) => write!(f, "the controller is not told: {fault}"),
        }
    }
}

/// Node that this program runs on.
struct Own {
    metadata_endpoint: String,
}

impl Node for Own {
    async fn proofs(&self) -> Result<Proofs, MetadataFault> {
        metadata::proofs(&self.metadata_endpoint).await
    }

    async fn logs(&self, report: Report, largest: usize) -> Option<String> {
        Some(bundle::gather(&report, largest).await)
    }

    fn on_news(&self, news: &News<'_>) {
        match news {
            News::Enrolled => tracing::info!("{news}"),
            News::Failed(_) => tracing::warn!("{news}"),
            // One of these per connection or report would flood the log.
            News::Followed | News::Kept(_) => {}
        }
    }
}

/// Keeps the link up for as long as the agent runs, if the node's user data has a controller.
pub(crate) async fn speak(state_folder: PathBuf, endpoint: String, reports: watch::Receiver<Report>) -> Infallible {
    let Some((controller, region)) = asked_for(&endpoint).await else {
        return std::future::pending().await;
    };
    let keys = match Keys::of_boot(&state_folder, &machine::boot_id()) {
        Ok(keys) => keys,
        Err(error) => {
            tracing::warn!("nothing is reported to the controller: no key can be made: {error}");
            return std::future::pending().await;
        }
    };
    let known = Known { controller, region };
    Link::new(Own { metadata_endpoint: endpoint }, known, keys, reports).keep_up().await
}

/// Returns the controller and the region of this instance. Retries until instance metadata answers; user data does not
/// change during a boot.
async fn asked_for(endpoint: &str) -> Option<(Controller, String)> {
    let began = Instant::now();
    let instance = loop {
        match metadata::read(endpoint).await {
            Metadata::Answers(instance) => break instance,
            Metadata::Off | Metadata::Silent(_) => sleep(Pace::METADATA.pause(began.elapsed())).await,
        }
    };
    let user_data = UserData::read(instance.user_data.as_deref()?, "user-data");
    // The preflight reports errors in it.
    let config = agent_config(Some(&user_data)).ok()??;
    Some((config.spec.controller?, instance.region.clone()))
}

/// Facts that an enrolment needs.
#[derive(Debug, Clone)]
pub struct Known {
    /// Controller, from the user data.
    pub controller: Controller,
    /// Region of the instance.
    pub region: String,
}

/// Link to a controller, with the state that is kept between attempts.
pub struct Link<N> {
    node: N,
    known: Known,
    keys: Keys,
    credential: Option<Credential>,
    reports: watch::Receiver<Report>,
}

impl<N: Node> Link<N> {
    /// Returns the link of a node that has not enrolled since its agent started.
    #[must_use]
    pub fn new(node: N, known: Known, keys: Keys, reports: watch::Receiver<Report>) -> Self {
        Self { node, known, keys, credential: None, reports }
    }

    /// Keeps the link up: reconnects whenever a connection ends.
    pub async fn keep_up(mut self) -> Infallible {
        let growing =
            || ExponentialBuilder::default().with_min_delay(PAUSE.0).with_max_delay(PAUSE.1).without_max_times();
        let mut pauses = growing().with_jitter().build();
        let mut said = String::new();
        let mut tries = 0_usize;
        loop {
            let began = Instant::now();
            let ended = self.talk(tries).await;
            let pause = match &ended {
                // The server closed an old connection.
                Ok(()) => None,
                Err(fault) => {
                    let news = News::Failed(fault);
                    let line = news.to_string();
                    if line != said {
                        self.node.on_news(&news);
                        said = line;
                    }
                    fault.is_refusal().then_some(REFUSED)
                }
            };
            tries += 1;
            if began.elapsed() >= GOOD {
                pauses = growing().with_jitter().build();
                said.clear();
            }
            let pause = pause.map(|least| least.mul_f64(1.0 + f64::from(self.keys.spread()) / 256.0));
            sleep(pause.or_else(|| pauses.next()).unwrap_or(PAUSE.1)).await;
        }
    }

    /// Enrols if necessary, then sends reports until the connection ends.
    async fn talk(&mut self, tries: usize) -> Result<(), Fault> {
        let Self { node, known: Known { controller, region }, keys, credential, reports } = self;
        let from = node.address();
        *credential = credential.take().filter(Credential::is_good);
        if credential.is_none() {
            let believed = keys.believed(&controller.certificate_authority);
            let channel = dial::dial(&controller.address, believed, from, keys.stranger()?).await?;
            let evidence = enrol::Evidence { controller, region, node, keys };
            *credential = Some(evidence.enrol(&channel, tries).await?);
            keys.settle();
            node.on_news(&News::Enrolled);
        }
        let Some(known) = credential.as_mut() else { return Ok(()) };
        let believed = keys.believed(&controller.certificate_authority);
        let channel = dial::dial(&controller.address, believed, from, keys.known(known.chain())?).await?;
        let beliefs = follow::Beliefs { keys, written: &controller.certificate_authority };
        let ended = follow::follow(&channel, known, beliefs, reports, node).await;
        // The certificate may no longer be valid: enrol again with the same key.
        if let Err(fault) = &ended
            && fault.is_unknown()
        {
            *credential = None;
        }
        ended
    }
}
