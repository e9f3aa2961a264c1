//! Terms that select AWS resources.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::rules;
use crate::wire::string_enum;

/// Subnets with an id, or with all of the tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubnetSelectorTerm {
    /// Tags that the subnet must have; the value `*` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::selector_tags)]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the subnet. Cannot be combined with other fields of the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
}

/// Security groups with an id, a name, or all of the tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecurityGroupSelectorTerm {
    /// Tags that the group must have; the value `*` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::selector_tags)]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the group. Cannot be combined with other fields of the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the group, which is not its tag `Name`. Cannot be combined with other fields of the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Capacity reservations with an id, or with all of the other properties given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// Tags that the reservation must have; the value `*` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::selector_tags)]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the reservation. Cannot be combined with other fields of the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// The account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Launches that the reservation accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
}

string_enum! {
    /// Launches that a capacity reservation accepts: all that fit (open), or those that name it (targeted).
    InstanceMatchCriteria { Open = "open", Targeted = "targeted" }
}

/// A placement group, by name or by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[
    ("expected at least one, got none, ['name', 'id']", "has(self.name) || has(self.id)"),
    ("'name' and 'id' are mutually exclusive", "!(has(self.name) && has(self.id))"),
])))]
pub struct PlacementGroupSelector {
    /// The group's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// The group's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
}

/// Images with an alias, an id, or all of the other properties given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// An image that AWS publishes for EKS, as `family@version`, such as `al2023@v20240807` or `bottlerocket@latest`. Families:
    /// al2, al2023, bottlerocket, windows2019, windows2022 and windows2025; for Windows only `latest`. With `latest`, nodes
    /// are replaced whenever AWS publishes a new image, so pin a version in production. Cannot be combined with other terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules::cel(&[
        ("'alias' is improperly formatted, must match the format 'family@version'", "self.matches('^[a-zA-Z0-9]+@.+$')"),
        (
            "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'",
            "self.split('@')[0] in ['al2','al2023','bottlerocket','windows2019','windows2022','windows2025']",
        ),
        (
            "windows families may only specify version 'latest'",
            "self.split('@')[0] in ['windows2019','windows2022','windows2025'] ? self.split('@')[1] == 'latest' : true",
        ),
    ])))]
    pub alias: Option<String>,
    /// Tags that the image must have; the value `*` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::selector_tags)]
    pub tags: Option<BTreeMap<String, String>>,
    /// Id of the image. Cannot be combined with other fields of the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// The image's name, which is not its tag `Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Owner of the image: an account id, `self`, `amazon` or `aws-marketplace`. Restricts name and tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that contains the image's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}
