//! Where AWS is, and who we are to it.

use std::time::Duration;

pub use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region};
use aws_smithy_http_client::tls;

/// What one try of a call may take. EC2 answers a CreateFleet within two seconds, and a page of a large list within five.
const TRY: Duration = Duration::from_secs(30);
/// What opening a connection may take.
const CONNECT: Duration = Duration::from_secs(3);

/// Clients of every service that is called.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The region.
    pub region: String,
    pub(super) ec2: aws_sdk_ec2::Client,
    pub(super) eks: aws_sdk_eks::Client,
    pub(super) iam: aws_sdk_iam::Client,
    pub(super) pricing: aws_sdk_pricing::Client,
    pub(super) ssm: aws_sdk_ssm::Client,
    pub(super) sts: aws_sdk_sts::Client,
    /// Whether services are where a test or an operator says, and not where they usually are.
    pub(super) is_elsewhere: bool,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nobody says which region it is.
    #[error(
        "no AWS region is configured\n\nhint: set AWS_REGION, or run where the instance metadata service can be asked"
    )]
    NoRegion,
}

// === impl Connection ===

impl Connection {
    /// By the usual variables, files, IRSA, Pod Identity and instance metadata, in the order of the SDK.
    ///
    /// # Errors
    /// If there is no region.
    pub async fn from_environment(region: Option<String>) -> Result<Self, ConnectError> {
        let https = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::AwsLc))
            .build_https();
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(https);
        if let Some(region) = region {
            loader = loader.region(Region::new(region));
        }
        Self::new(&loader.load().await)
    }

    /// By a configuration of the SDK. Its retries are switched off: ours know the budgets.
    ///
    /// # Errors
    /// If there is no region.
    pub fn new(config: &SdkConfig) -> Result<Self, ConnectError> {
        let region = config.region().map(ToString::to_string).ok_or(ConnectError::NoRegion)?;
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(TRY).build();
        let mut config = config.to_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts);
        // The name is a constant of allowed characters.
        config.set_app_name(AppName::new(concat!("muster-", env!("CARGO_PKG_VERSION"))).ok());
        let config = config.build();
        let prices = aws_sdk_pricing::config::Builder::from(&config).region(Region::new(price_region(&region))).build();
        Ok(Self {
            region,
            ec2: aws_sdk_ec2::Client::new(&config),
            eks: aws_sdk_eks::Client::new(&config),
            iam: aws_sdk_iam::Client::new(&config),
            pricing: aws_sdk_pricing::Client::from_conf(prices),
            ssm: aws_sdk_ssm::Client::new(&config),
            sts: aws_sdk_sts::Client::new(&config),
            is_elsewhere: config.endpoint_url().is_some(),
        })
    }
}

/// The Price List has endpoints in a few regions only (AWS Price List API, "Service endpoints").
fn price_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}
