//! Reasons why a node has drifted: each alone, their order, and what is not known.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_aws::{DEFAULT_REGION, instance_types};
use muster_scheduling::disrupt::ManagedNode;
use muster_scheduling::model::ClosedZone;

use super::*;
use crate::{ObservedCloud, ObservedInstance};

const ID: &str = "aws:///us-east-1a/i-1";
/// Two hours after the launch.
const NOW: &str = "2026-11-21T12:00:00Z";

const ARM: &str = "{id: ami-arm, name: arm, requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}";
const AMD: &str = "{id: ami-amd, name: amd, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, \
    {key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist}]}";
const GPU: &str = "{id: ami-gpu, name: gpu, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, \
    {key: karpenter.k8s.aws/instance-gpu-count, operator: Exists}]}";

/// A node of an m5.large, as everything selects it; each test changes something.
struct Case {
    /// `status` of the class without its conditions.
    status: String,
    ready: &'static str,
    /// Fields of the metadata and of the spec of the class.
    class: (&'static str, &'static str),
    /// `status.imageID` of the claim.
    image: &'static str,
    instance_type: &'static str,
    /// Labels and annotations of the claim.
    labels: &'static str,
    annotations: &'static str,
    /// Reason of the condition Drifted of the claim.
    said: Option<&'static str>,
    instance: Option<ObservedInstance>,
    has_all_types: bool,
    now: Option<&'static str>,
    /// Annotations of the pool.
    pool: &'static str,
    closed_zones: Vec<ClosedZone>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            status: status(&[AMD, GPU, ARM], "[{id: subnet-1, zone: us-east-1a}]", "[{id: sg-1}, {id: sg-2}]", "[]"),
            ready: "True",
            class: ("", ""),
            image: "ami-amd",
            instance_type: "m5.large",
            labels: "karpenter.sh/capacity-type: on-demand",
            annotations: "",
            said: None,
            instance: Some(instance()),
            has_all_types: true,
            now: Some(NOW),
            pool: "",
            closed_zones: Vec::new(),
        }
    }
}

fn status(images: &[&str], subnets: &str, groups: &str, reservations: &str) -> String {
    let images = images.join(", ");
    format!("amis: [{images}], subnets: {subnets}, securityGroups: {groups}, capacityReservations: {reservations}, ")
}

fn instance() -> ObservedInstance {
    ObservedInstance {
        image: Some("ami-amd".into()),
        subnet: Some("subnet-1".into()),
        security_groups: vec!["sg-1".into(), "sg-2".into()],
        ..ObservedInstance::default()
    }
}

impl Case {
    fn text(&self) -> String {
        let Self { status, ready, class: (meta, spec), image, instance_type, labels, annotations, pool, .. } = self;
        let drifted = self.said.map(|reason| {
            format!("{{type: Drifted, status: 'True', reason: {reason}, lastTransitionTime: '2026-11-21T11:00:00Z'}}")
        });
        let drifted = drifted.unwrap_or_default();
        let launched = "{type: Launched, status: 'True', lastTransitionTime: '2026-11-21T10:00:00Z'}";
        let ready = match *ready {
            "" => String::new(),
            ready => format!(
                "{{type: Ready, status: '{ready}', reason: Ready, message: '', lastTransitionTime: '2026-11-21T09:00:00Z'}}"
            ),
        };
        [
            format!("{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: g, annotations: {{{pool}}}}}, spec: {{template: {{spec: {{requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [on-demand, reserved]}}], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}}}}}}}}}"),
            format!("{{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {{name: d, {meta}}}, spec: {{role: r, amiSelectorTerms: [{{alias: al2023@latest}}], subnetSelectorTerms: [{{tags: {{a: b}}}}], securityGroupSelectorTerms: [{{tags: {{a: b}}}}], {spec}}}, status: {{{status}conditions: [{ready}]}}}}"),
            format!("{{apiVersion: v1, kind: Node, metadata: {{name: n, labels: {{karpenter.sh/nodepool: g}}}}, spec: {{providerID: '{ID}'}}, status: {{capacity: {{cpu: 2}}}}}}"),
            format!("{{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {{name: k, labels: {{karpenter.sh/nodepool: g, kubernetes.io/arch: amd64, node.kubernetes.io/instance-type: {instance_type}, {labels}}}, annotations: {{{annotations}}}}}, spec: {{requirements: [], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}}}, status: {{providerID: '{ID}', imageID: {image}, conditions: [{launched}, {drifted}]}}}}"),
        ]
        .join("\n---\n")
    }

