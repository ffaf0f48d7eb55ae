//! The interruption queue of a test: what EventBridge sends to it, and what is left in it.

use std::time::Duration;

use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use jiff::Timestamp;
use muster_tests::wait;
use serde_json::{Value, json};

use super::ground::{CLUSTER, CONTROLLER, Ground, SOON};

/// The name of a queue that no template has made.
pub(crate) const QUEUE: &str = "shop-interruptions";

/// A queue, and a client that no fault meets.
pub(crate) struct Queue {
    sqs: aws_sdk_sqs::Client,
    url: String,
}

impl Queue {
    pub(crate) async fn create(ground: &Ground) -> Self {
        let (sqs, _) = Self::clients(ground);
        let url = sqs.create_queue().queue_name(QUEUE).send().await.unwrap().queue_url().unwrap().to_owned();
        Self { sqs, url }
    }

    /// The queue, rules and policies of the template in the documentation, named after the cluster.
    pub(crate) async fn deploy(ground: &Ground) -> Self {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(file.path(), template()).unwrap();
        let body = format!("file://{}", file.path().display());
        let parameter = format!("ParameterKey=ClusterName,ParameterValue={CLUSTER}");
        let create = ["cloudformation", "create-stack", "--stack-name", "interruptions", "--template-body", &body];
        let with = ["--capabilities", "CAPABILITY_IAM", "--parameters", &parameter];
        let operator = ground.ec2.credentials("operator");
        ground.ec2.aws(&operator, &[&create[..], &with].concat()).await.unwrap();
        let (sqs, events) = Self::clients(ground);
        let url = sqs.get_queue_url().queue_name(CLUSTER).send().await.unwrap().queue_url().unwrap().to_owned();
        // The emulated EC2 tells EventBridge of state changes once it has seen a rule.
        let rule = events.put_rule().name("any").event_pattern(json!({"source": ["none"]}).to_string());
        rule.send().await.unwrap();
        Self { sqs, url }
    }

    fn clients(ground: &Ground) -> (aws_sdk_sqs::Client, aws_sdk_eventbridge::Client) {
        let config = ground.ec2.sdk_config("operator");
        (aws_sdk_sqs::Client::new(&config), aws_sdk_eventbridge::Client::new(&config))
    }

    pub(crate) async fn send(&self, body: &str) {
        self.sqs.send_message().queue_url(&self.url).message_body(body).send().await.unwrap();
    }

    /// Sends at most ten at once.
    pub(crate) async fn send_together(&self, bodies: Vec<String>) {
        let entry = |(number, body): (usize, String)| {
            SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(body).build().unwrap()
        };
        let entries = bodies.into_iter().enumerate().map(entry).collect();
        let answer = self.sqs.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
        assert_eq!(answer.unwrap().failed(), []);
    }

    /// Waits until nothing is left, neither visible nor hidden.
    pub(crate) async fn empty(&self, ground: &Ground) {
        self.empty_within(ground, SOON).await;
    }

    /// The same, for at most so long.
    pub(crate) async fn empty_within(&self, ground: &Ground, limit: Duration) {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let found = wait::until_some("the queue is empty", limit, || async {
            let asked = self.sqs.get_queue_attributes().queue_url(&self.url);
            let answer = asked.set_attribute_names(Some(names.to_vec())).send().await.unwrap();
            let left = answer.attributes().unwrap();
            Ok(names.iter().all(|name| left[name] == "0").then_some(()))
        });
        found.await.unwrap_or_else(|error| panic!("{error}\n{}", ground.ec2.calls().by(CONTROLLER).lines()));
    }
}

/// The template in the documentation.
pub(crate) fn template() -> String {
    let page = include_str!("../../../../../docs/tasks/interruptions.md");
    let block = page.split("```yaml\n").nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

/// An event of EventBridge.
pub(crate) fn event(source: &str, kind: &str, detail: &Value) -> String {
    json!({
        "version": "0", "id": "72d6566c-e6bd-117d-5bbc-2779c679abd5", "detail-type": kind, "source": source,
        "account": "123456789012", "time": Timestamp::now().to_string(), "region": "us-east-1", "resources": [],
        "detail": detail,
    })
    .to_string()
}

/// Two minutes' notice.
pub(crate) fn spot(instance: &str) -> String {
    let detail = json!({"instance-id": instance, "instance-action": "terminate"});
    event("aws.ec2", "EC2 Spot Instance Interruption Warning", &detail)
}

/// An end of a capacity reservation that was lent.
pub(crate) fn reservation(instance: &str) -> String {
    let detail = json!({"instance-id": instance, "instance-action": "terminate"});
    event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", &detail)
}

/// A risk that an instance is taken back.
pub(crate) fn rebalance(instance: &str) -> String {
    event("aws.ec2", "EC2 Instance Rebalance Recommendation", &json!({"instance-id": instance}))
}

/// A state of an instance.
pub(crate) fn state(instance: &str, state: &str) -> String {
    let detail = json!({"instance-id": instance, "state": state});
    event("aws.ec2", "EC2 Instance State-change Notification", &detail)
}

/// A scheduled change of AWS Health.
pub(crate) fn health(instance: &str) -> String {
    let detail = json!({
        "service": "EC2", "eventTypeCategory": "scheduledChange", "statusCode": "upcoming",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "affectedEntities": [{"entityValue": instance}],
    });
    event("aws.health", "AWS Health Event", &detail)
}
