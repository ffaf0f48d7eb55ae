//! Check that events about offerings select some: one that selects none would pass without a trace.

use std::collections::BTreeSet;

use muster_api::likeness::nearest_of;
use muster_cloud::{CapacityType, Offering};
use muster_manifest::{Fault, shorten};
use muster_scheduling::model::InstanceType;

use super::super::world::Meant;
use super::{Deed, Misdeed, Script};

/// Maximum number of zones in a hint.
const ZONES: usize = 8;

impl Script {
    /// Checks the events that select offerings against those of `types`. Reserved offerings count as known: NodeClasses
    /// bring them.
    ///
    /// # Errors
    /// Returns the first event that selects none.
    pub fn check_offerings(&self, types: &[InstanceType]) -> Result<(), Misdeed> {
        let offered: Vec<Offering> = types.iter().flat_map(offerings).collect();
        let selections = self.deeds.iter().enumerate().filter_map(|(number, (_, deed))| {
            let (event, meant) = selection(deed)?;
            Some((number, event, meant))
        });
        for (number, event, meant) in selections {
            if let Some(fault) = fault(event, meant, &offered).filter(|_| !offered.is_empty()) {
                return Err(Misdeed::Event { number, fault: Box::new(fault) });
            }
        }
        Ok(())
    }
}

fn offerings(instance_type: &InstanceType) -> impl Iterator<Item = Offering> {
    instance_type.offerings.iter().filter_map(|offering| {
        Some(Offering {
            instance_type: instance_type.name.to_string(),
            zone: offering.zone()?.to_owned(),
            capacity_type: offering.capacity_type()?.parse().ok()?,
            reservation: None,
        })
    })
}

/// Returns the name of the event and the offerings that it selects, if the script restricts them.
fn selection(deed: &Deed) -> Option<(&'static str, &Meant)> {
    match deed {
        Deed::RunOut(meant, _) => Some(("runOut", meant)),
        // It is always of spot, and the default day has one whatever there is.
        Deed::Interrupt(meant, _) if meant.instance_type.is_some() || meant.zone.is_some() => {
            Some(("interrupt", meant))
        }
        Deed::ReportFault(meant, ..) => Some(("condition", meant)),
        _ => None,
    }
}

fn fault(event: &str, meant: &Meant, offered: &[Offering]) -> Option<Fault> {
    let is_met = |meant: &Meant| offered.iter().any(|offering| meant.is(offering));
    let Meant { instance_type, zone, capacity_type } = meant;
    if let Some(pattern) = instance_type
        && !is_met(&Meant { instance_type: Some(pattern.clone()), ..Meant::default() })
    {
        let names = offered.iter().map(|offering| offering.instance_type.as_str());
        let hint = match nearest_of(names, pattern) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`muster types` lists all that there are".to_owned(),
        };
        let problem = format!("is `{}`, and no instance type is named so", shorten(pattern));
        return Some(Fault { path: format!("{event}.instanceType"), problem, hint });
    }
    if let Some(name) = zone
        && !is_met(&Meant { zone: Some(name.clone()), ..Meant::default() })
    {
        let zones: BTreeSet<&str> = offered.iter().map(|offering| offering.zone.as_str()).collect();
        let some: Vec<String> = zones.iter().take(ZONES).map(|zone| format!("`{zone}`")).collect();
        let more = if zones.len() > ZONES { " and others" } else { "" };
        let problem = format!("is `{}`, and nothing is offered there", shorten(name));
        return Some(Fault {
            path: format!("{event}.zone"),
            problem,
            hint: format!("there are {}{more}", some.join(", ")),
        });
    }
    let capacity_type = capacity_type.filter(|kind| *kind != CapacityType::Reserved);
    if is_met(&Meant { capacity_type, ..meant.clone() }) {
        return None;
    }
    Some(Fault {
        path: event.to_owned(),
        problem: format!("means `{meant}`, of which nothing is offered"),
        hint: "`muster types -o json` lists the offerings".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use muster_scheduling::labels::{CAPACITY_TYPE, ZONE};
    use muster_scheduling::model::{self, Operator, Requirement, Requirements, Resources};

    use super::*;

    /// On demand in zone a, and spot in zone b.
    fn types() -> [InstanceType; 1] {
        let offering = |zone: &str, capacity_type: &str| {
            let mut requirements = Requirements::new();
            requirements.add(ZONE, Requirement::new(Operator::In, [zone]));
            requirements.add(CAPACITY_TYPE, Requirement::new(Operator::In, [capacity_type]));
            model::Offering { requirements, price: Some(0.1), available: true, reservation_capacity: 0 }
        };
        [InstanceType {
            name: "m7g.large".into(),
            requirements: Requirements::new(),
            capacity: Resources::default(),
            overhead: Resources::default(),
            offerings: vec![offering("a", "on-demand"), offering("b", "spot")],
        }]
    }

    fn path(deed: Deed) -> Option<String> {
        let hour = Duration::from_secs(3600);
        let mut script = Script::quiet(Timestamp::UNIX_EPOCH, hour);
        script.deeds.push((Duration::ZERO, deed));
        match script.check_offerings(&types()) {
            Ok(()) => None,
            Err(Misdeed::Event { number: 0, fault }) => Some(fault.path),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn meant(instance_type: &str, zone: &str, capacity_type: Option<CapacityType>) -> Meant {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Meant { instance_type: some(instance_type), zone: some(zone), capacity_type }
    }

    #[test]
    fn an_event_means_something_that_is_offered() {
        let (spot, reserved) = (Some(CapacityType::Spot), Some(CapacityType::Reserved));
        for (instance_type, zone, capacity_type, expected) in [
            ("", "", None, None),
            ("m7g.*", "b", spot, None),
            ("m7g.large", "", reserved, None),
            ("m8g.*", "b", spot, Some("runOut.instanceType")),
            ("[", "", None, Some("runOut.instanceType")),
            ("", "c", None, Some("runOut.zone")),
            ("m7g.large", "a", spot, Some("runOut")),
        ] {
            let deed = Deed::RunOut(meant(instance_type, zone, capacity_type), Duration::from_secs(60));
            assert_eq!(path(deed).as_deref(), expected, "{instance_type}/{zone}");
        }
        assert_eq!(path(Deed::Interrupt(meant("", "", spot), 1)), None);
        assert_eq!(path(Deed::Interrupt(meant("", "a", spot), 1)).as_deref(), Some("interrupt"));
    }
}