    /// Returns the reason and the difference.
    fn drift(&self) -> Option<(String, String)> {
        let drift = self.managed_node().drifted?;
        assert_eq!(drift.since.is_some(), self.said == Some(&*drift.reason), "it has drifted since it was said");
        Some((drift.reason.to_string(), drift.detail.to_string()))
    }

    fn managed_node(&self) -> ManagedNode {
        let mut manifests = read_text("input", &self.text()).unwrap();
        let instances = self.instance.iter().map(|instance| (Arc::from(ID), instance.clone()));
        manifests.observed = ObservedCloud {
            at: self.now.map(|now| now.parse().unwrap()),
            instances: Arc::new(instances.collect::<BTreeMap<_, _>>()),
            has_all_types: self.has_all_types,
            closed_zones: self.closed_zones.clone(),
        };
        let types = |class: Option<&NodeClass>| {
            let mut settings = class.unwrap().settings.clone();
            settings.placement_group = self.class.1.contains("name: web").then(|| muster_aws::PlacementGroup {
                id: "pg-2".into(),
                strategy: muster_aws::PlacementStrategy::Cluster,
                partitions: 0,
            });
            Catalogue::from(instance_types(DEFAULT_REGION, &settings).unwrap())
        };
        let snapshot = assemble(&manifests, &Settings::default(), &types).unwrap();
        snapshot.managed_nodes.nodes[0].clone().unwrap()
    }

    fn is(&self, reason: &str, detail: &str) {
        assert_eq!(self.drift(), Some((reason.to_owned(), detail.to_owned())));
    }
}

#[test]
fn a_node_as_it_should_be_has_not_drifted_whatever_was_said() {
    for said in [
        None,
        Some("RequirementsDrifted"),
        Some("InstanceTypeNotFound"),
        Some("AMIDrift"),
        Some("SecurityGroupDrift"),
        Some("SubnetDrift"),
        Some("CapacityReservationDrift"),
        Some("PlacementGroupDrift"),
    ] {
        assert_eq!(Case { said, ..Case::default() }.drift(), None, "{said:?}");
    }
    let other = Case { said: Some("SomethingElse"), ..Case::default() };
    other.is("SomethingElse", "");
}

#[test]
fn the_image_must_be_one_that_the_class_selects_for_the_type() {
    let published =
        "{id: ami-new, name: new, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}";
    let of = |images: &[&str]| status(images, "[{id: subnet-1, zone: us-east-1a}]", "[{id: sg-1}, {id: sg-2}]", "[]");
    let published = Case { status: of(&[published, ARM]), ..Case::default() };
    published.is("AMIDrift", "the image is `ami-amd`, and EC2NodeClass `d` selects `ami-new` for `m5.large`");
    let since = Case { said: Some("AMIDrift"), status: published.status.clone(), ..Case::default() };
    since.is("AMIDrift", "the image is `ami-amd`, and EC2NodeClass `d` selects `ami-new` for `m5.large`");
    // Selected, but for other types.
    let of_gpu =
        Case { instance: Some(ObservedInstance { image: Some("ami-gpu".into()), ..instance() }), ..Case::default() };
    of_gpu.is("AMIDrift", "the image is `ami-gpu`, and EC2NodeClass `d` selects `ami-amd` for `m5.large`");
    // A type that no image suits is not in the catalogue of a controller, and exists all the same.
    let none = Case { status: of(&[ARM]), instance_type: "m99.large", ..Case::default() };
    none.is("AMIDrift", "the image is `ami-amd`, and EC2NodeClass `d` selects no image for `m99.large`");
    // Two images for one type, as in a class with two selector terms.
    let second = "{id: ami-amd, name: amd, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}";
    let first =
        "{id: ami-first, name: first, requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}";
    assert_eq!(Case { status: of(&[first, second]), ..Case::default() }.drift(), None);
    // From files, the claim says it.
    let claimed = Case { image: "ami-old", instance: None, has_all_types: false, now: None, ..Case::default() };
    claimed.is("AMIDrift", "the image is `ami-old`, and EC2NodeClass `d` selects `ami-amd` for `m5.large`");
    let unknown = Case { image: "''", instance: None, ..Case::default() };
    assert_eq!(unknown.drift(), None);
    assert_eq!(
        Case { status: of(&[]), ..Case::default() }.drift(),
        None,
        "a class that has found no image says nothing"
    );
}

