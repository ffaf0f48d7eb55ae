//! Two claims `x` and `y`, what is to take their place, and who lives there.

use crate::node::{Node, NodeSpec};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use muster_api::{NodeClaim, NodePool, annotations, labels, taints};
use muster_scheduling::disrupt::{Cause, Method};

use super::super::{Candidate, Leaver, Mark, ObservedCommand, Order, Replacement, Timing, is_marked, mark_of};
use crate::lifecycle::pause::Pause;
use crate::lifecycle::tests::fixture::{Fixture as Claim, at};
use crate::lifecycle::{Resident, Status, judged, set_condition};
use crate::step::{Step, Write};

pub(super) struct Going {
    pub(super) claim: NodeClaim,
    pub(super) node: Node,
    pub(super) promised_to: Option<&'static str>,
}

pub(super) struct Coming {
    pub(super) claim: NodeClaim,
    pub(super) residents: Vec<Resident>,
}

pub(super) struct Fixture {
    pub(super) claims: Vec<Going>,
    pub(super) replacement: Option<Coming>,
    pub(super) pool: NodePool,
    pub(super) residents: Vec<Resident>,
    pub(super) pause: Pause,
    pub(super) launch_pool: String,
}

/// An initialized claim.
pub(super) fn claim(name: &str) -> NodeClaim {
    let mut fixture = Claim::new();
    fixture.initialized();
    let mut claim = fixture.claim;
    claim.metadata.name = Some(name.to_owned());
    claim.metadata.uid = Some(format!("uid-{name}"));
    claim.metadata.annotations = None;
    // `Ready` follows from the others, and is left out.
    claim.status.as_mut().unwrap().conditions.retain(|one| one.type_ != "Ready");
    claim
}

fn node(name: &str) -> Node {
    Node {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(NodeSpec::default()),
        status: None,
    }
}

fn going(name: &str) -> Going {
    Going { claim: claim(name), node: node(&format!("node-{name}")), promised_to: None }
}

impl Fixture {
    /// Nothing is decided yet; `node-1`'s residents live on the node of `x`.
    pub(super) fn new() -> Self {
        Self {
            claims: vec![going("x"), going("y")],
            replacement: None,
            pool: NodePool::default(),
            residents: Vec::new(),
            pause: Pause::NOTHING,
            launch_pool: "general".to_owned(),
        }
    }

    /// Since second 1000 both are to go for `x-new`, which is being launched.
    pub(super) fn waiting() -> Self {
        Self::new().marked()
    }

    /// The same with a third claim, `z`.
    pub(super) fn three() -> Self {
        let mut fixture = Self::new();
        fixture.claims.push(going("z"));
        fixture.marked()
    }

    fn marked(mut self) -> Self {
        let candidates = self.claims.len();
        for going in &mut self.claims {
            let mark = Mark {
                command: "command".to_owned(),
                cause: Cause::Underutilized,
                method: Method::MultiNode.name().to_owned(),
                since: at(1000),
                candidates,
                pods: 0,
                price: 0.2,
                cost: 0.1,
                replacements: vec!["x-new".to_owned()],
                drain_seconds: None,
            };
            let all = going.claim.metadata.annotations.get_or_insert_default();
            all.insert(annotations::DISRUPTION.to_owned(), mark.write());
            let taint = Taint { time_added: Some(Time(at(1000))), ..taints::disrupted() };
            going.node.spec.as_mut().unwrap().taints = Some(vec![taint]);
            let told = judged("DisruptionReason", Status::True, "Underutilized", "Underutilized", Some(1), at(1000));
            set_condition(&mut going.claim.status.as_mut().unwrap().conditions, told);
        }
        let mut new = Claim::new();
        new.launched();
        new.claim.metadata.name = Some("x-new".to_owned());
        new.annotate(annotations::REPLACES, "command");
        self.replacement = Some(Coming { claim: new.claim, residents: Vec::new() });
        self
    }

    /// The first `count` writes of the step have been executed.
    pub(super) fn written(&mut self, step: &Step, count: usize) {
        for write in step.writes.iter().take(count) {
            match write {
                Write::ClaimMeta { name, change } => change.apply(&mut self.named(name).claim.metadata),
                Write::ClaimStatus { name, status } => self.named(name).claim.status = Some((**status).clone()),
                Write::Node { name, change } => {
                    let node = &mut self.named(name.trim_start_matches("node-")).node;
                    change.meta.apply(&mut node.metadata);
                    node.spec.as_mut().unwrap().taints.clone_from(&change.taints);
                }
                _ => {}
            }
        }
        self.claims.retain(|one| is_marked(&one.claim));
    }

