use serde_json::json;

use super::*;

/// Number of mutated messages in an ordinary run, and in the ignored one.
const MUTATIONS: (u64, u64) = (20_000, 1_000_000);

fn event(source: &str, kind: &str, detail: &Value) -> String {
    json!({
        "version": "0", "id": "72d6566c-e6bd-117d-5bbc-2779c679abd5", "detail-type": kind, "source": source,
        "account": "111122223333", "time": "2026-03-10T08:16:02Z", "region": "eu-west-1",
        "resources": ["arn:aws:ec2:eu-west-1:111122223333:instance/i-0b662ef9931388ba0"], "detail": detail,
    })
    .to_string()
}

fn health(service: &str, category: &str, status: &str, entities: &[&str]) -> String {
    let entities: Vec<Value> = entities.iter().map(|id| json!({"entityValue": id})).collect();
    let detail = json!({
        "eventArn": "arn:aws:health:eu-west-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/1", "service": service,
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": category, "statusCode": status,
        "startTime": "Thu, 27 Aug 2026 13:19:03 GMT", "endTime": "Thu, 27 Aug 2026 14:19:03 GMT",
        "eventDescription": [{"language": "en_US", "latestDescription": "…"}], "affectedEntities": entities,
    });
    event("aws.health", "AWS Health Event", &detail)
}

fn notice(kind: NoticeKind, ids: &[&str]) -> Content {
    let instances = ids.iter().map(|id| (*id).to_owned()).collect();
    Content::Notice(Notice { kind, instances, given_at: "2026-03-10T08:16:02Z".parse().ok() })
}

/// One message of each kind, and the notice that it is.
fn samples() -> Vec<(String, NoticeKind, Vec<&'static str>)> {
    let ec2 = |kind: &str, detail: Value| event("aws.ec2", kind, &detail);
    let one = json!({"instance-id": "i-1", "instance-action": "terminate"});
    let state =
        |state: &str| ec2("EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": state}));
    let reservation = "EC2 Capacity Reservation Instance Interruption Warning";
    let mut all = vec![
        (ec2("EC2 Spot Instance Interruption Warning", one.clone()), NoticeKind::SpotInterrupted, vec!["i-1"]),
        (ec2("EC2 Instance Rebalance Recommendation", one.clone()), NoticeKind::RebalanceRecommendation, vec!["i-1"]),
        (ec2(reservation, one), NoticeKind::CapacityReservationInterrupted, vec!["i-1"]),
        (
            health("EC2", "scheduledChange", "open", &["i-2", "i-1", "i-2"]),
            NoticeKind::ScheduledChange,
            vec!["i-1", "i-2"],
        ),
        (
            health("EC2", "scheduledChange", "upcoming", &["arn:aws:ec2:eu-west-1:111122223333:instance/i-3"]),
            NoticeKind::ScheduledChange,
            vec!["i-3"],
        ),
    ];
    all.extend(["stopping", "stopped"].map(|it| (state(it), NoticeKind::InstanceStopped, vec!["i-1"])));
    all.extend(["shutting-down", "terminated"].map(|it| (state(it), NoticeKind::InstanceTerminated, vec!["i-1"])));
    all
}

#[test]
fn every_kind_is_read_with_its_instances() {
    for (body, kind, ids) in samples() {
        assert_eq!(read(&body), notice(kind, &ids), "{body}");
    }
}

