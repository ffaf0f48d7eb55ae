//! The kubelet's kubeconfig: where the API server is, whom to trust, and who the node is.

use std::process::Stdio;

use jiff::Timestamp;
use muster_bootstrap::userdata::base64;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::PROGRAM;
use crate::preflight::proxy::{self, Environment, Route};
use crate::preflight::standing::Standing;

/// A kubeconfig, as far as kubelets use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// URL of the API server.
    pub server: String,
    /// PEM certificates of its authority.
    pub authority: Vec<u8>,
    /// Who we are.
    pub user: User,
    /// The kubelet's variables: they lead it to a proxy, and its token's program gets them.
    pub environment: Environment,
}

/// Who a kubeconfig says that we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// A token as it is.
    Token(String),
    /// A certificate and its key, PEM.
    Certificate(Vec<u8>, Vec<u8>),
    /// A program that prints a token.
    Exec(Exec),
    /// Nobody.
    Nobody,
}

/// The program that gives a node of EKS its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenProgram {
    /// AWS's command line, as nodeadm and bootstrap.sh write it.
    AwsCli,
    /// aws-iam-authenticator at this path, as Start-EKSBootstrap.ps1 writes it.
    Authenticator(&'static str),
}

/// A program that prints a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Exec {
    /// The version of the credential API.
    pub api_version: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that are set for it.
    pub env: Option<Vec<Variable>>,
}

/// A variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Variable {
    name: String,
    value: String,
}

/// A token, and until when it is good.
#[derive(Clone)]
pub struct Token {
    /// The token.
    pub text: String,
    expires: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Document {
    clusters: Vec<Named<ClusterEntry>>,
    contexts: Vec<Named<ContextEntry>>,
    users: Vec<Named<UserEntry>>,
    current_context: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    entry: T,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
struct ClusterEntry {
    server: String,
    certificate_authority: String,
    certificate_authority_data: String,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct ContextEntry {
    cluster: String,
    user: String,
}

#[derive(Deserialize, Default, Clone)]
#[serde(rename_all = "kebab-case", default)]
struct UserEntry {
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    client_certificate: String,
    client_certificate_data: String,
    client_key: String,
    client_key_data: String,
    exec: Option<Exec>,
}

impl Kubeconfig {
    /// Reads a kubeconfig; files that it names are read by `read`.
    ///
    /// # Errors
    /// It cannot be used: why.
    pub fn read(text: &str, read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<Self, String> {
        // Where in it the fault is may quote a token: only the line is told.
        let document: Document = serde_saphyr::from_str(text).map_err(|_| "it is no kubeconfig".to_owned())?;
        let context = find(&document.contexts, &document.current_context).ok_or("it has no current context")?;
        let cluster = find(&document.clusters, &context.cluster).ok_or("the cluster of its context is not there")?;
        let user = find(&document.users, &context.user).cloned().unwrap_or_default();
        let either = |path: &str, data: &str| match (path, data) {
            ("", "") => Ok(Vec::new()),
            (path, "") => read(path).ok_or_else(|| format!("`{path}` is not there")),
            (_, data) => base64(data.trim().as_bytes()).ok_or_else(|| "a `…-data` field is not base64".to_owned()),
        };
        let authority = either(&cluster.certificate_authority, &cluster.certificate_authority_data)?;
        let certificate = either(&user.client_certificate, &user.client_certificate_data)?;
        let user = if let Some(exec) = user.exec {
            User::Exec(exec)
        } else if !user.token.is_empty() {
            User::Token(user.token)
        } else if !user.token_file.is_empty() {
            let path = &user.token_file;
            let bytes = read(path).ok_or_else(|| format!("`{path}` is not there"))?;
            User::Token(String::from_utf8_lossy(&bytes).trim().to_owned())
        } else if !certificate.is_empty() {
            User::Certificate(certificate, either(&user.client_key, &user.client_key_data)?)
        } else {
            User::Nobody
        };
        Ok(Self { server: cluster.server.clone(), authority, user, environment: Environment::new() })
    }

    /// The one that the image's bootstrap writes for a cluster of EKS.
    #[must_use]
    pub fn of_eks(server: String, authority: Vec<u8>, cluster: &str, region: &str, by: TokenProgram) -> Self {
        let (command, args) = match by {
            TokenProgram::AwsCli => ("aws", vec!["eks", "get-token", "--cluster-name", cluster, "--region", region]),
            TokenProgram::Authenticator(path) => (path, vec!["token", "-i", cluster, "--region", region]),
        };
        let exec = Exec {
            api_version: "client.authentication.k8s.io/v1beta1".to_owned(),
            command: command.to_owned(),
            args: args.into_iter().map(ToOwned::to_owned).collect(),
            env: None,
        };
        Self { server, authority, user: User::Exec(exec), environment: Environment::new() }
    }

    /// The same for a kubelet with these variables.
    #[must_use]
    pub fn within(self, environment: &Environment) -> Self {
        Self { environment: environment.clone(), ..self }
    }

    /// How the kubelet goes to its API server.
    #[must_use]
    pub fn route(&self) -> Route {
        proxy::route(&self.environment, &self.server)
    }
}

impl Kubeconfig {
    /// The cluster that the program makes tokens for, if its arguments say.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        let User::Exec(exec) = &self.user else { return None };
        // `aws eks get-token --cluster-name NAME`, `aws-iam-authenticator token -i NAME`.
        let at = exec.args.iter().position(|it| matches!(it.as_str(), "--cluster-name" | "-i" | "--cluster-id"))?;
        exec.args.get(at + 1).map(String::as_str)
    }
}

fn find<'d, T>(items: &'d [Named<T>], name: &str) -> Option<&'d T> {
    items.iter().find(|item| item.name == name).map(|item| &item.entry)
}

impl Token {
    /// Whether it is good for another minute.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires.duration_since(now).as_secs() > 60)
    }
}

