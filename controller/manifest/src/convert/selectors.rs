//! Conversion of v1alpha1 selectors (maps whose entries must all match, with commas between alternatives) to terms of
//! v1.

use serde_json::{Map, Value, json};

/// Returns the terms of a selector. `own` has the keys that are not tags, and their fields in a term.
pub(super) fn terms(selector: &Map<String, Value>, own: &[(&str, &str)]) -> Vec<Value> {
    let mut terms: Vec<Map<String, Value>> = vec![Map::new()];
    for (key, value) in selector {
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        let mut alternatives: Vec<&str> = text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
        if alternatives.is_empty() {
            // Kept for v1 to refuse: no alternative would leave no term, and a term without the key would match more.
            alternatives.push("");
        }
        let field = own.iter().find(|(name, _)| name == key).map(|(_, field)| *field);
        // Terms are alternatives: each term is combined with each alternative.
        terms = terms
            .iter()
            .flat_map(|term| {
                alternatives.iter().map(move |one| {
                    let mut term = term.clone();
                    match field {
                        Some(field) => drop(term.insert(field.to_owned(), json!(one))),
                        None => {
                            let tags = term.entry("tags").or_insert_with(|| json!({}));
                            tags[key.as_str()] = json!(one);
                        }
                    }
                    term
                })
            })
            .collect();
    }
    terms.into_iter().filter(|term| !term.is_empty()).map(Value::Object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_alternatives_and_keys_hold_together() {
        let selector = json!({"aws-ids": "subnet-1, subnet-2", "team": "a,b"});
        let own = [("aws-ids", "id")];
        assert_eq!(
            json!(terms(selector.as_object().unwrap(), &own)),
            json!([
                {"id": "subnet-1", "tags": {"team": "a"}}, {"id": "subnet-1", "tags": {"team": "b"}},
                {"id": "subnet-2", "tags": {"team": "a"}}, {"id": "subnet-2", "tags": {"team": "b"}},
            ])
        );
        assert!(terms(&Map::new(), &own).is_empty());
    }

    #[test]
    fn an_empty_value_does_not_remove_the_other_keys() {
        for empty in ["", " , "] {
            let selector = json!({"aws-ids": "subnet-1", "team": empty});
            assert_eq!(
                json!(terms(selector.as_object().unwrap(), &[("aws-ids", "id")])),
                json!([{"id": "subnet-1", "tags": {"team": ""}}])
            );
        }
    }
}
