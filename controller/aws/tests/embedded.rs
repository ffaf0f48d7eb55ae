//! The checked-in table: whole, sorted, and what it says of itself.

use std::collections::BTreeSet;

use muster_aws::{
    ClassSettings, DEFAULT_REGION, Ec2, Error, PRICE_DATE, PRICE_REGION, PriceSource, catalogue, instance_types,
};
use muster_scheduling::model::{InstanceType, Resource};

const TABLE: &str = include_str!("../catalogue/ec2.tsv");

#[test]
fn the_table_is_what_its_header_says() {
    let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
    let names: Vec<&str> = lines.iter().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(names.is_sorted() && names.iter().collect::<BTreeSet<_>>().len() == names.len());
    let priced = lines.iter().filter(|line| !line.split('\t').nth(17).unwrap().is_empty()).count();
    let header = format!("# types: {}, of which 1358 have figures and {priced} a price", lines.len());
    assert!(TABLE.contains(&header), "{header}");
    assert!(TABLE.contains(&format!("# prices: {PRICE_REGION}, Linux on demand, {PRICE_DATE}")));
}

#[test]
fn every_region_resolves() {
    let ec2 = Ec2::embedded().unwrap();
    assert_eq!(ec2.regions().len(), 30);
    for region in ec2.regions() {
        let types = instance_types(region.name(), &ClassSettings::default()).unwrap();
        assert!(types.len() > 200, "{} has {}", region.name(), types.len());
        for entry in &types {
            assert!(is_sane(entry), "{} {entry:?}", region.name());
        }
    }
}

/// No type is negative, without a place, or without a price that is not merely unknown.
fn is_sane(entry: &InstanceType) -> bool {
    let capacity = entry.capacity.iter().all(|(resource, amount)| amount > 0 || *resource == Resource::Pods);
    let prices = entry.offerings.iter().filter_map(|offering| offering.price).all(|price| price > 0.0);
    capacity && prices && !entry.offerings.is_empty() && entry.overhead.iter().all(|(_, amount)| amount > 0)
}

#[test]
fn the_default_region_has_six_zones() {
    let region = Ec2::embedded().unwrap().region(DEFAULT_REGION).unwrap();
    let zones: Vec<&str> = region.zones().iter().map(|zone| &**zone).collect();
    assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"]);
    assert_eq!(region.price_source(), PriceSource::Embedded { date: "2026-07-20" });
}

#[test]
fn prices_elsewhere_say_that_they_stand_in() {
    let region = Ec2::embedded().unwrap().region("eu-west-1").unwrap();
    let said = region.price_source().to_string();
    assert_eq!(said, "on-demand prices of 2026-07-20 in us-east-1, also for spot and for this region");
}

#[test]
fn an_unknown_region_says_what_to_do() {
    let error = |name: &str| instance_types(name, &ClassSettings::default()).unwrap_err();
    assert!(matches!(error("mars-1"), Error::UnknownRegion { .. }));
    let message = error("us-east-1a").to_string();
    assert!(message.ends_with("hint: that is a zone; its region is `us-east-1`"), "{message}");
}

#[test]
fn a_type_without_price_is_listed_and_never_launched() {
    let types = instance_types(DEFAULT_REGION, &ClassSettings::default()).unwrap();
    let unpriced: Vec<&InstanceType> =
        types.iter().filter(|entry| entry.offerings.iter().all(|offering| offering.price.is_none())).collect();
    assert!(!unpriced.is_empty());
    assert!(unpriced.iter().all(|entry| !entry.offerings.iter().any(muster_scheduling::model::Offering::launchable)));
}

#[test]
fn the_whole_catalogue_survives_its_file() {
    let types = instance_types("eu-west-1", &ClassSettings::default()).unwrap();
    let json = catalogue::write(&types, catalogue::Format::Json).unwrap();
    assert_eq!(catalogue::read(&json).unwrap(), types);
    let few: Vec<InstanceType> = types.into_iter().step_by(50).collect();
    let yaml = catalogue::write(&few, catalogue::Format::Yaml).unwrap();
    assert_eq!(catalogue::read(&yaml).unwrap(), few);
}
