//! Instance metadata service, version 2 (with session tokens), by default at `http://169.254.169.254`.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use muster_link::sts::Credentials;
use serde_json::Value;

use super::STEP;
use super::fault::{MetadataFault, Unanswered};
use super::http::{Answer, Connection, Server, dial};
use crate::boot_state::Notice;
use crate::preflight::identity::{Instance, Metadata};

const TOKEN: &str = "x-aws-ec2-metadata-token";
const TTL: &str = "x-aws-ec2-metadata-token-ttl-seconds";

/// A session with a token.
struct Session {
    connection: Connection,
    token: Option<String>,
}

/// Reads all metadata that the agent uses.
pub async fn read(endpoint: &str) -> Metadata {
    match Session::open(endpoint).await {
        Err(fault) if fault.is_off() => Metadata::Off,
        Err(fault) => Metadata::Silent(fault.to_string()),
        Ok(mut session) => match session.instance().await {
            Ok(instance) => Metadata::Answers(Box::new(instance)),
            Err(fault) => Metadata::Silent(fault.to_string()),
        },
    }
}

/// Returns a pending interruption or rebalance recommendation, if any.
///
/// # Errors
/// Instance metadata does not answer or is disabled.
pub async fn notice(endpoint: &str) -> Result<Option<Notice>, MetadataFault> {
    let mut session = Session::open(endpoint).await?;
    if let Some(action) = session.text("meta-data/spot/instance-action").await? {
        return Ok(Some(Notice::Interruption(action)));
    }
    let advice = session.text("meta-data/events/recommendations/rebalance").await?;
    Ok(advice.map(Notice::Rebalance))
}

/// Evidence of the instance's identity and role.
pub struct Proofs {
    /// Instance identity document with its RSA-2048 signature: PKCS #7 in base64.
    pub document: String,
    /// Credentials of the role; `None` if the instance has no role.
    pub credentials: Option<Credentials>,
}

/// Reads the evidence of the instance's identity.
///
/// # Errors
/// Instance metadata does not answer or is disabled.
pub async fn proofs(endpoint: &str) -> Result<Proofs, MetadataFault> {
    let mut session = Session::open(endpoint).await?;
    let document = session.text("dynamic/instance-identity/rsa2048").await?.ok_or(MetadataFault::NoDocument)?;
    Ok(Proofs { document, credentials: session.credentials().await? })
}