#[test]
fn security_groups_and_subnet_must_be_those_that_the_class_selects() {
    let of = |subnets: &str, groups: &str| Case { status: status(&[AMD], subnets, groups, "[]"), ..Case::default() };
    let (subnet, groups) = ("[{id: subnet-1, zone: us-east-1a}]", "[{id: sg-1}, {id: sg-2}]");
    let fewer = of(subnet, "[{id: sg-1}]");
    fewer.is("SecurityGroupDrift", "the security groups are `sg-1`, `sg-2`, and EC2NodeClass `d` selects `sg-1`");
    let many = "[{id: sg-1}, {id: sg-2}, {id: sg-3}, {id: sg-4}, {id: sg-5}, {id: sg-6}, {id: sg-7}]";
    let all = "`sg-1`, `sg-2`, `sg-3`, `sg-4`, `sg-5` and 2 more";
    let detail = format!("the security groups are `sg-1`, `sg-2`, and EC2NodeClass `d` selects {all}");
    of(subnet, many).is("SecurityGroupDrift", &detail);
    assert_eq!(of(subnet, "[{id: sg-2}, {id: sg-1}]").drift(), None, "in any order");
    let other = of("[{id: subnet-2, zone: us-east-1a}]", groups);
    other.is("SubnetDrift", "EC2NodeClass `d` no longer selects the subnet `subnet-1`");
    of("[{id: subnet-2, zone: us-east-1a}]", "[{id: sg-1}]")
        .is("SecurityGroupDrift", "the security groups are `sg-1`, `sg-2`, and EC2NodeClass `d` selects `sg-1`");
    assert_eq!(of("[]", "[]").drift(), None, "a class that has found nothing says nothing");
    let unlisted =
        Case { instance: None, said: Some("SubnetDrift"), ..of("[{id: subnet-2, zone: us-east-1a}]", groups) };
    unlisted.is("SubnetDrift", "");
    assert_eq!(Case { said: None, ..unlisted }.drift(), None, "the instance is not known");
}

#[test]
fn the_reservation_must_be_one_that_the_class_selects() {
    let (subnet, groups) = ("[{id: subnet-1, zone: us-east-1a}]", "[{id: sg-1}, {id: sg-2}]");
    let reservation = "[{id: cr-1, instanceType: m5.large, availabilityZone: us-east-1a, instanceMatchCriteria: targeted, ownerID: '123456789012', state: active}]";
    let labels = "karpenter.sh/capacity-type: reserved, karpenter.k8s.aws/capacity-reservation-id: cr-1";
    let of = |reservations: &str, instance: Option<ObservedInstance>| Case {
        status: status(&[AMD], subnet, groups, reservations),
        labels,
        instance,
        ..Case::default()
    };
    let reserved = ObservedInstance { reservation: Some("cr-1".into()), ..instance() };
    let detail = "EC2NodeClass `d` no longer selects the capacity reservation `cr-1`";
    for instance in [Some(reserved.clone()), Some(instance()), None] {
        assert_eq!(of(reservation, instance.clone()).drift(), None, "{instance:?}");
        of("[]", instance).is("CapacityReservationDrift", detail);
    }
    let bought = Case { labels: "", ..of("[]", Some(instance())) };
    assert_eq!(bought.drift(), None, "on demand");
}

