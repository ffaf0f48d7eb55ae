//! Pods counted by workload: `web ×12, cart ×6` instead of eighteen names.

use std::fmt;

use super::super::printable::plain_name;

/// Number of workloads that are named; the others are counted.
const NAMED: usize = 4;

/// Number of pods by workload, in the order of their first pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WorkloadCounts(Vec<(String, usize)>);

impl WorkloadCounts {
    /// Counts `pods` (`namespace/name`).
    pub(crate) fn new<'a>(pods: impl IntoIterator<Item = &'a str>) -> Self {
        let mut counts: Vec<(String, usize)> = Vec::new();
        let mut position_by_workload = std::collections::HashMap::new();
        for pod in pods {
            let workload = workload_of(pod);
            let position = *position_by_workload.entry(workload).or_insert(counts.len());
            match counts.get_mut(position) {
                Some((_, count)) => *count += 1,
                None => counts.push((workload.to_owned(), 1)),
            }
        }
        Self(counts)
    }

    /// Returns the number of pods.
    pub(crate) fn pods(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl fmt::Display for WorkloadCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One more is named if "and 1 more" would take the space of a name.
        let named = if self.0.len() <= NAMED + 1 { self.0.len() } else { NAMED };
        for (number, (workload, count)) in self.0.iter().take(named).enumerate() {
            let gap = if number > 0 { ", " } else { "" };
            write!(f, "{gap}{}", plain_name(workload))?;
            if *count > 1 {
                write!(f, " ×{count}")?;
            }
        }
        match self.0.len() - named {
            0 => Ok(()),
            rest => write!(f, ", and {rest} more workloads"),
        }
    }
}

/// Returns a pod's name without its ordinal, and without the namespace `default`.
fn workload_of(pod: &str) -> &str {
    let pod = pod.strip_prefix("default/").unwrap_or(pod);
    match pod.rsplit_once('-') {
        Some((workload, ordinal)) if !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit()) => {
            workload
        }
        _ => pod,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_counted_and_names_kept() {
        let counts = WorkloadCounts::new(["default/web-0", "default/web-1", "shop/cart-10", "default/one-off"]);
        assert_eq!(counts.to_string(), "web ×2, shop/cart, one-off");
        assert_eq!(counts.pods(), 4);
    }

    #[test]
    fn long_lists_end_in_a_count() {
        let names: Vec<String> = (b'a'..b'h').map(|letter| format!("default/{}-0", char::from(letter))).collect();
        let counts = WorkloadCounts::new(names.iter().map(String::as_str));
        assert_eq!(counts.to_string(), "a, b, c, d, and 3 more workloads");
    }
}
