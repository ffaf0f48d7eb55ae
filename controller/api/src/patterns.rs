//! Regular expressions shared by several fields of the schemas.

use crate::duration::{LIFETIME_PATTERN, SPAN_PATTERN};

/// Label or taint key: an optional DNS prefix with a slash, and a name.
pub(crate) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

/// Label value, which may be empty.
pub(crate) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Quantity: a number with a binary, decimal or exponent suffix.
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Type of a condition.
pub(crate) const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Reason of a condition.
pub(crate) const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// Reason of a condition, which may be empty.
pub(crate) const OPTIONAL_CONDITION_REASON: &str = "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";

/// Size of an EBS volume: 1 to 59000 Gi, 64000 G, 58 Ti or 64 T.
pub(crate) const VOLUME_SIZE: &str = "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$";

/// Disruption budget: a whole number or a percentage.
pub(crate) const BUDGET_NODES: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";

/// Cron schedule: five fields or one of the macros.
pub(crate) const BUDGET_SCHEDULE: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";

/// Duration of a budget window.
pub(crate) const BUDGET_DURATION: &str = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";

/// Absolute price.
pub(crate) const PRICE: &str = r"^\d+(\.\d+)?$";

/// Price adjustment: a signed amount, or a signed percentage of at least -100%.
pub(crate) const PRICE_ADJUSTMENT: &str = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$";

/// ID of a capacity reservation.
pub(crate) const CAPACITY_RESERVATION_ID: &str = "^cr-[0-9a-z]+$";

/// API group, without a version.
pub(crate) const GROUP: &str = "^[^/]*$";

/// ID of a subnet.
pub(crate) const SUBNET_ID: &str = "subnet-[0-9a-z]+";

/// ID of a security group.
pub(crate) const SECURITY_GROUP_ID: &str = "sg-[0-9a-z]+";

/// ID of a machine image.
pub(crate) const IMAGE_ID: &str = "ami-[0-9a-z]+";

/// ID of a placement group.
pub(crate) const PLACEMENT_GROUP_ID: &str = "^pg-[0-9a-z]+$";

/// ID of an AWS account.
pub(crate) const ACCOUNT_ID: &str = "^[0-9]{12}$";

/// Returns a description with an example of a match for `pattern`, which messages show in its place.
pub(crate) fn example(pattern: &str) -> Option<&'static str> {
    let examples = [
        (QUALIFIED_NAME, "a label key such as `team` or `example.com/team`"),
        (LABEL_VALUE, "at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"),
        (QUANTITY, "a number with an optional suffix, such as `500m`, `2`, `1.5Gi` or `10M`"),
        (VOLUME_SIZE, "a size such as `100Gi`, at most 59000Gi, 64000G, 58Ti or 64T"),
        (BUDGET_NODES, "a number of nodes such as `5`, or a percentage from 0% to 100% such as `10%`"),
        (BUDGET_SCHEDULE, "five fields as in cron, such as `0 9 * * mon-fri`, or a word such as `@daily`"),
        (BUDGET_DURATION, "hours and minutes, such as `10h`, `30m` or `1h30m`"),
        (PRICE, "a price in USD per hour, such as `0.05`"),
        (PRICE_ADJUSTMENT, "a change such as `+0.5`, `-0.5`, `+10%` or `-10%`, not below `-100%`"),
        (CAPACITY_RESERVATION_ID, "the id of a reservation, such as `cr-0123456789abcdef0`"),
        (ACCOUNT_ID, "the 12 digits of an AWS account"),
        (CONDITION_TYPE, "a type such as `Ready`"),
        (CONDITION_REASON, "a word such as `NodeClassNotReady`"),
        (OPTIONAL_CONDITION_REASON, "a word such as `NodeClassNotReady`"),
        (GROUP, "a group without its version, such as `karpenter.k8s.aws`"),
        (SUBNET_ID, "the id of a subnet, such as `subnet-0123456789abcdef0`"),
        (SECURITY_GROUP_ID, "the id of a security group, such as `sg-0123456789abcdef0`"),
        (IMAGE_ID, "the id of an image, such as `ami-0123456789abcdef0`"),
        (PLACEMENT_GROUP_ID, "the id of a placement group, such as `pg-0123456789abcdef0`"),
        (LIFETIME_PATTERN, "a duration such as `30s`, `1h30m` or `720h`, or `Never`"),
        (SPAN_PATTERN, "a duration such as `30s`, `1h30m` or `720h`"),
    ];
    examples.iter().find(|(known, _)| *known == pattern).map(|(_, example)| *example)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::example;

    fn patterns_in<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("pattern").and_then(Value::as_str));
                fields.values().for_each(|field| patterns_in(field, found));
            }
            Value::Array(entries) => entries.iter().for_each(|entry| patterns_in(entry, found)),
            _ => {}
        }
    }

    #[test]
    fn every_pattern_of_the_schemas_has_an_example() {
        let crds = serde_json::to_value(crate::crds::crds()).unwrap();
        let mut found = Vec::new();
        patterns_in(&crds, &mut found);
        assert!(found.len() > 20, "{found:?}");
        let without: Vec<&str> = found.into_iter().filter(|pattern| example(pattern).is_none()).collect();
        assert_eq!(without, [""; 0]);
    }
}
