//! Files with prices are read in each of their forms; broken ones are refused with the place.

use serde_json::{Value, json};

use super::{OperatingSystem, PriceFile, PriceList, Prices, Rates, read};
use crate::embedded::Ec2;
use crate::facts::InstanceTypeFacts;
use crate::family::AmiFamily;

const REGION: &str = "us-east-1";

const OWN: &str = "\
apiVersion: muster.dev/v1
kind: PriceList
region: us-east-1
at: 2026-11-20T00:00:00Z
onDemand:
  m5.large: 0.05
  c7g.large: 0.0612
spot:
  m5.large: {us-east-1a: 0.02, us-east-1b: 0.03}
windows:
  onDemand: {m5.large: 0.15}
  spot:
    m5.large: {us-east-1a: 0.11}
";

fn reading(text: &str) -> PriceFile {
    read(text, REGION).unwrap_or_else(|error| panic!("{error}"))
}

fn laid_over(list: &PriceList, name: &str) -> Prices {
    let mut prices = Prices { linux: Rates { on_demand: Some(1.0), spot: None }, windows: Rates::default() };
    list.lay_over(name, &mut prices);
    prices
}

fn zones(rates: &Rates) -> Vec<(&str, f64)> {
    rates.spot.iter().flatten().map(|(zone, price)| (&**zone, *price)).collect()
}

fn facts(name: &str) -> InstanceTypeFacts {
    let ec2 = Ec2::embedded().unwrap();
    ec2.types(ec2.region(REGION).unwrap()).find(|(facts, _)| &*facts.name == name).unwrap().0
}

/// The message and the hint.
fn refused(text: &str) -> String {
    let error = read(text, REGION).unwrap_err();
    format!("{error}\n  hint: {}", error.hint())
}

// === a price list of our own ===

#[test]
fn own_prices_replace_those_of_their_types() {
    let PriceFile { prices, elsewhere, is_cut_off } = reading(OWN);
    assert_eq!((prices.len(), elsewhere, is_cut_off), (6, 0, false));
    let at = "2026-11-20T00:00:00Z".parse().unwrap();
    assert_eq!((prices.on_demand_at, prices.spot_at), (Some(at), Some(at)));
    let m5 = laid_over(&prices, "m5.large");
    assert_eq!((m5.linux.on_demand, m5.windows.on_demand), (Some(0.05), Some(0.15)));
    assert_eq!(zones(&m5.linux), [("us-east-1a", 0.02), ("us-east-1b", 0.03)]);
    assert_eq!(zones(&m5.windows), [("us-east-1a", 0.11)]);
    let c7g = laid_over(&prices, "c7g.large");
    assert_eq!((c7g.linux.on_demand, c7g.linux.spot), (Some(0.0612), None), "spot is left as it was");
    assert_eq!(laid_over(&prices, "m6g.large").linux.on_demand, Some(1.0), "a type that is not listed");
}

#[test]
fn json_says_what_yaml_says() {
    let document: Value = serde_saphyr::from_str(OWN).unwrap();
    assert_eq!(reading(&document.to_string()), reading(OWN));
    assert_eq!(reading(&format!("\u{feff}  \n{document:#}")), reading(OWN));
}

#[test]
fn of_several_lists_the_later_one_counts() {
    let mut all = reading(OWN).prices;
    let later = OWN.replace("0.05", "0.06").replace("us-east-1a: 0.02, ", "").replace("2026-11-20", "2026-11-24");
    let later = later.split("windows:").next().unwrap();
    all.add(reading(later).prices);
    let m5 = laid_over(&all, "m5.large");
    assert_eq!((m5.linux.on_demand, m5.windows.on_demand), (Some(0.06), Some(0.15)));
    assert_eq!(zones(&m5.linux), [("us-east-1a", 0.02), ("us-east-1b", 0.03)]);
    assert_eq!((all.len(), all.spot_at), (6, Some("2026-11-24T00:00:00Z".parse().unwrap())));
    all.add(PriceList::default());
    assert!(all.spot_at.is_some(), "an empty list says nothing");
}

