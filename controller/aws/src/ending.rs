//! Reasons why EC2 terminated an instance, with their known causes.
//!
//! EC2 reports a code and little else: `Client.InternalError: Client error on launch` for a volume whose key may not be
//! used. The causes are those of EC2's user guide ("Instance terminates immediately") and of aws/karpenter-provider-aws
//! 933, 1407 and 1926.

/// Codes or prefixes of codes, and their causes.
const CAUSES: [(&str, &str); 5] = [
    (
        "Client.InternalError",
        "most often the KMS key of an encrypted volume, whose policy has to let the controller's role use it through EC2",
    ),
    (
        "Client.InvalidKMSKey",
        "the KMS key of an encrypted volume has to be enabled, and its policy to let the controller's role use it through EC2",
    ),
    ("Client.VolumeLimitExceeded", "the account's limit of EBS volumes or of their size is reached"),
    ("Client.InstanceInitiatedShutdown", "something on the instance shut it down, such as its user data"),
    ("Client.UserInitiatedShutdown", "another caller terminated it"),
];

/// Formats the code and message of `StateReason`, with the cause if it is known.
#[must_use]
pub fn told(code: &str, message: &str) -> String {
    let said = if message.starts_with(code) { message.to_owned() } else { format!("{code}: {message}") };
    let cause = CAUSES.iter().find(|(begins, _)| code.starts_with(begins));
    cause.map_or_else(|| said.clone(), |(_, cause)| format!("{said}; {cause}"))
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_code_is_said_once_and_explained_if_it_is_known() {
        assert_eq!(
            told("Client.InternalError", "Client.InternalError: Client error on launch"),
            "Client.InternalError: Client error on launch; most often the KMS key of an encrypted volume, whose policy has \
             to let the controller's role use it through EC2"
        );
        assert!(told("Client.InvalidKMSKey.InvalidState", "the key is disabled").starts_with(
            "Client.InvalidKMSKey.InvalidState: the key is disabled; the KMS key of an encrypted volume has to be enabled"
        ));
        assert_eq!(
            told("Server.SpotInstanceTermination", "Spot instance termination"),
            "Server.SpotInstanceTermination: Spot instance termination"
        );
    }
}
