//! An EC2NodeClass: looked up, judged, tried out.
//!
//! ```text
//!   class ──► look up (once for each edition, then at intervals) ──► judge ─┬─ not in order ──────────────► status
//!                                                                          └─ in order ─► try out ─► judge ─► status
//! ```
//!
//! What was found is kept between two looks, so a look that a crowd of claims asks for costs no call.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use muster_api::Ec2NodeClass;
use muster_api::conditions::nodeclass::{BOOTSTRAP_VALID, VALIDATION_SUCCEEDED};
use muster_api::nodeclass::Ec2NodeClassStatus;
use muster_aws::discovery::{Found, Trial, judge};
use muster_aws::live::Intervals;
use muster_cloud::{CloudError, after};
use serde_json::{Value, json};

use super::provider::{Ec2, now};
use crate::lifecycle::whole_seconds;
use crate::run::Resolved;
use crate::state::LiveClass;

/// After a trial that came to nothing: EC2 was away, or too busy.
const RETRY: Duration = Duration::from_secs(30);

/// What our own annotations begin with.
const OWN: [&str; 2] = ["karpenter.k8s.aws/", "muster.dev/"];

/// What is known of a class.
pub(super) struct Known {
    uid: String,
    generation: Option<i64>,
    found: Found,
    found_at: Timestamp,
    trial: Option<Tried>,
    /// Counts what was learned of it.
    pub(super) edition: u64,
}

/// A launch that was tried out.
#[derive(Clone)]
struct Tried {
    /// What it was tried with.
    with: Value,
    at: Timestamp,
    came_to: Result<(), Trial>,
}

// === impl Known ===

impl Known {
    /// Whether it is of the class as it is now.
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
        let (mut found, found_at) = self.found(live, &class).await;
        let cluster = self.cluster();
        let mut status = judge(&class, &cluster, &found, whole_seconds(now()));
        self.learn(live, &class, &status, &found, found_at);
        let mut again = after(found_at, self.options().look_up_every);
        if self.options().tries_launches && is_in_order(&status) {
            let tried = self.try_out(&class, &status).await;
            again = again.min(tried.is_good_until());
            found.trial = Some(tried.came_to);
            status = judge(&class, &cluster, &found, whole_seconds(now()));
        }
        let before = class.status.clone().unwrap_or_default();
        let as_value = |status: &Ec2NodeClassStatus| serde_json::to_value(status).unwrap_or_default();
        let (before, status) = (as_value(&before), as_value(&status));
        Resolved { status: (before != status).then_some((before, status)), is_news, again: Some(again) }
    }

    /// What the selectors of the class have found, asked again if that is old or of another edition.
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
                (self.cloud().look_up(class).await, asked_at)
            }
        }
    }

    /// From here on launches know the class with this status.
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
        self.cloud().learn_class(class, found.group(), &found.free_reservations());
        let edition = known.map_or(0, |known| known.edition + 1);
        let trial = known.and_then(|known| known.trial.clone());
        let uid = live.meta.uid.clone().unwrap_or_default();
        let known = Known { uid, generation: live.meta.generation, found: found.clone(), found_at, trial, edition };
        classes.insert(name.clone(), known);
    }

    /// Tries a launch out, unless it was tried with the same a while ago.
    async fn try_out(&self, class: &Ec2NodeClass, status: &Ec2NodeClassStatus) -> Tried {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let with = tried_with(class, status);
        let known = self.classes().get(name).and_then(|known| known.trial.clone());
        if let Some(tried) = known.filter(|tried| tried.with == with && now() < tried.is_good_until()) {
            return tried;
        }
        let tried = Tried { with, at: now(), came_to: self.cloud().try_out(name).await };
        if let Some(known) = self.classes().get_mut(name) {
            known.trial = Some(tried.clone());
        }
        tried
    }

    /// Removes what was made for a class that goes: its launch templates, and the instance profiles of its role.
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

/// Whether nothing stands against a launch but what only a trial shows. With user data that makes no node nothing is
/// launched, so there is nothing to try out.
fn is_in_order(status: &Ec2NodeClassStatus) -> bool {
    let is_true = |kind: &str| status.conditions.iter().any(|one| one.type_ == kind && one.status == "True");
    is_true(VALIDATION_SUCCEEDED) && is_true(BOOTSTRAP_VALID)
}

/// What a trial depends on. Subnets stand in the order of their free addresses, which changes all the time.
fn tried_with(class: &Ec2NodeClass, status: &Ec2NodeClassStatus) -> Value {
    let subnets: BTreeSet<&str> = status.subnets.iter().map(|one| one.id.as_str()).collect();
    let groups: BTreeSet<&str> = status.security_groups.iter().map(|one| one.id.as_str()).collect();
    let images: BTreeSet<&str> = status.amis.iter().map(|one| one.id.as_str()).collect();
    // Whoever has mended a policy has it tried again at once by any annotation, as with Karpenter; but not by ours.
    let is_theirs = |key: &str| !OWN.iter().any(|prefix| key.starts_with(prefix));
    let annotations = class.metadata.annotations.iter().flatten().filter(|(key, _)| is_theirs(key));
    json!({
        "spec": class.spec,
        "annotations": annotations.collect::<BTreeMap<_, _>>(),
        "subnets": subnets, "groups": groups, "images": images, "profile": status.instance_profile,
    })
}
