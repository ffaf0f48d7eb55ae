//! Zonal shifts that begin or end, told of the NodePools that launch nodes in the zone.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::{NodePool, events};
use muster_cloud::ZonalShifts;
use muster_manifest::{self as manifest, NodeClass};
use muster_scheduling::labels::{ZONE, ZONE_ID};

use super::event;
use crate::state::Cluster;
use crate::step::{Event, EventType, Subject};

/// Shifts that NodePools have been told of: names of NodePools, each with the ID of a zone that is shifted away.
///
/// A NodePool is told once it can be known that it launches nodes there, which may be later than the shift begins: its
/// class has no zones before it was looked up.
#[derive(Debug, Default)]
pub struct ToldShifts(BTreeSet<(Arc<str>, Arc<str>)>);

impl ToldShifts {
    /// Returns the events of the NodePools that have not been told: their class has a subnet in a zone that is shifted
    /// away, or is not any more, and their requirements admit it. `kind` is that of the classes of this cloud.
    pub fn news(&mut self, cluster: &Cluster, shifts: &ZonalShifts, kind: &str) -> Vec<Event> {
        if shifts.is_empty() && self.0.is_empty() {
            return Vec::new();
        }
        let manifests = cluster.pools_and_overlays();
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        for pool in cluster.pools() {
            let reference = &pool.spec.template.spec.node_class_ref;
            let name: Arc<str> = pool.metadata.name.as_deref().unwrap_or_default().into();
            let told: BTreeSet<Arc<str>> =
                self.0.iter().filter(|(of, _)| *of == name).map(|(_, id)| Arc::clone(id)).collect();
            // Known until the shift ends, even if the class cannot be read meanwhile.
            known.extend(
                told.iter().filter(|id| shifts.get(id).is_some()).map(|id| (Arc::clone(&name), Arc::clone(id))),
            );
            let compact = manifests.node_pools.iter().find(|one| *one.meta.name == *name);
            let class = cluster.class(reference).filter(|_| reference.kind == kind).and_then(|live| live.manifest());
            let Some((compact, class)) = compact.zip(class) else { continue };
            for (id, end) in shifts.iter().filter(|(id, _)| !told.contains(*id)) {
                let Some(zone) = zone_of(compact, class, id) else { continue };
                let message = format!("zone `{zone}` ({id}) {end}: nothing is launched there");
                all.push(event(of_pool(pool), EventType::Warning, events::ZONAL_SHIFT_ACTIVE, message));
                known.insert((Arc::clone(&name), Arc::clone(id)));
            }
            for id in told.iter().filter(|id| shifts.get(id).is_none()) {
                let Some(zone) = zone_of(compact, class, id) else { continue };
                let message = format!("zone `{zone}` ({id}) is not shifted away any more: it is used again");
                all.push(event(of_pool(pool), EventType::Normal, events::ZONAL_SHIFT_CLEARED, message));
            }
        }
        self.0 = known;
        all
    }
}

/// Returns the name of the zone with this ID if the pool may launch nodes there.
fn zone_of<'c>(pool: &manifest::NodePool, class: &'c NodeClass, id: &str) -> Option<&'c str> {
    let mut zones = class.settings.zones.iter().flatten();
    let (name, _) = zones.find(|(_, known)| known.as_deref() == Some(id))?;
    let admits = |key: &str, value: &str| {
        let mut requirements = pool.requirements.iter().filter(|(wanted, _)| **wanted == *key);
        requirements.all(|(_, requirement)| requirement.has(value))
    };
    (admits(ZONE, name) && admits(ZONE_ID, id)).then_some(&**name)
}

fn of_pool(pool: &NodePool) -> Subject {
    Subject {
        kind: "NodePool".to_owned(),
        namespace: None,
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use muster_cloud::ShiftEnd;
    use serde_json::{Value, json};

    use super::*;
    use crate::state::Kind;

    fn pool(name: &str, requirements: &Value) -> Value {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name, "uid": name},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}},
        })
    }

    fn cluster(pools: &[Value]) -> Cluster {
        let mut cluster = Cluster::default();
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "uid": "c"},
            "spec": {
                "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
            },
            "status": {"subnets": [
                {"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az6"},
                {"id": "subnet-2", "zone": "us-east-1b", "zoneID": "use1-az1"},
            ]},
        });
        cluster.apply(Kind::Ec2NodeClass, &class.to_string());
        for pool in pools {
            cluster.apply(Kind::NodePool, &pool.to_string());
        }
        cluster
    }

    fn shifts(zones: &[&str]) -> ZonalShifts {
        let until: Timestamp = "2026-11-26T18:00:00Z".parse().unwrap();
        zones.iter().map(|zone| (Arc::from(*zone), ShiftEnd::At(until))).collect()
    }

    fn news(told: &mut ToldShifts, cluster: &Cluster, zones: &[&str]) -> Vec<String> {
        let news = told.news(cluster, &shifts(zones), "EC2NodeClass");
        news.iter().map(|one| format!("{} {:?} {}: {}", one.about.name, one.kind, one.reason, one.message)).collect()
    }

    #[test]
    fn a_pool_is_told_of_zones_that_it_launches_nodes_in() {
        let only = |key: &str, value: &str| json!([{"key": key, "operator": "In", "values": [value]}]);
        let pools =
            [pool("any", &json!([])), pool("b", &only(ZONE, "us-east-1b")), pool("by-id", &only(ZONE_ID, "use1-az6"))];
        let (cluster, mut told) = (cluster(&pools), ToldShifts::default());
        assert_eq!(
            news(&mut told, &cluster, &["use1-az6", "use1-az9"]),
            [
                "any Warning ZonalShiftActive: zone `us-east-1a` (use1-az6) is shifted away until 2026-11-26T18:00:00Z: \
                 nothing is launched there",
                "by-id Warning ZonalShiftActive: zone `us-east-1a` (use1-az6) is shifted away until \
                 2026-11-26T18:00:00Z: nothing is launched there",
            ]
        );
        assert_eq!(news(&mut told, &cluster, &["use1-az6"]), [""; 0], "each is told once");
        assert_eq!(
            news(&mut told, &cluster, &["use1-az1"]),
            [
                "any Warning ZonalShiftActive: zone `us-east-1b` (use1-az1) is shifted away until 2026-11-26T18:00:00Z: \
                 nothing is launched there",
                "any Normal ZonalShiftCleared: zone `us-east-1a` (use1-az6) is not shifted away any more: it is used again",
                "b Warning ZonalShiftActive: zone `us-east-1b` (use1-az1) is shifted away until 2026-11-26T18:00:00Z: \
                 nothing is launched there",
                "by-id Normal ZonalShiftCleared: zone `us-east-1a` (use1-az6) is not shifted away any more: it is used \
                 again",
            ]
        );
    }

    #[test]
    fn a_pool_is_told_as_soon_as_its_zones_are_known() {
        let mut told = ToldShifts::default();
        assert_eq!(news(&mut told, &cluster(&[]), &["use1-az6"]), [""; 0]);
        let later = cluster(&[pool("any", &json!([]))]);
        assert_eq!(news(&mut told, &later, &["use1-az6"]).len(), 1);
        assert_eq!(news(&mut told, &later, &["use1-az6"]), [""; 0]);
    }

    #[test]
    fn pools_of_another_cloud_are_told_nothing() {
        let cluster = cluster(&[pool("any", &json!([]))]);
        assert_eq!(ToldShifts::default().news(&cluster, &shifts(&["use1-az6"]), "KWOKNodeClass"), []);
    }
}
