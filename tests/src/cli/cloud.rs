//! The proof that EC2 works: an instance from the image that SSM recommends, by the AWS command line.

use crate::ec2::Ec2;
use crate::error::{Error, Result};

const IMAGE: &str = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";

/// Launches a fleet of one and ends it.
pub(super) async fn prove(ec2: &Ec2) -> Result<String> {
    let who = ec2.credentials("check");
    let missing = |what: &str| Error::Command { command: "aws".to_owned(), answer: format!("no {what} in its answer") };
    let image = ec2.aws(&who, &["ssm", "get-parameter", "--name", IMAGE]).await?;
    let image = image["Parameter"]["Value"].as_str().ok_or_else(|| missing("image"))?.to_owned();
    let data = format!("{{\"ImageId\":\"{image}\"}}");
    let make = ["ec2", "create-launch-template", "--launch-template-name", "check", "--launch-template-data", &data];
    ec2.aws(&who, &make).await?;
    let overrides = "[{InstanceType=m5.xlarge},{InstanceType=m5.large}]";
    let config =
        format!("LaunchTemplateSpecification={{LaunchTemplateName=check,Version=$Latest}},Overrides={overrides}");
    let target = "TotalTargetCapacity=1,DefaultTargetCapacityType=on-demand";
    let fleet = ["--launch-template-configs", &config, "--target-capacity-specification", target];
    let made = ec2.aws(&who, &[&["ec2", "create-fleet", "--type", "instant"][..], &fleet].concat()).await?;
    let made = &made["Instances"][0];
    let id = made["InstanceIds"][0].as_str().ok_or_else(|| missing("instance"))?;
    if made["InstanceType"] != "m5.large" {
        return Err(missing("m5.large, the cheaper of two,"));
    }
    ec2.aws(&who, &["ec2", "terminate-instances", "--instance-ids", id]).await?;
    ec2.aws(&who, &["ec2", "delete-launch-template", "--launch-template-name", "check"]).await?;
    Ok(format!("the AWS command line launches a fleet, the cheaper type, and ends it ({} calls)", ec2.calls().len()))
}
