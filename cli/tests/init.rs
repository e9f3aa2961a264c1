//! `whittle init` against moto and a fake of the EKS APIs that moto lacks: access entries, add-ons and Pod Identity associations.

#![cfg(feature = "aws")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// Resources of the cluster `prod` by their path.
#[derive(Clone)]
struct Eks {
    cluster: Value,
    resources: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Eks {
    fn of(moto: &harness::Moto) -> Self {
        let subnets: Vec<&String> = moto.seed.subnets.values().collect();
        let cluster = json!({"cluster": {
            "name": "prod", "status": "ACTIVE", "version": "1.35", "endpoint": "https://127.0.0.1:1",
            "certificateAuthority": {"data": ""}, "accessConfig": {"authenticationMode": "API"},
            "resourcesVpcConfig": {
                "endpointPublicAccess": true, "subnetIds": subnets, "clusterSecurityGroupId": moto.seed.security_group,
            },
        }});
        Self {
            cluster,
            resources: Arc::default(),
        }
    }

    fn serve(&self) -> (String, tokio::runtime::Runtime) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let router = Router::new().fallback(answer).with_state(self.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        (url, runtime)
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let resources = self.resources.lock().unwrap();
        let names = resources.keys().filter_map(|path| path.strip_prefix(kind));
        names.map(|name| name[1..].to_owned()).collect()
    }
}

async fn answer(State(eks): State<Eks>, method: Method, uri: Uri, body: Bytes) -> Response {
    let path = uri.path().replace("%3A", ":").replace("%2F", "/");
    let path = path.trim_start_matches("/clusters/prod");
    let path = path.trim_start_matches('/');
    let (kind, name) = path.split_once('/').unwrap_or((path, ""));
    if kind.is_empty() {
        return Json(eks.cluster.clone()).into_response();
    }
    let (key, one, many) = match kind {
        "access-entries" => ("principalArn", "accessEntry", "accessEntries"),
        "addons" => ("addonName", "addon", "addons"),
        _ => ("serviceAccount", "association", "associations"),
    };
    if method == Method::POST {
        let mut resource: Value = serde_json::from_slice(&body).unwrap();
        let name = resource[key].as_str().unwrap().to_owned();
        resource["associationId"] = name.as_str().into();
        let mut resources = eks.resources.lock().unwrap();
        resources.insert(format!("{kind}/{name}"), resource.clone());
        return Json(json!({ one: resource })).into_response();
    }
    let resources = eks.resources.lock().unwrap();
    if name.is_empty() {
        let all = resources.iter().filter(|(path, _)| path.starts_with(kind));
        let all: Vec<Value> = all
            .map(|(path, resource)| match kind {
                "access-entries" => path[kind.len() + 1..].into(),
                _ => resource.clone(),
            })
            .collect();
        return Json(json!({ many: all })).into_response();
    }
    match resources.get(path) {
        Some(resource) => Json(json!({ one: resource })).into_response(),
        None => (
            StatusCode::NOT_FOUND,
            [("x-amzn-errortype", "ResourceNotFoundException")],
            Json(json!({"message": format!("no {path}")})),
        )
            .into_response(),
    }
}

struct Account {
    moto: harness::Moto,
    eks: Eks,
    url: String,
    _runtime: tokio::runtime::Runtime,
}

impl Account {
    fn start() -> Self {
        let moto = harness::Moto::start("demo");
        let eks = Eks::of(&moto);
        let (url, runtime) = eks.serve();
        Self {
            moto,
            eks,
            url,
            _runtime: runtime,
        }
    }

    /// Runs the command; returns its exit code and its output.
    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
        let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
        whittle.args(arguments).env_clear();
        let environment = environment.iter().copied().chain([
            ("AWS_ENDPOINT_URL", self.moto.endpoint()),
            ("AWS_ENDPOINT_URL_EKS", self.url.as_str()),
            ("AWS_REGION", "us-east-1"),
        ]);
        let output = whittle.envs(environment).output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        (output.status.code().unwrap(), shown)
    }

