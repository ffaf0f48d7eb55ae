//! The moto server: one process for all proxies of a world.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::answer::{Answer, ApiError};
use super::request::Request;
use super::{faults, images, lock};
use crate::error::Result;
use crate::process::{Program, Running, Spawner, Summary};
use crate::{programs, wait};

/// The client that carries calls from a proxy to moto.
pub(super) type Client = hyper_util::client::legacy::Client<HttpConnector, Body>;

/// It loads its data with the first call to EC2, some seconds on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What its settings are. `MOTO_AMIS_PATH` is added.
const SETTINGS: [(&str, &str); 4] = [
    ("MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION", "true"),
    ("MOTO_ENABLE_AMI_VALIDATION", "true"),
    ("AWS_ACCESS_KEY_ID", "testing"),
    ("AWS_SECRET_ACCESS_KEY", "testing"),
];

/// The program that is started in place of `moto_server`.
const SERVER: &str = include_str!("moto_server.py");

/// A running moto.
#[derive(Debug)]
pub struct Moto {
    port: u16,
    log: PathBuf,
    /// `None`: another process holds it. Dropping it ends moto.
    running: Mutex<Option<Running>>,
}

/// Port of moto, of which a process may use several, and region, address and body of a request.
type Asked = (u16, String, String, Vec<u8>);

/// Calls of EC2 whose answers do not depend on what was called before.
const CONSTANT: [&str; 2] = ["DescribeInstanceTypeOfferings", "DescribeInstanceTypes"];

/// Their answers, for all tests of this process. moto takes seconds to write some of them, one after the other, and every
/// controller asks for them when it starts.
static CONSTANT_ANSWERS: Mutex<BTreeMap<Asked, Arc<OnceCell<Answer>>>> = Mutex::new(BTreeMap::new());

pub(super) fn client() -> Client {
    hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http()
}

impl Moto {
    /// Starts moto on a free port of loopback.
    ///
    /// # Errors
    /// If moto is not set up, ends, or does not say its port in time.
    pub async fn start(spawner: &Spawner) -> Result<Self> {
        let images = spawner.logs().join("moto-images.json");
        fs_err::write(&images, images::for_moto())?;
        let script = spawner.logs().join("moto-server.py");
        fs_err::write(&script, SERVER)?;
        // That of moto's own environment.
        let python = programs::path("moto_server")?.with_file_name("python3");
        let program = Program::new("moto", python).arg(script).args(["-H", "127.0.0.1", "-p", "0"]);
        let program = program.env("MOTO_AMIS_PATH", images);
        let program = SETTINGS.iter().fold(program, |program, (name, value)| program.env(name, value));
        let mut running = spawner.start(&program)?;
        let log = running.log().to_owned();
        let port = wait::until_some("moto says its port", READY_WITHIN, || {
            let said = running.check().and_then(|()| Ok(fs_err::read_to_string(&log)?));
            std::future::ready(said.map(|said| port_in(&said)))
        });
        let port = port.await?;
        Ok(Self { port, log, running: Mutex::new(Some(running)) })
    }

    /// A moto that another process of the world holds: its port and its log.
    pub fn at(port: u16, log: impl Into<PathBuf>) -> Self {
        Self { port, log: log.into(), running: Mutex::new(None) }
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it still runs, if this process holds it.
    ///
    /// # Errors
    /// [`crate::Error::Ended`] with its last words when it does not.
    pub fn check(&self) -> Result<()> {
        lock(&self.running).as_mut().map_or(Ok(()), Running::check)
    }

    /// Its process, if this process holds it.
    pub fn summary(&self) -> Option<Summary> {
        lock(&self.running).as_ref().map(Running::summary)
    }

    /// What it writes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// A number of twelve digits that no other proxy of this machine has.
    pub(super) fn account() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{:08}{next:04}", std::process::id())
    }

    /// Answers `request` as moto does, for `account`.
    pub(super) async fn forward(&self, client: &Client, account: &str, request: &Request) -> Result<Answer, ApiError> {
        if request.service != "ec2" || !CONSTANT.contains(&request.action.as_str()) {
            return self.carry(client, account, request).await;
        }
        let key = (self.port, request.region.clone(), request.uri.to_string(), request.body.clone());
        let kept = Arc::clone(lock(&CONSTANT_ANSWERS).entry(key).or_default());
        let answer = kept.get_or_try_init(async || match self.carry(client, account, request).await {
            Ok(answer) if answer.status < 400 => Ok(answer),
            other => Err(other),
        });
        answer.await.cloned().or_else(|refused| refused)
    }

    /// Carries `request` to moto as it came, for `account`.
    async fn carry(&self, client: &Client, account: &str, request: &Request) -> Result<Answer, ApiError> {
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut outgoing = hyper::Request::builder()
            .method(request.method.clone())
            .uri(format!("http://127.0.0.1:{}{path}", self.port))
            .header("x-moto-account-id", account);
        for (name, value) in &request.headers {
            // The body may have been written anew.
            if !matches!(name.as_str(), "content-length" | "transfer-encoding" | "connection" | "x-moto-account-id") {
                outgoing = outgoing.header(name, value);
            }
        }
        let outgoing = outgoing.body(Body::from(request.body.clone())).map_err(unreachable)?;
        let deadline = Instant::now() + READY_WITHIN;
        let response = tokio::time::timeout_at(deadline, client.request(outgoing)).await.map_err(unreachable)?;
        let (parts, body) = response.map_err(unreachable)?.into_parts();
        let body = body.collect().await.map_err(unreachable)?.to_bytes().to_vec();
        let keep = |name: &str| {
            name.starts_with("content-type") || name.starts_with("x-amzn-e") || name.starts_with("x-amzn-q")
        };
        let headers = parts.headers.iter().filter(|(name, _)| keep(name.as_str()));
        let headers =
            headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned()))).collect();
        let answer = Answer { status: parts.status.as_u16(), headers, body };
        // moto has no such action, or broke: a page for people.
        if answer.status >= 500 && answer.headers.iter().any(|(_, value)| value.starts_with("text/html")) {
            return Err(faults::unsupported(&format!("`{}`: moto has no answer to it", request.iam_action())));
        }
        Ok(answer)
    }
}

/// ` * Running on http://127.0.0.1:33773`, with a colour code after it.
fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.rsplit_once("Running on http://127.0.0.1:")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    // More may come if the line is not at its end yet.
    if rest.len() == digits.len() { None } else { digits.parse().ok() }
}

fn unreachable(cause: impl std::fmt::Display) -> ApiError {
    ApiError::new(500, "InternalError", format!("moto cannot be reached: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_when_its_line_is_whole() {
        assert_eq!(port_in("WARNING: a development server\n * Running on http://127.0.0.1:3377"), None);
        assert_eq!(port_in(" * Running on http://127.0.0.1:33773\n\u{1b}[33mPress CTRL+C"), Some(33773));
        assert_eq!(port_in(""), None);
    }
}
