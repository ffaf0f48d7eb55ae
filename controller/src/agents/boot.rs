//! Duration of nodes' boot phases, by image.
//!
//! A new image that boots more slowly than the previous one costs money on each node, and shows nowhere else: a
//! NodeClaim has the times of its launch and initialization, and the agent knows what happened in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use muster_api::conditions::nodeclaim;
use muster_api::{NodeClaim, annotations};
use muster_gateway::{Phase, PhaseState};
use muster_stages::lifecycle::{Status, condition, is_true};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::said;

/// Maximum duration of a phase that is counted, and maximum time from launch to the first boot: four times the limit
/// for registration. A clock that is set during the boot shows as a longer or a negative duration.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of images with metrics; the least recently launched is dropped. Six phases with fifteen buckets for
/// each are as much as Prometheus should store.
const IMAGES: usize = 50;
/// Buckets from a quarter of a second to half an hour.
const BUCKETS: (f64, f64, u16) = (0.25, 2.0, 14);

/// Labels of the metric: phase and image.
type Labels = [(&'static str, String); 2];

/// Metrics of boots; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Boots {
    stages: Family<Labels, Histogram, fn() -> Histogram>,
    /// Images, most recently launched last. The lock is held for a few instructions.
    images: Arc<Mutex<VecDeque<String>>>,
}

/// Returns the image of a node if these conditions make its agent ready for the first time.
pub(super) fn first_boot<'c>(claim: &'c NodeClaim, conditions: &[Condition], now: Timestamp) -> Option<&'c str> {
    let is_ready =
        conditions.iter().any(|one| one.type_ == nodeclaim::AGENT_READY && one.status == Status::True.name());
    if !is_ready || is_true(claim, nodeclaim::AGENT_READY) {
        return None;
    }
    // A restarted agent reports again, with phases that took no time.
    let is_expected = claim.metadata.annotations.as_ref().and_then(|all| all.get(annotations::AGENT));
    if is_expected.is_some_and(|word| word == annotations::AGENT_EXPECTED) && is_true(claim, nodeclaim::INITIALIZED) {
        return None;
    }
    let launched = condition(claim, nodeclaim::LAUNCHED).filter(|one| one.status == Status::True.name())?;
    let is_young = now.duration_since(launched.last_transition_time.0) <= LONGEST;
    claim.status.as_ref()?.image_id.as_deref().filter(|_| is_young)
}

/// Returns the duration of each phase by the node's own clock, if plausible.
fn stages(phases: &[PhaseState]) -> impl Iterator<Item = (Phase, SignedDuration)> {
    let took = |it: &PhaseState| Some((it.phase, it.ended_at?.duration_since(it.began_at?)));
    phases.iter().filter_map(took).filter(|(_, took)| (SignedDuration::ZERO..=LONGEST).contains(took))
}

// === impl Boots ===

impl Boots {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || {
            let (first, factor, count) = BUCKETS;
            Histogram::new(exponential_buckets(first, factor, count))
        };
        let stages = Family::new_with_constructor(histogram);
        registry.register(
            "muster_node_boot_phase_seconds",
            "Duration of each stage of nodes' boots, as reported by their agents",
            stages.clone(),
        );
        Self { stages, images: Arc::default() }
    }

    /// Counts the phases of a node of this image that has joined.
    pub(super) fn note(&self, image: &str, phases: &[PhaseState]) {
        if let Some(forgotten) = self.remember(image) {
            for phase in said::PHASES {
                self.stages.remove(&labels(phase, &forgotten));
            }
        }
        for (phase, took) in stages(phases) {
            self.stages.get_or_create(&labels(phase, image)).observe(took.as_secs_f64());
        }
    }

    /// Records a launch of the image; returns the image that is dropped for it.
    fn remember(&self, image: &str) -> Option<String> {
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        images.retain(|known| known != image);
        images.push_back(image.to_owned());
        if images.len() > IMAGES { images.pop_front() } else { None }
    }
}

