//! IAM policy of the controller, generated from the table of permissions: the least that the selected features need.
//!
//! ```text
//!  PERMISSIONS ─ features ─► by scope and actions ─► Statement: resources, conditions ─► a policy document
//! ```
//!
//! Source of the conditions: aws/karpenter-provider-aws, the CloudFormation template of its documentation. Requests
//! that create a resource must have the cluster's tags; resources that are changed or deleted must have them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::permissions::{Feature, Permission, Scope};

/// Maximum size of a managed policy in characters, excluding white space.
pub const MOST_CHARACTERS: usize = 6144;

/// Account and cluster that a policy is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grantee {
    /// AWS partition, such as `aws-us-gov`.
    pub partition: String,
    /// Account ID of twelve digits.
    pub account: String,
    /// Region (`eu-west-1`).
    pub region: String,
    /// Name of the EKS cluster.
    pub cluster: String,
    /// ARN of the node role; `*` matches any text.
    pub node_role: String,
    /// Name of the interruption queue.
    pub queue: String,
}

impl Feature {
    /// All features, in the order of the help.
    pub const ALL: [Self; 8] = [
        Self::Core,
        Self::InstanceProfiles,
        Self::CapacityReservations,
        Self::PlacementGroups,
        Self::Prices,
        Self::Interruptions,
        Self::ZonalShifts,
        Self::Console,
    ];

    /// Returns the name for the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::InstanceProfiles => "instance-profiles",
            Self::CapacityReservations => "capacity-reservations",
            Self::PlacementGroups => "placement-groups",
            Self::Prices => "prices",
            Self::Interruptions => "interruptions",
            Self::ZonalShifts => "zonal-shifts",
            Self::Console => "console",
        }
    }
}

