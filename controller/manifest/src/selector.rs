//! Label selectors, node selectors, taints and tolerations.

use std::sync::Arc;

use muster_scheduling::model::{
    Effect, LabelSelector, Labels, Operator, Requirement, Requirements, SelectorOperator, SelectorTerm, Taint,
    Toleration,
};

use super::field::{Decoded, Field};

/// Reads a `LabelSelector`; the caller decides what an absent one means.
pub(crate) fn label_selector(field: Field<'_>) -> Decoded<LabelSelector> {
    field.only(&["matchLabels", "matchExpressions"]);
    let labels = field.read_or_default("matchLabels", |labels| labels.labels())?;
    let mut terms: Vec<SelectorTerm> = labels
        .iter()
        .map(|(key, value)| SelectorTerm {
            key: Arc::clone(key),
            operator: SelectorOperator::In,
            values: vec![Arc::clone(value)],
        })
        .collect();
    terms.extend(field.list("matchExpressions", selector_term)?);
    terms.sort();
    terms.dedup();
    Ok(LabelSelector::Terms(terms))
}

fn selector_term(field: Field<'_>) -> Decoded<SelectorTerm> {
    field.only(&["key", "operator", "values"]);
    let operator_field = field.require("operator")?;
    let operator = match operator_field.text()? {
        "In" => SelectorOperator::In,
        "NotIn" => SelectorOperator::NotIn,
        "Exists" => SelectorOperator::Exists,
        "DoesNotExist" => SelectorOperator::DoesNotExist,
        other => return Err(unknown_word(&operator_field, other, &["In", "NotIn", "Exists", "DoesNotExist"])),
    };
    let mut values = field.list("values", |value| value.shared())?;
    let needs_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
    if needs_values == values.is_empty() {
        return Err(wrong_count(&field, needs_values));
    }
    values.sort();
    values.dedup();
    Ok(SelectorTerm { key: field.require("key")?.shared()?, operator, values })
}

/// Returns a fault for a word that is not in `known`.
pub(crate) fn unknown_word(field: &Field<'_>, word: &str, known: &[&str]) -> Box<super::field::Fault> {
    let hint = format!("use one of {}", known.join(", "));
    field.fault(format!("`{}` is not known here", super::tree::shorten(word)), hint)
}

fn wrong_count(field: &Field<'_>, needs_values: bool) -> Box<super::field::Fault> {
    if needs_values {
        field.fault_at("values", "is empty, which this operator does not allow", "add at least one value")
    } else {
        field.fault_at("values", "is not empty, which this operator does not allow", "remove the values")
    }
}

/// Term of a node selector: its requirements, and its `matchFields` as text.
pub(crate) struct NodeSelectorTerm {
    /// Match expressions.
    pub(crate) requirements: Requirements,
    /// `matchFields`, as text.
    pub(crate) match_fields: Option<Arc<str>>,
    /// True if the term is empty: it then matches no nodes.
    pub(crate) empty: bool,
    /// A label about which expressions exclude each other, so that the term matches no node.
    pub(crate) contradiction: Option<Arc<str>>,
}

/// Reads a `nodeSelectorTerm`.
pub(crate) fn node_selector_term(field: Field<'_>) -> Decoded<NodeSelectorTerm> {
    field.only(&["matchExpressions", "matchFields"]);
    let expressions = field.list("matchExpressions", node_requirement)?;
    let fields = field.list("matchFields", |item| {
        let operator = item.require("operator")?.shared()?;
        let values = item.list("values", |value| value.shared())?;
        Ok(format!("{} {operator} [{}]", item.require("key")?.text()?, values.join(" ")))
    })?;
    let empty = expressions.is_empty() && fields.is_empty();
    let (mut requirements, mut contradiction) = (Requirements::new(), None);
    for (key, requirement) in expressions {
        // Together they would read as a label that is absent, which no node meets: each alone asks for more.
        let is_met = |known: &Requirement| {
            known.overlaps(&requirement) || known.allows_absence() && requirement.allows_absence()
        };
        if requirements.get(&key).is_some_and(|known| !is_met(known)) {
            contradiction = Some(Arc::clone(&key));
        }
        requirements.add(key, requirement);
    }
    Ok(NodeSelectorTerm {
        empty,
        contradiction,
        requirements,
        match_fields: (!fields.is_empty()).then(|| fields.join(", ").into()),
    })
}

/// Reads a `nodeSelectorRequirement` of a pod or a volume.
fn node_requirement(field: Field<'_>) -> Decoded<(Arc<str>, Requirement)> {
    const KNOWN: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    requirement(field, &KNOWN, ValueCount::Checked)
}

