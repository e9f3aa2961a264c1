use std::collections::BTreeMap;

use super::Problem;
use crate::karpenter::{AmiFamily, AmiSelectorTerm, EC2NodeClass, EC2NodeClassSpec};
use crate::names::tag;

/// Upper bound on the characters of an IAM role's name, set by IAM.
const ROLE_NAME_MAX: usize = 64;

/// Problems of an EC2NodeClass that are visible without calling AWS. Stricter than the CRD, which allows values that
/// cannot work or that select everything (docs/spec/aws.md#ec2-node-class-refusals). Limits of AMI families are not
/// checked here.
pub fn ec2_node_class(class: &EC2NodeClass) -> Vec<Problem> {
    let mut found = Problems::default();
    let spec = &class.spec;
    found.selectors(spec);
    found.images(spec);
    found.identity(spec);
    found.tags(spec);
    found.volumes(spec);
    if let Some(kubelet) = &spec.kubelet
        && let Err(problems) = kubelet.settings()
    {
        found.0.extend(problems);
    }
    found.0
}

#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(
        &mut self,
        field: impl Into<String>,
        value: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.0.push(Problem::new(field, value, allowed));
    }

    fn selectors(&mut self, spec: &EC2NodeClassSpec) {
        if spec.subnet_selector_terms.is_empty() {
            self.add("spec.subnetSelectorTerms", "[]", "at least one term");
        }
        for (index, term) in spec.subnet_selector_terms.iter().enumerate() {
            let field = format!("spec.subnetSelectorTerms[{index}]");
            self.selector_tags(&field, term.tags.as_ref());
            self.exclusive(
                &field,
                "id",
                term.id.is_some(),
                &[("tags", term.tags.is_some())],
            );
            self.not_empty(
                &field,
                "tags or id",
                term.tags.is_some() || term.id.is_some(),
            );
        }
        if spec.security_group_selector_terms.is_empty() {
            self.add("spec.securityGroupSelectorTerms", "[]", "at least one term");
        }
        for (index, term) in spec.security_group_selector_terms.iter().enumerate() {
            let field = format!("spec.securityGroupSelectorTerms[{index}]");
            let (tags, id, name) = (term.tags.is_some(), term.id.is_some(), term.name.is_some());
            self.selector_tags(&field, term.tags.as_ref());
            self.exclusive(&field, "id", id, &[("tags", tags), ("name", name)]);
            self.exclusive(&field, "name", name && !id, &[("tags", tags)]);
            self.not_empty(&field, "tags, id or name", tags || id || name);
        }
        let reservations = spec.capacity_reservation_selector_terms.as_deref();
        if reservations.is_some_and(<[_]>::is_empty) {
            self.add(
                "spec.capacityReservationSelectorTerms",
                "[]",
                "at least one term, or no such field",
            );
        }
        for (index, term) in reservations.unwrap_or_default().iter().enumerate() {
            let field = format!("spec.capacityReservationSelectorTerms[{index}]");
            let (tags, criteria) = (term.tags.is_some(), term.instance_match_criteria.is_some());
            self.selector_tags(&field, term.tags.as_ref());
            let others = [
                ("tags", tags),
                ("ownerID", term.owner_id.is_some()),
                ("instanceMatchCriteria", criteria),
            ];
            self.exclusive(&field, "id", term.id.is_some(), &others);
            self.not_empty(
                &field,
                "tags, id or instanceMatchCriteria",
                tags || criteria || term.id.is_some(),
            );
        }
    }

    fn images(&mut self, spec: &EC2NodeClassSpec) {
        let terms = &spec.ami_selector_terms;
        if terms.is_empty() {
            self.add("spec.amiSelectorTerms", "[]", "at least one term");
        }
        for (index, term) in terms.iter().enumerate() {
            let field = format!("spec.amiSelectorTerms[{index}]");
            self.image(&field, term);
            if term.alias.is_some() && terms.len() > 1 {
                self.add(&field, "alias", "an alias alone, without other terms");
            }
        }
        let alias = terms
            .iter()
            .find_map(|term| term.alias.as_deref())
            .and_then(parse_alias);
        match (&spec.ami_family, alias) {
            (Some(AmiFamily::Other(family)), _) => {
                self.add(
                    "spec.amiFamily",
                    family,
                    format!("one of {}", AmiFamily::ALLOWED.join(", ")),
                );
            }
            (Some(AmiFamily::Custom), _) => {}
            (Some(family), Some((alias, _))) if !family.as_str().eq_ignore_ascii_case(alias) => {
                self.add(
                    "spec.amiFamily",
                    family.as_str(),
                    format!("the family of the alias, {alias}, or Custom"),
                );
            }
            (None, None) if terms.iter().all(|term| term.alias.is_none()) => {
                self.add(
                    "spec.amiFamily",
                    "",
                    "a family, which can be omitted only with an alias",
                );
            }
            _ => {}
        }
    }

    fn image(&mut self, field: &str, term: &AmiSelectorTerm) {
        let (tags, id, name, owner, ssm) = (
            ("tags", term.tags.is_some()),
            ("id", term.id.is_some()),
            ("name", term.name.is_some()),
            ("owner", term.owner.is_some()),
            ("ssmParameter", term.ssm_parameter.is_some()),
        );
        self.selector_tags(field, term.tags.as_ref());
        self.exclusive(
            field,
            "alias",
            term.alias.is_some(),
            &[id, tags, name, owner, ssm],
        );
        self.exclusive(
            field,
            "id",
            id.1 && term.alias.is_none(),
            &[tags, name, owner],
        );
        self.not_empty(
            field,
            "tags, id, name, alias or ssmParameter",
            tags.1 || id.1 || name.1 || ssm.1 || term.alias.is_some(),
        );
        if let Some(alias) = &term.alias
            && parse_alias(alias).is_none()
        {
            self.add(
                format!("{field}.alias"),
                alias,
                "family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest",
            );
        }
    }

    fn identity(&mut self, spec: &EC2NodeClassSpec) {
        match (&spec.role, &spec.instance_profile) {
            (Some(role), None) if role.is_empty() => {
                self.add("spec.role", "", "the name of an IAM role")
            }
            (Some(role), None) if role.len() > ROLE_NAME_MAX => {
                self.add(
                    "spec.role",
                    role,
                    format!("a name of at most {ROLE_NAME_MAX} characters"),
                );
            }
            (None, Some(profile)) if profile.is_empty() => {
                self.add(
                    "spec.instanceProfile",
                    "",
                    "the name of an instance profile",
                );
            }
            (Some(_), None) | (None, Some(_)) => {}
            (Some(role), Some(_)) => self.add(
                "spec.role",
                role,
                "either role or instanceProfile, not both",
            ),
            (None, None) => self.add("spec.role", "", "either role or instanceProfile"),
        }
    }

    fn tags(&mut self, spec: &EC2NodeClassSpec) {
        for key in spec.tags.iter().flatten().map(|(key, _)| key) {
            if key.is_empty()
                || key.starts_with(tag::CLUSTER_PREFIX)
                || tag::RESTRICTED.contains(&key.as_str())
            {
                let allowed = format!(
                    "a key other than {} and those beginning with {}: these mark the cluster's resources",
                    tag::RESTRICTED.join(", "),
                    tag::CLUSTER_PREFIX
                );
                self.add("spec.tags", key, allowed);
            }
        }
    }

    fn volumes(&mut self, spec: &EC2NodeClassSpec) {
        let mappings = spec.block_device_mappings.as_deref().unwrap_or_default();
        for (index, mapping) in mappings.iter().enumerate() {
            let field = format!("spec.blockDeviceMappings[{index}]");
            match &mapping.ebs {
                None => self.add(format!("{field}.ebs"), "", "a volume"),
                Some(ebs) if ebs.snapshot_id.is_none() && ebs.volume_size.is_none() => {
                    self.add(format!("{field}.ebs"), "", "a snapshotID or a volumeSize");
                }
                Some(_) => {}
            }
        }
        if mappings
            .iter()
            .filter(|mapping| mapping.root_volume == Some(true))
            .count()
            > 1
        {
            self.add(
                "spec.blockDeviceMappings",
                "rootVolume: true",
                "at most one root volume",
            );
        }
    }

    /// An empty map of tags would select everything in the account.
    fn selector_tags(&mut self, field: &str, tags: Option<&BTreeMap<String, String>>) {
        let Some(tags) = tags else { return };
        if tags.is_empty() {
            self.add(format!("{field}.tags"), "{}", "at least one tag");
        }
        for (key, value) in tags
            .iter()
            .filter(|(key, value)| key.is_empty() || value.is_empty())
        {
            self.add(
                format!("{field}.tags"),
                format!("{key}={value}"),
                "a key and a value, which may be *",
            );
        }
    }

    fn exclusive(&mut self, field: &str, name: &str, is_set: bool, others: &[(&str, bool)]) {
        for (other, _) in others
            .iter()
            .filter(|(_, other_is_set)| is_set && *other_is_set)
        {
            self.add(
                field,
                format!("{name} and {other}"),
                format!("{name} alone"),
            );
        }
    }

    fn not_empty(&mut self, field: &str, names: &str, is_set: bool) {
        if !is_set {
            self.add(field, "{}", names);
        }
    }
}

