//! A launch as Karpenter makes it, by the SDK.

use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_ec2::types::{
    DefaultTargetCapacityType, FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest,
    FleetLaunchTemplateSpecificationRequest, FleetType, InstanceType, LaunchTemplateHttpTokensState,
    LaunchTemplateIamInstanceProfileSpecificationRequest, LaunchTemplateInstanceMetadataOptionsRequest,
    RequestLaunchTemplateData, ResourceType, Tag, TagSpecification, TargetCapacitySpecificationRequest,
};
use aws_sdk_ec2::{Client, Config};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Node as KubeNode;
use muster_tests::ec2::{Ec2, REGION};

/// Where the launches of one test come from.
pub(crate) struct Launches {
    pub(crate) client: Client,
    subnet: String,
}

/// The template of all launches.
const TEMPLATE: &str = "nodes";

impl Launches {
    /// Makes a launch template with this user data.
    pub(crate) async fn prepare(ec2: &Ec2, user_data: &[u8]) -> Self {
        let controller = ec2.credentials("controller");
        let keys = Credentials::new(
            &controller.access_key_id,
            &controller.secret_access_key,
            controller.session_token.clone(),
            None,
            "muster-tests",
        );
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(ec2.endpoint())
            .credentials_provider(keys)
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        let client = Client::from_conf(config.build());
        let path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
        let image = ec2.aws(&controller, &["ssm", "get-parameter", "--name", path]).await.unwrap();
        let profile = ["iam", "create-instance-profile", "--instance-profile-name", "muster-node"];
        ec2.aws(&controller, &profile).await.unwrap();
        let profile = LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name("muster-node").build();
        let metadata = LaunchTemplateInstanceMetadataOptionsRequest::builder()
            .http_tokens(LaunchTemplateHttpTokensState::Required)
            .http_put_response_hop_limit(1)
            .build();
        let data = RequestLaunchTemplateData::builder()
            .image_id(image["Parameter"]["Value"].as_str().unwrap())
            .user_data(STANDARD.encode(user_data))
            .iam_instance_profile(profile)
            .metadata_options(metadata)
            .build();
        client.create_launch_template().launch_template_name(TEMPLATE).launch_template_data(data).send().await.unwrap();
        let subnets = client.describe_subnets().send().await.unwrap();
        let subnet = subnets.subnets()[0].subnet_id().unwrap().to_owned();
        Self { client, subnet }
    }

    /// An `instant` fleet of one `m5.xlarge`. Gives the instance's ID.
    pub(crate) async fn one(&self, becomes: &str) -> String {
        let template = FleetLaunchTemplateSpecificationRequest::builder()
            .launch_template_name(TEMPLATE)
            .version("$Latest")
            .build();
        let pool = FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::M5Xlarge)
            .subnet_id(&self.subnet)
            .build();
        let configs =
            FleetLaunchTemplateConfigRequest::builder().launch_template_specification(template).overrides(pool).build();
        let target = TargetCapacitySpecificationRequest::builder()
            .total_target_capacity(1)
            .default_target_capacity_type(DefaultTargetCapacityType::OnDemand)
            .build();
        let tag = Tag::builder().key("becomes").value(becomes).build();
        let tags = TagSpecification::builder().resource_type(ResourceType::Instance).tags(tag).build();
        let made = self
            .client
            .create_fleet()
            .r#type(FleetType::Instant)
            .launch_template_configs(configs)
            .target_capacity_specification(target)
            .tag_specifications(tags)
            .send();
        let made = made.await.unwrap();
        assert!(made.errors().is_empty(), "{:?}", made.errors());
        made.instances()[0].instance_ids()[0].clone()
    }

    /// Terminates an instance.
    pub(crate) async fn terminate(&self, id: &str) {
        self.client.terminate_instances().instance_ids(id).send().await.unwrap();
    }

    /// Deletes the template.
    pub(crate) async fn clean_up(&self) {
        self.client.delete_launch_template().launch_template_name(TEMPLATE).send().await.unwrap();
    }
}

/// Whether the Node is of this instance.
pub(crate) fn is_of(node: &KubeNode, id: &str) -> bool {
    let provider = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    provider.is_some_and(|provider| provider.ends_with(id))
}
