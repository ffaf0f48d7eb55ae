//! Thousands of workloads of some hundred and fifty sizes on one type, as pools of pinned types or reservations have them.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::dice::Dice;
use super::ec2::pool;
use super::manifests::{List, Size, ZONE, pod, requirement};

const CORES: [u32; 18] = [1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 16, 20, 24, 32];
const SIZES: usize = 144;
const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// Workloads of a few replicas each (log-normal), without constraints; small sizes are more frequent.
pub(crate) fn few_types(list: &mut List<impl Write>, dice: &mut Dice, pods: usize) -> io::Result<()> {
    list.push(&pool("pinned", &[], None, &[]))?;
    let mut sizes: Vec<(u32, u32)> = Vec::new();
    while sizes.len() < SIZES {
        let cores = dice.one_of(&CORES);
        let gibibytes = (f64::from(cores) * dice.lognormal(0.49, 0.7)).round().clamp(1.0, 96.0) as u32;
        if !sizes.contains(&(cores, gibibytes)) {
            sizes.push((cores, gibibytes));
        }
    }
    sizes.sort_unstable();
    let (mut made, mut number) = (0, 0);
    while made < pods {
        let replicas = (dice.lognormal(1.3, 1.1).round().max(1.0) as usize).min(pods - made);
        let at = (dice.fraction().min(dice.fraction()) * SIZES as f64) as usize;
        let (cores, gibibytes) = sizes[at.min(SIZES - 1)];
        let size = Size { millicores: cores * 1_000, mebibytes: gibibytes * 1_024 };
        let labels = json!({"app": format!("app-{number}")});
        for replica in 0..replicas {
            list.push(&pod(&format!("app-{number}-{replica}"), size, &labels, &json!({}), &json!({})))?;
        }
        made += replicas;
        number += 1;
    }
    Ok(())
}

/// One type of 64 cores and 128 GiB.
pub(crate) fn catalogue() -> Value {
    let name = "pinned-64";
    let offered = ZONES.map(|zone| {
        let requirements =
            [requirement(ZONE, "In", &[zone]), requirement("karpenter.sh/capacity-type", "In", &["on-demand"])];
        json!({"requirements": requirements, "price": 2.65, "available": true})
    });
    let requirements = [
        requirement("karpenter.sh/capacity-type", "In", &["on-demand"]),
        requirement("kubernetes.io/arch", "In", &["amd64"]),
        requirement("kubernetes.io/os", "In", &["linux"]),
        requirement("node.kubernetes.io/instance-type", "In", &[name]),
        requirement(ZONE, "In", &ZONES),
    ];
    json!({
        "apiVersion": "muster.dev/v1",
        "kind": "InstanceCatalog",
        "instanceTypes": [{
            "name": name,
            "requirements": requirements,
            "capacity": {"cpu": "64", "memory": "128Gi", "pods": "250"},
            "overhead": {},
            "offerings": offered,
        }],
    })
}
