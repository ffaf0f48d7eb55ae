//! PodDisruptionBudgets of one namespace, by labels of the pods that they select.

use rustc_hash::FxHashMap;

use muster_scheduling::model::{LabelSelector, SelectorOperator};

use crate::{DisruptionBudget, Pod};

/// Most budgets of a pod: the eviction API refuses a pod that two of them select, and more add nothing.
const MOST: usize = 2;

/// The budgets of a namespace. One with thousands of budgets and pods must not delay the others: a pod is compared with
/// those budgets only that ask for one of its labels.
#[derive(Debug, Default)]
pub(super) struct Selectors<'m> {
    /// Budgets by a label that all pods have that they select.
    by_label: FxHashMap<(&'m str, &'m str), Vec<Numbered<'m>>>,
    /// Budgets that ask for no label with a value.
    others: Vec<Numbered<'m>>,
}

/// A budget, with its index among those of the snapshot.
type Numbered<'m> = (usize, &'m DisruptionBudget);

impl<'m> Selectors<'m> {
    pub(super) fn add(&mut self, number: usize, budget: &'m DisruptionBudget) {
        let LabelSelector::Terms(terms) = &budget.selector else { return };
        let Some(term) = terms.iter().find(|term| term.operator == SelectorOperator::In) else {
            self.others.push((number, budget));
            return;
        };
        for value in &term.values {
            self.by_label.entry((&term.key, value)).or_default().push((number, budget));
        }
    }

    /// Returns the indices of budgets that select the pod, at most [`MOST`], ascending.
    pub(super) fn of(&self, pod: &Pod) -> Vec<usize> {
        let labels = &pod.template.labels;
        let by_label = labels.iter().filter_map(|(key, value)| self.by_label.get(&(&**key, &**value)));
        let selects =
            |(_, budget): &&Numbered<'_>| (pod.ready || !budget.evicts_unready) && budget.selector.matches(labels);
        let all = by_label.flatten().chain(&self.others).filter(selects);
        let mut found: Vec<usize> = all.take(MOST).map(|(number, _)| *number).collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_text;

    fn budget(name: &str, rest: &str) -> String {
        format!(
            "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: {name}}}, spec: {{minAvailable: 1, {rest}}}}}\n---\n"
        )
    }

    #[test]
    fn budgets_are_those_that_select_the_pod() {
        let text = [
            "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: web, tier: front}}, spec: {containers: [{name: c}]}}\n---\n",
            &budget("other", "selector: {matchLabels: {app: shop}}"),
            &budget("both", "selector: {matchLabels: {app: web, tier: back}}"),
            &budget("value", "selector: {matchExpressions: [{key: tier, operator: In, values: [back, front]}]}"),
            &budget("unready", "unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}"),
            &budget("key", "selector: {matchExpressions: [{key: app, operator: Exists}]}"),
            &budget("all", "selector: {}"),
            &budget("none", ""),
        ]
        .concat();
        let manifests = read_text("input", &text).unwrap();
        let found = |pod: &Pod, names: &[&str]| -> Vec<String> {
            let mut selectors = Selectors::default();
            let budgets = manifests.disruption_budgets.iter().enumerate();
            let asked = budgets.filter(|(_, budget)| names.contains(&&*budget.meta.name));
            asked.for_each(|(number, budget)| selectors.add(number, budget));
            let name = |number: usize| manifests.disruption_budgets[number].meta.name.to_string();
            selectors.of(pod).into_iter().map(name).collect()
        };
        let unready = manifests.pods[0].clone();
        let ready = Pod { ready: true, ..unready.clone() };
        for one in ["value", "key", "all"] {
            assert_eq!(found(&unready, &["other", "both", "none", "unready", one]), [one]);
        }
        assert_eq!(found(&ready, &["unready", "other"]), ["unready"]);
        assert_eq!(found(&ready, &["all", "value", "unready", "key"]).len(), MOST, "more add nothing");
    }
}
