//! Catalogues are read as they were written; broken ones are refused with the place.

use std::collections::BTreeSet;

use muster_scheduling::model::{InstanceType, Operator, Resource};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CatalogueError, Format, read, write};

/// The example of the command-line contract.
fn example() -> Value {
    json!({"apiVersion": "muster.dev/v1", "kind": "InstanceCatalog", "instanceTypes": [
        {"name": "m7g.large",
         "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
         "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
         "overhead": {"cpu": "70m", "memory": "993Mi"},
         "offerings": [{"requirements": [
             {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a"]},
             {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
             "price": 0.0312, "available": true, "reservationCapacity": 0}]}]})
}

/// The example with the value at `pointer` replaced.
fn with(pointer: &str, value: Value) -> String {
    let mut document = example();
    *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    document.to_string()
}

fn requirement(operator: &str, values: Value) -> Value {
    json!({"key": "k", "operator": operator, "values": values})
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn the_contract_s_example_is_read() {
    let types = read(&example().to_string()).unwrap();
    let [m7g] = types.as_slice() else { panic!("{types:?}") };
    assert_eq!(&*m7g.name, "m7g.large");
    assert_eq!(m7g.capacity.get(&Resource::Memory), 8 << 30);
    assert_eq!(m7g.allocatable().get(&Resource::Cpu), 1930);
    assert_eq!(m7g.requirements.single("node.kubernetes.io/instance-type"), Some("m7g.large"));
    assert_eq!(m7g.requirements.single("topology.kubernetes.io/zone"), Some("us-west-2a"), "from its offerings");
    assert_eq!(m7g.requirements.single("karpenter.sh/capacity-type"), Some("spot"));
    assert_eq!((m7g.offerings[0].price, m7g.offerings[0].available), (Some(0.0312), true));
}

#[test]
fn zones_are_those_of_available_offerings() {
    let mut document = example();
    let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a", "us-west-2b"]});
    document["instanceTypes"][0]["requirements"].as_array_mut().unwrap().push(zone);
    let mut sold_out = document["instanceTypes"][0]["offerings"][0].clone();
    sold_out["requirements"][0]["values"] = json!(["us-west-2b"]);
    sold_out["available"] = json!(false);
    document["instanceTypes"][0]["offerings"].as_array_mut().unwrap().push(sold_out);
    let types = read(&document.to_string()).unwrap();
    assert_eq!(types[0].requirements.single("topology.kubernetes.io/zone"), Some("us-west-2a"));
    assert_eq!(types[0].offerings.len(), 2);
}

#[test]
fn defaults_are_available_and_price_unknown() {
    let mut document = example();
    let offering = document["instanceTypes"][0]["offerings"][0].as_object_mut().unwrap();
    offering.retain(|field, _| field == "requirements");
    document["instanceTypes"][0].as_object_mut().unwrap().remove("overhead");
    let types = read(&document.to_string()).unwrap();
    let offering = &types[0].offerings[0];
    assert_eq!((offering.price, offering.available, offering.reservation_capacity), (None, true, 0));
    assert!(types[0].overhead.is_empty());
}

#[test]
fn numbers_and_other_operators_are_read() {
    let text = with("/instanceTypes/0/capacity", json!({"cpu": 2, "memory": 1.5e9, "nvidia.com/gpu": "1e1"}));
    let types = read(&text).unwrap();
    assert_eq!(types[0].capacity.get(&Resource::Cpu), 2000);
    assert_eq!(types[0].capacity.get(&Resource::Memory), 1_500_000_000);
    assert_eq!(types[0].capacity.get(&Resource::new("nvidia.com/gpu")), 10);
    let text = with("/instanceTypes/0/requirements/0", json!({"key": "a/b", "operator": "DoesNotExist"}));
    let requirement = read(&text).unwrap()[0].requirements.get("a/b").unwrap().clone();
    assert_eq!(requirement.operator(), Operator::DoesNotExist);
}

#[test]
fn yaml_is_read_too() {
    let yaml = write(&read(&example().to_string()).unwrap(), Format::Yaml).unwrap();
    assert_eq!(read(&yaml).unwrap(), read(&example().to_string()).unwrap());
    assert_eq!(read(&format!("# catalogue\n{yaml}")).unwrap().len(), 1);
}

#[test]
fn what_is_written_is_this() {
    insta::assert_snapshot!(write(&read(&example().to_string()).unwrap(), Format::Yaml).unwrap());
}

#[test]
fn errors_of_requirements_name_instance_type_and_field() {
    for (text, expected) in [
        (
            with("/instanceTypes/0/requirements/0", requirement("Is", json!(["a"]))),
            "instance type `m7g.large`, `requirements[0].operator`: unknown operator `Is`, expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte",
        ),
        (
            with("/instanceTypes/0/offerings/0/requirements/1", requirement("Gt", json!(["a"]))),
            "instance type `m7g.large`, `offerings[0].requirements[1].values`: a bound takes an integer",
        ),
        (
            with("/instanceTypes/0/offerings/0/requirements/1", requirement("Lt", json!([]))),
            "instance type `m7g.large`, `offerings[0].requirements[1].values`: a bound takes exactly one value",
        ),
        (
            with("/instanceTypes/0/requirements/0", requirement("Exists", json!(["a"]))),
            "instance type `m7g.large`, `requirements[0].values`: Exists and DoesNotExist take no values",
        ),
        (
            with("/instanceTypes/0/requirements/0", json!({"key": "k", "operator": "In", "values": ["a"], "vales": 1})),
            "instance type `m7g.large`, `requirements[0].vales`: is not a field of a catalogue, did you mean `values`?",
        ),
        (
            with("/instanceTypes/0/offerings/0/requirements/0", json!({"key": "k"})),
            "instance type `m7g.large`, `offerings[0].requirements[0].operator`: is missing",
        ),
        (
            with("/instanceTypes/0/requirements/0", requirement("In", json!([]))),
            "instance type `m7g.large`, `requirements[0].values`: In and NotIn take at least one value",
        ),
        (
            with("/instanceTypes/0/offerings/0/requirements/1", json!({"key": "k", "operator": "In"})),
            "instance type `m7g.large`, `offerings[0].requirements[1].values`: In and NotIn take at least one value",
        ),
        (
            with("/instanceTypes/0/requirements/0", requirement("In", json!(["a", 5]))),
            "instance type `m7g.large`, `requirements[0].values[1]`: invalid type: integer `5`, expected a string",
        ),
        (
            with("/instanceTypes/0/requirements/0/key", json!("")),
            "instance type `m7g.large`, `requirements[0].key`: is empty",
        ),
    ] {
        assert_eq!(error(&text), expected);
    }
}

#[test]
fn errors_of_amounts_and_prices_name_instance_type_and_field() {
    for (text, expected) in [
        (
            with("/instanceTypes/0/capacity/memory", json!("8Gb")),
            "instance type `m7g.large`, `capacity.memory`: `8Gb` is not a quantity such as `940m`, `2` or `8Gi`",
        ),
        (
            with("/instanceTypes/0/overhead/cpu", json!("-70m")),
            "instance type `m7g.large`, `overhead.cpu`: `-70m` must not be negative",
        ),
        (
            with("/instanceTypes/0/offerings/0/price", json!(-0.1)),
            "instance type `m7g.large`, `offerings[0].price`: `-0.1` is not a price: USD per hour, from 0 to 1000000",
        ),
        (
            with("/instanceTypes/0/offerings/0/price", json!(1e308)),
            "instance type `m7g.large`, `offerings[0].price`: `1e308` is not a price: USD per hour, from 0 to 1000000",
        ),
        (
            with("/instanceTypes/0/offerings/0/price", json!("cheap")),
            "instance type `m7g.large`, `offerings[0].price`: invalid type: string \"cheap\", expected a number",
        ),
        (
            with("/instanceTypes/0/offerings/0/reservationCapacity", json!(-1)),
            "instance type `m7g.large`, `offerings[0].reservationCapacity`: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
        ),
        (
            with("/instanceTypes/0/capacity", json!(["cpu"])),
            "instance type `m7g.large`, `capacity`: invalid type: sequence, expected quantities by resource",
        ),
        (
            with("/instanceTypes/0/capacity/cpu", json!(true)),
            "instance type `m7g.large`, `capacity.cpu`: is a boolean, expected a quantity",
        ),
    ] {
        assert_eq!(error(&text), expected);
    }
}

#[test]
fn an_offering_has_one_zone_and_one_capacity_type() {
    let zone = |operator: &str, values: Value| {
        let requirement = json!({"key": "topology.kubernetes.io/zone", "operator": operator, "values": values});
        with("/instanceTypes/0/offerings/0/requirements/0", requirement)
    };
    let of = |key: &str| {
        format!(
            "instance type `m7g.large`, `offerings[0].requirements`: must have exactly one value of `{key}`, with operator In"
        )
    };
    for text in [
        zone("In", json!(["us-west-2a", "us-west-2b"])),
        zone("In", json!([""])),
        zone("Exists", json!([])),
        zone("NotIn", json!(["us-west-2a"])),
        with("/instanceTypes/0/offerings/0/requirements/0/key", json!("zone")),
    ] {
        assert_eq!(error(&text), of("topology.kubernetes.io/zone"));
    }
    let text = with("/instanceTypes/0/offerings/0/requirements/1/values", json!(["spot", "on-demand"]));
    assert_eq!(error(&text), of("karpenter.sh/capacity-type"));
}

#[test]
fn errors_of_objects_name_instance_type_and_field() {
    for (text, expected) in [
        (
            with("/instanceTypes/0/offerings/0", json!({"requirements": [], "prices": 1})),
            "instance type `m7g.large`, `offerings[0].prices`: is not a field of a catalogue, did you mean `price`?",
        ),
        (
            with("/instanceTypes/0/offerings/0", Value::Null),
            "instance type `m7g.large`, `offerings[0]`: is null, expected an object",
        ),
        (
            with("/instanceTypes/0/offerings", json!({})),
            "instance type `m7g.large`, `offerings`: is an object, expected a list",
        ),
        (with("/instanceTypes", json!(5)), "`instanceTypes`: is a number, expected a list"),
        (with("/kind", json!(1)), "`kind`: invalid type: integer `1`, expected a string"),
        (with("/instanceTypes/0/name", json!("")), "`instanceTypes[0].name` is empty"),
        (with("/instanceTypes/0", json!({})), "instance type `instanceTypes[0]`, `name`: is missing"),
        (with("/instanceTypes/0", json!({"name": "a"})), "instance type `a`, `capacity`: is missing"),
        (with("/kind", json!("NodePool")), "`kind` is `NodePool`, expected `InstanceCatalog`"),
        (with("/apiVersion", json!("v1")), "`apiVersion` is `v1`, expected `muster.dev/v1`"),
    ] {
        assert_eq!(error(&text), expected);
    }
}

#[test]
fn numbers_that_no_type_can_hold_are_named_too() {
    let text = example().to_string();
    for (number, field) in
        [("0.0312", "instanceTypes[0].offerings[0].price"), ("\"2\"", "instanceTypes[0].capacity.cpu")]
    {
        assert!(text.contains(number));
        assert_eq!(error(&text.replace(number, "1e999")), format!("`{field}`: number out of range"));
        let pretty = serde_json::to_string_pretty(&example()).unwrap().replace(number, "-1e999");
        assert_eq!(error(&pretty), format!("`{field}`: number out of range"));
    }
}

#[test]
fn duplicates_are_errors() {
    let mut document = example();
    let again = document["instanceTypes"][0].clone();
    document["instanceTypes"].as_array_mut().unwrap().push(again);
    assert_eq!(error(&document.to_string()), "instance type `m7g.large` is listed twice");
    let text = example().to_string().replace("\"cpu\":\"2\"", "\"cpu\":\"2\",\"cpu\":\"3\"");
    assert_eq!(error(&text), "instance type `m7g.large`, `capacity.cpu`: is listed twice");
}

#[test]
fn no_document_is_a_syntax_error() {
    for text in ["", "{", "[]", "null", "a: [", "\u{feff}{", "- 1"] {
        assert!(matches!(read(text), Err(CatalogueError::Syntax(_))), "{text:?}: {:?}", read(text));
    }
}

fn pointers(value: &Value, prefix: &str, into: &mut Vec<String>) {
    into.push(prefix.to_owned());
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| pointers(value, &format!("{prefix}/{}", key.replace('/', "~1")), into)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| pointers(value, &format!("{prefix}/{index}"), into))
        }
        _ => {}
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[-+]?[0-9.]{0,6}(m|Ki|Gi|e[0-9]{1,6})?".prop_map(Value::from),
        prop_oneof!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lte"].prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["a", "7"])),
    ]
}

proptest! {
    #[test]
    fn a_mutated_catalogue_is_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), scalar()), 1..4)) {
        let mut document = example();
        for (at, value) in changes {
            let mut all = Vec::new();
            pointers(&document, "", &mut all);
            if let Some(place) = document.pointer_mut(at.get::<String>(&all)) {
                *place = value;
            }
        }
        check_round_trip(&document.to_string())?;
    }

    #[test]
    fn cut_and_spliced_text_is_read_or_refused(cut in any::<prop::sample::Index>(), splice in ".{0,3}", is_yaml in any::<bool>()) {
        let types = read(&example().to_string()).unwrap();
        let text = write(&types, if is_yaml { Format::Yaml } else { Format::Json }).unwrap();
        let at = cut.index(text.len());
        prop_assume!(text.is_char_boundary(at));
        check_round_trip(&format!("{}{splice}{}", &text[..at], &text[at..]))?;
        check_round_trip(&text[..at])?;
    }
}

/// Whatever can be read can be written, and is then read as the same.
fn check_round_trip(text: &str) -> Result<(), TestCaseError> {
    let Ok(types) = read(text) else { return Ok(()) };
    let names: BTreeSet<&str> = types.iter().map(|entry: &InstanceType| &*entry.name).collect();
    prop_assert_eq!(names.len(), types.len());
    for format in [Format::Json, Format::Yaml] {
        let written = write(&types, format).unwrap();
        let back = read(&written);
        prop_assert!(back.as_ref() == Ok(&types), "{back:?}\nfrom\n{written}");
    }
    Ok(())
}
