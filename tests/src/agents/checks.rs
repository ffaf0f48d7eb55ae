//! A crowd that asks for health, as probes and load balancers do.

use std::time::Duration;

use muster_proto::health::HealthCheckRequest;
use muster_proto::health::health_check_response::ServingStatus;
use muster_proto::health::health_client::HealthClient;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::transport::{Channel, Endpoint};

/// Connections that the calls are spread over.
const CONNECTIONS: u32 = 20;

/// What came of the calls.
#[derive(Debug, Clone)]
pub struct Checked {
    /// How long each answered one took, shortest first.
    pub took: Vec<Duration>,
    /// How many were refused, or answered with another status than SERVING.
    pub refused: usize,
    /// From the first call to the last answer.
    pub wall: Duration,
}

/// Calls `grpc.health.v1.Health/Check` of the whole at `address`, so many times a second, for that long. A call is made when
/// its time has come, however long others take.
///
/// # Errors
/// No connection can be made.
pub async fn check(address: &str, rate: u32, during: Duration) -> Result<Checked, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        channels.push(endpoint.connect().await?);
    }
    let begun = Instant::now();
    let mut crowd = JoinSet::new();
    for channel in channels {
        crowd.spawn(calls(channel, Duration::from_secs(1) * CONNECTIONS / rate, begun + during));
    }
    let mut checked = Checked { took: Vec::new(), refused: 0, wall: Duration::ZERO };
    while let Some(each) = crowd.join_next().await {
        let Ok((took, refused)) = each else { continue };
        checked.took.extend(took);
        checked.refused += refused;
    }
    checked.wall = begun.elapsed();
    checked.took.sort_unstable();
    Ok(checked)
}

/// The calls of one connection: how long those that were answered took, and how many were not.
async fn calls(channel: Channel, every: Duration, end: Instant) -> (Vec<Duration>, usize) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut under_way = JoinSet::new();
    while Instant::now() < end {
        ticks.tick().await;
        let mut client = HealthClient::new(channel.clone());
        under_way.spawn(async move {
            let begun = Instant::now();
            let answer = client.check(HealthCheckRequest { service: String::new() }).await;
            let is_well = answer.is_ok_and(|it| it.get_ref().status() == ServingStatus::Serving);
            is_well.then(|| begun.elapsed())
        });
    }
    let (mut took, mut refused) = (Vec::new(), 0);
    while let Some(call) = under_way.join_next().await {
        match call {
            Ok(Some(one)) => took.push(one),
            _ => refused += 1,
        }
    }
    (took, refused)
}

impl Checked {
    /// The time that this part of the calls, such as 0.99, took at most.
    pub fn within(&self, part: f64) -> Duration {
        percentile(&self.took, part)
    }
}

/// Of times in order, the one that this part of them, such as 0.99, is at most.
pub fn percentile(sorted: &[Duration], part: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or_default()
}
