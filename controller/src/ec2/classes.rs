//! Status of an EC2NodeClass: lookup, validation and trial launch.
//!
//! ```text
//!   class ──► look up (once per generation, then at intervals) ──► judge ─┬─ invalid ──────────────────► status
//!                                                                         └─ valid ─► try out ─► judge ─► status
//! ```
//!
//! Results are cached until the next lookup, so reconciling a class because many of its claims change makes no call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::Ec2NodeClass;
use muster_api::conditions::nodeclass::{BOOTSTRAP_VALID, VALIDATION_SUCCEEDED};
use muster_api::nodeclass::Ec2NodeClassStatus;
use muster_aws::discovery::{Found, Trial, judge};
use muster_aws::live::Intervals;
use muster_cloud::{CloudError, after};
use muster_stages::lifecycle::whole_seconds;
use muster_stages::state::LiveClass;
use serde_json::{Value, json};

use super::provider::{Ec2, now};
use crate::provider::Resolved;

/// Retry delay after a trial without a result, e.g. because EC2 was unavailable or throttled.
const RETRY: Duration = Duration::from_secs(30);

/// Prefixes of Muster's and Karpenter's own annotations.
const OWN: [&str; 2] = ["karpenter.k8s.aws/", "muster.dev/"];

/// Cached results for a class.
pub(super) struct Known {
    uid: String,
    generation: Option<i64>,
    found: Found,
    found_at: Timestamp,
    trial: Option<Tried>,
    /// Status that follows from what was found.
    pub(super) status: Ec2NodeClassStatus,
    /// Number of times that its results were updated.
    pub(super) edition: u64,
}

/// Trial launch (dry run).
#[derive(Clone)]
struct Tried {
    /// Inputs of the trial.
    with: Value,
    at: Timestamp,
    came_to: Result<(), Trial>,
}

// === impl Known ===

impl Known {
    /// Returns true if the results are those of the current class.
    pub(super) fn is_of(&self, live: &LiveClass) -> bool {
        Some(self.uid.as_str()) == live.meta.uid.as_deref() && self.generation == live.meta.generation
    }
}

// === impl Tried ===

impl Tried {
    fn is_good_until(&self) -> Timestamp {
        let is_answer = match &self.came_to {
            Ok(()) => true,
            Err(trial) => matches!(trial.error, CloudError::Unauthorized { .. } | CloudError::BadClass { .. }),
        };
        after(self.at, if is_answer { Intervals::default().trial } else { RETRY })
    }
}

// === impl Ec2 ===

impl Ec2 {
    pub(super) async fn resolve_class(&self, live: &LiveClass) -> Resolved {
        let class: Ec2NodeClass = match live.typed() {
            Ok(class) => class,
            Err(error) => {
                tracing::warn!(class = live.reference.name, %error, "this class cannot be read");
                return Resolved::default();
            }
        };
        let name = live.reference.name.as_str();
        let is_news = !self.classes().get(name).is_some_and(|known| known.is_of(live));
        if is_news {
            for ignored in class.spec.ignored_terms() {
                tracing::warn!(class = name, field = ignored.path, "{ignored}");
            }
        }
        let (mut found, found_at) = self.found(live, &class).await;
        let (cluster, gates) = (self.cluster(), self.options().gates);
        let mut status = judge(&class, &cluster, &found, gates, whole_seconds(now()));
        self.learn(live, &class, &status, &found, found_at);
        let mut again = after(found_at, self.options().look_up_every);
        if self.options().tries_launches && is_in_order(&status) {
            let tried = self.try_out(&class, &status).await;
            again = again.min(tried.is_good_until());
            found.trial = Some(tried.came_to);
            status = judge(&class, &cluster, &found, gates, whole_seconds(now()));
        }
        let before = class.status.clone().unwrap_or_default();
        let as_value = |status: &Ec2NodeClassStatus| serde_json::to_value(status).unwrap_or_default();
        let (before, status) = (as_value(&before), as_value(&status));
        Resolved { status: (before != status).then_some((before, status)), is_news, again: Some(again) }
    }

    /// Returns the results of the class's selectors; looks them up if the cached ones are expired or of another
    /// generation.
    async fn found(&self, live: &LiveClass, class: &Ec2NodeClass) -> (Found, Timestamp) {
        let known = {
            let classes = self.classes();
            let known = classes.get(&live.reference.name).filter(|known| known.is_of(live));
            known.map(|known| (known.found.clone(), known.found_at))
        };
        match known {
            Some((found, at)) if now() < after(at, self.options().look_up_every) => (found, at),
            _ => {
                let asked_at = now();
                let cloud = self.cloud();
                let found = if self.options().only_reads {
                    cloud.look_up_only(class).await
                } else {
                    cloud.look_up(class).await
                };
                (found, asked_at)
            }
        }
    }