    fn named(&mut self, name: &str) -> &mut Going {
        self.claims.iter_mut().find(|one| one.claim.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// The sizes of the command in its marks.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.claims.iter().filter_map(|one| mark_of(&one.claim)).map(|mark| mark.candidates).collect()
    }

    /// The write of another size to the mark of a claim, in words.
    pub(super) fn recounted(&self, number: usize, candidates: usize) -> String {
        let claim = &self.claims[number].claim;
        let mark = Mark { candidates, ..mark_of(claim).unwrap() };
        let name = claim.metadata.name.as_deref().unwrap();
        format!("claim {name}: {}={}", annotations::DISRUPTION, mark.write())
    }

    pub(super) fn initialize(&mut self) {
        let status = self.replacement.as_mut().unwrap().claim.status.as_mut().unwrap();
        set_condition(
            &mut status.conditions,
            judged("Initialized", Status::True, "Initialized", "", Some(1), at(1039)),
        );
    }

    pub(super) fn untaint(&mut self, number: usize) {
        self.claims[number].node.spec.as_mut().unwrap().taints = None;
    }

    /// An annotation of the node of a claim.
    pub(super) fn annotate(&mut self, number: usize, key: &str, value: &str) {
        let meta = &mut self.claims[number].node.metadata;
        meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn annotate_claim(&mut self, number: usize, key: &str, value: &str) {
        let meta = &mut self.claims[number].claim.metadata;
        meta.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn annotate_pool(&mut self, key: &str, value: &str) {
        self.pool.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn judge(&mut self, number: usize, kind: &str, second: i64) {
        let status = self.claims[number].claim.status.as_mut().unwrap();
        set_condition(&mut status.conditions, judged(kind, Status::True, kind, "", Some(1), at(second)));
    }

    /// The cloud has given notice.
    pub(super) fn interrupt(&mut self, number: usize, reason: &str, second: i64) {
        let status = self.claims[number].claim.status.as_mut().unwrap();
        let condition = judged("Interrupted", Status::True, reason, "", Some(1), at(second));
        set_condition(&mut status.conditions, condition);
    }

    pub(super) fn remark(&mut self, number: usize, change: impl FnOnce(&mut Mark)) {
        let mut mark = mark_of(&self.claims[number].claim).unwrap();
        change(&mut mark);
        self.annotate_claim(number, annotations::DISRUPTION, &mark.write());
    }

    /// The claim goes for another cause.
    pub(super) fn recause(&mut self, number: usize, cause: Cause) {
        self.remark(number, |mark| mark.cause = cause);
        let status = self.claims[number].claim.status.as_mut().unwrap();
        let told = judged("DisruptionReason", Status::True, cause.name(), cause.name(), Some(1), at(1000));
        set_condition(&mut status.conditions, told);
    }

    pub(super) fn redrain(&mut self, number: usize, seconds: u64) {
        self.remark(number, |mark| mark.drain_seconds = Some(seconds));
    }

    pub(super) fn candidate(&self, number: usize) -> Candidate<'_> {
        let going = &self.claims[number];
        let name = going.node.metadata.name.as_deref().unwrap();
        let is_its = |pod: &Resident| pod.node == name || name == "node-x" && pod.node == "node-1";
        let residents: Vec<Resident> = self.residents.iter().filter(|pod| is_its(pod)).cloned().collect();
        Candidate {
            claim: &going.claim,
            pool: Some(&self.pool),
            node: Some(&going.node),
            residents: Vec::leak(residents),
            promised_to: going.promised_to,
        }
    }

    pub(super) fn look<T>(&self, see: impl FnOnce(&ObservedCommand<'_>) -> T) -> T {
        let replacement =
            |one: &'_ Coming| -> (NodeClaim, Vec<Resident>) { (one.claim.clone(), one.residents.clone()) };
        let replacements: Vec<(NodeClaim, Vec<Resident>)> = self.replacement.iter().map(replacement).collect();
        let observed = ObservedCommand {
            candidates: (0..self.claims.len()).map(|number| self.candidate(number)).collect(),
            replacements: replacements
                .iter()
                .map(|(claim, residents)| Replacement { claim, pool: Some(&self.pool), residents, promised_to: None })
                .collect(),
            pause: self.pause,
            timing: Timing::default(),
        };
        see(&observed)
    }

    pub(super) fn order<T>(&self, cause: Cause, launches: usize, see: impl FnOnce(&Order<'_>) -> T) -> T {
        let mut launch = NodeClaim::new("unnamed", muster_api::NodeClaimSpec::default());
        launch.metadata.labels = Some([(labels::NODEPOOL.to_owned(), self.launch_pool.clone())].into());
        let leaver = |number: usize| Leaver { candidate: self.candidate(number), price: 0.2, drain: None };
        let order = Order {
            cause,
            method: Method::MultiNode,
            leavers: (0..self.claims.len()).map(leaver).collect(),
            launches: vec![launch; launches],
            cost: 0.1 * launches as f64,
            pause: self.pause,
        };
        see(&order)
    }
}
