//! The conversation: what the node says is what its report says, as soon as it may be said.

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
use super::wire::{Standing, notice, report};
use super::{Fault, News, Node};
use crate::publish::bundle::LARGEST_SENT;
use crate::report::Report;
use crate::service::log;

/// Messages that wait for the controller to read them. A report that is not read yet is replaced by the next one, not followed.
const QUEUE: usize = 1;
/// Logs are collected for the controller no more often than for the file.
const BETWEEN_BUNDLES: Duration = Duration::from_secs(60);

/// Whom the node believes, and what its user data said of that.
pub(super) struct Beliefs<'a> {
    pub(super) keys: &'a mut Keys,
    pub(super) written: &'a str,
}

impl Beliefs<'_> {
    /// Whether the node believes others from now on. A controller that says nothing of it is an older one.
    fn heed(&mut self, authorities: &str) -> bool {
        let is_news = !authorities.is_empty() && self.keys.believe(self.written, authorities);
        if is_news {
            log("the controller has named the authorities to believe from now on");
        }
        is_news
    }

    /// Who speaks.
    fn hello(&self, boot_id: &str) -> Message {
        let pins = Pins::of_pem(self.keys.believed(self.written)).unwrap_or_default();
        Message::Hello(Hello {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id.to_owned(),
            authorities: pins.iter().map(|pin| pin.bytes().to_vec()).collect(),
        })
    }
}

/// Speaks until the connection ends.
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
    // There is room for the first.
    let _nobody_reads_yet = said.try_send(send(beliefs.hello(&boot_id)));
    let mut answers = NodeReportsClient::new(channel.clone()).follow(ReceiverStream::new(saying)).await?.into_inner();

    let mut standing = Standing::default();
    let mut sequence = 0;
    let mut interval = Duration::ZERO;
    // It believes others than it has said.
    let mut has_news_of_itself = false;
    // What the cloud has announced, once it is told; told again on each connection, for the one before may have lost it.
    let mut announced = None;
    // Its logs, while they are being collected, and until they may go.
    let mut collecting = OptionFuture::from(None);
    let mut collected: Option<LogBundle> = None;
    let mut asked_at: Option<Instant> = None;
    // When the next report may go, if there is one to go.
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
                    // Who asks again within the minute gets what is on its way.
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
                    // The report that it came with is still to go.
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

/// Room for a message, once it may be sent.
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
