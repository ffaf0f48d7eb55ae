//! EC2 queries for the selector terms of a class.

use std::collections::BTreeMap;

use muster_api::nodeclass::{
    CapacityReservationSelectorTerm, Ec2NodeClassSpec, InstanceMatchCriteria, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};

/// A call of a Describe operation. All filters must match; each has a name and values. Only the filter for the state of
/// an object comes without a selector: terms that select nothing lead to no query, or it would match the whole account.
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
    let ids = by(terms.iter().filter_map(SubnetSelectorTerm::selected_id), "subnet-id");
    let tagged = terms.iter().filter(|term| term.selected_id().is_none() && !term.tags.is_empty());
    ids.into_iter().chain(tagged.map(|term| Query::default().with_tags(&term.tags))).collect()
}

/// Returns one query for all terms with an ID, one for all terms with a name, and one for each term with tags.
#[must_use]
pub fn security_groups(spec: &Ec2NodeClassSpec) -> Vec<Query> {
    let terms = &spec.security_group_selector_terms;
    let ids = by(terms.iter().filter_map(SecurityGroupSelectorTerm::selected_id), "group-id");
    let names = by(terms.iter().filter_map(SecurityGroupSelectorTerm::selected_name), "group-name");
    let is_tagged = |term: &&SecurityGroupSelectorTerm| {
        term.selected_id().is_none() && term.selected_name().is_none() && !term.tags.is_empty()
    };
    let others = terms.iter().filter(is_tagged);
    ids.into_iter().chain(names).chain(others.map(|term| Query::default().with_tags(&term.tags))).collect()
}

/// Returns one query for each term, for reservations that can be used.
#[must_use]
pub fn capacity_reservations(spec: &Ec2NodeClassSpec) -> Vec<Query> {
    let terms = || spec.capacity_reservation_selector_terms.iter().filter(|term| term.empty_field().is_none());
    // One query for each ID: a call with one unknown ID fails as a whole.
    let ids = terms().filter_map(CapacityReservationSelectorTerm::selected_id);
    let ids = ids.map(|id| Query { ids: vec![id.to_owned()], ..Query::default() });
    let others = terms().filter(|term| term.selected_id().is_none()).map(|term| {
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

/// Returns the query for the placement group; `None` if the selector is absent or empty.
#[must_use]
pub fn placement_group(spec: &Ec2NodeClassSpec) -> Option<Query> {
    let selector = spec.placement_group_selector.as_ref()?;
    match (selector.selected_name(), selector.selected_id()) {
        (Some(name), _) => Some(Query::of("group-name", vec![name.to_owned()])),
        (None, Some(id)) => Some(Query::of("group-id", vec![id.to_owned()])),
        (None, None) => None,
    }
}

fn by<'t>(values: impl Iterator<Item = &'t str>, filter: &str) -> Option<Query> {
    let values: Vec<String> = values.map(str::to_owned).collect();
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
    #[test]
    fn an_empty_selector_leads_to_no_query() {
        let spec: Ec2NodeClassSpec = serde_json::from_value(json!({
            "subnetSelectorTerms": [{"tags": {}}, {"id": ""}],
            "securityGroupSelectorTerms": [{"tags": {}}, {"id": ""}, {"name": ""}],
            "capacityReservationSelectorTerms": [{"tags": {}, "ownerID": "123456789012"}, {"id": ""}],
            "placementGroupSelector": {"name": ""},
            "amiSelectorTerms": [{"tags": {}}],
        }))
        .unwrap();
        assert_eq!(subnets(&spec), []);
        assert_eq!(security_groups(&spec), []);
        assert_eq!(capacity_reservations(&spec), []);
        assert_eq!(placement_group(&spec), None);
    }

    #[test]
    fn an_empty_term_adds_nothing_to_the_others() {
        let spec: Ec2NodeClassSpec = serde_json::from_value(json!({
            "subnetSelectorTerms": [{"tags": {}}, {"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"name": ""}, {"name": "", "tags": {"a": "b"}}, {"id": "sg-1"}],
            "capacityReservationSelectorTerms": [{"tags": {}, "instanceMatchCriteria": "open"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
        }))
        .unwrap();
        assert_eq!(subnets(&spec), [Query::of("tag:a", vec!["b".to_owned()])]);
        let groups = [Query::of("group-id", vec!["sg-1".to_owned()]), Query::of("tag:a", vec!["b".to_owned()])];
        assert_eq!(security_groups(&spec), groups);
        let open = Query::of("instance-match-criteria", vec!["open".to_owned()]).with("state", "active");
        assert_eq!(capacity_reservations(&spec), [open]);
    }
}
