//! Application of NodeOverlays to the instance type catalogues.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::events;
use muster_scheduling::model::{Catalogue, Problem};
use muster_scheduling::overlay::{self, Overlay, OverlayOutcome, OverlayReport, PriceChange};

use super::{Notice, Types, pools};
use crate::{Manifests, NodeOverlay};

/// Instance types of each NodePool with the NodeOverlays applied.
#[derive(Debug, Clone, Default)]
pub struct OverlaidTypes {
    /// Result of each overlay, in the order in which they apply.
    pub reports: Vec<OverlayReport>,
    pools: BTreeMap<Arc<str>, Catalogue>,
}

impl OverlaidTypes {
    /// Applies the NodeOverlays of `manifests` to the types of all its NodePools, since conflicts between overlays
    /// depend on all of them.
    #[must_use]
    pub fn new(manifests: &Manifests, types: &Types<'_>) -> Self {
        let mut problem = Problem::default();
        pools::append(manifests, types, &mut problem, &mut Vec::new());
        let reports = applied(manifests, &mut problem);
        let catalogue = |index: usize| problem.catalogues.get(index).cloned().unwrap_or_default();
        let pools = problem.pools.iter().map(|pool| (Arc::clone(&pool.name), catalogue(pool.catalogue))).collect();
        Self { reports, pools }
    }

    /// Returns the types of a NodePool; `None` if it was not in the input, or was being deleted.
    #[must_use]
    pub fn of(&self, pool: &str) -> Option<&Catalogue> {
        self.pools.get(pool)
    }
}

/// Adds one warning if the input has NodeOverlays, which have no effect.
pub(super) fn warn_without_gate(manifests: &Manifests, warnings: &mut Vec<String>) {
    let count = manifests.node_overlays.len();
    if count > 0 {
        let overlays = if count == 1 { "1 NodeOverlay has".to_owned() } else { format!("{count} NodeOverlays have") };
        warnings.push(format!(
            "{overlays} no effect: the feature gate `NodeOverlay` is off; turn it on with `NodeOverlay=true`"
        ));
    }
}

/// Applies the overlays of the input; those without effect result in warnings and notices.
pub(super) fn apply(manifests: &Manifests, problem: &mut Problem, warnings: &mut Vec<String>) -> Vec<Notice> {
    let mut notices = Vec::new();
    for report in applied(manifests, problem) {
        let (reason, why) = match report.outcome {
            OverlayOutcome::Applied { .. } => continue,
            OverlayOutcome::Conflict { with } => {
                (events::OVERLAY_CONFLICT, format!("is skipped: it conflicts with `{}`", with.join("`, `")))
            }
            OverlayOutcome::Invalid(why) => (events::OVERLAY_INVALID, format!("is skipped: {why}")),
            OverlayOutcome::MatchesNothing => {
                (events::OVERLAY_UNUSED, "matches no offering of any NodePool".to_owned())
            }
        };
        notices.push(Notice { kind: "NodeOverlay", path: Arc::clone(&report.name), reason, message: why.clone() });
        warnings.push(format!("NodeOverlay `{}` {why}", report.name));
    }
    notices
}

fn applied(manifests: &Manifests, problem: &mut Problem) -> Vec<OverlayReport> {
    if manifests.node_overlays.is_empty() {
        return Vec::new();
    }
    let overlays: Vec<Overlay> = manifests.node_overlays.iter().map(overlay_of).collect();
    overlay::apply(&overlays, &mut problem.pools, &mut problem.catalogues)
}

fn overlay_of(overlay: &NodeOverlay) -> Overlay {
    let absolute = overlay.price.as_deref().map(|price| PriceChange::Absolute(number(price)));
    let change = || overlay.price_adjustment.as_deref().map(price_change);
    Overlay {
        name: Arc::clone(&overlay.name),
        weight: overlay.weight,
        requirements: overlay.requirements.clone(),
        price: absolute.or_else(change),
        capacity: overlay.capacity.clone(),
    }
}

/// Parses a price adjustment such as `+5%` or `-0.2`.
fn price_change(text: &str) -> PriceChange {
    match text.strip_suffix('%') {
        Some(percent) => PriceChange::Percent(number(percent)),
        None => PriceChange::Delta(number(text)),
    }
}

/// Parses a number; an invalid one becomes NaN, which makes the overlay report itself as invalid.
fn number(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}
