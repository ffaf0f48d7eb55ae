//! Clients of the AWS services, with region and credentials.

use std::time::Duration;

pub use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region};
use aws_sdk_ec2::config::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_http_client::tls;

use super::caller::causes;

/// Timeout of one attempt of a call. EC2 answers a CreateFleet within two seconds, and a page of a large list within
/// five.
const TRY: Duration = Duration::from_secs(30);
/// Timeout for opening a connection.
const CONNECT: Duration = Duration::from_secs(3);

/// Clients of all AWS services that are called.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The region.
    pub region: String,
    pub(super) arc: aws_sdk_arczonalshift::Client,
    pub(super) ec2: aws_sdk_ec2::Client,
    pub(super) eks: aws_sdk_eks::Client,
    pub(super) iam: aws_sdk_iam::Client,
    pub(super) pricing: aws_sdk_pricing::Client,
    pub(super) sqs: aws_sdk_sqs::Client,
    pub(super) ssm: aws_sdk_ssm::Client,
    pub(super) sts: aws_sdk_sts::Client,
    credentials: Option<SharedCredentialsProvider>,
    /// True if a test or an operator has set other endpoints than the default ones.
    pub(super) is_elsewhere: bool,
}

/// Reason why the clients could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The region is not configured.
    #[error(
        "no AWS region is configured\n\nhint: set AWS_REGION, or run where the instance metadata service can be asked"
    )]
    NoRegion,
    /// There are no credentials.
    #[error(
        "there are no AWS credentials: {0}\n\nhint: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as \
         for the AWS CLI (`aws sts get-caller-identity` shows who you are)"
    )]
    NoCredentials(String),
}

// === impl Connection ===

impl Connection {
    /// Creates the clients from environment variables, files, IRSA, Pod Identity and instance metadata, in the order of
    /// the SDK.
    ///
    /// # Errors
    /// If the region is not configured.
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

    /// Creates the clients from an SDK configuration. The retries of the SDK are disabled, since ours respect the rate
    /// limits.
    ///
    /// # Errors
    /// If the region is not configured.
    pub fn new(config: &SdkConfig) -> Result<Self, ConnectError> {
        let region = config.region().map(ToString::to_string).ok_or(ConnectError::NoRegion)?;
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(TRY).build();
        let mut config = config.to_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts);
        // The name is a constant of allowed characters, so this does not fail.
        config.set_app_name(AppName::new(concat!("muster-", env!("CARGO_PKG_VERSION"))).ok());
        let config = config.build();
        let prices = aws_sdk_pricing::config::Builder::from(&config).region(Region::new(price_region(&region))).build();
        Ok(Self {
            region,
            arc: aws_sdk_arczonalshift::Client::new(&config),
            credentials: config.credentials_provider(),
            ec2: aws_sdk_ec2::Client::new(&config),
            eks: aws_sdk_eks::Client::new(&config),
            iam: aws_sdk_iam::Client::new(&config),
            pricing: aws_sdk_pricing::Client::from_conf(prices),
            sqs: aws_sdk_sqs::Client::new(&config),
            ssm: aws_sdk_ssm::Client::new(&config),
            sts: aws_sdk_sts::Client::new(&config),
            is_elsewhere: config.endpoint_url().is_some(),
        })
    }

    /// Looks for credentials, so that their lack is not told as a call without an answer.
    ///
    /// # Errors
    /// If there are none.
    pub async fn check_credentials(&self) -> Result<(), ConnectError> {
        let none = |cause: String| Err(ConnectError::NoCredentials(cause));
        let Some(credentials) = &self.credentials else { return none("nothing provides them".to_owned()) };
        match credentials.provide_credentials().await {
            Ok(_) => Ok(()),
            Err(error) => none(causes(&error)),
        }
    }
}

/// Returns the region of the Price List endpoint, which exists in a few regions only (AWS Price List API, "Service
/// endpoints").
fn price_region(region: &str) -> &'static str {
    match region.split('-').next() {
        Some("ap") => "ap-south-1",
        Some("cn") => "cn-northwest-1",
        Some("eu") => "eu-central-1",
        _ => "us-east-1",
    }
}