/// Family and version of an AMI alias; `None` if it is invalid.
fn parse_alias(alias: &str) -> Option<(&str, &str)> {
    let (family, version) = alias.split_once('@')?;
    let good = match family {
        "al2" | "al2023" | "bottlerocket" => {
            !version.is_empty()
                && version
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        }
        "windows2019" | "windows2022" | "windows2025" => version == "latest",
        _ => false,
    };
    good.then_some((family, version))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn good() -> Value {
        json!({
            "metadata": { "name": "default" },
            "spec": {
                "role": "KarpenterNodeRole-demo",
                "amiSelectorTerms": [{ "alias": "al2023@latest" }],
                "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "demo" } }],
                "securityGroupSelectorTerms": [{ "id": "sg-1" }, { "name": "web" }],
            },
        })
    }

    /// Problems of a valid class after replacing these fields of the spec; null removes a field.
    fn check(change: Value) -> Vec<String> {
        let mut class = good();
        let spec = class["spec"].as_object_mut().unwrap();
        for (name, value) in change.as_object().unwrap() {
            spec.insert(name.clone(), value.clone());
        }
        spec.retain(|_, value| !value.is_null());
        ec2_node_class(&serde_json::from_value(class).unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn valid_class_has_no_problems() {
        assert_eq!(check(json!({})), [""; 0]);
        assert_eq!(check(json!({ "amiFamily": "AL2023" })), [""; 0]);
        assert_eq!(check(json!({ "amiFamily": "Custom" })), [""; 0]);
        assert_eq!(
            check(json!({ "role": null, "instanceProfile": "mine", "tags": { "team": "" } })),
            [""; 0]
        );
        assert_eq!(
            check(
                json!({ "amiFamily": "Bottlerocket", "amiSelectorTerms": [{ "name": "my-*", "owner": "self" }] })
            ),
            [""; 0]
        );
    }

    #[test]
    fn each_problem_is_named_with_its_field() {
        let mistakes = [
            json!({ "subnetSelectorTerms": [] }),
            json!({ "subnetSelectorTerms": [{ "tags": {} }] }),
            json!({ "subnetSelectorTerms": [{ "id": "subnet-1" }, {}] }),
            json!({ "subnetSelectorTerms": [{ "id": "subnet-1" }, { "id": "subnet-2", "tags": { "a": "b" } }] }),
            json!({ "securityGroupSelectorTerms": [{ "name": "a", "tags": { "a": "b" } }] }),
            json!({ "securityGroupSelectorTerms": [{ "tags": { "a": "" } }] }),
            json!({ "capacityReservationSelectorTerms": [] }),
            json!({ "capacityReservationSelectorTerms": [{ "ownerID": "012345678901" }] }),
            json!({ "amiSelectorTerms": [{ "alias": "al2023@lat est" }] }),
            json!({ "amiSelectorTerms": [{ "alias": "al2@latest@x" }] }),
            json!({ "amiSelectorTerms": [{ "alias": "windows2022@v1" }] }),
            json!({ "amiSelectorTerms": [{ "alias": "al2023@latest", "ssmParameter": "/x" }] }),
            json!({ "amiSelectorTerms": [{ "alias": "al2023@latest" }, { "id": "ami-1" }] }),
            json!({ "amiSelectorTerms": [{ "id": "ami-1" }] }),
            json!({ "amiFamily": "AL2" }),
            json!({ "amiFamily": "Ubuntu" }),
            json!({ "role": null }),
            json!({ "instanceProfile": "mine" }),
            json!({ "role": "r".repeat(65) }),
            json!({ "tags": { "kubernetes.io/cluster/demo": "owned" } }),
            json!({ "tags": { "eks:eks-cluster-name": "other" } }),
            json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda" }] }),
            json!({ "blockDeviceMappings": [{ "ebs": { "encrypted": true } }] }),
            json!({ "blockDeviceMappings": [
                { "rootVolume": true, "ebs": { "volumeSize": "1Gi" } }, { "rootVolume": true, "ebs": { "volumeSize": "1Gi" } },
            ] }),
            json!({ "kubelet": { "maxPods": -1 } }),
        ];
        let found: Vec<_> = mistakes
            .into_iter()
            .map(|mistake| {
                let problems = check(mistake.clone());
                assert_eq!(problems.len(), 1, "{mistake}: {problems:?}");
                problems.concat()
            })
            .collect();
        expect_test::expect![[r#"
            spec.subnetSelectorTerms: "[]" is not allowed: expected at least one term
            spec.subnetSelectorTerms[0].tags: "{}" is not allowed: expected at least one tag
            spec.subnetSelectorTerms[1]: "{}" is not allowed: expected tags or id
            spec.subnetSelectorTerms[1]: "id and tags" is not allowed: expected id alone
            spec.securityGroupSelectorTerms[0]: "name and tags" is not allowed: expected name alone
            spec.securityGroupSelectorTerms[0].tags: "a=" is not allowed: expected a key and a value, which may be *
            spec.capacityReservationSelectorTerms: "[]" is not allowed: expected at least one term, or no such field
            spec.capacityReservationSelectorTerms[0]: "{}" is not allowed: expected tags, id or instanceMatchCriteria
            spec.amiSelectorTerms[0].alias: "al2023@lat est" is not allowed: expected family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest
            spec.amiSelectorTerms[0].alias: "al2@latest@x" is not allowed: expected family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest
            spec.amiSelectorTerms[0].alias: "windows2022@v1" is not allowed: expected family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest
            spec.amiSelectorTerms[0]: "alias and ssmParameter" is not allowed: expected alias alone
            spec.amiSelectorTerms[0]: "alias" is not allowed: expected an alias alone, without other terms
            spec.amiFamily: must not be empty: expected a family, which can be omitted only with an alias
            spec.amiFamily: "AL2" is not allowed: expected the family of the alias, al2023, or Custom
            spec.amiFamily: "Ubuntu" is not allowed: expected one of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025
            spec.role: must not be empty: expected either role or instanceProfile
            spec.role: "KarpenterNodeRole-demo" is not allowed: expected either role or instanceProfile, not both
            spec.role: "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr" is not allowed: expected a name of at most 64 characters
            spec.tags: "kubernetes.io/cluster/demo" is not allowed: expected a key other than karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name and those beginning with kubernetes.io/cluster/: these mark the cluster's resources
            spec.tags: "eks:eks-cluster-name" is not allowed: expected a key other than karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name and those beginning with kubernetes.io/cluster/: these mark the cluster's resources
            spec.blockDeviceMappings[0].ebs: must not be empty: expected a volume
            spec.blockDeviceMappings[0].ebs: must not be empty: expected a snapshotID or a volumeSize
            spec.blockDeviceMappings: "rootVolume: true" is not allowed: expected at most one root volume
            spec.kubelet.maxPods: "-1" is not allowed: expected an integer from 0 to 2147483647
        "#]].assert_eq(&(found.join("\n") + "\n"));
    }

    #[test]
    fn family_must_match_alias() {
        for (alias, family) in [
            ("al2023@latest", "AL2023"),
            ("bottlerocket@v1.20.0", "Bottlerocket"),
            ("windows2022@latest", "Windows2022"),
        ] {
            assert_eq!(
                check(json!({ "amiFamily": family, "amiSelectorTerms": [{ "alias": alias }] })),
                [""; 0]
            );
        }
    }
}
