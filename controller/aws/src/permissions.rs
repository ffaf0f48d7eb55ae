//! All AWS actions that the controller needs, with their purpose and scope: the table from which IAM policies are
//! generated.
//!
//! Source of the scopes: aws/karpenter-provider-aws, the CloudFormation template of its documentation. Everything is
//! created with the cluster's tags, and nothing without them may be changed or deleted.

use std::collections::BTreeSet;

/// An optional part of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Launching and terminating instances: always needed.
    Core,
    /// Instance profiles for classes with `spec.role`; not needed for classes with `spec.instanceProfile`.
    InstanceProfiles,
    /// `spec.capacityReservationSelectorTerms`.
    CapacityReservations,
    /// `spec.placementGroupSelector`.
    PlacementGroups,
    /// Current prices; without them the embedded ones are used.
    Prices,
    /// `--interruption-queue`.
    Interruptions,
    /// `--enable-zonal-shift`.
    ZonalShifts,
    /// Last lines of the console in the message of a registration timeout.
    Console,
}

/// Resources that an action is allowed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everything in the region; read-only actions.
    Region,
    /// Everything; services without regions or resources.
    Everything,
    /// Inputs of a launch: images, snapshots, security groups, subnets, reservations, placement groups.
    LaunchInputs,
    /// Launch templates with the cluster's tags.
    OwnTemplates,
    /// Resources that a launch creates, if the request has the cluster's tags: fleets, instances, volumes, network
    /// interfaces, templates, spot requests.
    MadeWithTags,
    /// Tags on resources at creation, with the same tags in the request.
    TagsWhileMaking,
    /// Tags on instances of the cluster: only `Name`, `karpenter.sh/nodeclaim` and `eks:eks-cluster-name`.
    TagsOfOwnInstances,
    /// Instances and launch templates with the cluster's tags.
    OwnInstancesAndTemplates,
    /// The EKS cluster.
    OwnCluster,
    /// The EKS cluster as a resource of ARC, which is named by a condition.
    OwnManagedResource,
    /// The interruption queue.
    Queue,
    /// Public parameters (`/aws/service/*`).
    PublicParameters,
    /// Node roles, passed to EC2 only.
    NodeRole,
    /// Instance profiles that are created with the cluster's tags.
    ProfilesMadeWithTags,
    /// Instance profiles with the cluster's tags.
    OwnProfiles,
    /// Tags of instance profiles with the cluster's tags: only tags with which they remain the cluster's.
    TagsOfOwnProfiles,
    /// Any instance profile; read-only actions.
    Profiles,
}

/// An action on a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission {
    /// Action, such as `ec2:CreateFleet`.
    pub action: &'static str,
    /// Feature that needs it.
    pub feature: Feature,
    /// Scope of the action.
    pub scope: Scope,
    /// Call that requires the permission, if it is another action.
    pub checked_by: Option<&'static str>,
    /// Purpose, in a few words.
    pub purpose: &'static str,
}

impl Permission {
    /// Returns true if the action changes nothing.
    #[must_use]
    pub fn reads(&self) -> bool {
        let (_, name) = self.action.split_once(':').unwrap_or_default();
        ["Describe", "Get", "List"].iter().any(|verb| name.starts_with(verb))
    }
}

/// Returns the permissions for the core and `features`, or those of them that change nothing.
pub fn needed(features: &BTreeSet<Feature>, only_reads: bool) -> impl Iterator<Item = &'static Permission> {
    let is_needed = |one: &&Permission| one.feature == Feature::Core || features.contains(&one.feature);
    PERMISSIONS.iter().filter(is_needed).filter(move |one| one.reads() || !only_reads)
}

const fn of(action: &'static str, feature: Feature, scope: Scope, purpose: &'static str) -> Permission {
    Permission { action, feature, scope, checked_by: None, purpose }
}

const fn by(
    call: &'static str,
    action: &'static str,
    feature: Feature,
    scope: Scope,
    purpose: &'static str,
) -> Permission {
    Permission { action, feature, scope, checked_by: Some(call), purpose }
}

const FLEET: &str = "ec2:CreateFleet";
const PROFILE: &str = "iam:CreateInstanceProfile";

