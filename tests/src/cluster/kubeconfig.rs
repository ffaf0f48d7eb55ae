//! Files that lead to an API server: for kubectl, for servers, and for our own clients.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::pki::{self, Pair};
use crate::error::{Error, Result};

/// What its user proves itself with.
#[derive(Debug)]
pub(crate) enum Proof<'a> {
    Certificate(&'a Pair),
    Token(&'a str),
}

/// Writes the file. JSON is YAML, so every client reads it. The certificates are named by path.
pub(crate) fn write(path: &Path, server: &str, ca: &Path, proof: &Proof<'_>) -> Result<()> {
    let user: Value = match proof {
        Proof::Certificate(pair) => {
            json!({"client-certificate": pair.certificate, "client-key": pair.key})
        }
        Proof::Token(token) => json!({"token": token}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "world", "cluster": {
            "server": server, "certificate-authority": ca, "tls-server-name": pki::NAME,
        }}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "world", "context": {"cluster": "world", "user": "user"}}],
        "current-context": "world",
    });
    keep(path, &config)
}

/// Writes a file like the one at `from` to `path`, with another address of the server.
pub(crate) fn redirect(from: &Path, path: &Path, server: &str) -> Result<()> {
    let mut config: Value = serde_json::from_slice(&fs::read(from)?).map_err(std::io::Error::from)?;
    config["clusters"][0]["cluster"]["server"] = server.into();
    keep(path, &config)
}

/// Only its user may read it.
fn keep(path: &Path, config: &Value) -> Result<()> {
    fs::write(path, format!("{config:#}\n"))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(())
}

/// A client for whoever the file is of. Nothing is asked of the server yet.
pub(crate) async fn client(path: &Path) -> Result<Client> {
    // Both crates that could provide cryptography are in the graph of a workspace: say which. A second call is refused,
    // and that is well.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unreadable(path, &error))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| unreadable(path, &error))?;
    // A proxy of whoever runs the tests leads out of the world.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::Missing {
        what: format!("`{}` is no usable kubeconfig: {error}", path.display()),
        hint: "name another file, or none to use a control plane of our own".to_owned(),
    }
}

/// The kubeconfig that replaces our control plane, when one is given. Never the user's own `KUBECONFIG`: tests delete.
pub(crate) fn given() -> Option<PathBuf> {
    std::env::var_os(super::GIVEN).filter(|value| !value.is_empty()).map(PathBuf::from)
}
