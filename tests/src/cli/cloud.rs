//! EC2 as a person uses it: by the AWS command line.

use serde_json::{Value, json};

use crate::ec2::{Credentials, Ec2};
use crate::error::{Error, Result};
use crate::instances::Becomes;

const IMAGE: &str = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";

/// What a fleet launched from one pool.
pub(super) struct Launched {
    pub(super) instance_type: String,
    pub(super) ids: Vec<String>,
}

/// The image that SSM recommends.
pub(super) async fn image(ec2: &Ec2, who: &Credentials) -> Result<String> {
    let image = ec2.aws(who, &["ssm", "get-parameter", "--name", IMAGE]).await?;
    Ok(image["Parameter"]["Value"].as_str().ok_or_else(|| missing("image"))?.to_owned())
}

/// Makes a launch template.
pub(super) async fn make_template(ec2: &Ec2, who: &Credentials, name: &str, data: &Value) -> Result<()> {
    let data = data.to_string();
    let make = ["ec2", "create-launch-template", "--launch-template-name", name, "--launch-template-data", &data];
    ec2.aws(who, &make).await.map(drop)
}

/// Launches an `instant` fleet of `count` from a template, with `overrides` as the command line takes them.
pub(super) async fn create_fleet(
    ec2: &Ec2,
    who: &Credentials,
    template: &str,
    overrides: &str,
    count: u32,
) -> Result<Vec<Launched>> {
    let config =
        format!("LaunchTemplateSpecification={{LaunchTemplateName={template},Version=$Latest}},Overrides={overrides}");
    let target = format!("TotalTargetCapacity={count},DefaultTargetCapacityType=on-demand");
    let fleet = ["--launch-template-configs", &config, "--target-capacity-specification", &target];
    let made = ec2.aws(who, &[&["ec2", "create-fleet", "--type", "instant"][..], &fleet].concat()).await?;
    let sets = made["Instances"].as_array().ok_or_else(|| missing("instances"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let launched = |set: &Value| Launched {
        instance_type: text(&set["InstanceType"]),
        ids: set["InstanceIds"].as_array().into_iter().flatten().map(text).collect(),
    };
    Ok(sets.iter().map(launched).collect())
}

/// Ends instances.
pub(super) async fn terminate(ec2: &Ec2, who: &Credentials, id: &str) -> Result<()> {
    ec2.aws(who, &["ec2", "terminate-instances", "--instance-ids", id]).await.map(drop)
}

/// The proof that EC2 works: launches a fleet of one and ends it.
pub(super) async fn prove(ec2: &Ec2) -> Result<String> {
    let who = ec2.credentials("check");
    let tags = json!([{"ResourceType": "instance", "Tags": [{"Key": Becomes::TAG, "Value": "nothing"}]}]);
    let data = json!({"ImageId": image(ec2, &who).await?, "TagSpecifications": tags});
    make_template(ec2, &who, "check", &data).await?;
    let made = create_fleet(ec2, &who, "check", "[{InstanceType=m5.xlarge},{InstanceType=m5.large}]", 1).await?;
    let made = made.first().ok_or_else(|| missing("instance"))?;
    if made.instance_type != "m5.large" {
        return Err(missing("m5.large, the cheaper of two,"));
    }
    terminate(ec2, &who, made.ids.first().ok_or_else(|| missing("instance"))?).await?;
    ec2.aws(&who, &["ec2", "delete-launch-template", "--launch-template-name", "check"]).await?;
    Ok(format!("the AWS command line launches a fleet, the cheaper type, and ends it ({} calls)", ec2.calls().len()))
}

fn missing(what: &str) -> Error {
    Error::Command { command: "aws".to_owned(), answer: format!("no {what} in its answer") }
}
