//! Broken input of every kind goes the whole way: read, judged, put together, packed, validated, bounded, replayed and
//! explained. Whatever the bytes are, the answer is a plan or a message, never a panic.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed, and says on what")]

mod mutate;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use muster_aws::{Prices, catalogue, prices};
use muster_manifest::snapshot::{Settings, assemble};
use muster_manifest::{Manifests, read};
use muster_scheduling::explain::Explainer;
use muster_scheduling::model::{Catalogue, MinValuesPolicy, Options, PreferencePolicy, Problem};
use muster_scheduling::{lower_bound, replay, solve, validate};
use mutate::{Dice, change, damage};
use serde_json::{Value, json};

const OBJECTS: &str = include_str!("objects.yaml");
const CATALOGUE: &str = include_str!("catalogue.json");
const PRICES: &str = include_str!("prices.json");

/// Beyond this many pods a mutation only tests how long packing takes.
const MOST_PODS: usize = 300;
/// No input of a few kilobytes may take longer, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(60);

static DOCUMENTS: LazyLock<Vec<Value>> =
    LazyLock::new(|| OBJECTS.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect());
static PRICE_LISTS: LazyLock<Vec<Value>> = LazyLock::new(|| serde_json::from_str(PRICES).unwrap());
static TYPES: LazyLock<Catalogue> = LazyLock::new(|| catalogue::read(CATALOGUE).unwrap().into());

/// How far the mutations came.
#[derive(Debug, Default)]
struct Tally {
    refused: usize,
    read: usize,
    planned: usize,
    /// Plans that the validator refuses: they are never shown, but each is a gap of the packer.
    invalid: usize,
    catalogues: usize,
    prices: usize,
    slowest: Duration,
}

/// Shows the input if what is done with it panics.
struct Witness<'i>(usize, &'i [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("mutation {}:\n{}", self.0, String::from_utf8_lossy(self.1));
        }
    }
}

/// Breaks `count` inputs and sees each of them through, in parts that have their own seeds.
fn run(seed: u64, count: usize) -> Tally {
    const PARTS: usize = 8;
    /// As large as the program's own.
    const STACK: usize = 8 << 20;
    let work = |part: u64| move || run_here(seed + part, count / PARTS);
    let parts = (0..).take(PARTS).map(|part| std::thread::Builder::new().stack_size(STACK).spawn(work(part)).unwrap());
    let parts: Vec<_> = parts.collect();
    parts.into_iter().map(|part| part.join().unwrap()).fold(Tally::default(), Tally::with)
}

