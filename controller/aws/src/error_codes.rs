//! Meaning of AWS error codes: one table. Rows with a message are tried first, then all rows, from the top.
//!
//! Source: aws/karpenter-provider-aws, `pkg/errors/errors.go`, the EC2 API reference ("Error codes for the Amazon EC2
//! API"), and the equivalent codes of other services. Rows that deviate from Karpenter state the reason.

use muster_cloud::{CloudError, Refusal};

/// Meaning of an error code for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// The offering is not available; another one may be.
    Refused(Refusal),
    /// The controller is not authorized for the call.
    Unauthorized,
    /// The call was throttled.
    Throttled,
    /// The launch template no longer exists.
    TemplateGone,
    /// The object does not exist.
    NotFound,
    /// The object already exists, as intended.
    AlreadyThere,
    /// A dry run succeeded.
    DryRun,
    /// The client token was used before with other parameters.
    TokenReused,
    /// The class has an invalid setting; the value is a condition reason.
    BadClass(&'static str),
    /// An account limit is reached; the value is a condition reason.
    AccountLimit(&'static str),
    /// Unknown, or a failure of AWS.
    Transient,
}

/// Code, part of the message that distinguishes it from others with the same code, and meaning.
struct Row {
    code: &'static str,
    says: &'static str,
    means: Means,
}

/// [`Meaning`] without the values that come from the message.
#[derive(Clone, Copy)]
enum Means {
    Capacity,
    Addresses,
    Quota,
    Unsupported,
    Reservation,
    PlacementGroup,
    SpotRole,
    Unauthorized,
    Throttled,
    TemplateGone,
    NotFound,
    AlreadyThere,
    DryRun,
    TokenReused,
    BadClass(&'static str),
    AccountLimit(&'static str),
    Transient,
}

const fn row(code: &'static str, means: Means) -> Row {
    Row { code, says: "", means }
}

const fn saying(code: &'static str, says: &'static str, means: Means) -> Row {
    Row { code, says, means }
}

/// Rows by code; a code that ends with `*` is a prefix.
const TABLE: &[Row] = &[
    // Another offering may be available.
    row("InsufficientInstanceCapacity", Means::Capacity),
    row("InsufficientHostCapacity", Means::Capacity),
    row("InsufficientCapacity", Means::Capacity),
    // The spot price rose between the price query and the launch.
    row("SpotMaxPriceTooLow", Means::Capacity),
    saying("UnfulfillableCapacity", "limit of instances in this spread placement group", Means::PlacementGroup),
    saying("InsufficientInstanceCapacity*", "placement group", Means::PlacementGroup),
    row("UnfulfillableCapacity", Means::Capacity),
    row("InsufficientFreeAddressesInSubnet", Means::Addresses),
    row("MaxSpotInstanceCountExceeded", Means::Quota),
    row("VcpuLimitExceeded", Means::Quota),
    row("InstanceLimitExceeded", Means::Quota),
    row("Unsupported", Means::Unsupported),
    row("UnsupportedInstanceType", Means::Unsupported),
    row("ReservationCapacityExceeded", Means::Reservation),
    row("InsufficientReservedInstanceCapacity", Means::Reservation),
    row("InvalidCapacityReservationId.NotFound", Means::Reservation),
    row("InvalidCapacityReservationState", Means::Reservation),
    row("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Means::SpotRole),
    // Karpenter treats it as missing capacity and excludes the offering for three minutes. But the offering is not the
    // cause: the account has reached its limit of fleets, so all offerings would be refused in turn.
    row("MaxFleetCountExceeded", Means::AccountLimit("FleetQuotaExceeded")),
    row("FleetRequestLimitExceeded", Means::AccountLimit("FleetQuotaExceeded")),
    row("PendingVerification", Means::AccountLimit("AccountPendingVerification")),
    row("OptInRequired", Means::AccountLimit("AccountNotSubscribed")),
    row("Blocked", Means::AccountLimit("AccountBlocked")),
    row("VolumeLimitExceeded", Means::AccountLimit("VolumeQuotaExceeded")),
    row("NetworkInterfaceLimitExceeded", Means::AccountLimit("NetworkInterfaceQuotaExceeded")),
    row("AddressLimitExceeded", Means::AccountLimit("AddressQuotaExceeded")),
    row("LimitExceeded*", Means::AccountLimit("QuotaExceeded")),
    // Permissions.
    saying("AuthFailure", "Not authorized for images", Means::BadClass("AMIAuthorizationFailure")),
    saying("UnauthorizedOperation", "Not authorized for images", Means::BadClass("AMIAuthorizationFailure")),
    row("UnauthorizedOperation", Means::Unauthorized),
    // ARC, of a cluster that is not registered.
    saying("AccessDenied*", "is not a managed resource", Means::NotFound),
    row("AccessDenied*", Means::Unauthorized),
    row("AuthFailure", Means::Unauthorized),
    row("UnrecognizedClientException", Means::Unauthorized),
    row("InvalidClientTokenId", Means::Unauthorized),
    row("ExpiredToken*", Means::Transient),
    row("RequestExpired", Means::Transient),
    // Throttling.
    row("RequestLimitExceeded", Means::Throttled),
    row("Throttling*", Means::Throttled),
    row("RequestThrottled*", Means::Throttled),
    row("EC2ThrottledException", Means::Throttled),
    row("TooManyRequestsException", Means::Throttled),
    row("SlowDown", Means::Throttled),
    row("BandwidthLimitExceeded", Means::Throttled),
    // Missing or existing objects.
    row("InvalidLaunchTemplateName.NotFoundException", Means::TemplateGone),
    row("InvalidLaunchTemplateId.NotFound", Means::TemplateGone),
    row("InvalidLaunchTemplateId.VersionNotFound", Means::TemplateGone),
    row("InvalidInstanceID.NotFound", Means::NotFound),
    row("InvalidInstanceID.Malformed", Means::NotFound),
    row("QueueDoesNotExist", Means::NotFound),
    // The same, as clients of the query protocol know it.
    row("AWS.SimpleQueueService.NonExistentQueue", Means::NotFound),
    row("NoSuchEntity*", Means::NotFound),
    row("ParameterNotFound", Means::NotFound),
    row("ResourceNotFoundException", Means::NotFound),
    row("InvalidPlacementGroup.Unknown", Means::BadClass("PlacementGroupNotFound")),
    row("EntityAlreadyExists*", Means::AlreadyThere),
    row("InvalidLaunchTemplateName.AlreadyExistsException", Means::AlreadyThere),
    row("DryRunOperation", Means::DryRun),
    row("IdempotentParameterMismatch", Means::TokenReused),
    // Settings of the class.
    saying("InvalidParameter*", "belong to different networks", Means::BadClass("SecurityGroupSubnetVPCMismatch")),
    saying("InvalidParameter*", "nvalid IAM Instance Profile", Means::BadClass("InstanceProfileNameInvalid")),
    saying("InvalidParameter*", "iamInstanceProfile.name is invalid", Means::BadClass("InstanceProfileNameInvalid")),
    saying("InvalidParameter*", "not eligible for Free Tier", Means::BadClass("FreeTierIneligible")),
    saying("InvalidParameterValue", "architecture", Means::BadClass("ImageArchitectureMismatch")),
    saying("InvalidUserData.Malformed", "limited to", Means::BadClass("UserDataSizeLimitExceeded")),
    row("InvalidUserData*", Means::BadClass("InvalidUserData")),
    row("InvalidAMIID.NotFound", Means::BadClass("AMINotFound")),
    row("InvalidAMIID*", Means::BadClass("InvalidAMIID")),
    row("InvalidSubnetID.NotFound", Means::BadClass("SubnetNotFound")),
    row("InvalidSubnet*", Means::BadClass("InvalidSubnet")),
    row("InvalidGroup.NotFound", Means::BadClass("SecurityGroupNotFound")),
    row("InvalidSecurityGroupID.NotFound", Means::BadClass("SecurityGroupNotFound")),
    row("InvalidSnapshot.NotFound", Means::BadClass("SnapshotNotFound")),
    row("InvalidBlockDeviceMapping", Means::BadClass("InvalidBlockDeviceMapping")),
    row("InvalidKMSKey*", Means::BadClass("InvalidKMSKey")),
    row("KMSKeyDisabled*", Means::BadClass("InvalidKMSKey")),
    row("InternalError", Means::Transient),
    row("InternalFailure", Means::Transient),
    row("ServiceUnavailable*", Means::Transient),
    row("Unavailable", Means::Transient),
    // The remaining codes of these families refer to the request, whose content comes from the class.
    row("Invalid*", Means::BadClass("LaunchFailed")),
    row("Missing*", Means::BadClass("LaunchFailed")),
    row("Malformed*", Means::BadClass("LaunchFailed")),
    row("Unknown*", Means::BadClass("LaunchFailed")),
    row("UnsupportedOperation", Means::BadClass("LaunchFailed")),
    row("OperationNotPermitted", Means::BadClass("LaunchFailed")),
];

/// Returns the meaning of `code` with its message. `subnet` is the requested subnet, if any.
#[must_use]
pub fn meaning(code: &str, message: &str, subnet: Option<&str>) -> Meaning {
    let is = |row: &&Row| {
        let is_code = match row.code.strip_suffix('*') {
            Some(start) => code.starts_with(start),
            None => code == row.code,
        };
        is_code && message.contains(row.says)
    };
    let of_table = TABLE.iter().filter(|row| !row.says.is_empty()).chain(TABLE).find(is);
    let Some(means) = of_table.map(|row| row.means) else { return Meaning::Transient };
    match means {
        Means::Capacity => Meaning::Refused(Refusal::Capacity),
        Means::Addresses => {
            let named = message.split('\'').find(|word| word.starts_with("subnet-"));
            let subnet = named.or(subnet).unwrap_or("the subnet").to_owned();
            Meaning::Refused(Refusal::Addresses { subnet })
        }
        Means::Quota => Meaning::Refused(Refusal::Quota { code: code.to_owned() }),
        Means::Unsupported => Meaning::Refused(Refusal::Unsupported),
        Means::Reservation => Meaning::Refused(Refusal::Reservation),
        Means::PlacementGroup => Meaning::Refused(Refusal::PlacementGroup),
        Means::SpotRole => Meaning::Refused(Refusal::SpotRole),
        Means::Unauthorized => Meaning::Unauthorized,
        Means::Throttled => Meaning::Throttled,
        Means::TemplateGone => Meaning::TemplateGone,
        Means::NotFound => Meaning::NotFound,
        Means::AlreadyThere => Meaning::AlreadyThere,
        Means::DryRun => Meaning::DryRun,
        Means::TokenReused => Meaning::TokenReused,
        Means::BadClass(reason) => Meaning::BadClass(reason),
        Means::AccountLimit(reason) => Meaning::AccountLimit(reason),
        Means::Transient => Meaning::Transient,
    }
}

/// Converts an error of a whole call. `operation` is the call (`ec2:CreateFleet`), `about` its object.
#[must_use]
pub fn cloud_error(operation: &str, code: &str, message: &str, about: &str) -> CloudError {
    let text = readable(message);
    match meaning(code, message, None) {
        Meaning::Unauthorized => CloudError::Unauthorized { action: action(operation, message), message: text },
        Meaning::Throttled => {
            CloudError::Throttled { operation: operation.rsplit(':').next().unwrap_or(operation).to_owned() }
        }
        Meaning::TemplateGone => CloudError::TemplateGone,
        Meaning::NotFound => CloudError::NotFound { what: about.to_owned() },
        Meaning::BadClass(reason) => {
            CloudError::BadClass { reason: reason.to_owned(), message: format!("{code}: {text}") }
        }
        Meaning::AccountLimit(reason) => {
            CloudError::AccountLimit { reason: reason.to_owned(), message: format!("{code}: {text}") }
        }
        Meaning::Refused(_) | Meaning::AlreadyThere | Meaning::DryRun | Meaning::TokenReused | Meaning::Transient => {
            CloudError::Transient { message: format!("{operation}: {code}: {text}") }
        }
    }
}

/// Returns the missing action from the message, else the call itself: a fleet also needs `ec2:RunInstances`.
pub(crate) fn action(operation: &str, message: &str) -> String {
    let named = message.split("not authorized to perform: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    named.unwrap_or(operation).trim_end_matches(['.', ',']).to_owned()
}

/// Returns the message without the encoded part, which is not readable and may be a kilobyte long.
pub(crate) fn readable(message: &str) -> String {
    let end = message.find("Encoded authorization failure message").unwrap_or(message.len());
    message.get(..end).unwrap_or(message).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is matched by its own code and message: an earlier row does not match all of its cases.
    #[test]
    fn every_row_is_reached() {
        for row in TABLE {
            let code = row.code.strip_suffix('*').unwrap_or(row.code);
            let found = TABLE
                .iter()
                .filter(|one| !one.says.is_empty())
                .chain(TABLE)
                .find(|one| {
                    let is_code = one.code.strip_suffix('*').map_or(one.code == code, |start| code.starts_with(start));
                    is_code && row.says.contains(one.says)
                })
                .unwrap();
            assert_eq!((found.code, found.says), (row.code, row.says), "the row before it takes its calls");
        }
    }

    #[test]
    fn every_code_of_karpenter_has_its_class() {
        let quota = |code: &str| Meaning::Refused(Refusal::Quota { code: code.to_owned() });
        let addresses = Meaning::Refused(Refusal::Addresses { subnet: "subnet-1".to_owned() });
        let wrong_profile =
            "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
        let networks = "Security group sg-1 and subnet subnet-1 belong to different networks.";
        let spread = "You've reached the limit of instances in this spread placement group.";
        for (code, message, expected) in [
            ("InsufficientInstanceCapacity", "no capacity", Meaning::Refused(Refusal::Capacity)),
            ("UnfulfillableCapacity", "", Meaning::Refused(Refusal::Capacity)),
            ("UnfulfillableCapacity", spread, Meaning::Refused(Refusal::PlacementGroup)),
            ("MaxSpotInstanceCountExceeded", "", quota("MaxSpotInstanceCountExceeded")),
            ("VcpuLimitExceeded", "", quota("VcpuLimitExceeded")),
            ("Unsupported", "", Meaning::Refused(Refusal::Unsupported)),
            ("InsufficientFreeAddressesInSubnet", "not enough free addresses in subnet 'subnet-1'", addresses.clone()),
            ("ReservationCapacityExceeded", "", Meaning::Refused(Refusal::Reservation)),
            ("InvalidCapacityReservationId.NotFound", "", Meaning::Refused(Refusal::Reservation)),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", Meaning::Refused(Refusal::SpotRole)),
            ("MaxFleetCountExceeded", "", Meaning::AccountLimit("FleetQuotaExceeded")),
            ("PendingVerification", "", Meaning::AccountLimit("AccountPendingVerification")),
            ("InvalidInstanceID.NotFound", "", Meaning::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", "", Meaning::TemplateGone),
            ("InvalidLaunchTemplateId.NotFound", "", Meaning::TemplateGone),
            ("QueueDoesNotExist", "", Meaning::NotFound),
            ("NoSuchEntity", "", Meaning::NotFound),
            ("ParameterNotFound", "", Meaning::NotFound),
            ("EntityAlreadyExists", "", Meaning::AlreadyThere),
            ("DryRunOperation", "", Meaning::DryRun),
            ("RequestLimitExceeded", "", Meaning::Throttled),
            ("IdempotentParameterMismatch", "", Meaning::TokenReused),
            ("UnauthorizedOperation", "You are not authorized", Meaning::Unauthorized),
            (
                "UnauthorizedOperation",
                "Not authorized for images: [ami-1]",
                Meaning::BadClass("AMIAuthorizationFailure"),
            ),
            ("AuthFailure", "Not authorized for images: [ami-1]", Meaning::BadClass("AMIAuthorizationFailure")),
            ("InvalidParameter", networks, Meaning::BadClass("SecurityGroupSubnetVPCMismatch")),
            ("InvalidParameterValue", wrong_profile, Meaning::BadClass("InstanceProfileNameInvalid")),
            (
                "InvalidUserData.Malformed",
                "User data is limited to 16384 bytes",
                Meaning::BadClass("UserDataSizeLimitExceeded"),
            ),
            ("InvalidAMIID.NotFound", "", Meaning::BadClass("AMINotFound")),
            ("InvalidAMIID.Malformed", "", Meaning::BadClass("InvalidAMIID")),
            ("InternalError", "", Meaning::Transient),
            ("InvalidParameterCombination", "not eligible for Free Tier", Meaning::BadClass("FreeTierIneligible")),
            ("InvalidParameterValue", "something else", Meaning::BadClass("LaunchFailed")),
            ("NeverHeardOf", "", Meaning::Transient),
        ] {
            assert_eq!(meaning(code, message, None), expected, "{code} {message}");
        }
        assert_eq!(meaning("InsufficientFreeAddressesInSubnet", "", Some("subnet-1")), addresses);
    }

    #[test]
    fn a_missing_right_is_named_by_its_action() {
        let message = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/x/y is not \
                       authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:*:1:fleet/* because no \
                       identity-based policy allows the ec2:RunInstances action. Encoded authorization failure message: abc";
        let CloudError::Unauthorized { action, message } =
            cloud_error("ec2:CreateFleet", "UnauthorizedOperation", message, "")
        else {
            panic!("another error")
        };
        assert_eq!(action, "ec2:RunInstances");
        assert!(message.ends_with("the ec2:RunInstances action."), "{message}");
        let unsaid = cloud_error("ec2:CreateFleet", "UnauthorizedOperation", "You are not authorized.", "");
        assert_eq!(unsaid.to_string(), "not authorized to perform ec2:CreateFleet: You are not authorized.");
    }
}