impl Exec {
    /// Runs the program as the kubelet would, whose variables are `environment`.
    ///
    /// # Errors
    /// What there is to say about the node's standing.
    pub async fn token(&self, environment: &Environment) -> Result<Token, Standing> {
        let spoken = std::iter::once(self.command.as_str()).chain(self.args.iter().map(String::as_str));
        let spoken = spoken.collect::<Vec<_>>().join(" ");
        let failed = |error: String| Standing::Exec { command: spoken.clone(), error };
        if self.api_version.ends_with("/v1alpha1") {
            return Err(Standing::ExecVersion(self.api_version.clone()));
        }
        let info = format!(
            r#"{{"apiVersion":"{}","kind":"ExecCredential","spec":{{"interactive":false}}}}"#,
            self.api_version
        );
        let mut command = Command::new(&self.command);
        command.args(&self.args).env("KUBERNETES_EXEC_INFO", info).stdin(Stdio::null()).kill_on_drop(true);
        command.envs(environment).envs(self.env.iter().flatten().map(|it| (&it.name, &it.value)));
        let output = match timeout(PROGRAM, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("it has not ended after {} s", PROGRAM.as_secs()))),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(failed(format!("{}: {last}", output.status)));
        }
        let credential: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| failed("it printed no ExecCredential".to_owned()))?;
        let status = |key: &str| credential.pointer(&format!("/status/{key}")).and_then(serde_json::Value::as_str);
        let text = status("token").ok_or_else(|| failed("its ExecCredential has no token".to_owned()))?;
        let expires = status("expirationTimestamp").and_then(|text| text.parse().ok());
        Ok(Token { text: text.to_owned(), expires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_of_nodeadm_is_read() {
        let text = "apiVersion: v1\nkind: Config\nclusters:\n- name: kubernetes\n  cluster:\n    certificate-authority: /etc/kubernetes/pki/ca.crt\n    server: https://a.example\ncontexts:\n- name: kubelet\n  context: {cluster: kubernetes, user: kubelet}\ncurrent-context: kubelet\nusers:\n- name: kubelet\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [eks, get-token]}\n";
        let read = |path: &str| (path == "/etc/kubernetes/pki/ca.crt").then(|| b"PEM".to_vec());
        let config = Kubeconfig::read(text, &read).unwrap();
        assert_eq!((config.server.as_str(), config.authority.as_slice()), ("https://a.example", b"PEM".as_slice()));
        assert!(matches!(config.user, User::Exec(exec) if exec.args == ["eks", "get-token"]));
        assert_eq!(Kubeconfig::read(text, &|_| None).unwrap_err(), "`/etc/kubernetes/pki/ca.crt` is not there");
        assert_eq!(Kubeconfig::read("a: [", &read).unwrap_err(), "it is no kubeconfig");
        assert_eq!(Kubeconfig::read("a: b", &read).unwrap_err(), "it has no current context");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_is_asked_for_a_token() {
        let exec = |script: &str| Exec {
            api_version: "client.authentication.k8s.io/v1beta1".to_owned(),
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: None,
        };
        let good = exec(r#"echo '{"status":{"token":"t","expirationTimestamp":"2026-11-21T20:00:00Z"}}'"#);
        let none = Environment::new();
        let token = good.token(&none).await.ok().unwrap();
        assert_eq!(token.text, "t");
        assert!(token.is_fresh("2026-11-21T19:50:00Z".parse().unwrap()));
        assert!(!token.is_fresh("2026-11-21T19:59:30Z".parse().unwrap()));
        let bad = exec("echo Unable to locate credentials >&2; exit 253").token(&none).await.err().unwrap();
        let Standing::Exec { error, .. } = bad else { panic!("{bad:?}") };
        assert!(error.contains("253") && error.contains("Unable to locate credentials"), "{error}");
        let old = Exec { api_version: "client.authentication.k8s.io/v1alpha1".to_owned(), ..exec("") };
        assert!(matches!(old.token(&none).await.err().unwrap(), Standing::ExecVersion(_)));
        // Its own variables are over those of the kubelet.
        let told = Exec {
            env: Some(vec![Variable { name: "B".to_owned(), value: "own".to_owned() }]),
            ..exec(r#"echo "{\"status\":{\"token\":\"$A $B\"}}""#)
        };
        let environment = [("A", "kubelet"), ("B", "kubelet")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(told.token(&environment).await.ok().unwrap().text, "kubelet own");
    }
}
