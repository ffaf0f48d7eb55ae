//! The paths below `/latest/meta-data/` and their values. Pure: an instance, its present and a time in, text out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::instance::{Instance, Now, Role};

/// How long role credentials are good for. EC2's live for about six hours.
const CREDENTIALS: SignedDuration = SignedDuration::from_hours(6);

/// What is at `path` below `meta-data/`: a value, or the names in a folder with `/` after those that are folders.
pub(super) fn read(instance: &Instance, now: &Now, time: Timestamp, path: &str) -> Option<String> {
    let leaves = leaves(instance, now, time);
    let path = path.trim_matches('/');
    if let Some(value) = leaves.get(path) {
        return Some(value.clone());
    }
    let below = if path.is_empty() { String::new() } else { format!("{path}/") };
    let names: BTreeSet<String> = leaves
        .keys()
        .filter_map(|leaf| leaf.strip_prefix(&below))
        .map(|rest| rest.split_once('/').map_or_else(|| rest.to_owned(), |(name, _)| format!("{name}/")))
        .collect();
    if names.is_empty() { None } else { Some(names.into_iter().collect::<Vec<_>>().join("\n")) }
}

fn leaves(instance: &Instance, now: &Now, time: Timestamp) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    let mut put = |path: &str, value: &str| {
        leaves.insert(path.to_owned(), value.to_owned());
    };
    put("ami-id", &instance.image_id);
    put("ami-launch-index", "0");
    put("ami-manifest-path", "(unknown)");
    put("hostname", &instance.host_name);
    put("instance-action", "none");
    put("instance-id", &instance.instance_id);
    put("instance-life-cycle", if instance.spot { "spot" } else { "on-demand" });
    put("instance-type", &instance.instance_type);
    put("local-hostname", &instance.host_name);
    put("local-ipv4", &instance.address.to_string());
    put("mac", &instance.mac);
    put("placement/availability-zone", &instance.zone);
    put("placement/availability-zone-id", &instance.zone_id);
    put("placement/region", &instance.region);
    put("profile", "default-hvm");
    put("services/domain", "amazonaws.com");
    put("services/partition", "aws");
    put("security-groups", &lines(instance.security_groups.iter().map(|(_, name)| name)));
    put_interface(instance, &mut put);
    put_role(instance, now, time, &mut put);
    if let Some((action, at)) = &now.interruption {
        put("spot/instance-action", &json!({"action": action, "time": seconds(*at)}).to_string());
        if action == "terminate" {
            put("spot/termination-time", &seconds(*at));
        }
    }
    if let Some(noticed) = now.rebalance {
        put("events/recommendations/rebalance", &json!({"noticeTime": seconds(noticed)}).to_string());
    }
    for (key, value) in instance.tags.iter().flatten() {
        put(&format!("tags/instance/{key}"), value);
    }
    leaves
}

fn put_interface(instance: &Instance, put: &mut impl FnMut(&str, &str)) {
    let folder = format!("network/interfaces/macs/{}", instance.mac);
    for (name, value) in [
        ("device-number", "0"),
        ("interface-id", &instance.instance_id.replacen("i-", "eni-", 1)),
        ("local-hostname", &instance.host_name),
        ("local-ipv4s", &instance.address.to_string()),
        ("mac", &instance.mac),
        ("owner-id", &instance.account_id),
        ("security-group-ids", &lines(instance.security_groups.iter().map(|(id, _)| id))),
        ("security-groups", &lines(instance.security_groups.iter().map(|(_, name)| name))),
        ("subnet-id", &instance.subnet_id),
        ("subnet-ipv4-cidr-block", &instance.subnet_cidr),
        ("vpc-id", &instance.vpc_id),
        ("vpc-ipv4-cidr-block", &instance.vpc_cidr),
        ("vpc-ipv4-cidr-blocks", &instance.vpc_cidr),
    ] {
        put(&format!("{folder}/{name}"), value);
    }
}

fn put_role(instance: &Instance, now: &Now, time: Timestamp, put: &mut impl FnMut(&str, &str)) {
    let Some(Role { name, credentials: own, is_mapped: _ }) = &instance.role else { return };
    let time = time.saturating_add(now.clock).unwrap_or(time);
    let updated = seconds(time);
    let info = json!({
        "Code": "Success",
        "LastUpdated": updated,
        "InstanceProfileArn": format!("arn:aws:iam::{}:instance-profile/{name}", instance.account_id),
        "InstanceProfileId": "AIPA0123456789ABCDEFG",
    });
    put("iam/info", &format!("{info:#}"));
    let credentials = json!({
        "Code": "Success",
        "LastUpdated": updated,
        "Type": "AWS-HMAC",
        "AccessKeyId": own.access_key_id,
        "SecretAccessKey": own.secret_access_key,
        "Token": own.token,
        "Expiration": seconds(time.saturating_add(CREDENTIALS).unwrap_or(time)),
    });
    put(&format!("iam/security-credentials/{name}"), &format!("{credentials:#}"));
}

fn lines<'a>(values: impl Iterator<Item = &'a String>) -> String {
    values.map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// As `2026-01-02T03:04:05Z`.
pub(super) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::imds::proof::RoleCredentials;

    fn ask(now: &Now, path: &str) -> Option<String> {
        let mut instance = Instance::new("i-0123456789abcdef0", Ipv4Addr::new(10, 0, 1, 5));
        instance.role =
            Some(Role { name: "muster-node".to_owned(), credentials: RoleCredentials::default(), is_mapped: true });
        read(&instance, now, Timestamp::UNIX_EPOCH, path)
    }

    #[test]
    fn a_folder_lists_its_names_and_a_leaf_its_value() {
        let now = Now::default();
        assert_eq!(ask(&now, "placement/region").unwrap(), "us-west-2");
        assert_eq!(ask(&now, "placement/").unwrap(), "availability-zone\navailability-zone-id\nregion");
        let root = ask(&now, "").unwrap();
        assert!(root.lines().any(|line| line == "network/") && root.lines().any(|line| line == "mac"), "{root}");
        assert_eq!(ask(&now, "iam/security-credentials/").unwrap(), "muster-node");
        assert_eq!(ask(&now, "nothing/here"), None);
    }

    #[test]
    fn notices_are_absent_until_they_are_sent() {
        let mut now = Now::default();
        assert_eq!(ask(&now, "spot/instance-action"), None);
        now.interruption = Some(("terminate".to_owned(), Timestamp::UNIX_EPOCH));
        let action = ask(&now, "spot/instance-action").unwrap();
        assert_eq!(action, r#"{"action":"terminate","time":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(ask(&now, "spot/termination-time").unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(ask(&now, "events/recommendations/rebalance"), None);
    }
}
