//! The kubelet's kubeconfig: address and certificate authority of the API server, and credentials of the node.

use std::path::{MAIN_SEPARATOR, Path};
use std::process::Stdio;

use jiff::Timestamp;
use muster_bootstrap::userdata::base64;
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::PROGRAM;
use crate::preflight::credentials::CredentialCheck;
use crate::preflight::proxy::{self, Environment, Route};

/// Reason why a kubeconfig is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigFault {
    /// The text is not a kubeconfig. The parser's message may quote a token, so it is dropped.
    #[error("not a kubeconfig")]
    Malformed,
    /// The current context is not named, or is not there.
    #[error("it has no current context")]
    NoContext,
    /// The cluster of the context is not there.
    #[error("the cluster of its context is not there")]
    NoCluster,
    /// A file that it names does not exist.
    #[error("`{0}` is not there")]
    Missing(String),
    /// Data in it is not base64.
    #[error("a `…-data` field is not base64")]
    NotBase64,
}

/// The parts of a kubeconfig that kubelets use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// URL of the API server.
    pub server: String,
    /// Certificate authority of the API server, PEM.
    pub authority: Vec<u8>,
    /// Credentials.
    pub user: User,
    /// Environment variables of the kubelet: they select the proxy, and the token program inherits them.
    pub environment: Environment,
}

/// Credentials in a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// Static token.
    Token(String),
    /// Client certificate and key, PEM.
    Certificate(Vec<u8>, Vec<u8>),
    /// Exec credential plugin.
    Exec(Exec),
    /// Anonymous.
    Nobody,
}

/// Program that returns a token on EKS nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenProgram {
    /// AWS CLI, as configured by nodeadm and bootstrap.sh.
    AwsCli,
    /// aws-iam-authenticator at this path, as configured by Start-EKSBootstrap.ps1.
    Authenticator(&'static str),
}

/// Exec credential plugin, a program that prints a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Exec {
    /// Version of the credential API.
    pub api_version: String,
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Additional environment variables.
    pub env: Option<Vec<Variable>>,
}

/// An environment variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Variable {
    name: String,
    value: String,
}

/// A token with its expiry.
#[derive(Clone)]
pub struct Token {
    /// The token. Secret.
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
    /// Parses a kubeconfig. Files that it names are read with `read`.
    ///
    /// # Errors
    /// The kubeconfig is not usable: the reason.
    pub fn read(text: &str, read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<Self, KubeconfigFault> {
        let document: Document = serde_saphyr::from_str(text).map_err(|_| KubeconfigFault::Malformed)?;
        let context = find(&document.contexts, &document.current_context).ok_or(KubeconfigFault::NoContext)?;
        let cluster = find(&document.clusters, &context.cluster).ok_or(KubeconfigFault::NoCluster)?;
        let read = |path: &str| read(path).ok_or_else(|| KubeconfigFault::Missing(path.to_owned()));
        let user = find(&document.users, &context.user).cloned().unwrap_or_default();
        let either = |path: &str, data: &str| match (path, data) {
            ("", "") => Ok(Vec::new()),
            (path, "") => read(path),
            (_, data) => base64(data.trim().as_bytes()).ok_or(KubeconfigFault::NotBase64),
        };
        let authority = either(&cluster.certificate_authority, &cluster.certificate_authority_data)?;
        let certificate = either(&user.client_certificate, &user.client_certificate_data)?;
        let user = if let Some(exec) = user.exec {
            User::Exec(exec)
        } else if !user.token.is_empty() {
            User::Token(user.token)
        } else if !user.token_file.is_empty() {
            User::Token(String::from_utf8_lossy(&read(&user.token_file)?).trim().to_owned())
        } else if !certificate.is_empty() {
            User::Certificate(certificate, either(&user.client_key, &user.client_key_data)?)
        } else {
            User::Nobody
        };
        Ok(Self { server: cluster.server.clone(), authority, user, environment: Environment::new() })
    }

    /// Parses the kubeconfig at `path`. Relative paths in it begin at its folder, as in client-go.
    ///
    /// # Errors
    /// The kubeconfig is not usable: the reason.
    pub fn of_file(path: &str, text: &str) -> Result<Self, KubeconfigFault> {
        let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
        let mut config = Self::read(text, &|path| fs_err::read(folder.join(path)).ok())?;
        // A name without a folder is looked up in `PATH`.
        if let User::Exec(exec) = &mut config.user
            && exec.command.contains(MAIN_SEPARATOR)
        {
            exec.command = folder.join(&exec.command).to_string_lossy().into_owned();
        }
        Ok(config)
    }

    /// Returns the kubeconfig that the image's bootstrap writes for an EKS cluster.
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

    /// Sets the environment variables of the kubelet.
    #[must_use]
    pub fn within(self, environment: &Environment) -> Self {
        Self { environment: environment.clone(), ..self }
    }

    /// Returns the route of the kubelet to its API server.
    #[must_use]
    pub fn route(&self) -> Route {
        proxy::route(&self.environment, &self.server)
    }
}

impl Kubeconfig {
    /// Returns the cluster name in the plugin's arguments, if any.
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
    /// Returns true if the token is valid for more than a minute.
    #[must_use]
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| expires.duration_since(now).as_secs() > 60)
    }
}

