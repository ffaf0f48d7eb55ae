//! Objects that Karpenter has made in AWS.

use aws_sdk_ec2::types::{
    CapacityReservationInstancePlatform, CapacityReservationPreference, CapacityReservationTarget,
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetType, InstanceMatchCriteria, LaunchTemplateBlockDeviceMappingRequest,
    LaunchTemplateCapacityReservationSpecificationRequest, LaunchTemplateEbsBlockDeviceRequest,
    LaunchTemplateHttpTokensState, LaunchTemplateIamInstanceProfileSpecificationRequest,
    LaunchTemplateInstanceMetadataOptionsRequest, LaunchTemplateInstanceNetworkInterfaceSpecificationRequest,
    LaunchTemplateTagSpecificationRequest, RequestLaunchTemplateData, ResourceType, Tag, TagSpecification,
    TargetCapacitySpecificationRequest, VolumeType,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_tests::ec2::Instance;
use serde_json::{Value, json};

use super::super::ground::{CLUSTER, Ground};
use super::{Group, Installation, KARPENTER};

/// The instance profile: a part of the name is random.
pub(crate) const PROFILE: &str = "shop_14738429934871946518";
/// The image of a variant: parameter of the alias, and what the types that it is for have.
const VARIANTS: [(&str, &str, [Option<&str>; 2]); 5] = [
    ("x86_64/standard", "amd64", [Some("DoesNotExist"), Some("DoesNotExist")]),
    ("x86_64/nvidia", "amd64", [None, Some("Exists")]),
    ("x86_64/neuron", "amd64", [Some("Exists"), None]),
    ("arm64/standard", "arm64", [Some("DoesNotExist"), Some("DoesNotExist")]),
    ("arm64/nvidia", "arm64", [None, Some("Exists")]),
];

/// The images of AL2023 as the status of a class has them.
pub(super) struct Images {
    pub(super) status: Vec<Value>,
    /// That of m5.large and m5.xlarge.
    pub(super) standard: String,
}

impl Images {
    pub(super) async fn published(ground: &Ground) -> Self {
        let ssm = aws_sdk_ssm::Client::new(&ground.ec2.sdk_config(KARPENTER));
        let mut own = Self { status: Vec::new(), standard: String::new() };
        // Karpenter takes the images of the API server's version.
        let version = ground.kube().apiserver_version().await.unwrap();
        let of = format!("{}.{}", version.major, version.minor);
        for (variant, arch, [accelerators, gpus]) in VARIANTS {
            let name = format!("/aws/service/eks/optimized-ami/{of}/amazon-linux-2023/{variant}/recommended/image_id");
            let answer = ssm.get_parameter().name(name).send().await.unwrap();
            let id = answer.parameter().unwrap().value().unwrap().to_owned();
            let found = ground.client.describe_images().image_ids(&id).send().await.unwrap();
            let mut requirements = vec![json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]})];
            for (key, operator) in [("instance-accelerator-count", accelerators), ("instance-gpu-count", gpus)] {
                let key = format!("karpenter.k8s.aws/{key}");
                requirements.extend(operator.map(|operator| json!({"key": key, "operator": operator})));
            }
            own.status.push(json!({
                "id": id, "name": found.images()[0].name().unwrap(), "requirements": requirements,
            }));
            if variant == "x86_64/standard" {
                own.standard = id;
            }
        }
        own
    }
}

/// A capacity reservation of four, all of which is used.
pub(super) async fn reserve(ground: &Ground) -> String {
    let create = ground.client.create_capacity_reservation().instance_type("m5.large");
    let create = create.instance_platform(CapacityReservationInstancePlatform::LinuxUnix);
    let create = create.availability_zone("us-east-1a").instance_count(4);
    let made = create.instance_match_criteria(InstanceMatchCriteria::Targeted).send().await.unwrap();
    made.capacity_reservation().unwrap().capacity_reservation_id().unwrap().to_owned()
}

pub(super) async fn default_group(ground: &Ground) -> String {
    let named = aws_sdk_ec2::types::Filter::builder().name("group-name").values("default").build();
    let found = ground.client.describe_security_groups().filters(named).send().await.unwrap();
    found.security_groups()[0].group_id().unwrap().to_owned()
}

pub(super) async fn create_profile(ground: &Ground, class_uid: &str) {
    let iam = aws_sdk_iam::Client::new(&ground.ec2.sdk_config(KARPENTER));
    let tag = |key: &str, value: &str| aws_sdk_iam::types::Tag::builder().key(key).value(value).build().unwrap();
    let create = iam.create_instance_profile().instance_profile_name(PROFILE);
    let create = create.path(format!("/karpenter/us-east-1/{CLUSTER}/{class_uid}/"));
    let tags = [
        tag(&format!("kubernetes.io/cluster/{CLUSTER}"), "owned"),
        tag("eks:eks-cluster-name", CLUSTER),
        tag("karpenter.k8s.aws/ec2nodeclass", "default"),
        tag("topology.kubernetes.io/region", "us-east-1"),
    ];
    create.set_tags(Some(tags.into())).send().await.unwrap();
    iam.add_role_to_instance_profile().instance_profile_name(PROFILE).role_name("nodes").send().await.unwrap();
}

