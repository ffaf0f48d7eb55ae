use std::collections::BTreeMap;

use super::super::launches::tests::claim;
use super::*;

const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn lengths() -> Rotation {
    Rotation::default()
}

fn after(length: SignedDuration) -> Timestamp {
    START + length
}

fn fresh() -> Authorities {
    Authorities::of(Pair::make(START).unwrap(), Some(START))
}

#[test]
fn nothing_is_done_unless_asked_or_old() {
    let held = fresh();
    let at = |is_asked, now| step(&held, is_asked, true, &lengths(), now);
    assert_eq!(at(false, after(lengths().age - SignedDuration::from_secs(1))), Step::Wait);
    assert_eq!(at(false, after(lengths().age)), Step::Introduce);
    assert_eq!(at(true, START), Step::Introduce);
    let of_unknown_age = Authorities { since: None, ..held.clone() };
    assert_eq!(step(&of_unknown_age, false, false, &lengths(), Timestamp::MAX), Step::Wait);
}

#[test]
fn the_next_one_signs_when_everybody_has_looked() {
    let held = fresh().introduce(START).unwrap();
    let at = |now| step(&held, true, true, &lengths(), now);
    assert!(lengths().introduction > lengths().look * 4, "a look that failed is made again in time");
    assert_eq!(at(after(lengths().introduction - SignedDuration::from_secs(1))), Step::Wait);
    assert_eq!(at(after(lengths().introduction)), Step::Replace);
    assert_eq!(at(START - SignedDuration::from_hours(1)), Step::Wait, "by a clock that is behind");
}

#[test]
fn the_one_before_is_forgotten_when_nobody_needs_it() {
    let held = fresh().introduce(START).unwrap().replace(START);
    let at = |is_asked, is_needed, now| step(&held, is_asked, is_needed, &lengths(), now);
    let (outlived, given_up) = (after(lengths().outlived), after(lengths().given_up));
    assert_eq!(at(true, false, outlived - SignedDuration::from_secs(1)), Step::Wait, "its certificates still hold");
    assert_eq!(at(false, false, outlived), Step::Retire);
    assert_eq!(at(false, true, outlived), Step::Wait);
    assert_eq!(at(true, true, outlived), Step::Retire, "asked again: nobody is waited for any more");
    assert_eq!(at(false, true, given_up), Step::Retire);
    // Replaced by hand: how long ago nobody knows.
    let former = held.former.clone().map(|former| Former { since: None, ..former });
    let by_hand = Authorities { former, ..held };
    assert_eq!(step(&by_hand, false, true, &lengths(), Timestamp::MAX), Step::Wait);
    assert_eq!(step(&by_hand, false, false, &lengths(), START), Step::Retire);
}

#[test]
fn who_was_told_of_others_is_in_need() {
    let [one, other] = [(); 2].map(|()| Pair::make(START).unwrap().fingerprint().unwrap());
    let with = |pins: Option<String>| {
        let mut claim = claim();
        let all = claim.metadata.annotations.get_or_insert_default();
        pins.map(|pins| all.insert(annotations::AGENT_PINS.to_owned(), pins));
        claim
    };
    let is_in_need = |claim: &NodeClaim| in_need([claim].into_iter(), &one).count() == 1;
    assert!(is_in_need(&with(None)), "nobody has said what it knows");
    assert!(is_in_need(&with(Some(other.to_string()))));
    assert!(!is_in_need(&with(Some(format!("{other} {one}")))));
    let mut ending = with(None);
    ending.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(START));
    assert!(!is_in_need(&ending));
    let mut untold = with(None);
    untold.metadata.annotations = Some(BTreeMap::new());
    assert!(!is_in_need(&untold), "it has no agent, or one of its own");
}

#[test]
fn a_certificate_without_a_newline_at_its_end_does_not_hide_the_next_one() {
    let mut held = fresh();
    held.signing.certificate.truncate(held.signing.certificate.trim_end().len());
    assert_eq!(held.material().pinned, held.signing.certificate, "alone it is told as it is");
    let introduced = held.introduce(START).unwrap();
    let next = introduced.next.as_ref().unwrap().pair.fingerprint().unwrap();
    let own = introduced.signing.fingerprint().unwrap();
    let pins = |pem: &str| Pins::of_pem(pem).unwrap();
    let told = pins(&introduced.material().pinned);
    assert!(told.holds(&own) && told.holds(&next), "{told}");
    // Replaced by hand while another one was coming.
    let former = Former { certificate: introduced.signing.certificate.clone(), vouched: String::new(), since: None };
    let both = Authorities { former: Some(former), ..introduced };
    let trusted = pins(&both.material().trusted);
    assert!(trusted.holds(&own) && trusted.holds(&next), "{trusted}");
}

