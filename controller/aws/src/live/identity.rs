//! Identities: of this program, of an instance, and of the signer of a request that is forwarded.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_ec2::types::{Instance, InstanceStateName};
use aws_sdk_sts::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextMut,
    BeforeTransmitInterceptorContextMut,
};
use aws_sdk_sts::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sts::error::BoxError;
use aws_smithy_types::body::SdkBody;
use http_body_util::Limited;
use muster_cloud::CloudError;
use muster_link::Described;
use muster_link::sts::{LONGEST_ANSWER, SignedRequest};

use super::cloud::Ec2Cloud;
use super::profile;
use crate::launch::LAUNCH_TOKEN;
use crate::rate_limits::Family;

/// Status and body of the response, once received. Locked for moments.
type Answer = Arc<Mutex<Option<(u16, Vec<u8>)>>>;

/// A request that another party has signed, sent in place of ours.
#[derive(Debug)]
struct InPlace {
    request: SignedRequest,
    answer: Answer,
}

impl Ec2Cloud {
    /// Returns an instance as EC2 describes it, or `None` if the ID is unknown. Concurrent requests are batched into
    /// one call.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn see(&self, instance: &str) -> Result<Option<Described>, CloudError> {
        Ok(self.0.described(instance).await?.as_deref().map(seen))
    }

    /// Returns the roles of an instance profile.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn roles_of_profile(&self, name: &str) -> Result<BTreeSet<String>, CloudError> {
        let roles = profile::get(&self.0.aws, &self.0.caller, name).await?;
        Ok(roles.unwrap_or_default().into_iter().collect())
    }

    /// Returns the partition and account of this program.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn own_account(&self) -> Result<(String, String), CloudError> {
        let call = || self.0.aws.sts.get_caller_identity().send();
        let answer = self.0.caller.call(Family::DescribeEc2, "sts:GetCallerIdentity", call).await;
        let answer = answer.map_err(|failure| failure.into_error("this program's own account"))?;
        let unknown = || CloudError::Transient { message: "STS does not say which account this is".to_owned() };
        let partition = answer.arn().and_then(|arn| arn.split(':').nth(1)).ok_or_else(unknown)?;
        Ok((partition.to_owned(), answer.account().ok_or_else(unknown)?.to_owned()))
    }

    /// Sends a request that another party has signed, and returns status and body. The request is not retried: a
    /// rejection is final, and the sender repeats a request that was not answered.
    ///
    /// # Errors
    /// If the response is missing, or longer than [`LONGEST_ANSWER`].
    pub async fn send_signed(&self, request: &SignedRequest) -> Result<(u16, Vec<u8>), CloudError> {
        let answer = Answer::default();
        let in_place = InPlace { request: request.clone(), answer: Arc::clone(&answer) };
        let own = self.0.aws.sts.config().to_builder();
        // Only the host of the signature is used.
        let at = (!self.0.aws.is_elsewhere).then(|| format!("https://{}", request.host));
        let config = match at {
            Some(url) => own.endpoint_url(url),
            None => own,
        };
        let sent = self.0.aws.sts.get_caller_identity().customize().interceptor(in_place);
        let sent = sent.config_override(config).send().await;
        let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.ok_or_else(|| {
            let why = sent.err().map(|error| error.to_string()).unwrap_or_default();
            CloudError::Transient { message: format!("sts:GetCallerIdentity: no answer: {why}") }
        })
    }
}

impl Intercept for InPlace {
    fn name(&self) -> &'static str {
        "InPlace"
    }

    /// Runs after our own signature: only the body, which is the same, remains of our request.
    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        if request.body().bytes() != Some(self.request.body.as_bytes()) {
            return Err("the body is not the one that was signed".into());
        }
        let names: Vec<String> = request.headers().iter().map(|(name, _)| name.to_owned()).collect();
        let headers = request.headers_mut();
        for name in names {
            headers.remove(name);
        }
        headers.try_insert("host", self.request.host.clone())?;
        for (name, value) in &self.request.headers {
            headers.try_insert(*name, value.clone())?;
        }
        Ok(())
    }

    /// Runs before the body is read, which the SDK would do to its end.
    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let body = context.response_mut().body_mut();
        *body = bounded(std::mem::replace(body, SdkBody::taken()));
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let body = response.body().bytes().ok_or("the answer was not read")?;
        let answer = (response.status().as_u16(), body.to_vec());
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        Ok(())
    }
}