fn tag_of(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// Tags of everything that is launched.
fn tags(pool: &str) -> Vec<Tag> {
    vec![
        tag_of(&format!("kubernetes.io/cluster/{CLUSTER}"), "owned"),
        tag_of("karpenter.sh/nodepool", pool),
        tag_of("eks:eks-cluster-name", CLUSTER),
        tag_of("karpenter.k8s.aws/ec2nodeclass", "default"),
    ]
}

/// Tags an instance as Karpenter does once its Node is there.
pub(super) async fn tag(ground: &Ground, instance: &str, claim: &str, node: &str) {
    let client = aws_sdk_ec2::Client::new(&ground.ec2.sdk_config(KARPENTER));
    let tags = [tag_of("Name", node), tag_of("karpenter.sh/nodeclaim", claim)];
    client.create_tags().resources(instance).set_tags(Some(tags.into())).send().await.unwrap();
}

/// Configuration for nodeadm, as Karpenter writes it.
fn user_data(pool: &str) -> String {
    let taint = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
    let text = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
         Content-Type: application/node.eks.aws\n\n# Karpenter Generated NodeConfig\n\
         apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: {CLUSTER}\n  kubelet:\n    \
         config: {{\"maxPods\":29,\"registerWithTaints\":{taint}}}\n    flags:\n    - \
         --node-labels=\"karpenter.sh/nodepool={pool}\"\n\n--//--\n"
    );
    STANDARD.encode(text)
}

impl Installation {
    /// Launches instances of a group in a zone, with a launch template of Karpenter.
    pub(super) async fn launch(&self, ground: &Ground, group: &Group, zone: &str, count: usize) -> Vec<Instance> {
        if count == 0 {
            return Vec::new();
        }
        let client = aws_sdk_ec2::Client::new(&ground.ec2.sdk_config(KARPENTER));
        let specification = |kind| TagSpecification::builder().resource_type(kind).set_tags(Some(tags(group.pool)));
        let name = template_name(group, zone);
        let create = client.create_launch_template().launch_template_name(&name);
        let create = create.tag_specifications(specification(ResourceType::LaunchTemplate).build());
        create.launch_template_data(self.template(group)).send().await.unwrap();

        let place = FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(group.instance_type.into())
            .subnet_id(&ground.subnets[zone])
            .image_id(&self.images.standard)
            .availability_zone(zone);
        let template =
            FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(&name).version("$Latest");
        let config = FleetLaunchTemplateConfigRequest::builder()
            .launch_template_specification(template.build())
            .overrides(place.build());
        let kind =
            if group.paid == "spot" { DefaultTargetCapacityType::Spot } else { DefaultTargetCapacityType::OnDemand };
        let target = TargetCapacitySpecificationRequest::builder()
            .total_target_capacity(i32::try_from(count).unwrap())
            .default_target_capacity_type(kind);
        let fleet = client.create_fleet().r#type(FleetType::Instant).launch_template_configs(config.build());
        let fleet = fleet.target_capacity_specification(target.build());
        let kinds = [ResourceType::Instance, ResourceType::Volume, ResourceType::Fleet];
        let fleet = fleet.set_tag_specifications(Some(kinds.map(|kind| specification(kind).build()).into()));
        let made = fleet.send().await.unwrap();
        let ids: Vec<&String> = made.instances().iter().flat_map(|one| one.instance_ids()).collect();
        assert_eq!(ids.len(), count, "{:?}", made.errors());
        let running = ground.ec2.running();
        running.iter().filter(|one| ids.contains(&&one.id)).map(|one| Instance::clone(one)).collect()
    }

    fn template(&self, group: &Group) -> RequestLaunchTemplateData {
        let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(PROFILE);
        let ebs = LaunchTemplateEbsBlockDeviceRequest::builder().volume_size(20).volume_type(VolumeType::Gp3);
        let disk = LaunchTemplateBlockDeviceMappingRequest::builder()
            .device_name("/dev/xvda")
            .ebs(ebs.encrypted(true).build());
        let metadata = LaunchTemplateInstanceMetadataOptionsRequest::builder()
            .http_put_response_hop_limit(1)
            .http_tokens(LaunchTemplateHttpTokensState::Required);
        let interface = LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
            .device_index(0)
            .network_card_index(0)
            .groups(&self.security_group);
        let reservation = LaunchTemplateCapacityReservationSpecificationRequest::builder();
        let reservation = if group.paid == "reserved" {
            let target = CapacityReservationTarget::builder().capacity_reservation_id(&self.reservation);
            let reservation = reservation.capacity_reservation_target(target.build());
            reservation.capacity_reservation_preference(CapacityReservationPreference::CapacityReservationsOnly)
        } else {
            reservation.capacity_reservation_preference(CapacityReservationPreference::None)
        };
        let tagged = LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(ResourceType::NetworkInterface)
            .set_tags(Some(tags(group.pool)));
        RequestLaunchTemplateData::builder()
            .image_id(&self.images.standard)
            .user_data(user_data(group.pool))
            .iam_instance_profile(profile.build())
            .block_device_mappings(disk.build())
            .metadata_options(metadata.build())
            .network_interfaces(interface.build())
            .capacity_reservation_specification(reservation.build())
            .tag_specifications(tagged.build())
            .build()
    }
}

/// Karpenter's names have a hash of what the template contains.
fn template_name(group: &Group, zone: &str) -> String {
    let text = format!("{}/{zone}", group.pool);
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("karpenter.k8s.aws/{hash}")
}
