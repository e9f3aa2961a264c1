//! Meaning of EC2's error codes for the caller (docs/spec/aws.md#errors).

/// Reaction of the caller to an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// Try other offerings.
    Capacity,
    NotFound,
    AlreadyExists,
    /// Try later; repeating immediately makes it worse.
    Throttled,
    /// Permissions or credentials are missing.
    Denied,
    /// EC2 failed, which proves nothing: the act may have happened.
    Unknown,
    /// The request itself is wrong.
    Invalid,
}

pub const SERVICE_LINKED_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
pub const NO_FREE_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
pub const TEMPLATE_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";
pub const TEMPLATE_EXISTS: &str = "InvalidLaunchTemplateName.AlreadyExistsException";
pub const RESERVATION_EXCEEDED: &str = "ReservationCapacityExceeded";
pub const REQUEST_LIMIT_EXCEEDED: &str = "RequestLimitExceeded";
pub const UNAUTHORIZED: &str = "UnauthorizedOperation";
/// Error code for a client token whose instance is terminated. EC2 launches nothing under the token any more: the attempt has ended, and
/// the next one has another token.
pub const TOKEN_SPENT: &str = "IdempotentInstanceTerminated";
/// Error code of a dry run that would have succeeded.
pub const DRY_RUN: &str = "DryRunOperation";

/// Codes with which an override of a fleet request fails for want of capacity.
const CAPACITY: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    NO_FREE_ADDRESSES,
    "MaxFleetCountExceeded",
    RESERVATION_EXCEEDED,
];

/// Error codes for a resource that does not exist (any more).
pub const NOT_FOUND: [&str; 8] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateId.NotFound",
    TEMPLATE_NOT_FOUND,
    "NoSuchEntity",
    "ParameterNotFound",
    "QueueDoesNotExist",
    // EKS' code.
    "ResourceNotFoundException",
];

pub const ALREADY_EXISTS: [&str; 1] = ["EntityAlreadyExists"];

const THROTTLED: [&str; 9] = [
    REQUEST_LIMIT_EXCEEDED,
    "EC2ThrottledException",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "TooManyUpdates",
];

const DENIED: [&str; 12] = [
    UNAUTHORIZED,
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "OptInRequired",
    "PendingVerification",
    "UnrecognizedClientException",
];

const UNKNOWN: [&str; 7] = [
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "InternalServiceError",
    "RequestTimeout",
    "ServiceUnavailable",
    "Unavailable",
];

/// The class of an error code. Unknown codes count as refusals of the request.
pub fn error_class(code: &str) -> ErrorClass {
    let is_not_found = || {
        NOT_FOUND.contains(&code)
            || code.ends_with(".NotFound")
            || code.ends_with(".NotFoundException")
    };
    if is_capacity(code) {
        ErrorClass::Capacity
    } else if THROTTLED.contains(&code) {
        ErrorClass::Throttled
    } else if DENIED.contains(&code) {
        ErrorClass::Denied
    } else if UNKNOWN.contains(&code) {
        ErrorClass::Unknown
    } else if is_not_found() {
        ErrorClass::NotFound
    } else if ALREADY_EXISTS.contains(&code) || code == TEMPLATE_EXISTS {
        ErrorClass::AlreadyExists
    } else {
        ErrorClass::Invalid
    }
}

/// Whether an override failed for want of capacity, which other overrides may still have.
pub fn is_capacity(code: &str) -> bool {
    CAPACITY.contains(&code)
}

/// Why a launch failed: a reason for the NodeClaim's condition, and a message for the NodeClass's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    pub reason: &'static str,
    pub message: &'static str,
}

