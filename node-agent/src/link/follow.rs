//! The report stream: sends the current report as soon as the controller's interval allows.

use std::time::Duration;

use futures::future::OptionFuture;
use jiff::Timestamp;
use muster_link::Pins;
use muster_proto::muster::follow_request::Message;
use muster_proto::muster::follow_response::Message as Answer;
use muster_proto::muster::node_reports_client::NodeReportsClient;
use muster_proto::muster::{FollowRequest, Hello, LogBundle, Notice};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::dial::{CALL, answered};
use super::enrol::Credential;
use super::keys::Keys;
use super::wire::{FatalSince, notice, report};
use super::{Fault, News, Node};
use crate::publish::bundle::LARGEST_SENT;
use crate::report::Report;

/// Capacity of the send queue. A report that is not sent yet is replaced by the next one, not queued.
const QUEUE: usize = 1;
/// Minimum interval between log bundles for the controller.
const BETWEEN_BUNDLES: Duration = Duration::from_secs(60);
/// Minimum interval between renewals of the certificate.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(60);

/// Trusted authorities: the current ones, and those in the user data.
pub(super) struct Beliefs<'a> {
    pub(super) keys: &'a mut Keys,
    pub(super) written: &'a str,
}

impl Beliefs<'_> {
    /// Handles the authorities in a configuration. Returns true if they replace the trusted ones. Older controllers
    /// send none.
    fn heed(&mut self, authorities: &str) -> bool {
        let is_news = !authorities.is_empty() && self.keys.believe(self.written, authorities);
        if is_news {
            tracing::info!("the controller has named the authorities to believe from now on");
        }
        is_news
    }

    /// Returns the first message of a stream, which identifies the node.
    fn hello(&self, boot_id: &str) -> Message {
        let pins = Pins::of_pem(self.keys.believed(self.written)).unwrap_or_default();
        Message::Hello(Hello {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id.to_owned(),
            authorities: pins.iter().map(|pin| pin.bytes().to_vec()).collect(),
        })
    }
}

/// Sends reports until the connection ends.
pub(super) async fn follow(
    channel: &Channel,
    credential: &mut Credential,
    mut beliefs: Beliefs<'_>,
    reports: &mut watch::Receiver<Report>,
    node: &impl Node,
) -> Result<(), Fault> {
    let (said, saying) = mpsc::channel(QUEUE);
    let boot_id = reports.borrow().boot_id.clone();
    let send = |message| FollowRequest { message: Some(message) };
    // The queue is empty, so this cannot fail.
    let _nobody_reads_yet = said.try_send(send(beliefs.hello(&boot_id)));
    let mut client = NodeReportsClient::new(channel.clone());
    let mut answers = answered(client.follow(ReceiverStream::new(saying)), CALL).await?;

    let mut outbox = Outbox::default();
    let mut renewed_at: Option<Instant> = None;
    // Log bundle, while it is collected and until it is sent.
    let mut collecting = OptionFuture::from(None);
    let mut collected: Option<LogBundle> = None;
    let mut asked_at: Option<Instant> = None;
    outbox.due.want(Instant::now());
    reports.mark_unchanged();
    loop {
        let is_urgent = outbox.is_urgent(&reports.borrow());
        let renewal = until_renewal(credential.renew_at(), Timestamp::now(), renewed_at.map(|at| at.elapsed()));
        tokio::select! {
            answer = answers.message() => match answer? {
                None => return Ok(()),
                Some(answer) => match answer.message {
                    Some(Answer::Configuration(wanted)) => {
                        outbox.due.interval = Duration::from_millis(wanted.report_interval_ms.into());
                        outbox.has_news_of_itself |= beliefs.heed(&wanted.authorities);
                        node.on_news(&News::Followed);
                    }
                    Some(Answer::Acknowledgement(kept)) => node.on_news(&News::Kept(kept.sequence)),
                    // Another request within the interval is answered by the bundle in progress.
                    Some(Answer::SendBundle(_)) if asked_at.is_none_or(|at| at.elapsed() >= BETWEEN_BUNDLES) => {
                        asked_at = Some(Instant::now());
                        let report = reports.borrow().clone();
                        collecting = OptionFuture::from(Some(Box::pin(bundle(node, report))));
                    }
                    Some(Answer::SendBundle(_)) | None => {}
                },
            },
            Some(bundle) = &mut collecting => {
                collecting = OptionFuture::from(None);
                collected = bundle;
            }
            permit = said.reserve(), if collected.is_some() => {
                let permit = permit.map_err(|_| Fault::Cut)?;
                if let Some(bundle) = collected.take() {
                    permit.send(send(Message::Bundle(bundle)));
                }
            }
            changed = reports.changed() => {
                changed.map_err(|_| Fault::Ending)?;
                outbox.due.want(Instant::now());
            }
            permit = ready(&said, if is_urgent { Some(Instant::now()) } else { outbox.due.at() }) => {
                let permit = permit.map_err(|_| Fault::Cut)?;
                if std::mem::take(&mut outbox.has_news_of_itself) {
                    permit.send(send(beliefs.hello(&boot_id)));
                    continue;
                }
                let current = reports.borrow_and_update().clone();
                permit.send(send(outbox.next(&current, Instant::now())));
            }
            () = sleep(renewal) => {
                renewed_at = Some(Instant::now());
                credential.renew(channel).await?;
            }
        }
    }
}