/// A node: what it believes, what is written down of that, and by whom and until when it is known.
#[derive(Debug, Clone)]
struct Node {
    pins: String,
    written: Option<Pins>,
    known: Option<(String, Timestamp)>,
}

impl Node {
    fn launched(told: &Authorities) -> Self {
        let pins = told.material().pinned;
        Self { written: Pins::of_pem(&pins), pins, known: None }
    }

    fn believes(&self, material: &Material, held: &Authorities) -> bool {
        let of_former = held.former.as_ref().map(|it| it.certificate.as_str());
        self.pins.contains(&material.signing.certificate)
            || (!material.vouched.is_empty() && of_former.is_some_and(|it| self.pins.contains(it)))
    }

    fn counts(&self, material: &Material, now: Timestamp) -> bool {
        let Some((by, until)) = &self.known else { return true };
        now >= *until || material.signing.certificate == *by || material.trusted.contains(by)
    }

    /// Connects, is told whom to believe, and gets another certificate.
    fn connects(&mut self, held: &Authorities, now: Timestamp) {
        let material = held.material();
        self.pins.clone_from(&material.pinned);
        self.written = Pins::of_pem(&self.pins);
        self.known = Some((material.signing.certificate, now + NODE_LIFE));
    }
}

/// What a replica does at a turn.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Looks,
    /// Ends between deciding and writing.
    EndsBefore,
    /// Ends after its write, and before it knows.
    EndsAfter,
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Three replicas that look when they want to, at most as late as they should, and end at any point; nodes that come and go. Whoever
/// looks at the Secret as it is believes every node, and every node believes them, for as long as it is waited for.
#[test]
fn no_node_is_lost_wherever_a_replica_is_interrupted() {
    let lengths = lengths();
    let mut steps = BTreeMap::new();
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let (mut now, mut asked) = (START, true);
        // The Secret with its version, and what each replica has seen of it.
        let mut secret = (0_u64, fresh());
        let mut seen: [Option<(u64, Authorities)>; 3] = [(); 3].map(|()| Some(secret.clone()));
        let mut nodes = vec![Node::launched(&secret.1), Node::launched(&secret.1)];
        for turn in 0..900 {
            now += lengths.look * i32::try_from(dice.below(if turn % 7 == 0 { 90 } else { 2 })).unwrap();
            for view in &mut seen {
                let what = match dice.below(12) {
                    0 => Turn::EndsBefore,
                    1 => Turn::EndsAfter,
                    _ => Turn::Looks,
                };
                // Whoever started between looking and writing has lost a race.
                let held =
                    if dice.below(5) == 0 { view.clone().unwrap_or_else(|| secret.clone()) } else { secret.clone() };
                let signing = held.1.signing.fingerprint().unwrap();
                let is_needed = nodes.iter().any(|it| !it.written.as_ref().is_some_and(|pins| pins.holds(&signing)));
                let step = step(&held.1, asked, held.1.former.is_some() && is_needed, &lengths, now);
                let after = match (step, what) {
                    (Step::Wait, _) | (_, Turn::EndsBefore) => None,
                    (Step::Introduce, _) => Some(held.1.clone().introduce(now).unwrap()),
                    (Step::Replace, _) => Some(held.1.clone().replace(now)),
                    (Step::Retire, _) => Some(held.1.clone().retire()),
                };
                let mut newest = held.clone();
                if let Some(after) = after.filter(|_| held.0 == secret.0) {
                    asked &= step != Step::Introduce;
                    secret = (secret.0 + 1, after);
                    *steps.entry(format!("{step:?}")).or_insert(0) += 1;
                    newest = secret.clone();
                    assert!(secret.1.former.is_none() || secret.1.next.is_none());
                }
                *view = matches!(what, Turn::Looks).then_some(newest);
            }
            // Somebody with this much patience asks again, and then nobody is waited for: so only for those who are not away.
            if secret.1.next.is_none() && secret.1.former.is_none() && dice.below(40) == 0 {
                asked = true;
            }
            // The first node is away for long; the others come by often, to any replica that they believe.
            let at = usize::try_from(dice.below(3)).unwrap();
            if let Some((_, held)) = &seen[at] {
                let only = dice.below(25) == 0;
                for node in nodes.iter_mut().skip(usize::from(!only)) {
                    if node.believes(&held.material(), held) {
                        node.connects(held, now);
                    }
                }
                if nodes.len() < 6 && dice.below(20) == 0 {
                    nodes.push(Node::launched(held));
                }
            }
            let material = secret.1.material();
            for node in &nodes {
                assert!(node.believes(&material, &secret.1), "seed {seed}, turn {turn}: {node:?} believes nobody");
                assert!(node.counts(&material, now), "seed {seed}, turn {turn}: {node:?} does not count");
            }
        }
    }
    assert!(steps.values().all(|count| *count > 40) && steps.len() == 3, "{steps:?}");
}