#[test]
fn the_placement_group_must_be_the_one_that_the_class_selects() {
    let of = |spec: &'static str, labels: &'static str, group: Option<&str>| Case {
        class: ("", spec),
        labels,
        instance: Some(ObservedInstance { placement_group: group.map(Into::into), ..instance() }),
        ..Case::default()
    };
    let label = "karpenter.k8s.aws/placement-group-id: pg-1";
    for case in [of("", label, None), of("", "", Some("pg-1"))] {
        case.is("PlacementGroupDrift", "the placement group is `pg-1`, and EC2NodeClass `d` selects none");
    }
    for selector in ["placementGroupSelector: {id: pg-2}", "placementGroupSelector: {name: web}"] {
        let moved = of(selector, label, Some("pg-1"));
        moved.is("PlacementGroupDrift", "the placement group is `pg-1`, and EC2NodeClass `d` selects `pg-2`");
        let outside = of(selector, "", None);
        outside.is("PlacementGroupDrift", "the placement group is none, and EC2NodeClass `d` selects `pg-2`");
        assert_eq!(of(selector, "", Some("pg-2")).drift(), None);
    }
    let unknown = of("placementGroupSelector: {name: other}", label, None);
    assert_eq!(unknown.drift(), None, "no group of that name has been found");
}

#[test]
fn a_type_that_is_gone_counts_after_an_hour() {
    let gone = || Case { instance_type: "m99.large", ..Case::default() };
    gone().is("InstanceTypeNotFound", "instance type `m99.large` is no longer offered");
    assert_eq!(Case { now: Some("2026-11-21T10:59:59Z"), ..gone() }.drift(), None);
    let unlisted = Case { has_all_types: false, ..gone() };
    assert_eq!(unlisted.drift(), None, "the embedded types lack those that came later");
    Case { said: Some("InstanceTypeNotFound"), ..unlisted }.is("InstanceTypeNotFound", "");
}

#[test]
fn a_class_that_is_not_ready_or_goes_drifts_nothing() {
    let changed = "annotations: {karpenter.k8s.aws/ec2nodeclass-hash: '8', karpenter.k8s.aws/ec2nodeclass-hash-version: muster-v1}";
    let hashed = "karpenter.k8s.aws/ec2nodeclass-hash: '7', karpenter.k8s.aws/ec2nodeclass-hash-version: muster-v1";
    let of = |ready: &'static str, meta: &'static str, said| Case {
        ready,
        class: (meta, "placementGroupSelector: {id: pg-2}"),
        annotations: hashed,
        status: status(&[GPU], "[{id: subnet-2, zone: us-east-1a}]", "[{id: sg-3}]", "[]"),
        said,
        ..Case::default()
    };
    of("True", changed, None).is("NodeClassDrift", "EC2NodeClass `d` has changed");
    of("", changed, None).is("NodeClassDrift", "EC2NodeClass `d` has changed");
    assert_eq!(of("False", changed, None).drift(), None);
    of("False", changed, Some("SubnetDrift")).is("SubnetDrift", "");
    assert_eq!(of("Unknown", "", None).drift(), None);
    assert_eq!(of("", "", None).drift(), None);
    let deleting = "deletionTimestamp: '2026-11-21T08:00:00Z'";
    assert_eq!(of("True", deleting, None).drift(), None);
    assert_eq!(of("True", deleting, Some("SubnetDrift")).drift(), None);
}