/// Collects the logs with the report, for the controller.
fn bundle(node: &impl Node, report: Report) -> impl Future<Output = Option<LogBundle>> {
    let verdict = report.verdict.as_ref().map(|it| it.code.clone()).unwrap_or_default();
    let logs = node.logs(report, LARGEST_SENT);
    async move { logs.await.map(|text| LogBundle { verdict, content: text.into_bytes() }) }
}

/// State of the messages about the node on one connection.
#[derive(Default)]
struct Outbox {
    /// Error that is fatal once it has held for some time.
    standing: FatalSince,
    /// Number of the last report.
    sequence: u64,
    /// True if the trusted authorities changed since the last `Hello`.
    has_news_of_itself: bool,
    /// Last notice sent. Sent again on each connection, since the previous one may have lost it.
    announced: Option<Notice>,
    due: Due,
}

impl Outbox {
    /// Returns true if the next message does not wait for the interval, as for a notice.
    fn is_urgent(&self, current: &Report) -> bool {
        self.has_news_of_itself || news(current, self.announced.as_ref()).is_some()
    }

    /// Returns the next message about the node: its notice, if that is new, else the report.
    fn next(&mut self, current: &Report, now: Instant) -> Message {
        if let Some(news) = news(current, self.announced.as_ref()) {
            self.announced = Some(news.clone());
            // The report with the notice is still to be sent.
            self.due.want(now);
            return Message::Notice(news);
        }
        let (verdict, again) = self.standing.judge(current, now);
        self.sequence += 1;
        (self.due.last, self.due.wanted) = (Some(now), again);
        Message::Report(report(current, verdict, self.sequence))
    }
}

/// Time of the next report.
#[derive(Default)]
struct Due {
    /// Minimum interval between two reports.
    interval: Duration,
    /// Time of the last report.
    last: Option<Instant>,
    /// Time when there is something to send; `None` if there is nothing.
    wanted: Option<Instant>,
}

impl Due {
    /// Records that there is something to send from `at` on.
    fn want(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// Returns the time when the next report may be sent; `None` if there is nothing to send.
    fn at(&self) -> Option<Instant> {
        let earliest = self.last.map(|last| last + self.interval);
        self.wanted.map(|wanted| earliest.map_or(wanted, |earliest| earliest.max(wanted)))
    }
}

/// Returns the notice in a report, unless it is the one that was sent last.
fn news(report: &Report, announced: Option<&Notice>) -> Option<Notice> {
    notice(report).filter(|news| announced != Some(news))
}

/// Returns the time until the next renewal. `last` is the time since the previous one: if the clock of this node is
/// ahead, each new certificate is due at once.
fn until_renewal(renew_at: Timestamp, now: Timestamp, last: Option<Duration>) -> Duration {
    let due = renew_at.duration_since(now).try_into().unwrap_or_default();
    last.map_or(due, |last| BETWEEN_RENEWALS.saturating_sub(last).max(due))
}

/// Waits until `due`, then for room in the queue; forever if `due` is `None`.
async fn ready<'a>(
    said: &'a mpsc::Sender<FollowRequest>,
    due: Option<Instant>,
) -> Result<mpsc::Permit<'a, FollowRequest>, mpsc::error::SendError<()>> {
    match due {
        Some(due) => {
            sleep_until(due).await;
            said.reserve().await
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reports_are_an_interval_apart() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut due = Due { wanted: Some(start), ..Due::default() };
        assert_eq!(due.at(), Some(start), "the first report is sent at once");
        due = Due { interval: second * 5, last: Some(start), wanted: None };
        assert_eq!(due.at(), None);
        due.want(start + second);
        assert_eq!(due.at(), Some(start + second * 5), "news within the interval wait");
        due.want(start + second * 2);
        due.interval = second * 3;
        assert_eq!(due.at(), Some(start + second * 3), "a new interval applies at once");
        due.wanted = Some(start + second * 30);
        assert_eq!(due.at(), Some(start + second * 30), "a verdict has to hold for longer");
        due.want(start + second * 4);
        assert_eq!(due.at(), Some(start + second * 4), "news do not wait for a verdict");
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_renew_without_a_pause() {
        let now: Timestamp = "2026-11-22T20:00:00Z".parse().unwrap();
        let hour = Duration::from_secs(3600);
        assert_eq!(until_renewal(now + hour, now, None), hour);
        assert_eq!(until_renewal(now - hour, now, None), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(until_renewal(now - hour, now, Some(second)), BETWEEN_RENEWALS - second);
        assert_eq!(until_renewal(now - hour, now, Some(hour)), Duration::ZERO);
        assert_eq!(until_renewal(now + hour, now, Some(second)), hour);
    }
}
