//! The decision. All of it is a function of what is passed in, so it can be made again and comes out the same.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use jiff::{SignedDuration, Timestamp};

use crate::document::{Document, DocumentFault};
use crate::identity::{NodeIdentity, is_instance};
use crate::key::{KeyHash, again_message, p256_point};
use crate::launch::{Described, Enrolled, Launch};
use crate::nonce::{Given, Nonce};
use crate::refusal::Refusal;
use crate::sts::{Caller, CallerFault, RoleProof, SignedRequest};

/// How far in the future a launch may seem to be: by as much as clocks of AWS and of the controller may differ.
const FUTURE: SignedDuration = SignedDuration::from_mins(1);

/// What has to be proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proofs {
    /// Instance and role.
    All,
    /// The instance only: a controller that has no way to STS was told so, and logs it.
    WithoutRole,
}

/// What holds for every node of this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the cluster.
    pub cluster: String,
    /// Partition of AWS, as `aws`.
    pub partition: String,
    /// Twelve digits.
    pub account: String,
    /// As `eu-west-1`.
    pub region: String,
    /// What has to be proved.
    pub proofs: Proofs,
    /// How long after its launch an instance may enrol for the first time. A NodeClaim without a node is given up after 15 minutes;
    /// one whose node has come without its agent may be enrolled for as long.
    pub enrol_within: SignedDuration,
}

/// What the agent hands in, read.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The nonce that it names, if it is one.
    pub nonce: Option<Nonce>,
    /// The secret of the launch template.
    pub launch_token: String,
    /// The proof of the role.
    pub role_proof: Option<RoleProof>,
    /// The proof that it enrolled before, with another key.
    pub previous_key: Option<PreviousKey>,
}

/// A proof by another key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousKey {
    /// Its SubjectPublicKeyInfo (DER).
    pub public_key_info: Vec<u8>,
    /// Its signature over [`again_message`].
    pub signature: Vec<u8>,
}

/// All that is known before anybody is asked.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// What holds for every node.
    pub policy: &'a Policy,
    /// The key that the handshake of this connection has proved.
    pub key: KeyHash,
    /// The address that the connection comes from.
    pub peer: IpAddr,
    /// What the key was given, taken.
    pub given: Option<&'a Given>,
    /// What the agent hands in.
    pub evidence: &'a Evidence,
    /// Its identity document, verified.
    pub document: &'a Result<Document, DocumentFault>,
    /// The launch that made the instance that the document names.
    pub launch: Option<&'a Launch>,
    /// Now.
    pub now: Timestamp,
}

/// Whom to ask, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// To be described by EC2.
    pub instance: String,
    /// To be sent to STS.
    pub request: Option<SignedRequest>,
}

/// What they said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Who signed; `None` if nobody was asked.
    pub caller: Option<Result<Caller, CallerFault>>,
    /// The instance; `Ok(None)` if EC2 knows none of that ID.
    pub described: Result<Option<Described>, Unasked>,
}

/// EC2 could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unasked;

/// A node is who it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// What its certificate will say.
    pub identity: NodeIdentity,
    /// The NodeClaim that it is the node of.
    pub claim: String,
    /// Where its connections come from: its certificate is of no use elsewhere.
    pub addresses: Vec<IpAddr>,
    /// What to write down at the NodeClaim before the certificate is given out; `None` if it stands there already. If the writer
    /// finds another key there by then, the case is to be decided anew.
    pub record: Option<Enrolled>,
    /// Whether the instance had enrolled with another key: worth a warning.
    pub is_again: bool,
    /// Whether an operator's permission is used up by this.
    pub uses_permission: bool,
}

impl std::fmt::Debug for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evidence").field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

/// What stands behind an enrolment that may go on.
struct Standing<'a> {
    document: &'a Document,
    launch: &'a Launch,
    /// Whether it has to be written down.
    is_new: bool,
    is_again: bool,
    uses_permission: bool,
    request: Option<SignedRequest>,
}

/// What can be decided before anybody is asked: whom to ask what, or why not.
///
/// # Errors
/// The node is not admitted, whatever anybody else might say.
pub fn examine(case: &Case<'_>) -> Result<Question, Refusal> {
    let Standing { document, request, .. } = stand(case)?;
    Ok(Question { instance: document.instance.clone(), request })
}

/// Admits a node, or says why not.
///
/// # Errors
/// It is not admitted.
pub fn decide(case: &Case<'_>, answers: &Answers) -> Result<Admission, Refusal> {
    let Standing { document, launch, is_new, is_again, uses_permission, request } = stand(case)?;
    let Policy { cluster, account, region, .. } = case.policy;
    if request.is_some() {
        judge_caller(case.policy, launch, &document.instance, answers.caller.as_ref())?;
    }
    let described = answers.described.as_ref().map_err(|Unasked| Refusal::DescribeUnavailable)?;
    let described = described.as_ref().filter(|it| it.instance == document.instance).ok_or(Refusal::NotDescribed)?;
    judge_described(launch, described, case.peer)?;
    Ok(Admission {
        identity: NodeIdentity {
            cluster: cluster.clone(),
            account: account.clone(),
            region: region.clone(),
            instance: document.instance.clone(),
        },
        claim: launch.claim.clone(),
        addresses: described.addresses.clone(),
        record: is_new.then_some(Enrolled { key: case.key, at: case.now }),
        is_again,
        uses_permission,
    })
}