fn is_instance_id(text: &str) -> bool {
    text.strip_prefix("i-")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

impl Session {
    async fn open(endpoint: &str) -> Result<Self, MetadataFault> {
        let server = Server::of_url(endpoint, None)?;
        let connection = dial(&server, STEP).await.map_err(MetadataFault::Way)?;
        let mut session = Self { connection, token: None };
        let request = Request::builder().method(Method::PUT).uri("/latest/api/token").header(TTL, "300");
        let answer = session.send(request).await?;
        match answer.status {
            StatusCode::OK => session.token = Some(String::from_utf8_lossy(&answer.body).into_owned()),
            StatusCode::FORBIDDEN => return Err(MetadataFault::Off),
            // Version 1 has no tokens but may answer requests.
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {}
            status => return Err(MetadataFault::Status { request: "PUT /latest/api/token".to_owned(), status }),
        }
        Ok(session)
    }

    async fn send(&mut self, request: hyper::http::request::Builder) -> Result<Answer, MetadataFault> {
        let request = request.body(Full::<Bytes>::default()).map_err(|_| Unanswered::Malformed)?;
        Ok(self.connection.ask(request, STEP).await?)
    }

    /// Returns the content of a path; `None` on 404.
    async fn bytes(&mut self, path: &str) -> Result<Option<Vec<u8>>, MetadataFault> {
        let mut request = Request::builder().uri(format!("/latest/{path}"));
        if let Some(token) = &self.token {
            request = request.header(TOKEN, token);
        }
        let answer = self.send(request).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(MetadataFault::Status { request: format!("/latest/{path}"), status }),
        }
    }

    async fn text(&mut self, path: &str) -> Result<Option<String>, MetadataFault> {
        Ok(self.bytes(path).await?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    async fn credentials(&mut self) -> Result<Option<Credentials>, MetadataFault> {
        const PATH: &str = "meta-data/iam/security-credentials";
        let Some(role) = self.text(&format!("{PATH}/")).await? else { return Ok(None) };
        let Some(role) = role.lines().next() else { return Ok(None) };
        let Some(given) = self.bytes(&format!("{PATH}/{role}")).await? else { return Ok(None) };
        let given: Value = serde_json::from_slice(&given).map_err(|_| MetadataFault::Malformed)?;
        let field = |name: &str| given.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let credentials = || {
            Some(Credentials {
                access_key_id: field("AccessKeyId")?,
                secret_access_key: field("SecretAccessKey")?,
                session_token: field("Token")?,
            })
        };
        credentials().map(Some).ok_or(MetadataFault::NoCredentialsYet)
    }

    /// Returns the cluster name in the tag of Karpenter and Muster, or in that of managed node groups.
    async fn cluster_of_tags(&mut self) -> Option<String> {
        for key in ["eks:eks-cluster-name", "aws:eks:cluster-name"] {
            if let Some(name) = self.text(&format!("meta-data/tags/instance/{key}")).await.ok().flatten() {
                return Some(name);
            }
        }
        None
    }

    /// Returns the MAC of the primary interface, which need not be the first of the list; if it is not told, that of
    /// the first.
    async fn primary(&mut self, interfaces: &str) -> String {
        let mac = self.text("meta-data/mac").await.ok().flatten().unwrap_or_default();
        let first = interfaces.lines().next().unwrap_or_default().trim_end_matches('/');
        Some(mac.trim()).filter(|mac| !mac.is_empty()).unwrap_or(first).to_owned()
    }

    async fn instance(&mut self) -> Result<Instance, MetadataFault> {
        let document = self.bytes("dynamic/instance-identity/document").await?.unwrap_or_default();
        let document: Value = serde_json::from_slice(&document).unwrap_or_default();
        let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let role = self.bytes("meta-data/iam/info").await;
        let profile = role.as_ref().ok().and_then(|it| serde_json::from_slice::<Value>(it.as_deref()?).ok());
        let profile = profile.and_then(|it| it.get("InstanceProfileArn")?.as_str().map(ToOwned::to_owned));
        let interfaces = self.text("meta-data/network/interfaces/macs").await.ok().flatten().unwrap_or_default();
        let mac = self.primary(&interfaces).await;
        let primary = format!("meta-data/network/interfaces/macs/{mac}");
        let networks = self.text(&format!("{primary}/vpc-ipv4-cidr-blocks")).await.ok().flatten().unwrap_or_default();
        let ipv6 = self.bytes(&format!("{primary}/ipv6s")).await;
        Ok(Instance {
            profile,
            cluster_of_tags: self.cluster_of_tags().await,
            has_ipv6: ipv6.ok().map(|it| it.is_some_and(|text| !text.is_empty())),
            vpc_networks: networks.lines().map(ToOwned::to_owned).collect(),
            // The ID is written to the serial console, so it must not contain a newline.
            id: Some(field("instanceId")).filter(|id| is_instance_id(id)).unwrap_or_default(),
            instance_type: field("instanceType"),
            zone: field("availabilityZone"),
            region: field("region"),
            address: self.text("meta-data/local-ipv4").await?.unwrap_or_default(),
            host_name: self.text("meta-data/local-hostname").await?.unwrap_or_default(),
            has_role: role.ok().map(|it| it.is_some()),
            user_data: self.bytes("user-data").await?,
            interfaces: interfaces.lines().count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Paths below `/latest/`, and their content.
    type Paths = &'static [(&'static str, &'static str)];

    async fn serve(paths: Paths) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                // One read is one request: the agent's are small.
                while let Ok(count) = stream.read(&mut request).await
                    && count > 0
                {
                    let text = String::from_utf8_lossy(&request[..count]).into_owned();
                    let path = text.split(' ').nth(1).unwrap_or_default();
                    let found = paths.iter().find(|(name, _)| path.strip_prefix("/latest/") == Some(*name));
                    let (status, body) = found.map_or((404, ""), |(_, body)| (200, *body));
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            }
        });
        endpoint
    }

    async fn has_ipv6(paths: Paths) -> Option<bool> {
        match read(&serve(paths).await).await {
            Metadata::Answers(instance) => instance.has_ipv6,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_primary_interface_is_asked_and_not_the_first_of_the_list() {
        const LIST: (&str, &str) = ("meta-data/network/interfaces/macs", "02:00:00:00:00:01/\n02:00:00:00:00:02/");
        const PRIMARY: (&str, &str) = ("meta-data/mac", "02:00:00:00:00:02");
        const OF_FIRST: (&str, &str) = ("meta-data/network/interfaces/macs/02:00:00:00:00:01/ipv6s", "fd00::1");
        const OF_SECOND: (&str, &str) = ("meta-data/network/interfaces/macs/02:00:00:00:00:02/ipv6s", "fd00::2");
        assert_eq!(has_ipv6(&[LIST, PRIMARY, OF_SECOND]).await, Some(true));
        assert_eq!(has_ipv6(&[LIST, PRIMARY, OF_FIRST]).await, Some(false));
        assert_eq!(has_ipv6(&[LIST, OF_FIRST]).await, Some(true), "the primary interface is not told");
    }
}
