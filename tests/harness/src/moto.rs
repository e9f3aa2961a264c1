//! moto: EC2, IAM, SSM, EKS and more, with a network, a node role and images already in the account.

use std::{collections::BTreeMap, ops::Deref};

use serde_json::{Value, json};

use crate::emulator::{Emulator, text};

/// moto with a seeded account; `python/serve_moto.py` lists its limitations.
#[derive(Debug)]
pub struct Moto {
    emulator: Emulator,
    pub seed: Seed,
}

/// Resources in the account before the test begins (`python/seed.py`).
#[derive(Debug)]
pub struct Seed {
    pub vpc: String,
    /// Subnet ids by zone, one per zone, tagged `karpenter.sh/discovery: <cluster>`.
    pub subnets: BTreeMap<String, String>,
    /// Security group tagged like the subnets.
    pub security_group: String,
    pub node_role: String,
    /// Instance profile with the node role.
    pub instance_profile: String,
    /// Image ids by name: AL2023 and Bottlerocket, x86_64 and arm64, with their accelerated variants.
    pub images: BTreeMap<String, String>,
    /// Image ids by the SSM parameter that aliases resolve through, for the Kubernetes versions 1.29 to 1.39.
    pub parameters: BTreeMap<String, String>,
}

impl Moto {
    /// Starts moto for a cluster of this name.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(cluster: &str) -> Self {
        let (emulator, announcement) = Emulator::start("moto", &json!({"cluster": cluster}));
        let seed = announcement.get("seed").cloned().unwrap_or_default();
        Self {
            emulator,
            seed: Seed {
                vpc: text(&seed, "vpc"),
                subnets: texts(&seed, "subnets"),
                security_group: text(&seed, "securityGroup"),
                node_role: text(&seed, "nodeRole"),
                instance_profile: text(&seed, "instanceProfile"),
                images: texts(&seed, "images"),
                parameters: texts(&seed, "parameters"),
            },
        }
    }
}

impl Moto {
    /// Creates the ledger's table, and the SSM parameter of stack `whittle` in which the command line finds its name.
    pub fn put_ledger(&self) {
        let memory =
            json!({"account": "123456789012", "table": "whittle-ledger", "bucket": "whittle"});
        self.call(
            "ssm",
            "put_parameter",
            json!({"Name": "/whittle/stacks/whittle", "Type": "String", "Value": memory.to_string()}),
        );
        let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
        let text = |name: &str| json!({"AttributeName": name, "AttributeType": "S"});
        let table = json!({
            "TableName": "whittle-ledger", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [key("pk", "HASH"), key("sk", "RANGE")],
            "AttributeDefinitions": [text("pk"), text("sk")],
        });
        self.call("dynamodb", "create_table", table);
    }

    /// Puts a cluster's META row into the ledger, with no turn recorded yet and with further attributes.
    pub fn put_cluster(&self, name: &str, further: &Value) {
        let mut row = json!({
            "pk": {"S": format!("CLUSTER#{name}")}, "sk": {"S": "META"}, "generation": {"N": "0"},
            "mode": {"S": "active"}, "modeBody": {"S": r#"{"mode":"active"}"#},
            "registry": {"S": "{}"},
        });
        if let (Some(row), Some(further)) = (row.as_object_mut(), further.as_object()) {
            row.extend(further.clone());
        }
        let put = json!({"TableName": "whittle-ledger", "Item": row});
        self.call("dynamodb", "put_item", put);
    }
}

impl Deref for Moto {
    type Target = Emulator;

    fn deref(&self) -> &Emulator {
        &self.emulator
    }
}

fn texts(value: &Value, field: &str) -> BTreeMap<String, String> {
    let fields = value.get(field).unwrap_or(&Value::Null);
    let Some(names) = fields.as_object() else {
        panic!("no object {field:?} in {value}")
    };
    names
        .keys()
        .map(|name| (name.clone(), text(fields, name)))
        .collect()
}
