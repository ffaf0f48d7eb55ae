//! Everything that a node's evidence is made of, in other hands.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use muster_bootstrap::agent_config::AgentConfig;
use muster_bootstrap::userdata::UserData;
use muster_link::sts::{Credentials, RoleProof};
use muster_link::{GATEWAY_NAME, KeyHash, Nonce};
use muster_proto::muster::enrolment_client::EnrolmentClient;
use muster_proto::muster::{self as wire, ChallengeRequest, EnrolRequest, RenewRequest};
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::ground::{AGENTS, Ground, instance_of};

/// Whoever has the user data, the identity document and the role's credentials of a node that has enrolled, but not its key, is not
/// admitted as that node; and a certificate that somebody has made for themselves speaks for nobody.
pub(crate) async fn is_of_no_use(ground: &Ground<'_>, claim: &DynamicObject) {
    let key_of = |claim: &DynamicObject| claim.annotations()["muster.dev/agent-key"].clone();
    let node = ground.bridge.node(&instance_of(claim), super::MOST).await.unwrap();
    let instance = &node.served.instance;
    let user_data = UserData::read(instance.user_data.as_deref().unwrap(), "user-data");
    let config = AgentConfig::find(&user_data).unwrap().unwrap().spec.controller.unwrap();
    let document = "curl -s -H \"X-aws-ec2-metadata-token: $(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
                    http://169.254.169.254/latest/api/token)\" \
                    http://169.254.169.254/latest/dynamic/instance-identity/rsa2048";
    let document = node.machine.run(["sh", "-c", document]).await.unwrap();

    let key = KeyPair::generate().unwrap();
    let thief = connect(ground, Some(&key), &config.certificate_authority).await;
    let mut client = EnrolmentClient::new(thief);
    let challenge = client.challenge(ChallengeRequest {}).await.unwrap().into_inner();
    let of_role = &instance.role.as_ref().unwrap().credentials;
    let credentials = Credentials {
        access_key_id: of_role.access_key_id.clone(),
        secret_access_key: of_role.secret_access_key.clone(),
        session_token: of_role.token.clone(),
    };
    let nonce = Nonce::read(&challenge.nonce).unwrap();
    let hash = KeyHash::of(&key.subject_public_key_info());
    let RoleProof { authorization, date, security_token } =
        RoleProof::sign(&credentials, &instance.region, &challenge.cluster, &nonce, &hash, Timestamp::now());
    let evidence = EnrolRequest {
        nonce: challenge.nonce,
        launch_token: config.launch_token.expose().to_owned(),
        identity_document: document,
        role_proof: Some(wire::RoleProof { authorization, date, security_token }),
        previous_key: None,
    };
    let refused = client.enrol(evidence).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(!refused.message().contains(&instance.instance_id), "{refused}");
    assert_eq!(client.renew(RenewRequest {}).await.unwrap_err().code(), Code::Unauthenticated);
    let now = ground.claims().get(&claim.name_any()).await.unwrap();
    assert_eq!(key_of(&now), key_of(claim), "the node is who it was");

    // What the controller keeps of a secret is not the secret.
    let token = config.launch_token.expose();
    let secrets: Api<Secret> = Api::namespaced(ground.cluster().client(), "kube-system");
    let kept = secrets.get("muster-agents").await.unwrap();
    assert!(kept.data.unwrap().contains_key("ca.key"));
    assert!(!serde_json::to_string(&now).unwrap().contains(token));
}

/// A connection from the world's own address, with a key that nobody knows, or with none.
pub(crate) async fn connect(ground: &Ground<'_>, key: Option<&KeyPair>, authority: &str) -> Channel {
    connect_to(ground, AGENTS, key, authority).await
}

/// The same, to the replica that serves there.
pub(crate) async fn connect_to(
    ground: &Ground<'_>,
    address: SocketAddr,
    key: Option<&KeyPair>,
    authority: &str,
) -> Channel {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match key {
        Some(key) => {
            let certificate = CertificateParams::default().self_signed(key).unwrap().der().clone();
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            config.with_client_auth_cert(vec![certificate], key.into()).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = ground.case.site().fabric().connect(address).await.unwrap();
    let name = ServerName::try_from(GATEWAY_NAME).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut stream = Some(stream);
    let once = service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| std::io::Error::other("the connection has ended"));
        async { stream.map(TokioIo::new) }
    });
    Endpoint::from_static("http://gateway").connect_with_connector(once).await.unwrap()
}