#[test]
fn what_is_no_notice_is_told_from_what_is_malformed() {
    let spot = "EC2 Spot Instance Interruption Warning";
    let one = json!({"instance-id": "i-1"});
    let of_version_1 = event("aws.ec2", spot, &one).replace(r#""version":"0""#, r#""version":"1""#);
    let others = [
        String::new(),
        " \n".to_owned(),
        "{}".to_owned(),
        of_version_1,
        event("aws.s3", spot, &one),
        event("aws.ec2", "EC2 Fleet State Change", &one),
        event("aws.ec2", "EC2 Instance State-change Notification", &json!({"instance-id": "i-1", "state": "running"})),
        event("aws.ec2", "EC2 Instance State-change Notification", &json!({"instance-id": "i-1", "state": "pending"})),
        health("RDS", "scheduledChange", "open", &["i-1"]),
        health("EC2", "issue", "open", &["i-1"]),
        health("EC2", "scheduledChange", "closed", &["i-1"]),
    ];
    for body in others {
        assert_eq!(read(&body), Content::Other, "{body}");
    }
    let deep = "[".repeat(100_000);
    let malformed = [
        "spot".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        r#"{"version": 0}"#.to_owned(),
        event("aws.ec2", spot, &json!({})),
        event("aws.ec2", spot, &json!({"instance-id": ""})),
        event("aws.ec2", spot, &json!({"instance-id": "i-1\" or 1"})),
        event("aws.ec2", spot, &json!({"instance-id": ["i-1"]})),
        event("aws.ec2", spot, &json!("i-1")),
        event("aws.ec2", "EC2 Instance State-change Notification", &one),
        health("EC2", "scheduledChange", "open", &[]),
        format!("{{\"detail\": {deep}"),
        format!("{{\"detail\": \"{}\"}}", "x".repeat(LONGEST)),
    ];
    for body in malformed {
        let shown: String = body.chars().take(200).collect();
        assert!(matches!(read(&body), Content::Malformed(_)), "{shown}");
    }
}

#[test]
fn a_time_that_cannot_be_read_is_none() {
    let body = samples().remove(0).0.replace("2026-03-10T08:16:02Z", "yesterday");
    let Content::Notice(read) = read(&body) else { panic!("{body}") };
    assert_eq!((read.kind, read.given_at), (NoticeKind::SpotInterrupted, None));
}

/// Generator of pseudorandom numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % most.max(1)
    }
}

/// Changes one to four places of a message: bytes, deletions, doubled parts, parts of other messages.
fn mutated(samples: &[String], random: &mut Random) -> String {
    let mut bytes = samples[random.below(samples.len())].clone().into_bytes();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let until = (at + random.below(24)).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            1 => drop(bytes.drain(at..until)),
            2 => {
                let part = bytes[at..until].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let other = samples[random.below(samples.len())].as_bytes();
                let from = random.below(other.len());
                bytes.splice(at..until, other[from..(from + 24).min(other.len())].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn mutations(count: u64) {
    let samples: Vec<String> = samples().into_iter().map(|(body, ..)| body).collect();
    let mut random = Random(1);
    let (mut notices, mut others, mut malformed) = (0_u64, 0_u64, 0_u64);
    for _ in 0..count {
        let body = mutated(&samples, &mut random);
        match read(&body) {
            Content::Notice(notice) => {
                notices += 1;
                assert!(!notice.instances.is_empty() && notice.instances.iter().all(|id| is_id(id)), "{body}");
                // An instance that no part of the message names would be replaced for nothing.
                assert!(notice.instances.iter().all(|id| body.contains(id.as_str())), "{body}");
                assert!(notice.instances.is_sorted(), "{body}");
                let is_polled = |kind| {
                    matches!(kind, NoticeKind::InstanceStatus | NoticeKind::SystemStatus | NoticeKind::EventStatus)
                };
                assert!(!is_polled(notice.kind), "{body}");
            }
            Content::Other => others += 1,
            Content::Malformed(reason) => {
                malformed += 1;
                assert!(reason.len() < 500 + body.len(), "{reason}");
            }
        }
    }
    let fraction = |part: u64| part as f64 / count as f64;
    assert!(
        [notices, others, malformed].into_iter().all(|part| fraction(part) > 0.02),
        "the mutations reach every outcome: {notices} {others} {malformed}"
    );
}

#[test]
fn a_mutated_message_names_no_instance_that_it_does_not_have() {
    mutations(MUTATIONS.0);
}

#[test]
#[ignore = "a million messages"]
fn a_million_mutated_messages_name_no_instance_that_they_do_not_have() {
    mutations(MUTATIONS.1);
}