fn stand<'a>(case: &Case<'a>) -> Result<Standing<'a>, Refusal> {
    let Case { policy, key, given, evidence, now, .. } = *case;
    let given = given.filter(|given| given.key == key && Some(given.nonce) == evidence.nonce).ok_or(Refusal::Nonce)?;
    if now >= given.expires_at {
        return Err(Refusal::NonceExpired);
    }
    let document = case.document.as_ref().map_err(|fault| Refusal::Document(fault.clone()))?;
    judge_document(policy, document, now)?;
    let launch = case.launch.filter(|launch| launch.instance == document.instance).ok_or(Refusal::NotLaunchedHere)?;
    if launch.is_ending {
        return Err(Refusal::Ending);
    }
    // Every one is compared: the time says nothing about which it was.
    let is_known = launch.secrets.iter().fold(false, |known, secret| known | secret.is_of(&evidence.launch_token));
    if !is_known {
        return Err(Refusal::LaunchToken);
    }
    let seen = (document.instance_type.as_str(), document.image.as_str(), document.zone.as_str());
    judge_shape(launch, seen, "its identity document")?;
    let (is_new, is_again, uses_permission) = judge_record(case, &given.nonce, document, launch)?;
    let request = match policy.proofs {
        Proofs::WithoutRole => None,
        Proofs::All => {
            let proof = evidence.role_proof.as_ref().ok_or(Refusal::NoRoleProof)?;
            Some(proof.request(&policy.region, &policy.cluster, &given.nonce, &key, now)?)
        }
    };
    Ok(Standing { document, launch, is_new, is_again, uses_permission, request })
}

fn judge_document(policy: &Policy, document: &Document, now: Timestamp) -> Result<(), Refusal> {
    if document.account != policy.account {
        return Err(Refusal::Foreign("account"));
    }
    if document.region != policy.region {
        return Err(Refusal::Foreign("region"));
    }
    if !is_instance(&document.instance) {
        return Err(Refusal::Document(DocumentFault::Content("instanceId")));
    }
    if document.pending.duration_since(now) > FUTURE {
        return Err(Refusal::NotLaunchedLately);
    }
    Ok(())
}

/// An instance enrols once. Who has the key that it enrolled with may do so again, which is what happens when an answer was lost or
/// a replica ended; another key needs the word of the first, or of an operator.
fn judge_record(
    case: &Case<'_>,
    nonce: &Nonce,
    document: &Document,
    launch: &Launch,
) -> Result<(bool, bool, bool), Refusal> {
    match &launch.enrolled {
        Some(before) if before.key == case.key => Ok((false, false, false)),
        Some(before) => {
            let proved =
                case.evidence.previous_key.as_ref().is_some_and(|proof| is_proved(proof, before, nonce, &case.key));
            match (proved, launch.may_enrol_again) {
                (true, _) => Ok((true, true, false)),
                (false, true) => Ok((true, true, true)),
                (false, false) => Err(Refusal::EnrolledBefore),
            }
        }
        None if launch.may_enrol_again => Ok((true, false, true)),
        None if launch.is_ready => Err(Refusal::ReadyBefore),
        None if case.now.duration_since(document.pending) > case.policy.enrol_within => Err(Refusal::NotLaunchedLately),
        None => Ok((true, false, false)),
    }
}

fn is_proved(proof: &PreviousKey, before: &Enrolled, nonce: &Nonce, key: &KeyHash) -> bool {
    let Some(point) = p256_point(&proof.public_key_info) else { return false };
    KeyHash::of(&proof.public_key_info) == before.key
        && UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
            .verify(&again_message(nonce, key), &proof.signature)
            .is_ok()
}

/// The session's name alone is never trusted: whoever may assume the role can choose it. It has to agree with the document.
fn judge_caller(
    policy: &Policy,
    launch: &Launch,
    instance: &str,
    caller: Option<&Result<Caller, CallerFault>>,
) -> Result<(), Refusal> {
    let caller = caller.ok_or(Refusal::NoRoleProof)?.as_ref().map_err(|fault| Refusal::Caller(fault.clone()))?;
    if caller.partition != policy.partition {
        return Err(Refusal::ForeignCaller("partition"));
    }
    if caller.account != policy.account {
        return Err(Refusal::ForeignCaller("account"));
    }
    if !launch.roles.contains(&caller.role) {
        return Err(Refusal::Role);
    }
    if caller.session != instance {
        return Err(Refusal::Session);
    }
    Ok(())
}

fn judge_described(launch: &Launch, described: &Described, peer: IpAddr) -> Result<(), Refusal> {
    if !described.is_running {
        return Err(Refusal::NotRunning);
    }
    if described.token.as_ref() != Some(&launch.token) {
        return Err(Refusal::Differs { field: "launch token", source_of_it: "EC2" });
    }
    let seen = (described.instance_type.as_str(), described.image.as_str(), described.zone.as_str());
    judge_shape(launch, seen, "EC2")?;
    // An IPv4 peer of a socket for both is written as IPv6.
    let peer = peer.to_canonical();
    if described.addresses.contains(&peer) { Ok(()) } else { Err(Refusal::Address) }
}

fn judge_shape(launch: &Launch, seen: (&str, &str, &str), source_of_it: &'static str) -> Result<(), Refusal> {
    let (instance_type, image, zone) = seen;
    let pairs =
        [("type", instance_type, &launch.instance_type), ("image", image, &launch.image), ("zone", zone, &launch.zone)];
    match pairs.into_iter().find(|(_, seen, launched)| seen != launched) {
        Some((field, ..)) => Err(Refusal::Differs { field, source_of_it }),
        None => Ok(()),
    }
}