    fn init(&self, values: &Path, options: &[&str]) -> (i32, String) {
        let role = ["--node-role", &self.moto.seed.node_role];
        let values = ["--values", values.to_str().unwrap()];
        let arguments = [&["init", "prod"], &role[..], &values, options].concat();
        let keys = [
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        self.run(&arguments, &keys)
    }

    /// Deploys the stack, as far as the command line sees it.
    fn deploy(&self) {
        self.moto.put_ledger();
        const ROLES: [&str; 7] = [
            "provisioner",
            "lifecycle",
            "disruption",
            "terminator",
            "interruption",
            "housekeeper",
            "relay",
        ];
        let roles = ROLES.map(|role| (role, format!("arn:aws:iam::123456789012:role/{role}")));
        for role in ROLES {
            let role = json!({"RoleName": role, "AssumeRolePolicyDocument": "{}"});
            self.moto.call("iam", "create_role", role);
        }
        let memory = json!({"account": "123456789012", "table": "whittle-ledger", "bucket": "whittle",
            "roles": BTreeMap::from(roles)});
        let put = json!({"Name": "/whittle/stacks/whittle", "Type": "String", "Value": memory.to_string(), "Overwrite": true});
        self.moto.call("ssm", "put_parameter", put);
    }

    /// Writes a heartbeat of the relay.
    fn beat(&self, at: &str) {
        let beat = json!({"pk": {"S": "RELAY#prod"}, "sk": {"S": "BEAT"}, "epoch": {"S": "e"}, "beatAt": {"S": at},
            "version": {"S": "0.1.0"}, "counters": {"M": {}}});
        let put = json!({"TableName": "whittle-ledger", "Item": beat});
        self.moto.call("dynamodb", "put_item", put);
    }

    fn register(&self, entry: &Value) {
        let put = json!({"Name": "/whittle/clusters/prod", "Type": "String", "Value": entry.to_string(), "Overwrite": true});
        self.moto.call("ssm", "put_parameter", put);
    }

    fn entry(&self) -> Option<Value> {
        let path = json!({"Path": "/whittle/clusters"});
        let found = self.moto.call("ssm", "get_parameters_by_path", path);
        let text = found.pointer("/Parameters/0/Value")?.as_str()?;
        serde_json::from_str(text).unwrap()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command compares heartbeats with the clock"
)]
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// The line of a step.
fn line_of(shown: &str, title: &str) -> String {
    let mut lines = shown.lines();
    let line = lines.find(|line| line.starts_with(title));
    line.unwrap_or_else(|| panic!("{title}: {shown}"))
        .to_owned()
}

#[test]
fn installation_is_completed_step_by_step_and_repeating_it_changes_nothing() {
    let account = Account::start();
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");

    let (code, shown) = account.init(&values, &["--create-all"]);
    assert_eq!(code, 1, "{shown}");
    for part in [
        "credentials: arn:aws:sts::123456789012:user/moto in account 123456789012, Region us-east-1\n",
        "cluster prod: Kubernetes 1.35, ACTIVE\n",
        "service-linked role of EC2 Spot: done\n",
        "    sam deploy --stack-name whittle\n",
        "subnets and security group with the tag karpenter.sh/discovery=prod: done\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(account.entry(), None);

    account.deploy();
    // moto gives the role another name than IAM.
    let role = json!({"RoleName": "AWSServiceRoleForEC2Spot", "AssumeRolePolicyDocument": "{}"});
    account.moto.call("iam", "create_role", role);
    let (code, shown) = account.init(&values, &["--create-all", "--dry-run"]);
    assert_eq!(code, 0, "{shown}");
    for part in [
        "subnets and security group with the tag karpenter.sh/discovery=prod: already there\n",
        "registration of prod in shadow mode: would be done\n",
        "Nothing was changed.\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(account.entry(), None);
    assert!(!values.exists());
    assert!(account.eks.names("addons").is_empty());

    let (code, shown) = account.init(&values, &["--create-all"]);
    assert_eq!(code, 1, "{shown}");
    const DONE: [&str; 5] = [
        "registration of prod in shadow mode",
        "access of the functions to the cluster",
        "add-on eks-pod-identity-agent",
        "Pod Identity association of kube-system/whittle-relay",
        "values of the chart in",
    ];
    for title in DONE {
        assert!(line_of(&shown, title).ends_with(": done"), "{shown}");
    }
    let helm = "helm upgrade --install whittle infra/chart --namespace kube-system --values ";
    assert!(shown.contains(helm), "{shown}");
    let entry = json!({"type": "eks", "reach": "public", "mode": "shadow"});
    assert_eq!(account.entry(), Some(entry));
    assert_eq!(account.eks.names("access-entries").len(), 7);
    let associated =
        account.eks.resources.lock().unwrap()["pod-identity-associations/whittle-relay"].clone();
    assert_eq!(
        associated["roleArn"],
        "arn:aws:iam::123456789012:role/relay"
    );
    let written = std::fs::read_to_string(&values).unwrap();
    for part in [
        "whittle-ledger",
        "https://sqs.us-east-1.amazonaws.com/123456789012/whittle-provision",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/whittle/relay",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }

    account.beat("2099-01-01T00:00:00Z");
    let (code, shown) = account.init(&values, &["--wait", "--timeout", "1"]);
    assert_eq!(code, 1, "{shown}");
    let title = "heartbeat of the relay";
    assert!(line_of(&shown, title).ends_with(": to do:"), "{shown}");
    let again = "Repeat whittle init prod --node-role ";
    assert!(shown.contains(again), "{shown}");
    assert!(shown.contains(" --wait --timeout 1 afterwards"), "{shown}");
    let shown = std::thread::scope(|threads| {
        let waiting = threads.spawn(|| account.init(&values, &["--wait"]).1);
        std::thread::sleep(std::time::Duration::from_secs(2));
        account.beat(&now());
        waiting.join().unwrap()
    });
    let done = "heartbeat of the relay: done\n";
    assert!(shown.contains(done), "{shown}");

    account.beat(&now());
    let (_, shown) = account.init(&values, &["--create-all", "--wait"]);
    for title in DONE.iter().chain(&["heartbeat of the relay"]) {
        assert!(
            line_of(&shown, title).ends_with(": already there"),
            "{shown}"
        );
    }

    std::fs::write(&values, "mine: true\n").unwrap();
    let (_, shown) = account.init(&values, &[]);
    assert!(shown.contains("repeat this with --replace"), "{shown}");
    assert_eq!(std::fs::read_to_string(&values).unwrap(), "mine: true\n");
    let (_, shown) = account.init(&values, &["--replace"]);
    assert!(line_of(&shown, "values of the chart in").ends_with(": done"));
    assert_eq!(std::fs::read_to_string(&values).unwrap(), written);
}

#[test]
fn existing_entry_decides_mode_network_and_settings() {
    let account = Account::start();
    account.deploy();
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    let entry = json!({"type": "eks", "mode": "active", "reach": "vpc:vpc-1", "settings": {"optimize": "upstream"}});
    account.register(&entry);

    let (_, shown) = account.init(&values, &[]);
    let step = "registration of prod";
    let line = line_of(&shown, step);
    assert_eq!(line, "registration of prod in active mode: already there");
    let written = std::fs::read_to_string(&values).unwrap();
    assert!(written.contains("/whittle-vpc-1-provision"), "{written}");

    let (code, shown) = account.init(&values, &["--reach", "public"]);
    assert_eq!(code, 1, "{shown}");
    assert_eq!(
        line_of(&shown, step),
        "registration of prod in active mode (its reach is vpc:vpc-1, not public): to do: whittle register prod --replace --settings \
         '{\"optimize\":\"upstream\"}'   # in shadow mode until whittle activate prod"
    );
    assert_eq!(account.entry(), Some(entry));

    account.register(&json!({"type": "eks", "mode": "on"}));
    let (code, shown) = account.init(&values, &[]);
    assert_eq!(code, 1, "{shown}");
    assert_eq!(
        line_of(&shown, step),
        "registration of prod (its entry is refused: mode is \"on\": expected \"active\" or \"shadow\"): to do: whittle register \
         prod --replace"
    );
}

#[test]
fn access_of_other_principals_is_no_access_of_the_functions_or_nodes() {
    let account = Account::start();
    account.deploy();
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    let groups = [
        "provisioner",
        "lifecycle",
        "disruption",
        "terminator",
        "interruption",
        "housekeeper",
    ];
    let groups = groups.map(|function| format!("whittle:{function}"));
    let entry = |name: &str, groups: &[String]| {
        let arn = format!("arn:aws:iam::123456789012:role/{name}");
        let entry = json!({"principalArn": arn, "kubernetesGroups": groups, "type": "STANDARD"});
        let mut resources = account.eks.resources.lock().unwrap();
        resources.insert(format!("access-entries/{arn}"), entry);
    };
    entry("other-stack", &groups);
    entry(&account.moto.seed.node_role, &[]);
    let other = json!({"serviceAccount": "whittle-relay", "associationId": "whittle-relay", "roleArn": "arn:aws:iam::123456789012:role/other"});
    let mut resources = account.eks.resources.lock().unwrap();
    resources.insert("pod-identity-associations/whittle-relay".to_owned(), other);
    drop(resources);

    let (_, shown) = account.init(&values, &["--dry-run"]);
    let functions = line_of(&shown, "access of the functions to the cluster");
    assert!(
        functions.contains(": to do: whittle init prod "),
        "{functions}"
    );
    assert!(
        functions.ends_with(" --create-access-entries"),
        "{functions}"
    );
    assert!(!functions.contains("--dry-run"), "{functions}");
    let title = format!("access of {}", account.moto.seed.node_role);
    let nodes = line_of(&shown, &title);
    assert!(
        nodes.ends_with("(its access entry has the type STANDARD): to do:"),
        "{nodes}"
    );
    let relay = line_of(&shown, "Pod Identity association");
    let command = "aws eks update-pod-identity-association --cluster-name prod --association-id whittle-relay --role-arn \
                   arn:aws:iam::123456789012:role/relay";
    assert!(relay.ends_with(command), "{relay}");

    let (_, shown) = account.init(&values, &["--create-access-entries"]);
    let functions = line_of(&shown, "access of the functions to the cluster");
    assert!(functions.ends_with(": done"), "{functions}");
    assert_eq!(account.eks.names("access-entries").len(), 8);
}

#[test]
fn credentials_of_profiles_are_used_and_their_errors_have_a_remedy() {
    let account = Account::start();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(
        &config,
        r#"[profile program]
credential_process = echo '{"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "test"}'
[profile sso]
sso_session = company
sso_account_id = 123456789012
sso_role_name = dev
[sso-session company]
sso_region = us-east-1
sso_start_url = https://example.awsapps.com/start
"#,
    )
    .unwrap();
    let home = folder.path().to_str().unwrap();
    let run = |profile: &str| {
        let environment = [
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("AWS_PROFILE", profile),
            ("HOME", home),
            ("PATH", "/usr/bin:/bin"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        account.run(&["clusters"], &environment)
    };
    let (code, shown) = run("program");
    assert_eq!(
        (code, shown.as_str()),
        (0, "No cluster is registered in us-east-1.\n")
    );
    for (profile, remedy) in [
        ("sso", "remedy: aws sso login --profile sso\n"),
        ("nobody", "remedy: name a profile of ~/.aws/config"),
    ] {
        let (code, shown) = run(profile);
        assert_eq!(code, 1, "{shown}");
        assert!(shown.contains(remedy), "{shown}");
        assert!(!shown.contains('{'), "no Debug output: {shown}");
        assert!(shown.len() < 600, "{shown}");
    }
}
