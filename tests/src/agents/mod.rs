//! Nodes that are only their agents: ten thousand of them in one process, each with its own key, address and TLS connection.
//!
//! ```text
//!   Machine (name, address, instance) ─┬─► objects: NodeClaim, Node as Muster has written them        API server
//!                                      ├─► Ec2::take_in: what DescribeInstances says of it            emulated EC2
//!                                      └─► evidence: identity document, role, launch secret ─┐
//!                                                                                           ▼
//!   Agents::report ──► Report ──► muster_agent::link::Link, as `muster-agent run` has it ──► `muster run --agent-port`
//!                                      └─► Heard: enrolled, followed, kept, what went wrong
//!   Claims ◄── a watch ── NodeClaims: who has enrolled, AgentReady, NodeVerdict, and when that was seen
//!   checks: a crowd of `grpc.health.v1` calls at a given rate; flood: connections that come to nothing
//! ```
//!
//! Everything between a report and the API server is the real thing; of a node there is nothing but its addresses: one of
//! 127.0.0.0/8 each, so that what EC2 says of an instance and where its connection comes from agree.

pub mod checks;
mod claims;
mod flood;
mod heard;
mod machine;
mod objects;
mod report;

pub use self::claims::{Claim, Claims};
pub use self::flood::Flood;
pub use self::heard::Heard;
pub use self::machine::{Evidence, Machine, evidence, machines};
pub use self::objects::{LAUNCH_SECRET, Place, create, make_ready};

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use muster_agent::link::{Keys, Known, Link};
use muster_agent::report::Report;
use muster_bootstrap::agent_config::{Controller, Secret};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::machine::Node;
use crate::error::Result;

/// Agents, at work once they are started. They end with the value.
pub struct Agents {
    each: Vec<Agent>,
    waiting: Vec<Link<Node>>,
    tasks: JoinSet<()>,
}

struct Agent {
    machine: Arc<Machine>,
    says: watch::Sender<Report>,
    heard: Arc<Mutex<Heard>>,
}

impl Agents {
    /// The agents of these machines. Their keys are kept below `folder`; `address` is where the controller's
    /// port for agents is, and `authority` what its certificate chains to (PEM).
    ///
    /// # Errors
    /// A key cannot be written.
    pub fn new(machines: Vec<(Arc<Machine>, Evidence)>, folder: &Path, address: &str, authority: &str) -> Result<Self> {
        let (mut each, mut links) = (Vec::new(), Vec::new());
        for (machine, evidence) in machines {
            let own = folder.join(&machine.instance);
            fs_err::create_dir_all(&own)?;
            let keys = Keys::of_boot(&own, &machine.boot_id())?;
            let controller = Controller {
                address: address.to_owned(),
                certificate_authority: authority.to_owned(),
                launch_token: Secret::new(LAUNCH_SECRET),
            };
            let known = Known { controller, region: crate::ec2::REGION.to_owned() };
            let (says, said) = watch::channel(report::good(&machine));
            let heard = Arc::<Mutex<Heard>>::default();
            let node = Node { address: machine.address.into(), evidence, heard: Arc::clone(&heard) };
            links.push(Link::new(node, known, keys, said));
            each.push(Agent { machine, says, heard });
        }
        Ok(Self { each, waiting: links, tasks: JoinSet::new() })
    }

    /// Starts all of them at once.
    pub fn start(&mut self) {
        self.start_next(self.waiting.len());
    }

    /// Starts the next so many at once, in the order of their numbers.
    pub fn start_next(&mut self, count: usize) {
        for link in self.waiting.drain(..count.min(self.waiting.len())) {
            self.tasks.spawn(async move { match link.keep_up().await {} });
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.each.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// The machine of the agent of this number, from 0.
    pub fn machine(&self, number: usize) -> &Machine {
        &self.each[number].machine
    }

    /// These nodes are broken from now on, each by the fault of this code of `docs/verdicts.md`.
    pub fn break_down(&self, numbers: impl IntoIterator<Item = usize>, code: &str) {
        for number in numbers {
            let Agent { machine, says, .. } = &self.each[number];
            says.send_replace(report::broken(machine, code));
        }
    }

    /// These nodes are well again.
    pub fn mend(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let Agent { machine, says, .. } = &self.each[number];
            says.send_replace(report::good(machine));
        }
    }

    /// What each has heard, in the order of their numbers.
    pub fn heard(&self) -> Vec<Heard> {
        let of = |agent: &Agent| agent.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.each.iter().map(of).collect()
    }

    /// How many have heard what `is` asks.
    pub fn count(&self, is: impl Fn(&Heard) -> bool) -> usize {
        self.each.iter().filter(|agent| is(&agent.heard.lock().unwrap_or_else(PoisonError::into_inner))).count()
    }

    /// What went wrong last with each, and how many it went wrong with: those that `is` says.
    pub fn faults(&self, is: impl Fn(&Heard) -> bool) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for agent in &self.each {
            let heard = agent.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if is(&heard) {
                *all.entry(heard.fault.clone().unwrap_or_default()).or_default() += 1;
            }
        }
        all
    }
}
