//! Default topology spread of the cluster, from a KubeSchedulerConfiguration.

use muster_scheduling::model::{LabelSelector, Labels, SpreadConstraint};

use super::document::{Origin, each_object};
use super::error::InputError;
use super::field::{Decoded, Fault, Field, Unknown};
use super::placement::spread;
use super::selector::unknown_word;
use super::source::Source;
use super::tree::Tree;

/// Spread of pods without constraints. The selectors are those of each pod's Services and owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultSpread {
    /// `defaultConstraints`, with their selectors unset.
    pub constraints: Vec<SpreadConstraint>,
}

const KIND: &str = "KubeSchedulerConfiguration";
const GROUP: &str = "kubescheduler.config.k8s.io";

/// Reads the configuration in `source`.
pub(crate) fn read(source: &Source) -> Result<DefaultSpread, InputError> {
    let mut found = None;
    each_object(source, &mut |tree, origin| {
        let text = |key: &str| tree.get(key).and_then(Tree::text).unwrap_or_default();
        if text("kind") != KIND || super::version::split(text("apiVersion")).0 != GROUP {
            return Ok(());
        }
        let unknown = Unknown::default();
        let spread = config(&Field::root(tree, &unknown)).map_err(|fault| refuse(origin, *fault))?;
        found.get_or_insert(spread);
        Ok(())
    })?;
    found.ok_or_else(|| InputError::File {
        file: source.name.clone(),
        reason: format!("it holds no {KIND} of {GROUP}"),
        hint: "name the file that kube-scheduler is started with (`--config`)".to_owned(),
    })
}

fn refuse(origin: &Origin<'_>, fault: Fault) -> InputError {
    InputError::Field {
        place: origin.place(&fault.path),
        object: KIND.to_owned(),
        field: fault.path,
        problem: fault.problem,
        hint: fault.hint,
    }
}

fn config(config: &Field<'_>) -> Decoded<DefaultSpread> {
    let profiles = config.list("profiles", |profile| {
        let name = profile.shared_at("schedulerName")?;
        let plugins = profile.list("pluginConfig", |plugin| {
            if plugin.shared_at("name")?.as_deref() != Some("PodTopologySpread") {
                return Ok(None);
            }
            plugin.read("args", arguments)
        })?;
        Ok((name.is_none_or(|name| &*name == "default-scheduler"), plugins.into_iter().flatten().next()))
    })?;
    // Pods without a scheduler name use the default scheduler.
    let (ordinary, others): (Vec<_>, Vec<_>) = profiles.into_iter().partition(|(default, _)| *default);
    let spread = ordinary.into_iter().chain(others).next().and_then(|(_, spread)| spread);
    Ok(DefaultSpread { constraints: spread.unwrap_or_else(built_in) })
}

fn arguments(arguments: Field<'_>) -> Decoded<Vec<SpreadConstraint>> {
    let constraints = arguments.list("defaultConstraints", |constraint| {
        for key in ["labelSelector", "matchLabelKeys"] {
            if let Some(field) = constraint.get(key)? {
                return Err(field.fault(
                    "is not allowed in a default constraint",
                    "remove it: the selector follows from the Services and the owner of each pod",
                ));
            }
        }
        spread(constraint, &Labels::default())
    })?;
    let system = arguments.read("defaultingType", |kind| match kind.text()? {
        "System" => Ok(Some(true)),
        "List" => Ok(Some(false)),
        "" => Ok(None),
        other => Err(unknown_word(&kind, other, &["System", "List"])),
    })?;
    // The default is `System`. Constraints without a type are a list, as for the kube-schedulers that accept them.
    let system = system.flatten().unwrap_or(constraints.is_empty());
    Ok(if system { built_in() } else { constraints })
}

/// Returns kube-scheduler's constraints for `defaultingType: System`.
fn built_in() -> Vec<SpreadConstraint> {
    let soft = |key: &str, max_skew| SpreadConstraint {
        topology_key: key.into(),
        max_skew,
        min_domains: None,
        selector: LabelSelector::Nothing,
        required: false,
        honor_affinity: true,
        honor_taints: false,
    };
    vec![soft(muster_scheduling::labels::HOSTNAME, 3), soft(muster_scheduling::labels::ZONE, 5)]
}
