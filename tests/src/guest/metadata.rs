//! What a machine asks of its metadata service, as the SDKs of AWS do: IMDSv2, and again when it does not answer.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::Agent;

/// Inside a machine this is the world's; outside there is no reason to run any of this.
const ENDPOINT: &str = "http://169.254.169.254";
/// As nodeadm: 60 attempts, about a second apart.
const ATTEMPTS: u32 = 60;

/// A client with a token.
pub(crate) struct Metadata {
    agent: Agent,
    token: String,
}

impl Metadata {
    /// Gets a token, waiting for the service as long as EKS's own bootstrap does.
    pub(crate) fn connect() -> Result<Self> {
        if std::env::var_os("container").is_none() && !std::path::Path::new("/run/host/notify").exists() {
            bail!("this is no machine of a world: its metadata must not be asked");
        }
        let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).http_status_as_error(false);
        let agent = Agent::new_with_config(config.proxy(None).build());
        let mut last = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(if attempt < 10 { 100 } else { 1000 }));
            }
            let request = agent.put(format!("{ENDPOINT}/latest/api/token"));
            match request.header("x-aws-ec2-metadata-token-ttl-seconds", "21600").send_empty() {
                Ok(mut answer) if answer.status() == 200 => {
                    let token = answer.body_mut().read_to_string().context("the token cannot be read")?;
                    return Ok(Self { agent, token });
                }
                Ok(answer) => last = format!("status {}", answer.status()),
                Err(error) => last = error.to_string(),
            }
        }
        bail!("metadata property path \"api/token\": {last}, after {ATTEMPTS} attempts")
    }

    /// What is at `path` below `/latest/`; None when there is nothing (404).
    pub(crate) fn find(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let request = self.agent.get(format!("{ENDPOINT}/latest/{path}"));
        let answer = request.header("x-aws-ec2-metadata-token", &self.token).call();
        let mut answer = answer.with_context(|| format!("metadata property path \"{path}\""))?;
        match answer.status().as_u16() {
            200 => Ok(Some(answer.body_mut().read_to_vec()?)),
            404 => Ok(None),
            status => bail!("metadata property path \"{path}\": status {status}"),
        }
    }

    /// The text at `path`, which must be there.
    pub(crate) fn text(&self, path: &str) -> Result<String> {
        let bytes = self.find(path)?.with_context(|| format!("metadata property path \"{path}\": not found"))?;
        String::from_utf8(bytes).with_context(|| format!("metadata property path \"{path}\" is no text"))
    }
}