/// Reads a requirement of a NodePool, NodeClaim or NodeOverlay, which have more operators and `minValues`. Their CRDs
/// accept values of `Exists` and `DoesNotExist`, which are ignored, and `NotIn` without any, which is `Exists`.
pub(crate) fn pool_requirement(field: Field<'_>) -> Decoded<(Arc<str>, Requirement)> {
    const KNOWN: [&str; 8] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];
    requirement(field, &KNOWN, ValueCount::Free)
}

/// Rule about the number of values with `NotIn`, `Exists` and `DoesNotExist`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueCount {
    /// Some with `NotIn`, none with the others.
    Checked,
    /// Any number.
    Free,
}

fn requirement(field: Field<'_>, known: &[&str], count: ValueCount) -> Decoded<(Arc<str>, Requirement)> {
    field.only(&["key", "operator", "values", "minValues"]);
    let operator_field = field.require("operator")?;
    let word = operator_field.text()?;
    let operator = match word {
        _ if !known.contains(&word) => return Err(unknown_word(&operator_field, word, known)),
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        "Gte" => Operator::Gte,
        _ => Operator::Lte,
    };
    let values = field.list("values", |value| value.shared())?;
    let is_checked = count == ValueCount::Checked;
    match operator {
        Operator::In if values.is_empty() => return Err(wrong_count(&field, true)),
        Operator::NotIn if is_checked && values.is_empty() => return Err(wrong_count(&field, true)),
        Operator::Exists | Operator::DoesNotExist if is_checked && !values.is_empty() => {
            return Err(wrong_count(&field, false));
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let bound = values.first().and_then(|value| value.parse::<i64>().ok());
            if values.len() != 1 || bound.is_none() {
                let problem = format!("must be exactly one whole number with operator {word}");
                return Err(field.fault_at("values", problem, "write one value, such as `[\"4\"]`"));
            }
        }
        _ => {}
    }
    let min_values = field.read("minValues", |value| value.count())?;
    let key = field.require("key")?.shared()?;
    if key.is_empty() {
        return Err(field.fault_at("key", "is empty", "name the label"));
    }
    Ok((key, Requirement::new(operator, values).with_min_values(min_values)))
}

fn effect(field: Field<'_>) -> Decoded<Option<Effect>> {
    Ok(Some(match field.text()? {
        "" => return Ok(None),
        "NoSchedule" => Effect::NoSchedule,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        "NoExecute" => Effect::NoExecute,
        other => return Err(unknown_word(&field, other, &["NoSchedule", "PreferNoSchedule", "NoExecute"])),
    }))
}

/// Reads a taint.
pub(crate) fn taint(field: Field<'_>) -> Decoded<Taint> {
    field.only(&["key", "value", "effect", "timeAdded"]);
    let effect = field.read("effect", effect)?.flatten();
    Ok(Taint {
        key: field.require("key")?.shared()?,
        value: field.read("value", |value| value.shared())?.unwrap_or_default(),
        effect: effect.ok_or_else(|| field.fault_at("effect", "is missing", "add an effect, such as `NoSchedule`"))?,
    })
}

/// Reads a toleration.
pub(crate) fn toleration(field: Field<'_>) -> Decoded<Toleration> {
    field.only(&["key", "operator", "value", "effect", "tolerationSeconds"]);
    let key = field.shared_at("key")?;
    let value = field.read("value", |value| value.shared())?.unwrap_or_default();
    let word = field.read("operator", |operator| {
        let word = operator.shared()?;
        match &*word {
            "" | "Equal" | "Exists" => Ok(word),
            other => Err(unknown_word(&operator, other, &["Equal", "Exists"])),
        }
    })?;
    let exists = word.as_deref() == Some("Exists");
    if key.is_none() && !exists {
        return Err(field.fault_at(
            "operator",
            "must be Exists when `key` is empty",
            "add a key, or use operator Exists",
        ));
    }
    if exists && !value.is_empty() {
        return Err(field.fault_at(
            "value",
            "must be empty with operator Exists",
            "remove the value, or use operator Equal",
        ));
    }
    Ok(Toleration { key, value: (!exists).then_some(value), effect: field.read("effect", effect)?.flatten() })
}

/// Returns the selector of a Service or ReplicationController, which requires `labels`; empty ones select no pods.
pub(crate) fn of_labels(labels: &Labels) -> LabelSelector {
    let term = |(key, value): (&Arc<str>, &Arc<str>)| SelectorTerm {
        key: Arc::clone(key),
        operator: SelectorOperator::In,
        values: vec![Arc::clone(value)],
    };
    if labels.is_empty() { LabelSelector::Nothing } else { LabelSelector::Terms(labels.iter().map(term).collect()) }
}
