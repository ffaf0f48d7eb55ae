//! How the real SDK's clients come to an EC2 of the tests.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::SharedCredentialsProvider;

use super::{Credentials, Ec2, REGION};

impl Ec2 {
    /// For clients of `who`, under whose name their calls are recorded. No TLS: what is configured so cannot reach AWS by
    /// mistake.
    pub fn sdk_config(&self, who: &str) -> SdkConfig {
        let Credentials { access_key_id, secret_access_key, session_token, .. } = self.credentials(who);
        let keys = Keys::new(access_key_id, secret_access_key, session_token, None, "muster-tests");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(self.endpoint())
            .credentials_provider(SharedCredentialsProvider::new(keys))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build()
    }
}
