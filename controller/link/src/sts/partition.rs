//! Partitions of AWS: the DNS domains of their services.

/// A partition.
struct Partition {
    /// Beginnings of the names of its regions.
    regions: &'static [&'static str],
    /// Domain of its services.
    domain: &'static str,
    /// Domain of its services with IPv6 addresses too.
    dual_stack: &'static str,
}

/// Partitions, by the AWS General Reference, "AWS STS endpoints", and `partitions.json` of the SDKs.
const PARTITIONS: [Partition; 7] = [
    Partition { regions: &["cn-"], domain: "amazonaws.com.cn", dual_stack: "api.amazonwebservices.com.cn" },
    Partition { regions: &["eusc-"], domain: "amazonaws.eu", dual_stack: "api.amazonwebservices.eu" },
    Partition { regions: &["us-iso-"], domain: "c2s.ic.gov", dual_stack: "api.aws.ic.gov" },
    Partition { regions: &["us-isob-"], domain: "sc2s.sgov.gov", dual_stack: "api.aws.scloud" },
    Partition { regions: &["us-isof-"], domain: "csp.hci.ic.gov", dual_stack: "api.aws.hci.ic.gov" },
    Partition { regions: &["eu-isoe-"], domain: "cloud.adc-e.uk", dual_stack: "api.cloud-aws.adc-e.uk" },
    // Last: `aws` and `aws-us-gov`, which have all other regions.
    Partition { regions: &[""], domain: "amazonaws.com", dual_stack: "api.aws" },
];

/// Returns the host of STS in a region.
#[must_use]
pub fn host(region: &str) -> String {
    let is_of = |partition: &&Partition| partition.regions.iter().any(|prefix| region.starts_with(prefix));
    let domain = PARTITIONS.iter().find(is_of).map_or("amazonaws.com", |partition| partition.domain);
    format!("sts.{region}.{domain}")
}

/// Returns true if the host is STS, of any region and partition: with or without FIPS, IPv6 addresses and a region.
#[must_use]
pub fn is_host(host: &str) -> bool {
    let Some((service, rest)) = host.split_once('.') else { return false };
    let is_region = |text: &str| text.contains('-') && !text.contains('.');
    let is_in = |domain: &str| match rest.strip_suffix(domain) {
        Some("") => true,
        Some(region) => region.strip_suffix('.').is_some_and(is_region),
        None => false,
    };
    let mut domains = PARTITIONS.iter().flat_map(|partition| [partition.domain, partition.dual_stack]);
    matches!(service, "sts" | "sts-fips") && domains.any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sts_is_in_the_domain_of_the_partition() {
        for (region, expected) in [
            ("eu-west-1", "sts.eu-west-1.amazonaws.com"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("eusc-de-east-1", "sts.eusc-de-east-1.amazonaws.eu"),
            ("us-iso-east-1", "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "sts.us-isob-east-1.sc2s.sgov.gov"),
            ("us-isof-south-1", "sts.us-isof-south-1.csp.hci.ic.gov"),
            ("eu-isoe-west-1", "sts.eu-isoe-west-1.cloud.adc-e.uk"),
        ] {
            assert_eq!(host(region), expected);
            assert!(is_host(expected), "{expected}");
        }
    }

    #[test]
    fn other_hosts_are_not_sts() {
        for host in [
            "sts.amazonaws.com",
            "sts-fips.us-gov-west-1.amazonaws.com",
            "sts.us-west-2.api.aws",
            "sts.cn-north-1.api.amazonwebservices.com.cn",
            "sts.eusc-de-east-1.api.amazonwebservices.eu",
            "sts.eu-isoe-west-1.api.cloud-aws.adc-e.uk",
        ] {
            assert!(is_host(host), "{host}");
        }
        for host in [
            "",
            "sts",
            "ec2.us-west-2.amazonaws.com",
            "sts-x.us-west-2.amazonaws.com",
            "sts.example.com",
            "sts.us-west-2.amazonaws.com.example.com",
            "sts.us-west-2.notamazonaws.com",
            "sts.s3.us-west-2.amazonaws.com",
            "sts.s3.amazonaws.com",
            "sts.gov",
            "sts.us-iso-east-1.ic.gov",
        ] {
            assert!(!is_host(host), "{host}");
        }
    }
}