    /// Registers the class with this status for subsequent launches.
    fn learn(
        &self,
        live: &LiveClass,
        class: &Ec2NodeClass,
        status: &Ec2NodeClassStatus,
        found: &Found,
        found_at: Timestamp,
    ) {
        let name = &live.reference.name;
        let mut classes = self.classes();
        let known = classes.get(name);
        if known.is_some_and(|known| known.is_of(live) && known.found_at == found_at) {
            return;
        }
        let class = Ec2NodeClass { status: Some(status.clone()), ..class.clone() };
        self.cloud().learn_class(class, found.group());
        let edition = known.map_or(0, |known| known.edition + 1);
        let trial = known.and_then(|known| known.trial.clone());
        let uid = live.meta.uid.clone().unwrap_or_default();
        let (generation, found, status) = (live.meta.generation, found.clone(), status.clone());
        let known = Known { uid, generation, found, found_at, trial, status, edition };
        classes.insert(name.clone(), known);
    }

    /// Runs a trial launch, which creates a launch template, unless the cached one has the same inputs and has not
    /// expired. A class that is taken over is not tried out at once if Karpenter, or another replica, has done so.
    async fn try_out(&self, class: &Ec2NodeClass, status: &Ec2NodeClassStatus) -> Tried {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let with = tried_with(class, status);
        let known = self.classes().get(name).and_then(|known| known.trial.clone());
        if let Some(tried) = &known
            && tried.with == with
            && now() < tried.is_good_until()
        {
            return tried.clone();
        }
        // The status of a class that this process has not tried out is that of the controller before it.
        let came_to =
            if known.is_none() && was_tried_out(class, &with) { Ok(()) } else { self.cloud().try_out(name).await };
        let tried = Tried { with, at: now(), came_to };
        if let Some(known) = self.classes().get_mut(name) {
            known.trial = Some(tried.clone());
        }
        tried
    }

    /// Removes what was created for a class that is being deleted: its launch templates, and the instance profiles of
    /// its role.
    pub(super) async fn clear_class(&self, live: &LiveClass) -> Result<(), CloudError> {
        let name = &live.reference.name;
        self.cloud().remove_templates(name).await?;
        if !self.options().is_isolated
            && let Ok(class) = live.typed::<Ec2NodeClass>()
        {
            self.cloud().remove_profiles(&class).await?;
        }
        self.cloud().forget_class(name);
        self.classes().remove(name);
        Ok(())
    }
}

/// Returns true if only a trial can still find an error. A class with invalid user data launches nothing and needs no
/// trial.
fn is_in_order(status: &Ec2NodeClassStatus) -> bool {
    let is_true = |kind: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    is_true(VALIDATION_SUCCEEDED) && is_true(BOOTSTRAP_VALID)
}

/// Returns true if a trial with these inputs has succeeded, as the status of the class says.
fn was_tried_out(class: &Ec2NodeClass, with: &Value) -> bool {
    let Some(status) = &class.status else { return false };
    let is_it = |one: &&Condition| one.type_ == VALIDATION_SUCCEEDED;
    let told = status.conditions.iter().find(is_it);
    let is_current = |one: &Condition| one.status == "True" && one.observed_generation == class.metadata.generation;
    told.is_some_and(is_current) && tried_with(class, status) == *with
}

/// Returns the inputs of a trial. Subnets are sorted by ID: in the status they are sorted by free addresses, which
/// vary.
fn tried_with(class: &Ec2NodeClass, status: &Ec2NodeClassStatus) -> Value {
    let subnets: BTreeSet<&str> = status.subnets.iter().map(|one| one.id.as_str()).collect();
    let groups: BTreeSet<&str> = status.security_groups.iter().map(|one| one.id.as_str()).collect();
    let images: BTreeSet<&str> = status.amis.iter().map(|one| one.id.as_str()).collect();
    // As with Karpenter, an operator who fixed a policy can trigger a new trial with any annotation, but Muster's own
    // do not.
    let is_theirs = |key: &str| !OWN.iter().any(|prefix| key.starts_with(prefix));
    let annotations = class.metadata.annotations.iter().flatten().filter(|(key, _)| is_theirs(key));
    json!({
        "spec": class.spec,
        "annotations": annotations.collect::<BTreeMap<_, _>>(),
        "subnets": subnets, "groups": groups, "images": images, "profile": status.instance_profile,
    })
}
