//! Selector terms that are ignored because every selector in them is empty.
//!
//! The CRD admits `tags: {}` and an empty name. A query without a filter would match everything in the account, so such
//! a term selects nothing, as in Karpenter since v1.15.3.

use std::fmt;

use super::Ec2NodeClassSpec;
use super::selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};

/// A selector term that is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredTerm {
    /// Path of the empty field, for instance `spec.subnetSelectorTerms[1].tags`.
    pub path: String,
}

/// Selector lists of which at least one term must select something, or no node can be launched.
const NEEDED: [&str; 3] = ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"];

/// Returns the text of a selector; `None` if it is absent or empty.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Returns the first of the optional selectors that is set to an empty string, else `tags`.
fn empty_one(selectors: &[(&'static str, &Option<String>)]) -> &'static str {
    selectors.iter().find(|(_, text)| text.is_some()).map_or("tags", |(name, _)| *name)
}

// === impl SubnetSelectorTerm ===

impl SubnetSelectorTerm {
    /// Returns the ID, unless it is empty.
    #[must_use]
    pub fn selected_id(&self) -> Option<&str> {
        given(&self.id)
    }

    /// Returns the name of the empty field if the term selects nothing.
    #[must_use]
    pub fn empty_field(&self) -> Option<&'static str> {
        (self.selected_id().is_none() && self.tags.is_empty()).then(|| empty_one(&[("id", &self.id)]))
    }
}

// === impl SecurityGroupSelectorTerm ===

impl SecurityGroupSelectorTerm {
    /// Returns the ID, unless it is empty.
    #[must_use]
    pub fn selected_id(&self) -> Option<&str> {
        given(&self.id)
    }

    /// Returns the name, unless it is empty.
    #[must_use]
    pub fn selected_name(&self) -> Option<&str> {
        given(&self.name)
    }

    /// Returns the name of the empty field if the term selects nothing.
    #[must_use]
    pub fn empty_field(&self) -> Option<&'static str> {
        let selects = self.selected_id().is_some() || self.selected_name().is_some() || !self.tags.is_empty();
        (!selects).then(|| empty_one(&[("id", &self.id), ("name", &self.name)]))
    }
}

// === impl CapacityReservationSelectorTerm ===

impl CapacityReservationSelectorTerm {
    /// Returns the ID, unless it is empty.
    #[must_use]
    pub fn selected_id(&self) -> Option<&str> {
        given(&self.id)
    }

    /// Returns the name of the empty field if the term selects nothing. An owner alone is not a selector.
    #[must_use]
    pub fn empty_field(&self) -> Option<&'static str> {
        let selects = self.selected_id().is_some() || self.instance_match_criteria.is_some() || !self.tags.is_empty();
        (!selects).then(|| empty_one(&[("id", &self.id)]))
    }
}

// === impl PlacementGroupSelector ===

impl PlacementGroupSelector {
    /// Returns the name, unless it is empty.
    #[must_use]
    pub fn selected_name(&self) -> Option<&str> {
        given(&self.name)
    }

    /// Returns the ID, unless it is empty.
    #[must_use]
    pub fn selected_id(&self) -> Option<&str> {
        given(&self.id)
    }
}

// === impl AmiSelectorTerm ===

impl AmiSelectorTerm {
    /// Returns the alias, unless it is empty.
    #[must_use]
    pub fn selected_alias(&self) -> Option<&str> {
        given(&self.alias)
    }

    /// Returns the ID, unless it is empty.
    #[must_use]
    pub fn selected_id(&self) -> Option<&str> {
        given(&self.id)
    }

    /// Returns the name, unless it is empty.
    #[must_use]
    pub fn selected_name(&self) -> Option<&str> {
        given(&self.name)
    }

    /// Returns the name of the SSM parameter, unless it is empty.
    #[must_use]
    pub fn selected_parameter(&self) -> Option<&str> {
        given(&self.ssm_parameter)
    }

    /// Returns the name of the empty field if the term selects nothing. An owner alone is not a selector.
    #[must_use]
    pub fn empty_field(&self) -> Option<&'static str> {
        let texts =
            [("alias", &self.alias), ("id", &self.id), ("name", &self.name), ("ssmParameter", &self.ssm_parameter)];
        let selects = texts.iter().any(|(_, text)| given(text).is_some()) || !self.tags.is_empty();
        (!selects).then(|| empty_one(&texts))
    }
}

// === impl Ec2NodeClassSpec ===

impl Ec2NodeClassSpec {
    /// Returns the selector terms that are ignored, in the order of the fields.
    #[must_use]
    pub fn ignored_terms(&self) -> Vec<IgnoredTerm> {
        self.empty_fields()
            .into_iter()
            .flat_map(|(list, fields)| {
                let terms = fields.into_iter().enumerate();
                terms.filter_map(move |(index, field)| {
                    field.map(|field| IgnoredTerm { path: format!("spec.{list}[{index}].{field}") })
                })
            })
            .collect()
    }

