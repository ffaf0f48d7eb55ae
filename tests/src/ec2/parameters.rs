//! The parameters of a call: `LaunchTemplateConfigs.1.Overrides.2.SubnetId` in the query protocol, a document in JSON.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a call asks, as it was sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Parameters {
    /// Query protocol: names as sent, without `Action` and `Version`.
    pub(super) query: BTreeMap<String, String>,
    /// JSON protocols: the body; `Null` in the query protocol.
    pub(super) json: Value,
}

impl Parameters {
    /// From a form body or the query of an address.
    pub(super) fn from_form(form: &[u8]) -> Self {
        let query = form_urlencoded::parse(form).map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        Self { query, json: Value::Null }
    }

    /// The parameter `name`, empty counts as absent.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A number; `None` if absent or not a number.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }

    /// `true` and nothing else.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// `name.1`, `name.2`, … in order.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.groups(name).into_iter().filter_map(|group| group.query.get("").cloned()).collect()
    }

    /// `name.1.…`, `name.2.…` in order, each as parameters of its own. A plain `name.1=x` is the parameter with no name.
    pub(super) fn groups(&self, name: &str) -> Vec<Self> {
        let mut groups: BTreeMap<u32, Self> = BTreeMap::new();
        for (key, value) in &self.query {
            let Some(rest) = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) else { continue };
            let (index, field) = rest.split_once('.').unwrap_or((rest, ""));
            let Ok(index) = index.parse() else { continue };
            groups.entry(index).or_default().query.insert(field.to_owned(), value.clone());
        }
        groups.into_values().collect()
    }

    /// Everything below `name.`, as parameters of its own.
    pub(super) fn below(&self, name: &str) -> Self {
        let query = self.query.iter().filter_map(|(key, value)| {
            let rest = key.strip_prefix(name)?.strip_prefix('.')?;
            Some((rest.to_owned(), value.clone()))
        });
        Self { query: query.collect(), json: Value::Null }
    }

    /// The values of `Filter.N` with the name `name`; `None` if there is no such filter.
    pub(super) fn filter(&self, name: &str) -> Option<Vec<String>> {
        let filters = self.groups("Filter");
        let named = filters.iter().filter(|filter| filter.text("Name") == Some(name)).collect::<Vec<_>>();
        (!named.is_empty()).then(|| named.iter().flat_map(|filter| filter.list("Value")).collect())
    }

    /// The tags of `TagSpecification.N` for one kind of resource.
    pub(super) fn tags_for(&self, resource: &str) -> BTreeMap<String, String> {
        self.groups("TagSpecification")
            .iter()
            .filter(|specification| specification.text("ResourceType") == Some(resource))
            .flat_map(|specification| specification.groups("Tag"))
            .filter_map(|tag| Some((tag.text("Key")?.to_owned(), tag.text("Value").unwrap_or_default().to_owned())))
            .collect()
    }

    /// As recorded: one object, whatever the protocol.
    pub(super) fn to_value(&self) -> Value {
        match &self.json {
            Value::Null => self.query.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect(),
            json => json.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_groups_are_read_in_the_order_of_their_numbers() {
        let parameters = Parameters::from_form(
            b"InstanceId.2=b&InstanceId.1=a&InstanceId.10=c&Filter.1.Name=tag%3Ax&Filter.1.Value.1=1&Filter.1.Value.2=2&O.P.Q=7",
        );
        assert_eq!(parameters.list("InstanceId"), ["a", "b", "c"]);
        assert_eq!(parameters.filter("tag:x").unwrap(), ["1", "2"]);
        assert_eq!(parameters.filter("tag:y"), None);
        assert_eq!(parameters.below("O").number::<u8>("P.Q"), Some(7));
    }
}
