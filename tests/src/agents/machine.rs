//! What there is of a machine: its names and addresses, and what proves them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use muster_agent::link::{self, News};
use muster_agent::probes::fault::MetadataFault;
use muster_agent::probes::metadata::Proofs;
use muster_link::sts::{Credentials, RoleProof};
use muster_link::{KeyHash, Nonce};
use muster_proto::muster::{self as wire, EnrolRequest};

use super::heard::Heard;
use super::objects::LAUNCH_SECRET;
use crate::ec2::{Ec2, REGION};
use crate::error::Result;
use crate::imds::{self, Authority};

/// Most machines: an address of each has three digits in each part, so that all identity documents are of one length.
const MOST: u32 = 1_000_000;

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Name of its NodeClaim.
    pub claim: String,
    /// Name of its Node.
    pub node: String,
    /// `i-…`
    pub instance: String,
    /// Where its connections come from.
    pub address: Ipv4Addr,
    /// `us-east-1a`
    pub zone: &'static str,
    /// `ami-…`
    pub image: String,
    /// When it was launched.
    pub launched_at: Timestamp,
}

/// What proves which instance it is.
#[derive(Debug, Clone)]
pub struct Evidence {
    document: String,
    credentials: Credentials,
}

impl Evidence {
    /// Returns the request with which the holder of a key enrols as this instance.
    pub fn request(&self, cluster: &str, nonce: &Nonce, key: &KeyHash) -> EnrolRequest {
        let RoleProof { authorization, date, security_token } =
            RoleProof::sign(&self.credentials, REGION, cluster, nonce, key, Timestamp::now());
        EnrolRequest {
            nonce: nonce.bytes().to_vec(),
            launch_token: LAUNCH_SECRET.to_owned(),
            identity_document: self.document.clone(),
            role_proof: Some(wire::RoleProof { authorization, date, security_token }),
            previous_key: None,
        }
    }
}

/// One that its agent speaks for.
pub(super) struct Node {
    pub(super) address: IpAddr,
    pub(super) evidence: Evidence,
    pub(super) heard: Arc<Mutex<Heard>>,
}

/// So many machines of an image.
pub fn machines(count: u32, image: &str) -> Vec<Arc<Machine>> {
    let launched_at = Timestamp::now();
    let one = |number: u32| {
        let part = |of: u32| u8::try_from(100 + of % 100).unwrap_or(u8::MAX);
        let [a, b, c, d] = [127, part(number / 10_000), part(number / 100), part(number)];
        let address = Ipv4Addr::new(a, b, c, d);
        Arc::new(Machine {
            claim: format!("general-{number:05}"),
            node: format!("ip-{a}-{b}-{c}-{d}.ec2.internal"),
            instance: format!("i-0a9e{number:013x}"),
            address,
            zone: if number.is_multiple_of(2) { "us-east-1a" } else { "us-east-1b" },
            image: image.to_owned(),
            launched_at,
        })
    };
    (0..count.min(MOST)).map(one).collect()
}

impl Machine {
    /// As the Node has it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.instance)
    }

    pub(super) fn boot_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", u32::from(self.address))
    }

    fn described(&self, account: &str) -> imds::Instance {
        imds::Instance {
            account_id: account.to_owned(),
            image_id: self.image.clone(),
            region: REGION.to_owned(),
            zone: self.zone.to_owned(),
            pending: self.launched_at,
            ..imds::Instance::new(&self.instance, self.address)
        }
    }
}

/// What the metadata of each would give out, if it had any. `role` is the one that their instance profile has.
///
/// # Errors
/// `openssl` cannot be started.
pub fn evidence(machines: &[Arc<Machine>], ec2: &Ec2, authority: &Authority, role: &str) -> Result<Vec<Evidence>> {
    let described: Vec<imds::Instance> = machines.iter().map(|machine| machine.described(ec2.account())).collect();
    let documents = authority.vouch_for(&described)?;
    let of = |(machine, document): (&Arc<Machine>, String)| {
        let of_role = ec2.instance_credentials(role, &machine.instance);
        let credentials = Credentials {
            access_key_id: of_role.access_key_id,
            secret_access_key: of_role.secret_access_key,
            session_token: of_role.session_token.unwrap_or_default(),
        };
        Evidence { document, credentials }
    };
    Ok(machines.iter().zip(documents).map(of).collect())
}

impl link::Node for Node {
    async fn proofs(&self) -> Result<Proofs, MetadataFault> {
        let Evidence { document, credentials } = self.evidence.clone();
        Ok(Proofs { document, credentials: Some(credentials) })
    }

    fn address(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    fn on_news(&self, news: &News<'_>) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).note(news);
    }
}
