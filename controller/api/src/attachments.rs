//! Numbers of EBS volumes that EC2 instances can attach.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// CSI driver of EBS volumes.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// Attachments of a Nitro instance whose type is not in the table.
const USUAL: Attachments = Attachments { count: 27, shared: true };

/// Network interfaces beyond the first that a node has once the driver of EBS volumes starts: the CNI plugin of the VPC
/// attaches one in advance.
const MORE_INTERFACES: u32 = 1;

/// Attachments of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attachments {
    count: u32,
    /// True if network interfaces beyond the first take attachments, too.
    shared: bool,
}

/// Returns the number of volumes that the driver of EBS volumes will report for a new node of `instance_type`, which is
/// launched with `disks` volumes: at least one, as by the driver.
#[must_use]
pub fn ebs_volumes(instance_type: &str, disks: u32) -> u32 {
    let Attachments { count, shared } = attachments(instance_type);
    let interfaces = if shared { MORE_INTERFACES } else { 0 };
    count.saturating_sub(disks.max(1)).saturating_sub(interfaces).max(1)
}

fn attachments(instance_type: &str) -> Attachments {
    static TABLE: LazyLock<BTreeMap<(&str, &str), Attachments>> = LazyLock::new(|| rows().collect());
    let row = instance_type.split_once('.').and_then(|name| TABLE.get(&name));
    row.copied().unwrap_or(USUAL)
}

/// Returns the rows of the table, by family and size.
fn rows() -> impl Iterator<Item = ((&'static str, &'static str), Attachments)> {
    let rows = include_str!("../data/attach-limits.tsv").lines().filter(|row| !row.starts_with('#'));
    rows.filter_map(|row| {
        let mut columns = row.split('\t');
        let (family, shared) = (columns.next()?, columns.next()? == "shared");
        let groups = columns.next()?.split(' ').filter_map(|group| group.split_once(':'));
        Some(groups.flat_map(move |(count, sizes)| {
            let count = count.parse().ok();
            let of_size = move |size| Some(((family, size), Attachments { count: count?, shared }));
            sizes.split(',').filter_map(of_size)
        }))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_types_can_attach() {
        // Of 27, the root volume and a second interface take one each.
        assert_eq!(ebs_volumes("m5.large", 1), 25);
        assert_eq!(ebs_volumes("m7g.xlarge", 2), 24);
        // Dedicated attachments are for volumes alone.
        assert_eq!(ebs_volumes("m7i.large", 1), 31);
        assert_eq!(ebs_volumes("m7i.48xlarge", 1), 127);
        assert_eq!(ebs_volumes("m4.large", 1), 38);
        assert_eq!(ebs_volumes("d3.8xlarge", 1), 1);
        assert_eq!(ebs_volumes("d3.8xlarge", 9), 1);
        assert_eq!(ebs_volumes("unknown", 1), 25);
    }

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = include_str!("../data/attach-limits.tsv").lines().filter(|row| !row.starts_with('#'));
        let mut types = 0;
        for row in rows {
            let columns: Vec<&str> = row.split('\t').collect();
            let [family, kind, groups] = columns[..] else { panic!("{row}") };
            for (count, size) in groups.split(' ').flat_map(|group| {
                let (count, sizes) = group.split_once(':').expect(row);
                sizes.split(',').map(move |size| (count, size))
            }) {
                let expected = Attachments { count: count.parse().expect(row), shared: kind == "shared" };
                assert_eq!(attachments(&format!("{family}.{size}")), expected, "{row}");
                types += 1;
            }
        }
        assert!(types > 500, "{types}");
    }
}