/// Derives the reason from EC2's error text, `code: message`, several joined by `; `; the first match counts
/// (docs/spec/aws.md#error-reasons).
pub fn launch_failure(text: &str) -> LaunchFailure {
    let has = |part: &str| text.contains(part);
    let is_denied = [UNAUTHORIZED, "AccessDenied", "AuthFailure"]
        .into_iter()
        .any(has);
    let (reason, message) = if has(SERVICE_LINKED_ROLE) {
        (
            "SpotSLRCreationFailed",
            "The permission to create the service-linked role for EC2 Spot is missing",
        )
    } else if is_denied {
        denied(text)
    } else if has("InvalidParameter") && has("belong to different networks") {
        (
            "SecurityGroupSubnetVPCMismatch",
            "Security groups and subnets must be in the same VPC",
        )
    } else {
        let row = REASONS.iter().find(|(part, ..)| has(part));
        row.map_or(
            ("LaunchFailed", "The instance could not be launched"),
            |(_, reason, message)| (*reason, *message),
        )
    };
    LaunchFailure { reason, message }
}

fn denied(text: &str) -> (&'static str, &'static str) {
    if text.contains("with an explicit deny in a permissions boundary") {
        (
            "Unauthorized",
            "A permissions boundary denies this operation",
        )
    } else if text.contains("with an explicit deny in a service control policy") {
        (
            "Unauthorized",
            "A service control policy denies this operation",
        )
    } else if text.contains("Not authorized for images") {
        (
            "AMIAuthorizationFailure",
            "The account may not use the AMI of the launch",
        )
    } else {
        (
            "Unauthorized",
            "No identity-based policy allows this operation",
        )
    }
}

/// Part of the error text, reason and message, in the order of matching.
const REASONS: [(&str, &str, &str); 14] = [
    (
        TOKEN_SPENT,
        "InstanceTerminated",
        "The instance of this launch is terminated already; another attempt launches another one",
    ),
    (
        "iamInstanceProfile.name is invalid",
        "InstanceProfileNameInvalid",
        "The instance profile in the EC2NodeClass's status does not exist",
    ),
    (
        "InvalidLaunchTemplateId.NotFound",
        "LaunchTemplateNotFound",
        "The launch template does not exist any more",
    ),
    (
        "User data is limited to",
        "UserDataSizeLimitExceeded",
        "The user data is larger than EC2 allows",
    ),
    (
        "InvalidAMIID.Malformed",
        "InvalidAMIID",
        "The AMI's id is not valid",
    ),
    (
        "InvalidAMIID.NotFound",
        "AMINotFound",
        "The AMI does not exist, or the account may not use it",
    ),
    (
        REQUEST_LIMIT_EXCEEDED,
        REQUEST_LIMIT_EXCEEDED,
        "The account's request limit is exceeded",
    ),
    (
        "InternalError",
        "InternalError",
        "EC2 answered with an internal error",
    ),
    (
        "not eligible for Free Tier",
        "FreeTierIneligible",
        "The instance type is not eligible for the Free Tier",
    ),
    (
        "MaxFleetCountExceeded",
        "FleetQuotaExceeded",
        "The account's fleet quota is used up",
    ),
    (
        "PendingVerification",
        "AccountPendingVerification",
        "AWS is still verifying the account's use of this Region",
    ),
    (
        "MaxSpotInstanceCountExceeded",
        "SpotQuotaExceeded",
        "The account's spot quota is used up",
    ),
    (
        "VcpuLimitExceeded",
        "VCPULimitExceeded",
        "The account's vCPU quota is used up",
    ),
    (
        NO_FREE_ADDRESSES,
        NO_FREE_ADDRESSES,
        "The subnet has no free addresses left",
    ),
];