impl Tally {
    fn with(self, other: Self) -> Self {
        Self {
            refused: self.refused + other.refused,
            read: self.read + other.read,
            planned: self.planned + other.planned,
            invalid: self.invalid + other.invalid,
            catalogues: self.catalogues + other.catalogues,
            prices: self.prices + other.prices,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

fn run_here(seed: u64, count: usize) -> Tally {
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    for number in 0..count {
        if number % 10 == 0 {
            let bytes = broken_catalogue(&mut dice);
            let _witness = Witness(number, &bytes);
            see_catalogue_through(&bytes, &mut tally);
        } else if number % 10 == 5 {
            let bytes = broken_prices(&mut dice);
            let _witness = Witness(number, &bytes);
            see_prices_through(&bytes, &mut tally);
        } else {
            let bytes = broken_manifests(&mut dice);
            let _witness = Witness(number, &bytes);
            #[expect(clippy::disallowed_methods, reason = "the test says what the slowest input took")]
            let start = Instant::now();
            see_through(&bytes, number, &mut tally);
            tally.slowest = tally.slowest.max(start.elapsed());
            assert!(tally.slowest < PATIENCE, "{:?}", tally.slowest);
        }
    }
    tally
}

/// One object broken, alone or among all the others, as JSON or YAML, as documents or as lists.
fn broken_manifests(dice: &mut Dice) -> Vec<u8> {
    let which = dice.roll(DOCUMENTS.len());
    let mut objects = match dice.roll(3) {
        0 => vec![DOCUMENTS[which].clone()],
        _ => DOCUMENTS.clone(),
    };
    let which = which.min(objects.len() - 1);
    for _ in 0..dice.roll(4) {
        change(&mut objects[which], dice);
    }
    let mut document = match dice.roll(4) {
        0 => vec![json!({"apiVersion": "v1", "kind": "List", "items": objects})],
        1 => {
            let kind = objects[which]["kind"].as_str().map(|kind| format!("{kind}List"));
            vec![json!({"apiVersion": objects[which]["apiVersion"], "kind": kind, "items": objects})]
        }
        _ => objects,
    };
    if dice.roll(40) == 0 {
        change(&mut document[0], dice);
    }
    let mut bytes = written(&document, dice);
    if dice.roll(4) == 0 {
        (0..=dice.roll(2)).for_each(|_| damage(&mut bytes, dice));
    }
    bytes
}

fn broken_catalogue(dice: &mut Dice) -> Vec<u8> {
    let mut document: Value = serde_json::from_str(CATALOGUE).unwrap();
    (0..=dice.roll(3)).for_each(|_| change(&mut document, dice));
    let mut bytes = written(&[document], dice);
    if dice.roll(4) == 0 {
        damage(&mut bytes, dice);
    }
    bytes
}

/// A price list of our own, or output of the AWS CLI, whose products are broken before they become strings.
fn broken_prices(dice: &mut Dice) -> Vec<u8> {
    let mut document = dice.pick(&PRICE_LISTS).clone();
    (0..dice.roll(4)).for_each(|_| change(&mut document, dice));
    if let Some(products) = document.get_mut("PriceList").and_then(Value::as_array_mut) {
        products.iter_mut().filter(|product| product.is_object()).for_each(|one| *one = one.to_string().into());
    }
    let mut bytes = written(&[document], dice);
    if dice.roll(4) == 0 {
        damage(&mut bytes, dice);
    }
    bytes
}

fn written(documents: &[Value], dice: &mut Dice) -> Vec<u8> {
    let is_yaml = dice.roll(2) == 0;
    let texts = documents.iter().map(|document| {
        // What YAML's writer refuses is tried as JSON.
        let yaml = is_yaml.then(|| serde_saphyr::to_string(document).ok()).flatten();
        yaml.unwrap_or_else(|| document.to_string())
    });
    texts.collect::<Vec<_>>().join("\n---\n").into_bytes()
}

fn see_through(bytes: &[u8], number: usize, tally: &mut Tally) {
    match read(&["-".into()], &mut &bytes[..]) {
        Ok(manifests) => {
            tally.read += 1;
            plan(&manifests, &TYPES, number, tally);
        }
        Err(error) => {
            tally.refused += 1;
            let message = error.to_string();
            assert!(message.contains("\n\nhint: ") && message.contains("stdin"), "{message}");
        }
    }
}

fn see_catalogue_through(bytes: &[u8], tally: &mut Tally) {
    static SOUND: LazyLock<Manifests> = LazyLock::new(|| read(&["-".into()], &mut OBJECTS.as_bytes()).unwrap());
    match catalogue::read(&String::from_utf8_lossy(bytes)) {
        Ok(types) => {
            tally.catalogues += 1;
            plan(&SOUND, &types.into(), 0, tally);
        }
        Err(error) => {
            tally.refused += 1;
            assert!(!error.to_string().contains('\n') && !error.hint().is_empty(), "{error}");
        }
    }
}

fn see_prices_through(bytes: &[u8], tally: &mut Tally) {
    match prices::read(&String::from_utf8_lossy(bytes), "us-east-1") {
        Ok(reading) => {
            tally.prices += 1;
            let list = reading.prices;
            assert!(!list.is_empty());
            for name in list.names() {
                let mut laid_over = Prices::default();
                list.lay_over(name, &mut laid_over);
                let rates = [laid_over.linux, laid_over.windows];
                let of_rates =
                    rates.iter().flat_map(|one| one.on_demand.iter().chain(one.spot.iter().flat_map(|it| it.values())));
                assert!(
                    of_rates.clone().count() > 0 && of_rates.into_iter().all(|price| *price > 0.0 && price.is_finite())
                );
            }
        }
        Err(error) => {
            tally.refused += 1;
            assert!(!error.to_string().contains('\n') && !error.hint().is_empty(), "{error}");
        }
    }
}

fn plan(manifests: &Manifests, types: &Catalogue, number: usize, tally: &mut Tally) {
    let snapshot = assemble(manifests, &Settings::default(), &|_| types.clone()).unwrap();
    let problem: &Problem = &snapshot.problem;
    if problem.pods.len() > MOST_PODS {
        return;
    }
    let options = Options {
        preferences: if number % 4 == 1 { PreferencePolicy::Ignore } else { PreferencePolicy::Respect },
        min_values: if number % 4 == 2 { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
        ..Options::default()
    };
    let solution = solve(problem, &options);
    tally.planned += 1;
    tally.invalid += usize::from(!validate(problem, &options, &solution).is_empty());
    assert!(!lower_bound(problem, &options, &solution).is_nan());
    assert!(!replay(problem, &options, &solution).expected_price.is_nan());
    let mut explainer = Explainer::new(problem, &options, &solution);
    for pod in &solution.unschedulable {
        explainer.unschedulable(pod.pod);
    }
}

#[test]
fn the_objects_are_sound_before_they_are_broken() {
    let manifests = read(&["-".into()], &mut OBJECTS.as_bytes()).unwrap();
    assert_eq!(manifests.warnings, [""; 0]);
    let mut tally = Tally::default();
    plan(&manifests, &TYPES, 0, &mut tally);
    assert_eq!(tally.planned, 1);
}

/// A mutator that breaks all or nothing would prove little.
fn check(count: usize, tally: &Tally) {
    let Tally { refused, read, planned, catalogues, prices, .. } = tally;
    assert!(*refused > count / 10 && *read > count / 10 && *planned > count / 10, "{tally:?}");
    assert!(*catalogues > count / 200 && *prices > count / 100, "{tally:?}");
}

#[test]
fn no_mutation_panics() {
    let tally = run(0x6d75_7374_6572, 2_000);
    check(2_000, &tally);
}

/// `cargo test --release --workspace --test mutations -- --ignored`: with the features that all other builds have.
#[test]
#[ignore = "takes minutes without optimisation"]
fn no_mutation_of_a_hundred_thousand_panics() {
    let tally = run(0x0061_6e74, 100_000);
    println!("{tally:?}");
    check(100_000, &tally);
}
