//! AWS's errors with the status, code and text that it documents or sends.

use super::super::answer::ApiError as Error;
use super::select::{CapacityType, Place};

pub(in crate::ec2) use super::super::answer::ApiError;

/// A server error by EC2's list, so the SDK retries it when `RunInstances` answers it.
pub(in crate::ec2) fn insufficient_capacity(place: &Place<'_>) -> Error {
    let Place { instance_type, zone, capacity_type, .. } = place;
    match capacity_type {
        CapacityType::OnDemand => Error::new(
            500,
            "InsufficientInstanceCapacity",
            format!(
                "We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone}). \
                 Our system will be working on provisioning additional capacity. You can currently get {instance_type} \
                 capacity by not specifying an Availability Zone in your request or choosing another one."
            ),
        ),
        CapacityType::Spot => Error::new(
            500,
            "InsufficientInstanceCapacity",
            "There is no Spot capacity available that matches your request.",
        ),
        CapacityType::Reserved => reservation_exceeded(),
    }
}

pub(in crate::ec2) fn reservation_exceeded() -> Error {
    Error::new(
        400,
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )
}

pub(in crate::ec2) fn no_free_addresses(subnet: &str) -> Error {
    Error::new(
        400,
        "InsufficientFreeAddressesInSubnet",
        format!(
            "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
        ),
    )
}

pub(in crate::ec2) fn not_offered(instance_type: &str, zone: &str) -> Error {
    Error::new(
        400,
        "Unsupported",
        format!(
            "Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone}). \
             Please retry your request by not specifying an Availability Zone or choosing another one."
        ),
    )
}

pub(in crate::ec2) fn wrong_architecture(of_type: &str, of_image: &str) -> Error {
    Error::new(
        400,
        "InvalidParameterValue",
        format!(
            "The architecture '{of_type}' of the specified instance type does not match the architecture '{of_image}' of the \
             specified AMI. Specify an instance type and an AMI that have matching architectures, and try again."
        ),
    )
}

/// What `CreateFleet` says; other shortages have the same code, so callers read the message.
pub(in crate::ec2) fn spread_limit() -> Error {
    Error::new(
        400,
        "UnfulfillableCapacity",
        "You've reached the limit of instances in this spread placement group. A spread placement group can have up to seven \
         instances per Availability Zone.",
    )
}

pub(in crate::ec2) fn price_too_low(asked: f64, needed: f64) -> Error {
    Error::new(
        400,
        "SpotMaxPriceTooLow",
        format!(
            "Your Spot request price of {asked} is lower than the minimum required Spot request fulfillment price of {needed}."
        ),
    )
}

pub(in crate::ec2) fn unauthorized(service: &str, iam_action: &str, arn: &str) -> Error {
    let denied = format!(
        "User: {arn} is not authorized to perform: {iam_action} because no identity-based policy allows the {iam_action} action"
    );
    match service {
        "ec2" => Error::new(
            403,
            "UnauthorizedOperation",
            format!("You are not authorized to perform this operation. {denied}"),
        ),
        "iam" | "sts" => Error::new(403, "AccessDenied", denied),
        "eks" | "arc-zonal-shift" => Error::new(403, "AccessDeniedException", denied),
        _ => Error::new(400, "AccessDeniedException", denied),
    }
}

pub(in crate::ec2) fn throttled(service: &str) -> Error {
    match service {
        "ec2" => Error::new(503, "RequestLimitExceeded", "Request limit exceeded."),
        "iam" | "sts" => Error::new(400, "Throttling", "Rate exceeded"),
        "sqs" => Error::new(400, "RequestThrottled", "Request is throttled."),
        "eks" => Error::new(429, "ThrottlingException", "Rate exceeded"),
        _ => Error::new(400, "ThrottlingException", "Rate exceeded"),
    }
}

/// A signature that is too far from the service's clock.
pub(in crate::ec2) fn signature_expired(service: &str, signed: &str, now: &str, is_past: bool) -> Error {
    let (what, order, end) = match is_past {
        true => ("expired", "now earlier", "-"),
        false => ("not yet current", "still later", "+"),
    };
    let message = format!("Signature {what}: {signed} is {order} than {now} ({now} {end} 5 min.)");
    match service {
        "ec2" => Error::new(400, "RequestExpired", "Request has expired."),
        "iam" | "sts" => Error::new(403, "SignatureDoesNotMatch", message),
        _ => Error::new(403, "InvalidSignatureException", message),
    }
}

pub(in crate::ec2) fn no_instance(id: &str) -> Error {
    Error::new(400, "InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))
}

pub(in crate::ec2) fn dry_run() -> Error {
    Error::new(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}

pub(in crate::ec2) fn unsupported(what: &str) -> Error {
    Error::new(400, "UnsupportedOperation", format!("This test EC2 does not support {what}"))
}

pub(in crate::ec2) fn invalid_value(message: impl Into<String>) -> Error {
    Error::new(400, "InvalidParameterValue", message)
}

pub(in crate::ec2) fn token_reused() -> Error {
    Error::new(
        400,
        "IdempotentParameterMismatch",
        "The client token has already been used with other parameters of the request.",
    )
}
