//! EC2 queries for the selector terms of a class.

use std::collections::BTreeMap;

use muster_api::nodeclass::{Ec2NodeClassSpec, InstanceMatchCriteria};

/// A call of a Describe operation. All filters must match; each has a name and values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Filters.
    pub filters: Vec<(String, Vec<String>)>,
    /// Account IDs or aliases; images only.
    pub owners: Vec<String>,
    /// IDs, for calls without a filter for them; capacity reservations only.
    pub ids: Vec<String>,
}

impl Query {
    pub(super) fn of(name: &str, values: Vec<String>) -> Self {
        Self { filters: vec![(name.to_owned(), values)], ..Self::default() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.filters.push((name.to_owned(), vec![value.to_owned()]));
        self
    }

    pub(super) fn with_tags(mut self, tags: &BTreeMap<String, String>) -> Self {
        for (key, value) in tags {
            match value.as_str() {
                // Any value.
                "*" => self.filters.push(("tag-key".to_owned(), vec![key.clone()])),
                value => self.filters.push((format!("tag:{key}"), vec![value.to_owned()])),
            }
        }
        self
    }
}

/// Returns one query for all terms with an ID, and one for each term with tags.
#[must_use]
pub fn subnets(spec: &Ec2NodeClassSpec) -> Vec<Query> {
    let terms = &spec.subnet_selector_terms;
    let ids = by(terms.iter().filter_map(|term| term.id.clone()), "subnet-id");
    let tags = terms.iter().filter(|term| term.id.is_none()).map(|term| Query::default().with_tags(&term.tags));
    ids.into_iter().chain(tags).collect()
}

/// Returns one query for all terms with an ID, one for all terms with a name, and one for each term with tags.
#[must_use]
pub fn security_groups(spec: &Ec2NodeClassSpec) -> Vec<Query> {
    let terms = &spec.security_group_selector_terms;
    let ids = by(terms.iter().filter_map(|term| term.id.clone()), "group-id");
    let names = by(terms.iter().filter_map(|term| term.name.clone()), "group-name");
    let others = terms.iter().filter(|term| term.id.is_none() && term.name.is_none());
    ids.into_iter().chain(names).chain(others.map(|term| Query::default().with_tags(&term.tags))).collect()
}

/// Returns one query for each term, for reservations that can be used.
#[must_use]
pub fn capacity_reservations(spec: &Ec2NodeClassSpec) -> Vec<Query> {
    let terms = &spec.capacity_reservation_selector_terms;
    // One query for each ID: a call with one unknown ID fails as a whole.
    let ids = terms.iter().filter_map(|term| term.id.clone());
    let ids = ids.map(|id| Query { ids: vec![id], ..Query::default() });
    let others = terms.iter().filter(|term| term.id.is_none()).map(|term| {
        let mut query = Query::default().with_tags(&term.tags);
        if let Some(owner) = &term.owner_id {
            query = query.with("owner-id", owner);
        }
        match term.instance_match_criteria {
            Some(InstanceMatchCriteria::Open) => query.with("instance-match-criteria", "open"),
            Some(InstanceMatchCriteria::Targeted) => query.with("instance-match-criteria", "targeted"),
            None => query,
        }
    });
    ids.into_iter().chain(others).map(|query| query.with("state", "active")).collect()
}

/// Returns the query for the placement group, if one is selected.
#[must_use]
pub fn placement_group(spec: &Ec2NodeClassSpec) -> Option<Query> {
    let selector = spec.placement_group_selector.as_ref()?;
    match (&selector.name, &selector.id) {
        (Some(name), _) => Some(Query::of("group-name", vec![name.clone()])),
        (None, Some(id)) => Some(Query::of("group-id", vec![id.clone()])),
        (None, None) => None,
    }
}

fn by(values: impl Iterator<Item = String>, filter: &str) -> Option<Query> {
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| Query::of(filter, values))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_share_a_call_and_tags_have_their_own() {
        let spec: Ec2NodeClassSpec = serde_json::from_value(json!({
            "subnetSelectorTerms": [{"id": "subnet-1"}, {"tags": {"a": "b", "c": "*"}}, {"id": "subnet-2"}],
            "securityGroupSelectorTerms": [{"name": "one"}, {"name": "two"}, {"id": "sg-1"}],
            "capacityReservationSelectorTerms": [{"tags": {"team": "ml"}, "ownerID": "123456789012"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
        }))
        .unwrap();
        let text = |queries: Vec<Query>| -> Vec<String> {
            let filter = |(name, values): &(String, Vec<String>)| format!("{name}={}", values.join("|"));
            queries.iter().map(|query| query.filters.iter().map(filter).collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(text(subnets(&spec)), ["subnet-id=subnet-1|subnet-2", "tag:a=b tag-key=c"]);
        assert_eq!(text(security_groups(&spec)), ["group-id=sg-1", "group-name=one|two"]);
        assert_eq!(text(capacity_reservations(&spec)), ["tag:team=ml owner-id=123456789012 state=active"]);
        assert_eq!(placement_group(&spec), None);
    }
}