#[test]
fn broken_price_lists_are_refused_with_the_place() {
    let with = |from: &str, to: &str| {
        assert!(OWN.contains(from), "{from}");
        OWN.replace(from, to)
    };
    let as_json = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap().to_string();
    let prices: serde_json::Map<String, Value> =
        (0..=100_000).map(|number| (format!("t{number}.large"), 1.into())).collect();
    let many = json!({"apiVersion": "muster.dev/v1", "kind": "PriceList", "onDemand": prices});
    let cases = [
        ("nothing", String::new()),
        ("a word", "hello".to_owned()),
        ("a list", "[1, 2]".to_owned()),
        ("another document", "{\"a\": 1}".to_owned()),
        ("another kind", with("PriceList", "InstanceCatalog")),
        ("another version", with("muster.dev/v1", "muster.dev/v2")),
        ("no kind", with("kind: PriceList\n", "")),
        ("no region", with("region: us-east-1\n", "")),
        ("another region", with("region: us-east-1\n", "region: eu-west-1\n")),
        ("no time", with("at: 2026-11-20T00:00:00Z\n", "")),
        ("a time without its zone", with("2026-11-20T00:00:00Z", "2026-11-20 00:00")),
        ("a field that there is not", with("onDemand:\n  m5", "ondemand:\n  m5")),
        ("another field of Windows", with("{m5.large: 0.15}", "{m5.large: 0.15}\n  reserved: {}")),
        ("a negative price", with("0.0612", "-0.0612")),
        ("a negative price in JSON", as_json(&with("0.0612", "-1"))),
        ("a price of zero", with("0.0612", "0")),
        ("an absurd price", with("us-east-1b: 0.03", "us-east-1b: 30000")),
        ("no number", with("0.0612", ".nan")),
        ("an infinite price", with("us-east-1a: 0.11", "us-east-1a: .inf")),
        ("a number beyond all measure", as_json(OWN).replace("0.0612", "1e999")),
        ("a price in words", as_json(OWN).replace("0.0612", "\"cheap\"")),
        ("a price in words in YAML", with("0.0612", "cheap")),
        ("no price", with("0.0612", "")),
        ("a type twice", with("c7g.large", "m5.large")),
        ("a type twice in JSON", as_json(OWN).replace("c7g.large", "m5.large")),
        ("a zone twice in JSON", as_json(OWN).replace("us-east-1b", "us-east-1a")),
        ("a zone of another region", with("us-east-1b", "us-west-2b")),
        ("spot without zones", with("{us-east-1a: 0.11}", "0.11")),
        ("an end too early", as_json(OWN)[..100].to_owned()),
        ("more than JSON", as_json(OWN) + "}"),
        ("two documents", format!("{OWN}---\n{OWN}")),
        ("malformed YAML", with("kind: PriceList", "kind: [PriceList")),
        ("no prices", OWN.split("onDemand").next().unwrap().to_owned()),
        ("a name of a thousand letters", with("c7g.large: 0.0612", &format!("{}: x", "n".repeat(1000)))),
        ("more prices than there are", many.to_string()),
    ];
    let told = cases.map(|(name, text)| format!("=== {name}\n{}", refused(&text)));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn long_yaml_is_refused_before_it_is_parsed() {
    let text = format!("{OWN}# {}\n", "x".repeat(super::LONGEST_YAML));
    insta::assert_snapshot!(refused(&text), @r"
    is YAML of more than 16 MiB
      hint: give it as JSON, which is read piece by piece
    ");
}

// === what the AWS CLI prints ===

fn entry(name: &str, zone: &str, product: &str, price: &str, at: &str) -> Value {
    json!({
        "AvailabilityZone": zone, "AvailabilityZoneId": "use1-az1", "InstanceType": name, "ProductDescription": product,
        "SpotPrice": price, "Timestamp": at,
    })
}

#[test]
fn of_a_spot_price_history_the_newest_entry_of_each_pool_counts() {
    let history = json!({"SpotPriceHistory": [
        entry("m5.large", "us-east-1a", "Linux/UNIX", "0.021000", "2026-11-26T10:00:00+00:00"),
        entry("m5.large", "us-east-1a", "Linux/UNIX (Amazon VPC)", "0.022000", "2026-11-26T13:20:00+00:00"),
        entry("m5.large", "us-east-1a", "Linux/UNIX", "0.020000", "2026-11-25T10:00:00.000Z"),
        entry("m5.large", "us-east-1b", "Linux/UNIX", "0.030000", "2026-11-20T10:00:00+00:00"),
        entry("m5.large", "us-east-1a", "Windows", "0.114000", "2026-11-26T11:00:00+00:00"),
        entry("m5.large", "us-east-1a", "Red Hat Enterprise Linux", "0.082", "2026-11-27T11:00:00+00:00"),
        entry("m5.large", "us-east-1-bos-1a", "Linux/UNIX", "0.05", "2026-11-26T11:00:00+00:00"),
        entry("m5.large", "eu-west-1a", "Linux/UNIX", "0.001", "2026-11-28T11:00:00+00:00"),
    ]});
    let PriceFile { prices, elsewhere, is_cut_off } = reading(&history.to_string());
    assert_eq!((elsewhere, is_cut_off), (1, false));
    assert_eq!((prices.on_demand_at, prices.spot_at), (None, Some("2026-11-26T13:20:00Z".parse().unwrap())));
    let m5 = laid_over(&prices, "m5.large");
    assert_eq!(zones(&m5.linux), [("us-east-1-bos-1a", 0.05), ("us-east-1a", 0.022), ("us-east-1b", 0.03)]);
    assert_eq!(zones(&m5.windows), [("us-east-1a", 0.114)]);
    assert_eq!(m5.linux.on_demand, Some(1.0));
    let yaml = serde_saphyr::to_string(&history).unwrap();
    assert_eq!(reading(&yaml).prices, prices, "as `--output yaml` prints it");
}

/// A product with these attributes over those of m5.large.
fn product(attributes: &Value, family: &str, price: &str) -> Value {
    let mut all = json!({
        "instanceType": "m5.large", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "marketoption": "OnDemand", "licenseModel": "No License required",
        "regionCode": REGION, "vcpu": "2",
    });
    for (name, value) in attributes.as_object().unwrap() {
        all[name] = value.clone();
    }
    let dimension = json!({"unit": "Hrs", "pricePerUnit": {"USD": price}});
    let product = json!({
        "product": {"productFamily": family, "attributes": all, "sku": "S"}, "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"S.J": {"priceDimensions": {"S.J.6": dimension}}}, "Reserved": {"S.K": {"any": [1]}}},
        "version": "20261120", "publicationDate": "2026-11-20T18:00:00Z",
    });
    Value::String(product.to_string())
}

#[test]
fn of_a_price_list_plain_instances_on_demand_count() {
    const MACHINE: &str = "Compute Instance";
    let of = |attributes: Value, price: &str| product(&attributes, MACHINE, price);
    let list = json!({"FormatVersion": "aws_v1", "NextToken": "more", "PriceList": [
        of(json!({}), "0.0960000000"),
        of(json!({"operatingSystem": "Windows"}), "0.1880000000"),
        of(json!({"operatingSystem": "Windows", "licenseModel": "Bring your own license"}), "0.0960000000"),
        of(json!({"operatingSystem": "Windows", "preInstalledSw": "SQL Std"}), "0.668"),
        of(json!({"operatingSystem": "RHEL"}), "0.1248"),
        of(json!({"tenancy": "Dedicated"}), "0.102"),
        of(json!({"tenancy": "Host"}), "0"),
        of(json!({"capacitystatus": "UnusedCapacityReservation"}), "0.096"),
        of(json!({"marketoption": "CapacityBlock"}), "0.01"),
        of(json!({"regionCode": "eu-west-1"}), "0.107"),
        of(json!({"instanceType": "c5.large"}), "0.0000000000"),
        product(&json!({"instanceType": "m5.metal", "tenancy": "Dedicated"}), "Compute Instance (bare metal)", "4.608"),
        product(&json!({"instanceType": "m5.metal", "tenancy": "Shared"}), "Compute Instance (bare metal)", "9"),
        product(&json!({}), "Dedicated Host", "5.069"),
        Value::String(r#"{"product": {"attributes": {"group": "ELB:Balancer"}}}"#.to_owned()),
    ]});
    let PriceFile { prices, elsewhere, is_cut_off } = reading(&list.to_string());
    assert_eq!((prices.len(), elsewhere, is_cut_off), (3, 1, true));
    assert_eq!((prices.on_demand_at, prices.spot_at), (Some("2026-11-20T18:00:00Z".parse().unwrap()), None));
    let m5 = laid_over(&prices, "m5.large");
    assert_eq!((m5.linux.on_demand, m5.windows.on_demand), (Some(0.096), Some(0.188)));
    assert_eq!(laid_over(&prices, "m5.metal").linux.on_demand, Some(4.608));
    assert_eq!(laid_over(&prices, "c5.large").linux.on_demand, Some(1.0));
}

#[test]
fn broken_output_is_refused_with_the_place() {
    let history = |from: &str, to: &str| {
        let entry = entry("m5.large", "us-east-1a", "Linux/UNIX", "0.021", "2026-11-26T10:00:00Z");
        let text = format!("{{\"SpotPriceHistory\": [\n  {entry},\n  {entry}]}}");
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let list = |products: Value| json!({ "PriceList": products }).to_string();
    let plain = product(&json!({}), "Compute Instance", "0.096");
    let cases = [
        ("a negative spot price", history("\"0.021\"", "\"-0.021\"")),
        ("a spot price that is no number", history("\"0.021\"", "\"NaN\"")),
        ("no spot price", history("\"SpotPrice\":\"0.021\",", "")),
        ("no time", history("2026-11-26T10:00:00Z", "yesterday")),
        ("no list", json!({"SpotPriceHistory": {}}).to_string()),
        ("an empty history", json!({"SpotPriceHistory": []}).to_string()),
        ("another region's history", history("us-east-1a", "eu-west-1a").replace("us-east-1a", "eu-west-1b")),
        ("a product that is an object", list(json!([plain, {"product": {}}]))),
        ("a product that is no JSON", list(json!([plain, "{\"product\": "]))),
        ("a product of another shape", list(json!([plain, "{\"product\": 1}"]))),
        ("nothing that counts", list(json!([product(&json!({"tenancy": "Host"}), "Compute Instance", "1")]))),
        ("another region's list", list(json!([product(&json!({"regionCode": "eu-west-1"}), "Compute Instance", "1")]))),
    ];
    let told = cases.map(|(name, text)| format!("=== {name}\n{}", refused(&text)));
    insta::assert_snapshot!(told.join("\n"));
}

// === Windows ===

#[test]
fn windows_costs_the_licence_where_its_price_is_not_known() {
    let linux =
        |on_demand| Prices { linux: Rates { on_demand: Some(on_demand), spot: None }, windows: Rates::default() };
    // Prices of Linux and of Windows on demand in us-east-1.
    for (name, of_linux, of_windows) in [
        ("m5.large", 0.096, 0.188),
        ("c5.4xlarge", 0.68, 1.416),
        ("m5.metal", 4.608, 9.024),
        ("t3.medium", 0.0416, 0.06),
        ("t3a.2xlarge", 0.3008, 0.448),
        ("t2.large", 0.0928, 0.1208),
    ] {
        let (facts, prices) = (facts(name), linux(of_linux));
        let price = prices.on_demand(&facts, AmiFamily::Windows2022).unwrap();
        assert!((price - of_windows).abs() < 1e-9, "{name}: {price}");
        assert_eq!(prices.spot("us-east-1a", &facts, AmiFamily::Windows2025), Some(price), "{name}");
        assert_eq!(prices.on_demand(&facts, AmiFamily::Bottlerocket), Some(of_linux), "{name}");
    }
}

#[test]
fn known_prices_of_windows_count() {
    let facts = facts("m5.large");
    let spot = |price| Some([("us-east-1a".into(), price)].into());
    let mut prices = Prices {
        linux: Rates { on_demand: Some(0.096), spot: spot(0.03) },
        windows: Rates { on_demand: Some(0.17), spot: None },
    };
    let of = |prices: &Prices, zone: &str| prices.spot(zone, &facts, AmiFamily::Windows2019);
    assert_eq!(prices.on_demand(&facts, AmiFamily::Windows2019), Some(0.17));
    assert!((of(&prices, "us-east-1a").unwrap() - 0.122).abs() < 1e-9, "of Linux, with the licence of two vCPUs");
    assert_eq!(of(&prices, "us-east-1b"), None, "not for sale");
    prices.windows.spot = spot(0.1);
    assert_eq!((of(&prices, "us-east-1a"), of(&prices, "us-east-1b")), (Some(0.1), None));
    let nothing = Prices::default();
    assert_eq!((nothing.on_demand(&facts, AmiFamily::Windows2019), of(&nothing, "us-east-1a")), (None, None));
}

#[test]
fn of_a_whole_market_what_is_left_out_is_not_for_sale() {
    let mut list = reading(OWN).prices;
    assert_eq!(laid_over(&list, "c5.large").linux.spot, None);
    list.set_whole_market(OperatingSystem::Linux);
    let c5 = laid_over(&list, "c5.large");
    assert_eq!((c5.linux.spot, c5.windows.spot), (Some([].into()), None));
}
