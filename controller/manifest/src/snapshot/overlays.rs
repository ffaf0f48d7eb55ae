//! Application of NodeOverlays to the instance type catalogues.

use std::sync::Arc;

use muster_scheduling::model::Problem;
use muster_scheduling::overlay::{self, Overlay, OverlayOutcome, PriceChange};

use crate::{Manifests, NodeOverlay};

/// Applies the overlays of the input; those without effect result in warnings.
pub(super) fn apply(manifests: &Manifests, problem: &mut Problem, warnings: &mut Vec<String>) {
    if manifests.node_overlays.is_empty() {
        return;
    }
    let overlays: Vec<Overlay> = manifests.node_overlays.iter().map(overlay_of).collect();
    for report in overlay::apply(&overlays, &mut problem.pools, &mut problem.catalogues) {
        let why = match report.outcome {
            OverlayOutcome::Applied { .. } => continue,
            OverlayOutcome::Conflict { with } => format!("is skipped: it conflicts with `{}`", with.join("`, `")),
            OverlayOutcome::Invalid(why) => format!("is skipped: {why}"),
            OverlayOutcome::MatchesNothing => "matches no offering of any NodePool".to_owned(),
        };
        warnings.push(format!("NodeOverlay `{}` {why}", report.name));
    }
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