/// All permissions, by feature.
pub const PERMISSIONS: &[Permission] = &[
    of(FLEET, Feature::Core, Scope::LaunchInputs, "launch with images, subnets and security groups"),
    of(FLEET, Feature::Core, Scope::OwnTemplates, "launch with launch templates of the cluster"),
    of(FLEET, Feature::Core, Scope::MadeWithTags, "launch instances"),
    of(
        "ec2:RunInstances",
        Feature::Core,
        Scope::LaunchInputs,
        "CreateFleet runs instances with the caller's permissions",
    ),
    of(
        "ec2:RunInstances",
        Feature::Core,
        Scope::OwnTemplates,
        "CreateFleet runs instances with the caller's permissions",
    ),
    of(
        "ec2:RunInstances",
        Feature::Core,
        Scope::MadeWithTags,
        "CreateFleet runs instances with the caller's permissions",
    ),
    of("ec2:CreateLaunchTemplate", Feature::Core, Scope::MadeWithTags, "create launch templates"),
    by(FLEET, "ec2:CreateTags", Feature::Core, Scope::TagsWhileMaking, "tag resources on creation"),
    of("ec2:CreateTags", Feature::Core, Scope::TagsOfOwnInstances, "name instances after their nodes"),
    of("ec2:TerminateInstances", Feature::Core, Scope::OwnInstancesAndTemplates, "terminate instances"),
    of("ec2:RebootInstances", Feature::Core, Scope::OwnInstancesAndTemplates, "reboot instances for their repair"),
    of("ec2:DeleteLaunchTemplate", Feature::Core, Scope::OwnInstancesAndTemplates, "remove unused launch templates"),
    of("ec2:DescribeInstances", Feature::Core, Scope::Region, "read the state of instances"),
    of("ec2:DescribeInstanceStatus", Feature::Core, Scope::Region, "know failed status checks and scheduled events"),
    of("ec2:DescribeLaunchTemplates", Feature::Core, Scope::Region, "find launch templates again"),
    of(
        "ec2:DescribeLaunchTemplateVersions",
        Feature::Core,
        Scope::Region,
        "recognize launch templates of other creators",
    ),
    of("ec2:DescribeSubnets", Feature::Core, Scope::Region, "resolve spec.subnetSelectorTerms"),
    of("ec2:DescribeSecurityGroups", Feature::Core, Scope::Region, "resolve spec.securityGroupSelectorTerms"),
    of("ec2:DescribeImages", Feature::Core, Scope::Region, "resolve spec.amiSelectorTerms"),
    of("ec2:DescribeInstanceTypes", Feature::Core, Scope::Region, "know the instance types"),
    of("ec2:DescribeInstanceTypeOfferings", Feature::Core, Scope::Region, "know the zones of instance types"),
    of("eks:DescribeCluster", Feature::Core, Scope::OwnCluster, "know endpoint, version and networks of the cluster"),
    of("ssm:GetParameter", Feature::Core, Scope::PublicParameters, "resolve aliases of images"),
    by(FLEET, "iam:PassRole", Feature::Core, Scope::NodeRole, "give instances their role"),
    of(PROFILE, Feature::InstanceProfiles, Scope::ProfilesMadeWithTags, "create the instance profile of a role"),
    by(PROFILE, "iam:TagInstanceProfile", Feature::InstanceProfiles, Scope::TagsOfOwnProfiles, "tag it"),
    of("iam:AddRoleToInstanceProfile", Feature::InstanceProfiles, Scope::OwnProfiles, "put the role into it"),
    of("iam:RemoveRoleFromInstanceProfile", Feature::InstanceProfiles, Scope::OwnProfiles, "remove it with its class"),
    of("iam:DeleteInstanceProfile", Feature::InstanceProfiles, Scope::OwnProfiles, "remove it with its class"),
    of("iam:GetInstanceProfile", Feature::InstanceProfiles, Scope::Profiles, "check that it exists"),
    of("iam:ListInstanceProfiles", Feature::InstanceProfiles, Scope::Everything, "find those of a class"),
    of(
        "ec2:DescribeCapacityReservations",
        Feature::CapacityReservations,
        Scope::Region,
        "resolve spec.capacityReservationSelectorTerms",
    ),
    of("ec2:DescribePlacementGroups", Feature::PlacementGroups, Scope::Region, "resolve spec.placementGroupSelector"),
    of("ec2:DescribeSpotPriceHistory", Feature::Prices, Scope::Region, "know spot prices"),
    of("pricing:GetProducts", Feature::Prices, Scope::Everything, "know on-demand prices"),
    of("sqs:GetQueueUrl", Feature::Interruptions, Scope::Queue, "find the interruption queue"),
    of("sqs:ReceiveMessage", Feature::Interruptions, Scope::Queue, "receive notices of interruption"),
    of("sqs:DeleteMessage", Feature::Interruptions, Scope::Queue, "delete notices that were acted upon"),
    of(
        "arc-zonal-shift:GetManagedResource",
        Feature::ZonalShifts,
        Scope::OwnManagedResource,
        "know zones that traffic is shifted away from",
    ),
    of("ec2:GetConsoleOutput", Feature::Console, Scope::OwnInstancesAndTemplates, "quote the console of an instance"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Source code of the calls; each call has its action next to it.
    const LIVE: [&str; 14] = [
        include_str!("live/cloud.rs"),
        include_str!("live/cluster.rs"),
        include_str!("live/describe.rs"),
        include_str!("live/fleet.rs"),
        include_str!("live/instances.rs"),
        include_str!("live/lookup.rs"),
        include_str!("live/prices.rs"),
        include_str!("live/profile.rs"),
        include_str!("live/queue.rs"),
        include_str!("live/statuses.rs"),
        include_str!("live/template_data.rs"),
        include_str!("live/templates.rs"),
        include_str!("live/trial.rs"),
        include_str!("live/zonal_shifts.rs"),
    ];

    #[test]
    fn the_table_has_every_call_and_no_other() {
        let mut called = BTreeSet::new();
        for text in LIVE {
            for literal in text.split('"').skip(1).step_by(2) {
                let is_action = ["ec2:", "eks:", "iam:", "ssm:", "sqs:", "pricing:", "arc-zonal-shift:"]
                    .iter()
                    .any(|service| literal.starts_with(service));
                if is_action && literal.split(':').nth(1).is_some_and(|name| name.starts_with(char::is_uppercase)) {
                    called.insert(literal);
                }
            }
        }
        assert!(called.len() > 20, "{called:?}");
        let listed: BTreeSet<&str> =
            PERMISSIONS.iter().filter(|one| one.checked_by.is_none()).map(|one| one.action).collect();
        assert_eq!(listed, called);
    }
}
