//! Status conditions and pending deletions of objects.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use muster_stages::state::Kind;

use super::{LeftOut, MOST_OBJECTS, Scrape, family};
use crate::run::metrics::observed::{between, label, of_kind};
use crate::run::metrics::page::{Page, Rendered};

/// An object.
struct ConditionsOf<'a> {
    name: &'a str,
    deleted: Option<Timestamp>,
    /// Type, status, reason, and time of the last change.
    conditions: Vec<(&'a str, &'a str, &'a str, Option<Timestamp>)>,
}

pub(super) fn write(scrape: &Scrape<'_>, page: &mut Page, left_out: &mut LeftOut) {
    let cluster = scrape.cluster;
    let claims = cluster.claims().map(|claim| {
        ConditionsOf::new(&claim.metadata, claim.status.as_ref().map_or(&[], |status| status.conditions.as_slice()))
    });
    of(Kind::NodeClaim, claims, scrape.now, page, left_out);
    let pools = cluster.pools().map(|pool| {
        ConditionsOf::new(&pool.metadata, pool.status.as_ref().map_or(&[], |status| status.conditions.as_slice()))
    });
    of(Kind::NodePool, pools, scrape.now, page, left_out);
    let nodes = cluster.nodes().map(|node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let of_node = conditions.iter().map(|one| {
            let at = one.last_transition_time.as_ref().map(|time| time.0);
            (label(&one.type_), label(&one.status), label(one.reason.as_deref().unwrap_or_default()), at)
        });
        ConditionsOf { conditions: of_node.collect(), ..ConditionsOf::new(&node.metadata, &[]) }
    });
    of(Kind::Node, nodes, scrape.now, page, left_out);
    for kind in [Kind::Ec2NodeClass, Kind::KwokNodeClass] {
        let classes = cluster.classes().filter(|class| class.reference.kind == kind.name());
        of(kind, classes.map(|class| ConditionsOf::new(&class.meta, &class.conditions)), scrape.now, page, left_out);
    }
}

fn of<'a>(
    kind: Kind,
    objects: impl Iterator<Item = ConditionsOf<'a>>,
    now: Timestamp,
    page: &mut Page,
    left_out: &mut LeftOut,
) {
    let Some(metrics) = of_kind(kind) else { return };
    let mut objects = objects.peekable();
    let mut all: Vec<ConditionsOf<'a>> = Vec::new();
    all.extend(objects.by_ref().take(MOST_OBJECTS));
    let more = objects.count();
    if more > 0 {
        left_out.insert(metrics.count.name, more as u64);
    }
    let conditions: Vec<(Rendered, f64)> = all
        .iter()
        .flat_map(|object| {
            object.conditions.iter().map(|(condition, status, reason, at)| {
                let labels = [("name", object.name), ("type", *condition), ("status", *status), ("reason", *reason)];
                (Rendered::new(labels), at.map_or(0.0, |at| between(at, now).as_secs_f64()))
            })
        })
        .collect();
    if !conditions.is_empty() {
        for (metric, is_age) in [(&metrics.count, false), (&metrics.current, true)] {
            page.declare(metric);
            for (labels, age) in &conditions {
                page.sample(metric, "", &[labels], if is_age { *age } else { 1.0 });
            }
        }
    }
    family(
        page,
        &metrics.terminating,
        all.iter().filter_map(|object| {
            Some((Rendered::new([("name", object.name)]), between(object.deleted?, now).as_secs_f64()))
        }),
    );
}

impl<'a> ConditionsOf<'a> {
    fn new(meta: &'a ObjectMeta, conditions: &'a [Condition]) -> Self {
        let conditions = conditions.iter().map(|one| {
            (one.type_.as_str(), one.status.as_str(), one.reason.as_str(), Some(one.last_transition_time.0))
        });
        Self {
            name: meta.name.as_deref().unwrap_or_default(),
            deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
            conditions: conditions.collect(),
        }
    }
}
