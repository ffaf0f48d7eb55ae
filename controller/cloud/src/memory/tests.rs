use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::{
    Alternative, CapacityType, CloudError, InstanceState, LaunchRequest, LaunchToken, Offering, Overlaid, after,
};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: u64) -> Timestamp {
    after(START, Duration::from_secs(seconds))
}

fn offering(name: &str) -> Offering {
    Offering {
        instance_type: name.to_owned(),
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        reservation: None,
    }
}

fn request(claim: &str, attempt: u32, types: &[&str]) -> LaunchRequest {
    LaunchRequest {
        token: LaunchToken { claim_uid: claim.to_owned(), attempt },
        claim: claim.to_owned(),
        pool: None,
        class: muster_api::NodeClassReference::default(),
        alternatives: types.iter().map(|name| Alternative { offering: offering(name), price: 1.0 }).collect(),
        keeps_choice: false,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        requests: BTreeMap::new(),
        has_network_devices: false,
        tags: BTreeMap::new(),
        overlaid: Overlaid::default(),
    }
}

#[test]
fn an_instance_boots_runs_ends_and_is_forgotten() {
    let mut cloud = Memory::default();
    let id = cloud.launch(&request("x", 1, &["m"]), START).unwrap().instance.provider_id;
    let state = |cloud: &mut Memory, seconds| cloud.get(&id, at(seconds)).map(|one| one.state);
    assert_eq!(state(&mut cloud, 7), Ok(InstanceState::Pending));
    assert_eq!(state(&mut cloud, 8), Ok(InstanceState::Running));
    assert_eq!(cloud.list(at(1)).unwrap().len(), 0, "lists lag behind");
    assert_eq!(cloud.list(at(2)).unwrap().len(), 1);
    cloud.terminate(&id, at(10)).unwrap();
    cloud.terminate(&id, at(11)).unwrap();
    assert_eq!(state(&mut cloud, 49), Ok(InstanceState::ShuttingDown), "the second call changes nothing");
    assert_eq!(state(&mut cloud, 50), Ok(InstanceState::Terminated));
    assert_eq!(cloud.list(at(50)).unwrap().len(), 0);
    assert!(cloud.terminate(&id, at(50)).unwrap_err().is_not_found());
    assert!(state(&mut cloud, 3650).unwrap_err().is_not_found());
}

#[test]
fn capacity_runs_out_offering_by_offering() {
    let mut cloud = Memory::default();
    cloud.capacity = BTreeMap::from([(offering("a"), 1), (offering("b"), 0)]);
    let first = cloud.launch(&request("x", 1, &["b", "a", "c"]), START).unwrap();
    assert_eq!((first.instance.offering, first.refused.len()), (offering("a"), 1));
    let error = cloud.launch(&request("y", 1, &["a", "b"]), START).unwrap_err();
    assert_eq!(
        error.to_string(),
        "none of the 2 offerings tried is available: a/a/on-demand: no capacity; b/a/on-demand: no capacity"
    );
    cloud.capacity.clear();
    assert_eq!(cloud.launch(&request("y", 1, &["a"]), START), Err(error), "an attempt that is over stays as it went");
    assert!(cloud.launch(&request("y", 2, &["a"]), START).is_ok());
}

#[test]
fn a_lost_answer_is_had_by_asking_again() {
    let mut cloud = Memory::default();
    cloud.faults.push(Operation::Launch, Fault::LoseAnswer);
    cloud.faults.push(Operation::Launch, Fault::Refuse(CloudError::Throttled { operation: "CreateFleet".to_owned() }));
    let ask =
        |cloud: &mut Memory| cloud.launch(&request("x", 1, &["a"]), START).map_err(|e| e.error.reason().to_owned());
    assert_eq!(ask(&mut cloud), Err("InternalError".to_owned()));
    assert_eq!(ask(&mut cloud), Err("RequestLimitExceeded".to_owned()));
    assert!(ask(&mut cloud).is_ok());
    assert_eq!(cloud.everything(START).len(), 1);
    assert_eq!(cloud.record().iter().filter(|call| call.error.is_some()).count(), 2);
    assert!(cloud.faults.is_empty());
}

proptest! {
    #[test]
    fn a_token_makes_one_instance_at_most(
        calls in proptest::collection::vec((0..4_u8, 1..3_u32, 0..4_u8), 1..60),
        capacity in 0..4_u32,
    ) {
        let mut cloud = Memory::default();
        cloud.capacity.insert(offering("a"), capacity);
        for (claim, attempt, fault) in calls {
            match fault {
                1 => cloud.faults.push(Operation::Launch, Fault::LoseAnswer),
                2 => cloud.faults.push(Operation::Launch, Fault::Refuse(CloudError::TemplateGone)),
                3 => cloud.faults.push(Operation::Launch, Fault::Fail(CloudError::TemplateGone)),
                _ => {}
            }
            let _ = cloud.launch(&request(&claim.to_string(), attempt, &["a"]), START);
        }
        let everything = cloud.everything(START);
        let tokens: std::collections::BTreeSet<_> = everything.iter().map(|one| one.token.clone()).collect();
        prop_assert_eq!(tokens.len(), everything.len());
        prop_assert!(everything.len() <= capacity as usize);
    }
}