fn labels(phase: Phase, image: &str) -> Labels {
    [("phase", said::name(phase).to_owned()), ("image", image.to_owned())]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use muster_gateway::Progress;

    use super::super::launches::tests::claim;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn said_at(kind: &str, status: &str, second: i64) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: kind.to_owned(),
            message: String::new(),
            last_transition_time: Time(at(second)),
            observed_generation: None,
        }
    }

    fn phase(phase: Phase, began: Option<i64>, ended: Option<i64>) -> PhaseState {
        PhaseState { phase, progress: Progress::Done, began_at: began.map(at), ended_at: ended.map(at) }
    }

    #[test]
    fn a_node_boots_once() {
        let ready = said_at("AgentReady", "True", 60);
        let waits = said_at("AgentReady", "Unknown", 30);
        let launched = || said_at("Launched", "True", 10);
        let initialized = said_at("Initialized", "True", 70);
        let image = |before: Vec<Condition>, is_expected: bool, now: i64, says: &Condition| {
            let mut claim = claim();
            claim.status.as_mut().unwrap().conditions = before;
            if is_expected {
                let all = claim.metadata.annotations.get_or_insert_default();
                all.insert(annotations::AGENT.to_owned(), annotations::AGENT_EXPECTED.to_owned());
            }
            first_boot(&claim, std::slice::from_ref(says), at(now)).map(str::to_owned)
        };
        let some = Some("ami-1".to_owned());
        assert_eq!(image(vec![launched()], true, 60, &ready), some, "it says nothing else");
        assert_eq!(image(vec![launched(), waits.clone()], true, 60, &ready), some);
        assert_eq!(image(vec![launched(), waits.clone()], true, 60, &waits), None, "it still waits");
        assert_eq!(image(vec![launched(), ready.clone()], true, 90, &ready), None, "it has said so");
        let again = vec![launched(), waits.clone(), initialized];
        assert_eq!(image(again.clone(), true, 90, &ready), None, "its agent was restarted");
        assert_eq!(image(again.clone(), false, 90, &ready), some, "nobody has waited for its agent");
        assert_eq!(image(again, false, 3_611, &ready), None, "but not for so long");
        assert_eq!(image(vec![waits], true, 60, &ready), None, "nobody knows since when");
    }

    #[test]
    fn what_cannot_be_is_not_counted() {
        use Phase::{Bootstrap, Devices, Initialized, Kubelet, Preflight, Registered};
        let all = [
            phase(Preflight, Some(10), Some(12)),
            phase(Bootstrap, Some(12), Some(12)),
            phase(Kubelet, Some(12), Some(11)),
            phase(Registered, Some(12), Some(3_612)),
            phase(Devices, Some(12), Some(3_613)),
            phase(Initialized, Some(12), None),
            phase(Initialized, None, Some(12)),
        ];
        let seconds: Vec<(Phase, i64)> = stages(&all).map(|(phase, took)| (phase, took.as_secs())).collect();
        assert_eq!(seconds, [(Preflight, 2), (Bootstrap, 0), (Registered, 3600)]);
        assert_eq!(stages(&[phase(Preflight, Some(-377_705_023_201), Some(0))]).count(), 0);
    }

    #[test]
    fn images_are_told_apart_up_to_a_number() {
        let mut registry = Registry::default();
        let boots = Boots::new(&mut registry);
        let exposed = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let stage = |seconds| [phase(Phase::Kubelet, Some(0), Some(seconds))];
        for image in 0..IMAGES {
            boots.note(&format!("ami-{image}"), &stage(3));
        }
        boots.note("ami-0", &stage(5));
        let text = exposed();
        assert!(text.contains(r#"muster_node_boot_phase_seconds_sum{phase="Kubelet",image="ami-0"} 8.0"#), "{text}");
        // The least recently launched image is dropped, which is the second.
        boots.note("ami-new", &stage(1));
        let text = exposed();
        assert!(!text.contains(r#"image="ami-1""#) && text.contains(r#"image="ami-0""#), "{text}");
        assert_eq!(text.matches("muster_node_boot_phase_seconds_count{").count(), IMAGES);
    }
}