/// The field of an EC2NodeClass that EC2's error text, `code: message`, is about; `None` if the text does not make it certain.
pub fn field(text: &str) -> Option<&'static str> {
    const FIELDS: [(&str, &str); 13] = [
        (
            "belong to different networks",
            "spec.securityGroupSelectorTerms and spec.subnetSelectorTerms",
        ),
        ("KMS", "spec.blockDeviceMappings[].ebs.kmsKeyID"),
        ("KmsKey", "spec.blockDeviceMappings[].ebs.kmsKeyID"),
        (
            "InvalidSnapshot",
            "spec.blockDeviceMappings[].ebs.snapshotID",
        ),
        ("InvalidBlockDeviceMapping", "spec.blockDeviceMappings"),
        ("device name", "spec.blockDeviceMappings[].deviceName"),
        ("InvalidAMIID", "spec.amiSelectorTerms"),
        ("InvalidSubnet", "spec.subnetSelectorTerms"),
        ("InvalidGroup", "spec.securityGroupSelectorTerms"),
        ("InvalidSecurityGroup", "spec.securityGroupSelectorTerms"),
        ("InvalidUserData", "spec.userData"),
        ("InvalidPlacementGroup", "spec.placementGroupSelector"),
        ("InvalidTag", "spec.tags"),
    ];
    let found = FIELDS.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, field)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_map_to_classes() {
        for (code, expected) in [
            ("InsufficientInstanceCapacity", ErrorClass::Capacity),
            (NO_FREE_ADDRESSES, ErrorClass::Capacity),
            ("InvalidInstanceID.NotFound", ErrorClass::NotFound),
            (TEMPLATE_NOT_FOUND, ErrorClass::NotFound),
            ("ParameterNotFound", ErrorClass::NotFound),
            (TEMPLATE_EXISTS, ErrorClass::AlreadyExists),
            ("RequestLimitExceeded", ErrorClass::Throttled),
            ("UnauthorizedOperation", ErrorClass::Denied),
            (SERVICE_LINKED_ROLE, ErrorClass::Denied),
            ("InternalError", ErrorClass::Unknown),
            ("IdempotentParameterMismatch", ErrorClass::Invalid),
            (TOKEN_SPENT, ErrorClass::Invalid),
            ("NeverSeenBefore", ErrorClass::Invalid),
        ] {
            assert_eq!(error_class(code), expected, "{code}");
        }
    }

    #[test]
    fn terminated_instance_of_token_ends_the_attempt() {
        let failure = launch_failure(&format!("{TOKEN_SPENT}: the instance is terminated"));
        assert_eq!(failure.reason, "InstanceTerminated");
    }

    #[test]
    fn error_texts_map_to_the_invalid_field() {
        for (text, expected) in [
            (
                "InvalidParameter: Security group sg-1 and subnet subnet-1 belong to different networks.",
                Some("spec.securityGroupSelectorTerms and spec.subnetSelectorTerms"),
            ),
            (
                "InvalidBlockDeviceMapping: Invalid device name sda",
                Some("spec.blockDeviceMappings"),
            ),
            (
                "InvalidParameterValue: Value (xvd!) for parameter virtualName: invalid device name",
                Some("spec.blockDeviceMappings[].deviceName"),
            ),
            (
                "InvalidKMSKey.NotFound: the key does not exist",
                Some("spec.blockDeviceMappings[].ebs.kmsKeyID"),
            ),
            (
                "InvalidAMIID.NotFound: ami-1",
                Some("spec.amiSelectorTerms"),
            ),
            ("Unsupported: not in your Availability Zone", None),
        ] {
            assert_eq!(field(text), expected, "{text}");
        }
    }

    #[test]
    fn first_reason_in_error_text_wins() {
        for (text, reason) in [
            (
                "UnauthorizedOperation: with an explicit deny in a service control policy",
                "Unauthorized",
            ),
            (
                "AuthFailure: Not authorized for images: [ami-1]",
                "AMIAuthorizationFailure",
            ),
            (
                "InvalidParameterValue: Security group sg-1 and subnet subnet-1 belong to different networks.",
                "SecurityGroupSubnetVPCMismatch",
            ),
            (
                "InternalError: x; RequestLimitExceeded: y",
                "RequestLimitExceeded",
            ),
            (
                "MaxSpotInstanceCountExceeded: x; VcpuLimitExceeded: y",
                "SpotQuotaExceeded",
            ),
            ("InsufficientInstanceCapacity: none", "LaunchFailed"),
        ] {
            assert_eq!(launch_failure(text).reason, reason, "{text}");
        }
    }
}