/// Returns the policy with these permissions.
#[must_use]
pub fn policy<'p>(grantee: &Grantee, permissions: impl IntoIterator<Item = &'p Permission>) -> Value {
    let mut actions: BTreeMap<Scope, BTreeSet<&str>> = BTreeMap::new();
    for one in permissions {
        actions.entry(one.scope).or_default().insert(one.action);
    }
    let statements: Vec<Value> =
        actions.into_iter().map(|(scope, actions)| grantee.statement(scope, &actions)).collect();
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// Returns the number of characters that count towards the limit.
#[must_use]
pub fn characters(policy: &Value) -> usize {
    policy.to_string().chars().filter(|one| !one.is_whitespace()).count()
}

/// Resource types that a launch creates.
const MADE: [&str; 6] =
    ["fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume"];

impl Grantee {
    fn statement(&self, scope: Scope, actions: &BTreeSet<&str>) -> Value {
        let mut statement = Map::from_iter([
            ("Sid".to_owned(), json!(format!("{scope:?}"))),
            ("Effect".to_owned(), json!("Allow")),
            ("Action".to_owned(), one_or_many(actions.iter().copied())),
            ("Resource".to_owned(), one_or_many(self.resources(scope))),
        ]);
        let conditions = self.conditions(scope);
        if !conditions.is_empty() {
            let mut grouped: Map<String, Value> = Map::new();
            for (operator, key, value) in conditions {
                if let Value::Object(all) = grouped.entry(operator).or_insert_with(|| json!({})) {
                    all.insert(key, value);
                }
            }
            statement.insert("Condition".to_owned(), Value::Object(grouped));
        }
        Value::Object(statement)
    }

    fn resources(&self, scope: Scope) -> Vec<String> {
        let Self { partition, account, region, cluster, node_role, queue } = self;
        let ec2 = |account: &str, kinds: &[&str]| -> Vec<String> {
            kinds.iter().map(|kind| format!("arn:{partition}:ec2:{region}:{account}:{kind}/*")).collect()
        };
        let profiles = || vec![format!("arn:{partition}:iam::{account}:instance-profile/*")];
        match scope {
            // ARC does not know clusters as resources of a policy.
            Scope::Region | Scope::Everything | Scope::OwnManagedResource => vec!["*".to_owned()],
            Scope::LaunchInputs => {
                // Images and snapshots may be public, and the others may be shared by another account.
                let shared = ["security-group", "subnet", "capacity-reservation", "placement-group"];
                [ec2("", &["image", "snapshot"]), ec2("*", &shared)].concat()
            }
            Scope::OwnTemplates => ec2(account, &["launch-template"]),
            Scope::MadeWithTags | Scope::TagsWhileMaking => ec2(account, &MADE),
            Scope::TagsOfOwnInstances => ec2(account, &["instance"]),
            Scope::OwnInstancesAndTemplates => ec2(account, &["instance", "launch-template"]),
            Scope::OwnCluster => vec![format!("arn:{partition}:eks:{region}:{account}:cluster/{cluster}")],
            Scope::Queue => vec![format!("arn:{partition}:sqs:{region}:{account}:{queue}")],
            Scope::PublicParameters => vec![format!("arn:{partition}:ssm:{region}::parameter/aws/service/*")],
            Scope::NodeRole => vec![node_role.clone()],
            Scope::ProfilesMadeWithTags | Scope::OwnProfiles | Scope::TagsOfOwnProfiles | Scope::Profiles => profiles(),
        }
    }

    /// Returns conditions as operator, key, and value.
    fn conditions(&self, scope: Scope) -> Vec<(String, String, Value)> {
        let Self { partition, account, region, cluster, node_role: _, queue: _ } = self;
        let equals = |key: String, value: &str| ("StringEquals".to_owned(), key, json!(value));
        let any = |key: String| ("StringLike".to_owned(), key, json!("*"));
        let owned = |side: &str| equals(format!("aws:{side}Tag/kubernetes.io/cluster/{cluster}"), "owned");
        let named = || equals("aws:RequestTag/eks:eks-cluster-name".to_owned(), cluster);
        let pool = |side: &str| any(format!("aws:{side}Tag/karpenter.sh/nodepool"));
        let class = |side: &str| any(format!("aws:{side}Tag/karpenter.k8s.aws/ec2nodeclass"));
        let place = |side: &str| equals(format!("aws:{side}Tag/topology.kubernetes.io/region"), region);
        match scope {
            Scope::Everything
            | Scope::LaunchInputs
            | Scope::OwnCluster
            | Scope::Queue
            | Scope::PublicParameters
            | Scope::Profiles => Vec::new(),
            Scope::Region => vec![equals("aws:RequestedRegion".to_owned(), region)],
            Scope::OwnManagedResource => {
                let arn = format!("arn:{partition}:eks:{region}:{account}:cluster/{cluster}");
                // Without an account, the ARN is a pattern.
                let operator = if account == "*" { "StringLike" } else { "StringEquals" };
                vec![(operator.to_owned(), "arc-zonal-shift:ResourceIdentifier".to_owned(), json!(arn))]
            }
            Scope::OwnTemplates | Scope::OwnInstancesAndTemplates => vec![owned("Resource"), pool("Resource")],
            Scope::MadeWithTags => vec![owned("Request"), named(), pool("Request")],
            Scope::TagsWhileMaking => {
                let makers = json!(["CreateFleet", "CreateLaunchTemplate", "RunInstances"]);
                let made = ("StringEquals".to_owned(), "ec2:CreateAction".to_owned(), makers);
                vec![owned("Request"), named(), pool("Request"), made]
            }
            Scope::TagsOfOwnInstances => {
                let name = "aws:RequestTag/eks:eks-cluster-name".to_owned();
                let keys = json!(["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]);
                vec![
                    owned("Resource"),
                    pool("Resource"),
                    ("StringEqualsIfExists".to_owned(), name, json!(cluster)),
                    ("ForAllValues:StringEquals".to_owned(), "aws:TagKeys".to_owned(), keys),
                ]
            }
            Scope::NodeRole => {
                let suffix = if partition == "aws-cn" { ".cn" } else { "" };
                vec![equals("iam:PassedToService".to_owned(), &format!("ec2.amazonaws.com{suffix}"))]
            }
            Scope::ProfilesMadeWithTags => vec![owned("Request"), named(), place("Request"), class("Request")],
            Scope::OwnProfiles => vec![owned("Resource"), place("Resource"), class("Resource")],
            Scope::TagsOfOwnProfiles => {
                let side = |side| [owned(side), place(side), class(side)];
                let mut both = [side("Resource"), side("Request")].concat();
                both.push(named());
                both
            }
        }
    }
}

fn one_or_many<T: Into<Value>>(all: impl IntoIterator<Item = T>) -> Value {
    let mut all: Vec<Value> = all.into_iter().map(Into::into).collect();
    if all.len() == 1 { all.remove(0) } else { Value::Array(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{PERMISSIONS, needed};

    fn grantee() -> Grantee {
        Grantee {
            partition: "aws".to_owned(),
            account: "111122223333".to_owned(),
            region: "eu-west-1".to_owned(),
            cluster: "shop".to_owned(),
            node_role: "arn:aws:iam::111122223333:role/KarpenterNodeRole-shop".to_owned(),
            queue: "shop".to_owned(),
        }
    }

    #[test]
    fn a_policy_of_everything_fits_into_one() {
        let all: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
        let policy = policy(&grantee(), needed(&all, false));
        assert!(characters(&policy) <= MOST_CHARACTERS, "{}", characters(&policy));
        insta::assert_json_snapshot!(policy);
    }

    #[test]
    fn what_is_not_asked_for_is_not_allowed() {
        let core = policy(&grantee(), needed(&BTreeSet::new(), false)).to_string();
        for one in PERMISSIONS.iter().filter(|one| one.feature != Feature::Core) {
            assert!(!core.contains(&format!("\"{}\"", one.action)), "{}", one.action);
        }
        for one in PERMISSIONS.iter().filter(|one| one.feature == Feature::Core) {
            assert!(core.contains(&format!("\"{}\"", one.action)), "{}", one.action);
        }
    }

    #[test]
    fn a_dry_run_may_read_and_no_more() {
        let all: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
        let granted: BTreeSet<&str> = needed(&all, true).map(|one| one.action).collect();
        for action in ["ec2:DescribeInstances", "ssm:GetParameter", "pricing:GetProducts", "iam:GetInstanceProfile"] {
            assert!(granted.contains(action), "{action}");
        }
        for action in ["ec2:CreateFleet", "ec2:CreateTags", "iam:PassRole", "iam:CreateInstanceProfile"] {
            assert!(!granted.contains(action), "{action}");
        }
    }

    #[test]
    fn a_profile_cannot_be_tagged_as_another_clusters() {
        let all: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
        let policy = policy(&grantee(), needed(&all, false));
        let statements = policy["Statement"].as_array().unwrap();
        let tagging = |one: &&Value| one["Action"].to_string().contains("iam:TagInstanceProfile");
        let tagging: Vec<&Value> = statements.iter().filter(tagging).collect();
        assert_eq!(tagging.len(), 1);
        for side in ["Resource", "Request"] {
            let key = format!("aws:{side}Tag/kubernetes.io/cluster/shop");
            assert_eq!(tagging[0]["Condition"]["StringEquals"][&key], "owned", "{tagging:#?}");
        }
    }

    #[test]
    fn nothing_that_writes_is_allowed_on_everything() {
        let all: BTreeSet<Feature> = Feature::ALL.into_iter().collect();
        let policy = policy(&grantee(), needed(&all, false));
        for statement in policy["Statement"].as_array().unwrap() {
            let actions = statement["Action"].to_string();
            let reads =
                |action: &str| ["Describe", "Get", "List"].iter().any(|verb| action.contains(&format!(":{verb}")));
            let is_reading = actions.split(',').all(reads);
            let is_bound = statement.get("Condition").is_some()
                || statement["Sid"] == "LaunchInputs"
                || statement["Resource"] == "arn:aws:sqs:eu-west-1:111122223333:shop";
            assert!(is_reading || is_bound, "{statement:#}");
            assert!(!actions.contains('*'), "{statement:#}");
        }
    }
}
