//! Prices of AWS as an input of commands. A build without the feature `ec2` answers that it cannot ask for them.

use muster_aws::prices::PriceList;

use super::failure::Failure;
use super::progress::Progress;

/// Asks AWS for the prices of `region`. Only this needs a runtime.
#[cfg(feature = "ec2")]
pub(crate) fn ask(region: &str, progress: &mut Progress) -> Result<PriceList, Failure> {
    use muster_aws::live::{ConnectError, Connection, ask_prices};

    use super::live_cluster::runtime;
    use crate::ec2::clock;

    let failed = |error: ConnectError| Failure::Aws(error.to_string());
    progress.stage("looking for AWS credentials");
    runtime()?.block_on(async {
        let aws = Connection::from_environment(Some(region.to_owned())).await.map_err(failed)?;
        aws.check_credentials().await.map_err(failed)?;
        let asked = ask_prices(&aws, clock(), &mut |stage| progress.stage(stage)).await;
        asked.map_err(|error| {
            Failure::Aws(format!("the prices of {region} cannot be read: {error}\n\nhint: {}", hint(&error)))
        })
    })
}

/// Returns the hint of a failed call.
#[cfg(feature = "ec2")]
fn hint(error: &muster_cloud::CloudError) -> &'static str {
    use muster_cloud::CloudError;

    match error {
        CloudError::Unauthorized { .. } => {
            "allow pricing:GetProducts and ec2:DescribeSpotPriceHistory, as in the policy that `muster iam-policy` prints"
        }
        CloudError::Throttled { .. } | CloudError::Queued { .. } => {
            "try again in a minute: others use the same account"
        }
        _ => "check the network, the credentials and `--region`; or give a file: `--prices FILE`",
    }
}

/// Answers that this build cannot ask AWS.
#[cfg(not(feature = "ec2"))]
pub(crate) fn ask(_: &str, _: &mut Progress) -> Result<PriceList, Failure> {
    Err(Failure::left_out("`--prices live`", "ec2"))
}