impl Exec {
    /// Runs the plugin as the kubelet with this environment would.
    ///
    /// # Errors
    /// The resulting standing: an unsupported API version, or the plugin's failure.
    pub async fn token(&self, environment: &Environment) -> Result<Token, CredentialCheck> {
        let spoken = std::iter::once(self.command.as_str()).chain(self.args.iter().map(String::as_str));
        let spoken = spoken.collect::<Vec<_>>().join(" ");
        let failed = |error: String| CredentialCheck::Exec { command: spoken.clone(), error };
        if self.api_version.ends_with("/v1alpha1") {
            return Err(CredentialCheck::ExecVersion(self.api_version.clone()));
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
        assert_eq!(
            Kubeconfig::read(text, &|_| None).unwrap_err().to_string(),
            "`/etc/kubernetes/pki/ca.crt` is not there"
        );
        assert_eq!(Kubeconfig::read("a: [", &read).unwrap_err().to_string(), "not a kubeconfig");
        assert_eq!(Kubeconfig::read("a: b", &read).unwrap_err().to_string(), "it has no current context");
    }

    #[test]
    fn relative_paths_begin_at_the_folder_of_the_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("ca.crt"), "PEM").unwrap();
        let path = folder.path().join("kubeconfig");
        let of = |command: &str| {
            let text = format!(
                "clusters: [{{name: c, cluster: {{server: 'https://a.example', certificate-authority: ca.crt}}}}]\n\
                 contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n\
                 users: [{{name: u, user: {{exec: {{command: '{command}'}}}}}}]\n"
            );
            let config = Kubeconfig::of_file(path.to_str().unwrap(), &text).unwrap();
            assert_eq!(config.authority, b"PEM");
            let User::Exec(exec) = config.user else { panic!("{:?}", config.user) };
            exec.command
        };
        let relative = format!("bin{MAIN_SEPARATOR}token");
        assert_eq!(of(&relative), folder.path().join(&relative).to_str().unwrap());
        assert_eq!(of("aws"), "aws");
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
        let CredentialCheck::Exec { error, .. } = bad else { panic!("{bad:?}") };
        assert!(error.contains("253") && error.contains("Unable to locate credentials"), "{error}");
        let old = Exec { api_version: "client.authentication.k8s.io/v1alpha1".to_owned(), ..exec("") };
        assert!(matches!(old.token(&none).await.err().unwrap(), CredentialCheck::ExecVersion(_)));
        // The plugin's own variables override those of the kubelet.
        let told = Exec {
            env: Some(vec![Variable { name: "B".to_owned(), value: "own".to_owned() }]),
            ..exec(r#"echo "{\"status\":{\"token\":\"$A $B\"}}""#)
        };
        let environment = [("A", "kubelet"), ("B", "kubelet")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(told.token(&environment).await.ok().unwrap().text, "kubelet own");
    }
}