    /// Returns the lists that select nothing although nodes need what they select, such as `subnetSelectorTerms`.
    #[must_use]
    pub fn lists_without_selectors(&self) -> Vec<&'static str> {
        let lists = self.empty_fields().into_iter();
        let selects_nothing = |fields: &[Option<&str>]| fields.iter().all(Option::is_some);
        lists.filter(|(list, fields)| NEEDED.contains(list) && selects_nothing(fields)).map(|(list, _)| list).collect()
    }

    /// Returns the empty field of each term, by list; `None` for terms that select something.
    fn empty_fields(&self) -> [(&'static str, Vec<Option<&'static str>>); 4] {
        let subnets = self.subnet_selector_terms.iter().map(SubnetSelectorTerm::empty_field);
        let groups = self.security_group_selector_terms.iter().map(SecurityGroupSelectorTerm::empty_field);
        let reservations =
            self.capacity_reservation_selector_terms.iter().map(CapacityReservationSelectorTerm::empty_field);
        let images = self.ami_selector_terms.iter().map(AmiSelectorTerm::empty_field);
        [
            ("subnetSelectorTerms", subnets.collect()),
            ("securityGroupSelectorTerms", groups.collect()),
            ("capacityReservationSelectorTerms", reservations.collect()),
            ("amiSelectorTerms", images.collect()),
        ]
    }
}

// === impl IgnoredTerm ===

impl IgnoredTerm {
    /// Returns true if the term is in the list `spec.<list>`.
    #[must_use]
    pub fn is_in(&self, list: &str) -> bool {
        let rest = self.path.strip_prefix("spec.").and_then(|path| path.strip_prefix(list));
        rest.is_some_and(|rest| rest.starts_with('['))
    }
}

impl fmt::Display for IgnoredTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is empty: the term selects nothing and is ignored", self.path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(fields: &Value) -> Ec2NodeClassSpec {
        let mut spec = json!({
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
        });
        for (field, value) in fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn paths(fields: &Value) -> Vec<String> {
        spec(fields).ignored_terms().into_iter().map(|term| term.path).collect()
    }

    #[test]
    fn a_term_with_nothing_but_an_empty_selector_is_ignored() {
        for (fields, expected) in [
            (json!({}), vec![]),
            (json!({"subnetSelectorTerms": [{"id": "subnet-1"}, {"tags": {}}]}), vec!["subnetSelectorTerms[1].tags"]),
            (json!({"subnetSelectorTerms": [{"id": ""}]}), vec!["subnetSelectorTerms[0].id"]),
            (json!({"subnetSelectorTerms": [{"id": "subnet-1", "tags": {}}]}), vec![]),
            (
                json!({"securityGroupSelectorTerms": [{"name": ""}, {"tags": {}}, {"name": "", "tags": {"a": "b"}}]}),
                vec!["securityGroupSelectorTerms[0].name", "securityGroupSelectorTerms[1].tags"],
            ),
            (
                json!({"amiSelectorTerms": [
                    {"owner": "self", "name": ""}, {"owner": "self", "tags": {}}, {"ssmParameter": ""}, {"name": "*"},
                ]}),
                vec!["amiSelectorTerms[0].name", "amiSelectorTerms[1].tags", "amiSelectorTerms[2].ssmParameter"],
            ),
            (
                json!({"capacityReservationSelectorTerms": [
                    {"tags": {}, "ownerID": "012345678901"}, {"tags": {}, "instanceMatchCriteria": "open"},
                ]}),
                vec!["capacityReservationSelectorTerms[0].tags"],
            ),
        ] {
            let expected: Vec<String> = expected.into_iter().map(|path| format!("spec.{path}")).collect();
            assert_eq!(paths(&fields), expected, "{fields}");
        }
    }

    #[test]
    fn a_list_without_another_term_selects_nothing() {
        let without = |fields: Value| spec(&fields).lists_without_selectors();
        assert!(without(json!({"subnetSelectorTerms": [{"tags": {}}, {"id": "subnet-1"}]})).is_empty());
        assert_eq!(without(json!({"subnetSelectorTerms": [{"tags": {}}, {"id": ""}]})), ["subnetSelectorTerms"]);
        let all = json!({"securityGroupSelectorTerms": [{"name": ""}], "amiSelectorTerms": [{"tags": {}}]});
        assert_eq!(without(all), ["securityGroupSelectorTerms", "amiSelectorTerms"]);
        // Reservations may be missing.
        assert!(without(json!({"capacityReservationSelectorTerms": [{"tags": {}}]})).is_empty());
    }

    #[test]
    fn the_warning_names_the_field() {
        let ignored = spec(&json!({"subnetSelectorTerms": [{"tags": {}}]})).ignored_terms();
        let text = "`spec.subnetSelectorTerms[0].tags` is empty: the term selects nothing and is ignored";
        assert_eq!(ignored[0].to_string(), text);
        assert!(ignored[0].is_in("subnetSelectorTerms") && !ignored[0].is_in("subnetSelector"));
    }
}
