//! Enrolment decision: a pure function of its arguments, so that it can be repeated with the same result.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use jiff::{SignedDuration, Timestamp};

use crate::document::{Document, DocumentFault};
use crate::identity::{NodeIdentity, is_instance};
use crate::key::{KeyHash, p256_point};
use crate::launch::{Described, Enrolled, Launch};
use crate::nonce::{Given, Nonce, again_message};
use crate::refusal::Refusal;
use crate::sts::{Caller, CallerFault, RoleProof, SignedRequest};

/// Maximum time that a launch may lie in the future: the clock skew between AWS and the controller.
const FUTURE: SignedDuration = SignedDuration::from_mins(1);

/// Enrolment rules for every node of this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the cluster.
    pub cluster: String,
    /// AWS partition, such as `aws`.
    pub partition: String,
    /// AWS account ID, twelve digits.
    pub account: String,
    /// Region, such as `eu-west-1`.
    pub region: String,
    /// Maximum age of an instance at its first enrolment. A NodeClaim without a Node is given up after 15 minutes; one
    /// whose Node has registered without its agent may be enrolled for as long.
    pub enrol_within: SignedDuration,
}

/// Evidence of the agent, parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Nonce, if it is well-formed.
    pub nonce: Option<Nonce>,
    /// Secret of the launch template.
    pub launch_token: String,
    /// Proof of the IAM role.
    pub role_proof: Option<RoleProof>,
    /// Proof of an earlier enrolment with another key.
    pub previous_key: Option<PreviousKey>,
}

/// Proof by the key of an earlier enrolment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousKey {
    /// SubjectPublicKeyInfo (DER) of that key.
    pub public_key_info: Vec<u8>,
    /// Signature over [`again_message`] by that key.
    pub signature: Vec<u8>,
}

/// Everything known about an enrolment before AWS is asked.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// Enrolment rules.
    pub policy: &'a Policy,
    /// Key that the handshake of this connection has proved.
    pub key: KeyHash,
    /// Source address of the connection.
    pub peer: IpAddr,
    /// Nonce that was given to the key, already taken.
    pub given: Option<&'a Given>,
    /// Evidence of the agent.
    pub evidence: &'a Evidence,
    /// Its identity document, verified.
    pub document: &'a Result<Document, DocumentFault>,
    /// Launch of the instance that the document names.
    pub launch: Option<&'a Launch>,
    /// Current time.
    pub now: Timestamp,
}

/// Requests to AWS that an enrolment needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// ID of the instance to describe with EC2.
    pub instance: String,
    /// Request to send to STS.
    pub request: SignedRequest,
}

/// Answers of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Signer of the request.
    pub caller: Result<Caller, CallerFault>,
    /// Description of the instance; `Ok(None)` if EC2 does not know its ID.
    pub described: Result<Option<Described>, Unasked>,
}

/// Error: EC2 could not be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unasked;

/// Decision to admit a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Identity for its certificate.
    pub identity: NodeIdentity,
    /// NodeClaim of the node.
    pub claim: String,
    /// Addresses of the instance: its certificate is valid only from them.
    pub addresses: Vec<IpAddr>,
    /// Enrolment to record at the NodeClaim before the certificate is issued; `None` if it is recorded already. If
    /// another key is recorded meanwhile, the case must be decided again.
    pub record: Option<Enrolled>,
    /// True if the instance had enrolled with another key, which is logged as a warning.
    pub is_again: bool,
    /// True if this uses up an operator's permission.
    pub uses_permission: bool,
}

impl std::fmt::Debug for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evidence").field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

/// Enrolment that passed the checks that need no request to AWS.
struct PendingEnrolment<'a> {
    document: &'a Document,
    launch: &'a Launch,
    /// True if it must be recorded.
    is_new: bool,
    is_again: bool,
    uses_permission: bool,
    request: SignedRequest,
}

/// Checks everything that needs no request to AWS, and returns the requests to make.
///
/// # Errors
/// The node is refused, whatever AWS would answer.
pub fn examine(case: &Case<'_>) -> Result<Question, Refusal> {
    let PendingEnrolment { document, request, .. } = stand(case)?;
    Ok(Question { instance: document.instance.clone(), request })
}

/// Decides whether to admit a node.
///
/// # Errors
/// The node is refused.
pub fn decide(case: &Case<'_>, answers: &Answers) -> Result<Admission, Refusal> {
    let PendingEnrolment { document, launch, is_new, is_again, uses_permission, request: _ } = stand(case)?;
    let Policy { cluster, account, region, .. } = case.policy;
    judge_caller(case.policy, launch, &document.instance, &answers.caller)?;
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

/// Checks the nonce of an attempt: that its connection was given it, for this key, and that it has not expired. It
/// comes before everything that costs anything, such as reading a document.
///
/// # Errors
/// The node is refused.
pub fn check_nonce(
    given: Option<&Given>,
    key: KeyHash,
    named: Option<Nonce>,
    now: Timestamp,
) -> Result<&Given, Refusal> {
    let given = given.filter(|given| given.key == key && Some(given.nonce) == named).ok_or(Refusal::Nonce)?;
    if now >= given.expires_at { Err(Refusal::NonceExpired) } else { Ok(given) }
}

fn stand<'a>(case: &Case<'a>) -> Result<PendingEnrolment<'a>, Refusal> {
    let Case { policy, key, given, evidence, now, .. } = *case;
    let given = check_nonce(given, key, evidence.nonce, now)?;
    let document = case.document.as_ref().map_err(|fault| Refusal::Document(fault.clone()))?;
    judge_document(policy, document, now)?;
    let launch = case.launch.filter(|launch| launch.instance == document.instance).ok_or(Refusal::NotLaunchedHere)?;
    if launch.is_ending {
        return Err(Refusal::Ending);
    }
    // All secrets are compared, so the time does not reveal which one matched.
    let is_known = launch.secrets.iter().fold(false, |known, secret| known | secret.is_of(&evidence.launch_token));
    if !is_known {
        return Err(Refusal::LaunchToken);
    }
    let seen = (document.instance_type.as_str(), document.image.as_str(), document.zone.as_str());
    judge_shape(launch, seen, "its identity document")?;
    let (is_new, is_again, uses_permission) = judge_record(case, &given.nonce, document, launch)?;
    let proof = evidence.role_proof.as_ref().ok_or(Refusal::NoRoleProof)?;
    let request = proof.request(&policy.region, &policy.cluster, &given.nonce, &key, now)?;
    Ok(PendingEnrolment { document, launch, is_new, is_again, uses_permission, request })
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

/// Decides whether this key may enrol. An instance enrols once. The same key may enrol again, as when an answer was
/// lost or a replica ended; another key needs a proof by the first key, or an operator's permission.
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

/// Checks the signer. The session name alone is not trusted, because a principal that may assume the role can choose
/// it; it must match the document.
fn judge_caller(
    policy: &Policy,
    launch: &Launch,
    instance: &str,
    caller: &Result<Caller, CallerFault>,
) -> Result<(), Refusal> {
    let caller = caller.as_ref().map_err(|fault| Refusal::Caller(fault.clone()))?;
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
    // A dual-stack socket shows an IPv4 peer as an IPv4-mapped IPv6 address.
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