#[test]
fn the_first_reason_in_karpenters_order_counts_and_hashes_of_other_versions_say_nothing() {
    let everything = |annotations: &'static str, meta: &'static str| Case {
        instance_type: "m99.large",
        annotations,
        class: (meta, "placementGroupSelector: {id: pg-2}"),
        status: status(&[AMD], "[{id: subnet-2, zone: us-east-1a}]", "[{id: sg-3}]", "[]"),
        instance: Some(ObservedInstance { image: Some("ami-old".into()), ..instance() }),
        ..Case::default()
    };
    let reason = |case: Case| case.drift().unwrap().0;
    let pool = "karpenter.sh/nodepool-hash: '1', karpenter.sh/nodepool-hash-version: v3";
    assert_eq!(reason(everything(pool, "")), "NodePoolDrifted");
    let labels = Case { labels: "karpenter.sh/capacity-type: spot", ..everything("", "") };
    assert_eq!(reason(labels), "RequirementsDrifted");
    let class = "annotations: {karpenter.k8s.aws/ec2nodeclass-hash: '8', karpenter.k8s.aws/ec2nodeclass-hash-version: muster-v1}";
    let ours = "karpenter.k8s.aws/ec2nodeclass-hash: '7', karpenter.k8s.aws/ec2nodeclass-hash-version: muster-v1";
    let theirs = "karpenter.k8s.aws/ec2nodeclass-hash: '7', karpenter.k8s.aws/ec2nodeclass-hash-version: v6";
    assert_eq!(reason(everything(ours, class)), "InstanceTypeNotFound");
    let known = |annotations| Case { instance_type: "m5.large", ..everything(annotations, class) };
    assert_eq!(reason(known(ours)), "NodeClassDrift");
    assert_eq!(reason(known(theirs)), "AMIDrift");
    assert_eq!(reason(Case { said: Some("NodeClassDrift"), ..known(theirs) }), "NodeClassDrift", "it was said before");
    let of_amd = |case: Case| Case { instance: Some(instance()), ..case };
    assert_eq!(reason(of_amd(known(theirs))), "SecurityGroupDrift");
}

/// A node in us-east-1a, which the cloud knows as use1-az6 and traffic is shifted away from, if the pool says so.
fn shifted(pool: &'static str, labels: &'static str) -> Case {
    Case {
        pool,
        labels,
        status: status(
            &[AMD],
            "[{id: subnet-1, zone: us-east-1a, zoneID: use1-az6}]",
            "[{id: sg-1}, {id: sg-2}]",
            "[]",
        ),
        closed_zones: vec![ClosedZone { id: "use1-az6".into(), why: "is shifted away until noon".into() }],
        ..Case::default()
    }
}

const BY_ID: &str = "karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-east-1a, topology.k8s.aws/zone-id: use1-az6";
const BY_NAME: &str = "karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-east-1a";
const ELSEWHERE: &str = "karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-east-1b";

#[test]
fn a_node_leaves_a_zone_that_is_shifted_away_only_if_its_pool_asks_for_it() {
    let why = "zone `us-east-1a` (use1-az6) is shifted away until noon";
    let drain = "muster.dev/zonal-shift: drain";
    for labels in [BY_ID, BY_NAME] {
        shifted(drain, labels).is("ZonalShift", why);
        assert_eq!(shifted(drain, labels).managed_node().closed_zone, None, "it may go");
        for other in ["", "muster.dev/zonal-shift: stay"] {
            assert_eq!(shifted(other, labels).drift(), None);
            assert_eq!(shifted(other, labels).managed_node().closed_zone.as_deref(), Some(why), "it stays as it is");
        }
    }
    let elsewhere = shifted(drain, ELSEWHERE);
    assert_eq!((elsewhere.drift(), elsewhere.managed_node().closed_zone), (None, None));
}

#[test]
fn a_shift_that_is_over_is_no_drift_and_files_do_not_say_that_it_is() {
    let drain = "muster.dev/zonal-shift: drain";
    let over = Case { closed_zones: Vec::new(), said: Some("ZonalShift"), ..shifted(drain, BY_ID) };
    assert_eq!(over.drift(), None);
    Case { now: None, ..over }.is("ZonalShift", "");
}
