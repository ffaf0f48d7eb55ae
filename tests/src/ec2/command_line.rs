//! The AWS command line against this EC2: a client that nobody here wrote.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::{Credentials, Ec2};
use crate::error::{Error, Result};
use crate::programs;

impl Ec2 {
    /// Runs `aws` as `who` and gives the JSON that it wrote; `Null` if it wrote nothing. Nothing of the environment reaches
    /// it: no profile, no endpoint of AWS, no metadata.
    ///
    /// # Errors
    /// [`Error::Command`] with its own words when it does not end with success.
    pub async fn aws(&self, who: &Credentials, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(programs::path("aws")?);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.environment(who));
        // The process ends with the future: nothing of it is left, so it is not in the ledger.
        command.args(arguments).args(["--output", "json"]).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        match output.status.success() {
            true if text.trim().is_empty() => Ok(Value::Null),
            true => Ok(serde_json::from_str(&text).map_err(std::io::Error::from)?),
            false => Err(Error::Command {
                command: format!("aws {}", arguments.join(" ")),
                answer: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// What a program needs to call this EC2 as `who`, and nothing else that looks like AWS.
    pub fn environment(&self, who: &Credentials) -> Vec<(&'static str, String)> {
        let mut variables = who.environment();
        variables.push(("AWS_ENDPOINT_URL", self.endpoint()));
        variables.push(("AWS_CONFIG_FILE", "/dev/null".to_owned()));
        variables.push(("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".to_owned()));
        variables
    }
}