/// Returns the body with an error in place of what exceeds [`LONGEST_ANSWER`]. Headers do not count: a chunked body has
/// no `content-length`.
fn bounded(body: SdkBody) -> SdkBody {
    SdkBody::from_body_1_x(Limited::new(body, LONGEST_ANSWER))
}

fn seen(instance: &Instance) -> Described {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let state = instance.state().and_then(|state| state.name());
    let first = instance.network_interfaces().iter().find(|it| {
        it.attachment().and_then(|attachment| attachment.device_index()).unwrap_or(0) == 0
            && it.attachment().and_then(|attachment| attachment.network_card_index()).unwrap_or(0) == 0
    });
    // Only its own: the other addresses of its interface are those of pods.
    let own = first.map(|it| it.private_ip_addresses()).unwrap_or_default();
    let own = own.iter().filter(|it| it.primary() == Some(true));
    let v4 = own.filter_map(|it| it.private_ip_address()).chain(instance.private_ip_address());
    let of_interface = first.map(|it| it.ipv6_addresses()).unwrap_or_default();
    let primary = of_interface.iter().filter(|it| it.is_primary_ipv6() == Some(true));
    // Without a primary one, EC2 names the first as the instance's.
    let v6 = primary.filter_map(|it| it.ipv6_address()).chain(instance.ipv6_address());
    let mut addresses: Vec<IpAddr> = v4.chain(v6).filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Described {
        instance: text(instance.instance_id()),
        is_running: matches!(state, Some(InstanceStateName::Pending | InstanceStateName::Running)),
        token: instance
            .tags()
            .iter()
            .find(|tag| tag.key() == Some(LAUNCH_TOKEN))
            .and_then(|tag| tag.value().map(str::to_owned)),
        instance_type: instance.instance_type().map(|name| name.as_str().to_owned()).unwrap_or_default(),
        image: text(instance.image_id()),
        zone: text(instance.placement().and_then(|placement| placement.availability_zone())),
        addresses,
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn an_instance_has_its_own_addresses_and_not_those_of_its_pods() {
        use aws_sdk_ec2::types::{InstanceIpv6Address, InstanceNetworkInterface, InstancePrivateIpAddress};
        let v4 = |address: &str, is_primary| {
            InstancePrivateIpAddress::builder().private_ip_address(address).primary(is_primary).build()
        };
        let v6 = |address: &str, is_primary| {
            InstanceIpv6Address::builder().ipv6_address(address).is_primary_ipv6(is_primary).build()
        };
        let interface = InstanceNetworkInterface::builder()
            .private_ip_addresses(v4("10.0.0.7", true))
            .private_ip_addresses(v4("10.0.0.8", false))
            .ipv6_addresses(v6("2600:1f14::8", false))
            .ipv6_addresses(v6("2600:1f14::7", true))
            .build();
        let instance = Instance::builder().private_ip_address("10.0.0.7").network_interfaces(interface).build();
        let own: Vec<IpAddr> = vec!["10.0.0.7".parse().unwrap(), "2600:1f14::7".parse().unwrap()];
        assert_eq!(seen(&instance).addresses, own);
    }

    #[tokio::test]
    async fn a_longer_answer_is_not_read_whatever_its_headers_say() {
        for (length, expected) in [(0, true), (LONGEST_ANSWER, true), (LONGEST_ANSWER + 1, false)] {
            let read = bounded(SdkBody::from(vec![b' '; length])).collect().await;
            assert_eq!(read.is_ok(), expected, "{length}");
        }
    }
}
