//! Settings of `muster iam-policy`.

use std::collections::BTreeSet;

use muster_aws::permissions::Feature;
use muster_aws::policy::Grantee;

use super::super::arguments::iam_policy::{IamPolicyArguments, PolicyFeature};
use super::super::failure::Failure;
use super::super::output::{DataFormat, Format};

/// Partitions of AWS.
const PARTITIONS: [&str; 8] =
    ["aws", "aws-cn", "aws-eusc", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f"];

/// Hint for what is not the name of a queue.
pub(crate) const QUEUE_HINT: &str =
    "write the queue's name, not its URL or ARN: letters, digits, `-`, `_` and `.`, 80 at most";

/// Returns true if this may be the name of a queue.
pub(crate) fn is_queue(name: &str) -> bool {
    let is_inner = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    !name.is_empty() && name.len() <= 80 && name.chars().all(is_inner)
}

/// Settings of `muster iam-policy`.
#[derive(Debug)]
pub(crate) struct IamPolicySettings {
    pub(crate) grantee: Grantee,
    pub(crate) features: BTreeSet<Feature>,
    pub(crate) only_reads: bool,
    pub(crate) format: Format,
}

fn features(chosen: &[PolicyFeature], heeds_zonal_shifts: bool) -> BTreeSet<Feature> {
    let shifts = heeds_zonal_shifts.then_some(Feature::ZonalShifts);
    if chosen.is_empty() {
        let is_usual = |one: &Feature| !matches!(one, Feature::Console | Feature::ZonalShifts);
        return Feature::ALL.into_iter().filter(is_usual).chain(shifts).collect();
    }
    let meant = chosen.iter().map(|one| match one {
        PolicyFeature::Core => Feature::Core,
        PolicyFeature::InstanceProfiles => Feature::InstanceProfiles,
        PolicyFeature::CapacityReservations => Feature::CapacityReservations,
        PolicyFeature::PlacementGroups => Feature::PlacementGroups,
        PolicyFeature::Prices => Feature::Prices,
        PolicyFeature::Interruptions => Feature::Interruptions,
        PolicyFeature::ZonalShifts => Feature::ZonalShifts,
        PolicyFeature::Console => Feature::Console,
    });
    meant.chain([Feature::Core]).chain(shifts).collect()
}

impl TryFrom<(IamPolicyArguments, bool)> for IamPolicySettings {
    type Error = Failure;

    /// Converts the arguments. The bool is true if stdout is a terminal: a pipe gets JSON for IAM.
    fn try_from((arguments, stdout_is_terminal): (IamPolicyArguments, bool)) -> Result<Self, Failure> {
        let IamPolicyArguments {
            cluster_name,
            region,
            account,
            partition,
            node_role,
            interruption_queue,
            enable_zonal_shift,
            features: chosen,
            read_only,
            output,
        } = arguments;
        let format = match output {
            Some(output) => super::format(output),
            None if stdout_is_terminal => Format::Table,
            None => Format::Data(DataFormat::Json),
        };
        let refused = |option: &str, value: &str, hint: &str| {
            Err(Failure::Usage(format!("`{option}` does not take the value `{value}`\n\nhint: {hint}")))
        };
        let is_name = |text: &str| text.chars().all(|one| one.is_ascii_alphanumeric() || "-_".contains(one));
        if cluster_name.is_empty() || cluster_name.len() > 100 || !is_name(&cluster_name) {
            return refused("--cluster-name", &cluster_name, "EKS takes letters, digits, `-` and `_`, 100 at most");
        }
        let is_region =
            region.split('-').count() >= 3 && region.chars().all(|one| one.is_ascii_alphanumeric() || one == '-');
        if !is_region {
            return refused("--region", &region, "write a region such as `eu-west-1`");
        }
        if account != "*" && (account.len() != 12 || !account.chars().all(|one| one.is_ascii_digit())) {
            return refused("--account", &account, "write the twelve digits that `aws sts get-caller-identity` prints");
        }
        let of_region = match region.split_once('-') {
            Some(("cn", _)) => "aws-cn",
            Some(("eusc", _)) => "aws-eusc",
            Some(("us", rest)) if rest.starts_with("gov-") => "aws-us-gov",
            Some(("us", rest)) if rest.starts_with("iso-") => "aws-iso",
            Some(("us", rest)) if rest.starts_with("isob-") => "aws-iso-b",
            Some(("us", rest)) if rest.starts_with("isof-") => "aws-iso-f",
            Some(("eu", rest)) if rest.starts_with("isoe-") => "aws-iso-e",
            _ => "aws",
        };
        let partition = partition.unwrap_or_else(|| of_region.to_owned());
        let role = node_role.unwrap_or_else(|| format!("KarpenterNodeRole-{cluster_name}"));
        if !PARTITIONS.contains(&&*partition) {
            return refused(
                "--partition",
                &partition,
                "write the second part of the ARNs of your account, such as `aws`",
            );
        }
        let is_role = if role.starts_with("arn:") { role.contains(":role/") } else { !role.contains(':') };
        if role.is_empty() || role == "*" || !is_role {
            return refused("--node-role", &role, "write the name of a role, or its ARN");
        }
        let node_role =
            if role.starts_with("arn:") { role } else { format!("arn:{partition}:iam::{account}:role/{role}") };
        let queue = interruption_queue.filter(|name| !name.is_empty()).unwrap_or_else(|| cluster_name.clone());
        if !is_queue(&queue) {
            return refused("--interruption-queue", &queue, QUEUE_HINT);
        }
        let grantee = Grantee { partition, account, region, cluster: cluster_name, node_role, queue };
        Ok(Self { grantee, features: features(&chosen, enable_zonal_shift), only_reads: read_only, format })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::super::arguments::{Arguments, Command};
    use super::*;

    fn settings(arguments: &str) -> Result<IamPolicySettings, Failure> {
        let words = ["muster", "iam-policy"].into_iter().chain(arguments.split_whitespace());
        let Command::IamPolicy(arguments) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("another")
        };
        IamPolicySettings::try_from((arguments, false))
    }

    #[test]
    fn what_is_left_out_follows_from_the_rest() {
        let plain = settings("--cluster-name shop --region us-gov-west-1 --account 111122223333").unwrap();
        assert_eq!(plain.grantee.partition, "aws-us-gov");
        assert_eq!(plain.grantee.queue, "shop");
        assert_eq!(plain.grantee.node_role, "arn:aws-us-gov:iam::111122223333:role/KarpenterNodeRole-shop");
        assert!(plain.features.contains(&Feature::Prices) && !plain.features.contains(&Feature::Console));
        assert!(!plain.features.contains(&Feature::ZonalShifts), "only where they are heeded");
        let heeding = settings("--cluster-name shop --region eu-west-1 --enable-zonal-shift").unwrap();
        assert!(heeding.features.contains(&Feature::ZonalShifts) && heeding.features.contains(&Feature::Prices));
        let core = settings("--cluster-name shop --region cn-north-1 --feature core --node-role nodes").unwrap();
        assert_eq!(core.grantee.node_role, "arn:aws-cn:iam::*:role/nodes");
        assert_eq!(core.features, BTreeSet::from([Feature::Core]));
        let two = settings("--cluster-name shop --region eu-west-1 --feature prices,console").unwrap();
        assert_eq!(two.features, BTreeSet::from([Feature::Core, Feature::Prices, Feature::Console]));
    }

    #[test]
    fn each_region_is_in_its_partition() {
        for (region, expected) in [
            ("eu-west-1", "aws"),
            ("cn-north-1", "aws-cn"),
            ("eusc-de-east-1", "aws-eusc"),
            ("us-gov-east-1", "aws-us-gov"),
            ("us-iso-east-1", "aws-iso"),
            ("us-isob-east-1", "aws-iso-b"),
            ("eu-isoe-west-1", "aws-iso-e"),
            ("us-isof-south-1", "aws-iso-f"),
        ] {
            let of_region = settings(&format!("--cluster-name shop --region {region}")).unwrap();
            assert_eq!(of_region.grantee.partition, expected, "{region}");
            let named = settings(&format!("--cluster-name shop --region eu-west-1 --partition {expected}")).unwrap();
            assert_eq!(named.grantee.partition, expected);
        }
    }

    #[test]
    fn what_would_grant_something_else_is_refused() {
        for (arguments, expected) in [
            ("--cluster-name sh*p --region eu-west-1", "`--cluster-name` does not take the value `sh*p`"),
            ("--cluster-name shop --region *", "`--region` does not take the value `*`"),
            ("--cluster-name shop --region eu-west-1 --account 12", "`--account` does not take the value `12`"),
            (
                "--cluster-name shop --region eu-west-1 --partition aws:x",
                "`--partition` does not take the value `aws:x`",
            ),
            (
                "--cluster-name shop --region eu-west-1 --interruption-queue https://sqs/shop",
                "`--interruption-queue` does not take the value `https://sqs/shop`",
            ),
            (
                "--cluster-name shop --region eu-west-1 --node-role arn:aws:iam::1:user/x",
                "`--node-role` does not take the value",
            ),
        ] {
            let refused = settings(arguments).unwrap_err();
            assert!(refused.to_string().contains(expected) && refused.exit_code() == 2, "{refused}");
        }
    }
}
