//! The report stream: sends the current report as soon as the controller's interval allows.

use std::time::Duration;

use futures::future::OptionFuture;
use jiff::Timestamp;
use muster_link::Pins;
use muster_proto::muster::follow_request::Message;
use muster_proto::muster::follow_response::Message as Answer;
use muster_proto::muster::node_reports_client::NodeReportsClient;
use muster_proto::muster::{FollowRequest, Hello, LogBundle};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::enrol::Credential;
use super::keys::Keys;
use super::wire::{FatalSince, notice, report};
use super::{Fault, News, Node};
use crate::publish::bundle::LARGEST_SENT;
use crate::report::Report;
use crate::service::log;

/// Capacity of the send queue. A report that is not sent yet is replaced by the next one, not queued.
const QUEUE: usize = 1;
/// Minimum interval between log bundles for the controller.
const BETWEEN_BUNDLES: Duration = Duration::from_secs(60);

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
            log("the controller has named the authorities to believe from now on");
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
    let mut answers = NodeReportsClient::new(channel.clone()).follow(ReceiverStream::new(saying)).await?.into_inner();

    let mut standing = FatalSince::default();
    let mut sequence = 0;
    let mut interval = Duration::ZERO;
    // True if the trusted authorities changed since the last `Hello`.
    let mut has_news_of_itself = false;
    // Last notice sent. Sent again on each connection, since the previous one may have lost it.
    let mut announced = None;
    // Log bundle, while it is collected and until it is sent.
    let mut collecting = OptionFuture::from(None);
    let mut collected: Option<LogBundle> = None;
    let mut asked_at: Option<Instant> = None;
    // Time when the next report may be sent; `None` if there is nothing to send.
    let mut due = Some(Instant::now());
    reports.mark_unchanged();
    loop {
        let renewal = credential.renew_at().duration_since(Timestamp::now());
        tokio::select! {
            answer = answers.message() => match answer? {
                None => return Ok(()),
                Some(answer) => match answer.message {
                    Some(Answer::Configuration(wanted)) => {
                        interval = Duration::from_millis(wanted.report_interval_ms.into());
                        has_news_of_itself |= beliefs.heed(&wanted.authorities);
                        node.hear(&News::Followed);
                    }
                    Some(Answer::Acknowledgement(kept)) => node.hear(&News::Kept(kept.sequence)),
                    // Another request within the interval is answered by the bundle in progress.
                    Some(Answer::SendBundle(_)) if asked_at.is_none_or(|at| at.elapsed() >= BETWEEN_BUNDLES) => {
                        asked_at = Some(Instant::now());
                        let report = reports.borrow().clone();
                        let verdict = report.verdict.as_ref().map(|it| it.code.clone()).unwrap_or_default();
                        let logs = node.logs(report, LARGEST_SENT);
                        collecting = OptionFuture::from(Some(Box::pin(async move {
                            logs.await.map(|text| LogBundle { verdict, content: text.into_bytes() })
                        })));
                    }
                    Some(Answer::SendBundle(_)) | None => {}
                },
            },
            Some(bundle) = &mut collecting => {
                collecting = OptionFuture::from(None);
                collected = bundle;
            }
            permit = said.reserve(), if collected.is_some() => {
                let permit = permit.map_err(|_| Fault::Here("the connection has ended".to_owned()))?;
                if let Some(bundle) = collected.take() {
                    permit.send(send(Message::Bundle(bundle)));
                }
            }
            changed = reports.changed() => {
                changed.map_err(|_| Fault::Here("the agent is ending".to_owned()))?;
                due = due.or_else(|| Some(Instant::now()));
            }
            permit = ready(&said, if has_news_of_itself { Some(Instant::now()) } else { due }) => {
                let permit = permit.map_err(|_| Fault::Here("the connection has ended".to_owned()))?;
                if std::mem::take(&mut has_news_of_itself) {
                    permit.send(send(beliefs.hello(&boot_id)));
                    continue;
                }
                let now = Instant::now();
                let current = reports.borrow_and_update().clone();
                let news = notice(&current).filter(|news| announced.as_ref() != Some(news));
                if let Some(news) = news {
                    permit.send(send(Message::Notice(news.clone())));
                    // The report with the notice is still to be sent.
                    (announced, due) = (Some(news), Some(now));
                    continue;
                }
                let (verdict, again) = standing.judge(&current, now);
                sequence += 1;
                permit.send(send(Message::Report(report(&current, verdict, sequence))));
                due = again.map(|at| at.max(now + interval));
            }
            () = sleep(renewal.try_into().unwrap_or_default()) => credential.renew(channel).await?,
        }
    }
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
