//! `whittle register`, `clusters` and `unregister`: write registry entries and reject invalid arguments before any request.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::{Command, Output};

use harness::stderr_of;

fn whittle(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle.args(arguments).envs(environment.iter().copied());
    whittle.output().unwrap()
}

#[test]
fn invalid_arguments_are_rejected_before_any_request() {
    for (arguments, part) in [
        (&["register", "a/b"][..], "expected the name of a cluster"),
        (
            &[
                "register",
                "demo",
                "--endpoint",
                "http://x",
                "--credentials",
                "/c",
            ],
            "expected an HTTPS URL",
        ),
        (
            &["register", "demo", "--endpoint", "https://x"],
            "--credentials",
        ),
        (&["register", "demo", "--settings", "{"], "not JSON"),
        (
            &["register", "demo", "--reach", "vpc-1"],
            "expected \"public\" or \"vpc:<id of the VPC>\"",
        ),
        (
            &[
                "register",
                "demo",
                "--settings",
                r#"{"preferencePolicy": "Never"}"#,
            ],
            "settings.preferencePolicy is \"Never\"",
        ),
        (
            &[
                "register",
                "demo",
                "--settings",
                r#"{"schedulerConfig": {"profiles": []}}"#,
            ],
            "settings.schedulerConfig.profiles: unknown field",
        ),
        (
            &["register", "demo", "--settings", r#"{"reservedENIs": -1}"#],
            "reservedENIs \"-1\": expected a number from 0",
        ),
        (&["unregister", ""], "expected the name of a cluster"),
        (
            &["settings", "set", "demo", "optimize"],
            "expected KEY=VALUE",
        ),
    ] {
        let refused = whittle(arguments, &[]);
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(
            stderr_of(&refused).contains(part),
            "{}",
            stderr_of(&refused)
        );
    }
}

#[cfg(not(feature = "aws"))]
#[test]
fn build_without_aws_feature_names_the_required_feature() {
    for arguments in [
        &["register", "demo"][..],
        &["unregister", "demo"],
        &["activate", "demo"],
        &["clusters"],
        &["init", "demo"],
        &["status"],
        &["settings", "get", "demo"],
        &["settings", "set", "demo", "optimize=upstream"],
    ] {
        let refused = whittle(arguments, &[]);
        assert!(!refused.status.success());
        assert!(
            stderr_of(&refused).contains("--features aws"),
            "{}",
            stderr_of(&refused)
        );
    }
}

#[cfg(feature = "aws")]
#[expect(clippy::indexing_slicing, reason = "a missing field fails the test")]
mod with_aws {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use axum::{Json, Router, extract::Path, routing::post};
    use serde_json::{Value, json};

    use harness::{stderr_of, stdout_of};

    use super::whittle;

    /// A fake of EKS access entries, which moto lacks: Kubernetes groups by principal ARN.
    #[derive(Clone, Default)]
    struct Eks(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

    impl Eks {
        fn serve(&self) -> (String, tokio::runtime::Runtime) {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let (create, list, groups, forget) =
                (self.clone(), self.clone(), self.clone(), self.clone());
            let entries = post(async move |Json(entry): Json<Value>| {
                let principal = entry["principalArn"].as_str().unwrap().to_owned();
                let groups = serde_json::from_value(entry["kubernetesGroups"].clone());
                create.0.lock().unwrap().insert(principal, groups.unwrap());
                Json(json!({ "accessEntry": entry }))
            })
            .get(async move || {
                let entries = list.0.lock().unwrap();
                Json(json!({ "accessEntries": entries.keys().collect::<Vec<_>>() }))
            });
            let entry = axum::routing::get(
                async move |Path((_, principal)): Path<(String, String)>| {
                    let known = groups.0.lock().unwrap();
                    let groups = &known[&principal];
                    Json(json!({"accessEntry": {"principalArn": principal, "kubernetesGroups": groups}}))
                },
            )
            .delete(async move |Path((_, principal)): Path<(String, String)>| {
                forget.0.lock().unwrap().remove(&principal);
                Json(json!({}))
            });
            let described = json!({"cluster": {
                "name": "prod", "status": "ACTIVE", "version": "1.35", "endpoint": "https://127.0.0.1:1",
                "certificateAuthority": {"data": ""}, "accessConfig": {"authenticationMode": "API"},
                "resourcesVpcConfig": {"endpointPublicAccess": true},
            }});
            let cluster = axum::routing::get(async move || Json(described.clone()));
            let router = Router::new()
                .route("/clusters/{cluster}", cluster)
                .route("/clusters/{cluster}/access-entries", entries)
                .route("/clusters/{cluster}/access-entries/{principal}", entry);
            runtime.spawn(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
            (url, runtime)
        }
    }

    #[test]
    fn access_entries_are_created_for_the_roles_of_the_stack() {
        const FUNCTIONS: [&str; 6] = [
            "provisioner",
            "lifecycle",
            "disruption",
            "terminator",
            "interruption",
            "housekeeper",
        ];
        let moto = harness::Moto::start("demo");
        let eks = Eks::default();
        let (url, _runtime) = eks.serve();
        let mut environment = environment(&moto).to_vec();
        environment.push(("AWS_ENDPOINT_URL_EKS", &url));
        let run = |arguments: &[&str]| whittle(arguments, &environment);
        let role = |function: &str| format!("arn:aws:iam::123456789012:role/{function}");

        let refused = run(&["register", "prod", "--create-access-entries"]);
        assert!(!refused.status.success());
        let why = stderr_of(&refused);
        for part in ["repeat this with --replace", "cannot find stack whittle"] {
            assert!(why.contains(part), "{why}");
        }

        let roles: BTreeMap<&str, String> = FUNCTIONS
            .iter()
            .map(|function| (*function, role(function)))
            .collect();
        for role in FUNCTIONS {
            let role = json!({"RoleName": role, "AssumeRolePolicyDocument": "{}"});
            moto.call("iam", "create_role", role);
        }
        let stack = json!({"account": "123456789012", "table": "t", "bucket": "b", "roles": roles});
        let stack = json!({"Name": "/whittle/stacks/whittle", "Type": "String", "Value": stack.to_string()});
        moto.call("ssm", "put_parameter", stack);
        let registered = run(&["register", "prod", "--replace", "--create-access-entries"]);
        assert!(registered.status.success(), "{}", stderr_of(&registered));
        let shown = stdout_of(&registered);
        assert!(
            !shown.contains("functions that neither an access entry"),
            "{shown}"
        );
        assert!(
            shown.contains("role/terminator as whittle:terminator\n"),
            "{shown}"
        );
        let expected =
            FUNCTIONS.map(|function| (role(function), vec![format!("whittle:{function}")]));
        assert_eq!(*eks.0.lock().unwrap(), BTreeMap::from(expected));

        let team = role("team");
        eks.0.lock().unwrap().insert(team.clone(), Vec::new());
        let left = run(&["unregister", "prod", "--delete-access-entries", "--force"]);
        assert!(left.status.success(), "{}", stderr_of(&left));
        assert!(eks.0.lock().unwrap().keys().eq([&team]));
    }

    fn environment(moto: &harness::Moto) -> [(&str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", moto.endpoint()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ]
    }

    fn entry(moto: &harness::Moto, cluster: &str) -> Value {
        let name = format!("/whittle/clusters/{cluster}");
        let parameter = moto.call("ssm", "get_parameter", json!({ "Name": name }));
        let text = parameter.pointer("/Parameter/Value");
        serde_json::from_str(text.and_then(Value::as_str).unwrap()).unwrap()
    }

    #[test]
    fn eks_cluster_is_registered_in_shadow_mode_and_unregistered_in_two_steps() {
        let moto = harness::Moto::start("demo");
        let environment = environment(&moto);
        let run = |arguments: &[&str]| whittle(arguments, &environment);

        let elsewhere = run(&["register", "prod"]);
        assert!(!elsewhere.status.success());
        let why = stderr_of(&elsewhere);
        assert!(
            why.contains("prod is not registered: EKS has no cluster prod in us-east-1"),
            "{why}"
        );

        let cluster = json!({
            "name": "prod", "roleArn": "arn:aws:iam::123456789012:role/eks", "version": "1.35",
            "resourcesVpcConfig": { "subnetIds": moto.seed.subnets.values().collect::<Vec<_>>() },
        });
        moto.call("eks", "create_cluster", cluster);
        let settings = r#"{"reservedENIs": "0", "batchIdleDuration": "1s"}"#;
        let registered = run(&["register", "prod", "--settings", settings]);
        assert!(registered.status.success(), "{}", stderr_of(&registered));
        let shown = stdout_of(&registered);
        assert!(
            shown.contains("2. the service-linked role of EC2 Spot is missing"),
            "{shown}"
        );
        for part in [
            "aws eks create-access-entry --cluster-name prod",
            // `register` runs the checks of `doctor`.
            "45. EC2NodeClasses without subnets or security groups",
            "the API server is not reached from here",
            "44. quotas",
            "settings.batchIdleDuration: a value of the relay's chart",
            "provision: https://sqs.us-east-1.amazonaws.com/123456789012/whittle-provision\n",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(
            entry(&moto, "prod"),
            json!({"type": "eks", "reach": "public", "mode": "shadow", "settings": {"reservedENIs": "0", "batchIdleDuration": "1s"}})
        );

        let role =
            json!({"RoleName": "AWSServiceRoleForEC2Spot", "AssumeRolePolicyDocument": "{}"});
        moto.call("iam", "create_role", role);
        let twice = run(&["register", "prod"]);
        assert!(!twice.status.success());
        assert!(
            stderr_of(&twice).contains("cluster prod is registered already"),
            "{}",
            stderr_of(&twice)
        );
        let private = ["register", "prod", "--replace", "--reach", "vpc:vpc-1"];
        let shown = run(&private);
        assert!(shown.status.success(), "{}", stderr_of(&shown));
        let shown = stdout_of(&shown);
        let queue =
            "terminate: https://sqs.us-east-1.amazonaws.com/123456789012/whittle-vpc-1-terminate\n";
        assert!(shown.contains(queue), "{shown}");
        assert_eq!(entry(&moto, "prod")["reach"], "vpc:vpc-1");
        let again = run(&["register", "prod", "--replace"]);
        assert!(again.status.success(), "{}", stderr_of(&again));
        let shown = stdout_of(&again);
        assert!(!shown.contains("service-linked"), "{shown}");

        let looked = run(&["doctor", "prod"]);
        assert!(!looked.status.success());
        let shown = stdout_of(&looked);
        assert!(
            shown.contains("prod has no public endpoint"),
            "{shown}{}",
            stderr_of(&looked)
        );

        let before = entry(&moto, "prod");
        for (command, mode, part) in [
            (
                "activate",
                "active",
                "To take it back: whittle deactivate prod",
            ),
            ("activate", "active", "prod is in active mode already."),
            ("deactivate", "shadow", "Nodes stay as they are."),
            ("activate", "active", "prod is active"),
        ] {
            let switched = run(&[command, "prod"]);
            assert!(switched.status.success(), "{}", stderr_of(&switched));
            let shown = stdout_of(&switched);
            assert!(shown.contains(part), "{shown}");
            let mut expected = before.clone();
            expected["mode"] = mode.into();
            assert_eq!(entry(&moto, "prod"), expected);
        }
        let unknown = run(&["activate", "other"]);
        assert!(!unknown.status.success());
        let why = stderr_of(&unknown);
        assert!(why.contains("no cluster other is registered"), "{why}");
        let listed = run(&["clusters"]);
        assert_eq!(
            String::from_utf8_lossy(&listed.stdout),
            "NAME   TYPE   MODE     PAUSES\nprod   eks    active   ?\n"
        );
        assert!(
            stderr_of(&listed).contains("pauses are not known: cannot find stack whittle"),
            "{}",
            stderr_of(&listed)
        );
        let listed = run(&["clusters", "-o", "json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed[0]["mode"], "active");
        assert_eq!(listed[0].get("pauses"), None);
        let first = run(&["unregister", "prod"]);
        assert!(!first.status.success());
        let why = stderr_of(&first);
        assert!(why.contains("--force goes on all the same"), "{why}");
        assert_eq!(entry(&moto, "prod").get("mode"), Some(&json!("shadow")));
        let second = run(&["unregister", "prod", "--force"]);
        assert!(second.status.success(), "{}", stderr_of(&second));
        let listed = run(&["clusters"]);
        let none = "No cluster is registered in us-east-1.\n";
        assert_eq!(stderr_of(&listed), none);
        assert_eq!(listed.stdout, b"");
        let listed = run(&["clusters", "-o", "json"]);
        assert_eq!(listed.stdout, b"[]\n");
        let third = run(&["unregister", "prod"]);
        assert!(
            stderr_of(&third).contains("no cluster prod is registered in us-east-1"),
            "{}",
            stderr_of(&third)
        );
    }

    /// Writes the rows that the housekeeper writes when it sweeps the cluster.
    fn put_sweep(moto: &harness::Moto, mode: &str, is_released: bool) {
        let mode = json!({ "mode": mode }).to_string();
        moto.put_cluster("prod", &json!({"modeBody": {"S": mode}}));
        let body = json!({ "released": is_released }).to_string();
        let notes = json!({"pk": {"S": "CLUSTER#prod"}, "sk": {"S": "SWEEP"}, "body": {"S": body}});
        let put = json!({"TableName": "whittle-ledger", "Item": notes});
        moto.call("dynamodb", "put_item", put);
    }

    #[test]
    fn cluster_is_unregistered_once_its_stack_has_released_it() {
        let moto = harness::Moto::start("demo");
        let environment = environment(&moto);
        let run = |arguments: &[&str]| {
            let output = whittle(arguments, &environment);
            let shown = stdout_of(&output);
            (output.status.success(), shown + &stderr_of(&output))
        };
        moto.put_ledger();
        put_sweep(&moto, "active", false);
        let active = json!({"Name": "/whittle/clusters/prod", "Type": "String",
            "Value": r#"{"type":"eks","mode":"active"}"#});
        moto.call("ssm", "put_parameter", active);
        for _ in 0..2 {
            let (done, why) = run(&["unregister", "prod", "--timeout", "1"]);
            assert!(!done && why.contains("prod is still active"), "{why}");
            assert_eq!(entry(&moto, "prod")["mode"], "shadow");
        }
        put_sweep(&moto, "shadow", false);
        let (done, shown) = run(&["unregister", "prod", "--purge", "--timeout", "1"]);
        assert!(!done, "{shown}");
        assert!(shown.contains("prod is not registered any more"), "{shown}");
        assert!(shown.contains("has not let go of prod"), "{shown}");
        put_sweep(&moto, "shadow", true);
        let purge = ["unregister", "prod", "--purge"];
        let (done, shown) = run(&purge);
        assert!(done, "{shown}");
        assert!(shown.contains("2 rows of prod were removed"), "{shown}");
        let (_, shown) = run(&purge);
        assert!(shown.contains("0 rows of prod were removed"), "{shown}");
    }

    #[test]
    fn purge_keeps_rows_of_launched_instances() {
        let moto = harness::Moto::start("demo");
        let environment = environment(&moto);
        moto.put_ledger();
        put_sweep(&moto, "shadow", true);
        let launched = json!({"pk": {"S": "CLUSTER#prod"}, "sk": {"S": "LAUNCHED#web-1"}});
        let put = json!({"TableName": "whittle-ledger", "Item": launched});
        moto.call("dynamodb", "put_item", put);
        let purge = ["unregister", "prod", "--purge"];
        let refused = whittle(&purge, &environment);
        let why = stderr_of(&refused);
        assert!(!refused.status.success(), "{why}");
        assert!(why.contains("NodeClaim web-1"), "{why}");
        let forced = whittle(&[&purge[..], &["--force"]].concat(), &environment);
        assert!(forced.status.success(), "{}", stderr_of(&forced));
        let shown = stdout_of(&forced);
        assert!(
            shown.contains("left without an owner: NodeClaim web-1"),
            "{shown}"
        );
        assert!(shown.contains("3 rows of prod were removed"), "{shown}");
    }

    #[test]
    fn cluster_outside_eks_is_registered_with_readable_credentials() {
        let moto = harness::Moto::start("demo");
        let environment = environment(&moto);
        let arguments = [
            "register",
            "kops",
            "--endpoint",
            "https://api.kops.example.com",
            "--credentials",
            "/whittle/credentials/kops",
        ];
        let refused = whittle(&arguments, &environment);
        assert!(!refused.status.success());
        let why = stderr_of(&refused);
        assert!(
            why.contains("cannot use the credentials in /whittle/credentials/kops"),
            "{why}"
        );
        let mut others = arguments;
        others[5] = "/whittle/credentials/other";
        let refused = whittle(&others, &environment);
        let why = stderr_of(&refused);
        assert!(!refused.status.success(), "{why}");
        assert!(why.contains("or a parameter below it"), "{why}");
        let secret =
            json!({"Name": "/whittle/credentials/kops", "Type": "SecureString", "Value": "token"});
        moto.call("ssm", "put_parameter", secret);
        let registered = whittle(&arguments, &environment);
        assert!(registered.status.success(), "{}", stderr_of(&registered));
        assert_eq!(
            entry(&moto, "kops"),
            json!({
                "type": "endpoint", "reach": "public", "mode": "shadow",
                "endpoint": "https://api.kops.example.com", "credentials": "/whittle/credentials/kops",
            })
        );

        let spelled = ["--endpoint", "https://API.kops.example.com:443/"];
        let twin = [&["register", "kops-again"], &spelled, &arguments[4..]].concat();
        let refused = whittle(&twin, &environment);
        assert!(!refused.status.success());
        let why = stderr_of(&refused);
        assert!(
            why.contains("its endpoint is registered already, as /whittle/clusters/kops:"),
            "{why}"
        );

        let broken =
            json!({"Name": "/whittle/clusters/broken", "Type": "String", "Value": "{\"type\":"});
        moto.call("ssm", "put_parameter", broken);
        let looked = whittle(&["doctor", "broken"], &environment);
        let shown = stdout_of(&looked);
        assert!(shown.contains("the registry entry is refused"), "{shown}");
        assert!(
            shown.contains("/whittle/clusters/broken is not JSON"),
            "{shown}"
        );
        let unknown = whittle(&["doctor", "nobody"], &environment);
        assert!(
            stderr_of(&unknown).contains("no cluster nobody is registered in us-east-1"),
            "{}",
            stderr_of(&unknown)
        );
        let listed = whittle(&["clusters"], &environment);
        assert!(!listed.status.success());
        let shown = stdout_of(&listed);
        let words = |name: &str| {
            let mut rows = shown.lines().map(str::split_whitespace);
            rows.find_map(|mut row| (row.next() == Some(name)).then(|| row.collect::<Vec<_>>()))
        };
        assert_eq!(words("broken"), Some(vec!["?", "refused", "?"]), "{shown}");
        assert_eq!(
            words("kops"),
            Some(vec!["endpoint", "shadow", "?"]),
            "{shown}"
        );
        let why = stderr_of(&listed);
        assert!(why.contains("the entry of broken is refused: "), "{why}");
    }

    #[test]
    fn entry_too_large_for_a_standard_parameter_is_rejected_with_a_remedy() {
        let moto = harness::Moto::start("demo");
        let cluster = json!({
            "name": "prod", "roleArn": "arn:aws:iam::123456789012:role/eks", "version": "1.35",
            "resourcesVpcConfig": { "subnetIds": moto.seed.subnets.values().collect::<Vec<_>>() },
        });
        moto.call("eks", "create_cluster", cluster);
        let long = json!({ "clusterName": "x".repeat(4_096) }).to_string();
        let refused = whittle(
            &["register", "prod", "--settings", &long],
            &environment(&moto),
        );
        assert!(!refused.status.success());
        for part in [
            "cannot write /whittle/clusters/prod; nothing was changed",
            "takes 4096",
            "--tier Advanced",
        ] {
            assert!(
                stderr_of(&refused).contains(part),
                "{}",
                stderr_of(&refused)
            );
        }
    }

    /// Starts a server that answers one request with AccessDenied.
    fn access_denier() -> (String, std::thread::JoinHandle<()>) {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 8192];
            let _ = stream.read(&mut request).unwrap();
            let body = r#"{"__type": "AccessDeniedException", "message": "not authorized to perform: ssm:PutParameter"}"#;
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/x-amz-json-1.1\r\nconnection: close";
            let length = body.len();
            write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        });
        (url, answer)
    }

    #[test]
    fn missing_permission_is_named_and_no_entry_is_written() {
        let moto = harness::Moto::start("demo");
        let cluster = json!({
            "name": "prod", "roleArn": "arn:aws:iam::123456789012:role/eks", "version": "1.35",
            "resourcesVpcConfig": { "subnetIds": moto.seed.subnets.values().collect::<Vec<_>>() },
        });
        moto.call("eks", "create_cluster", cluster);
        let (url, answer) = access_denier();
        let mut environment = environment(&moto).to_vec();
        environment.push(("AWS_ENDPOINT_URL_SSM", &url));
        let refused = whittle(&["register", "prod"], &environment);
        answer.join().unwrap();
        assert!(!refused.status.success());
        for part in [
            "cannot write /whittle/clusters/prod; nothing was changed",
            "ssm:PutParameter was denied",
        ] {
            assert!(
                stderr_of(&refused).contains(part),
                "{}",
                stderr_of(&refused)
            );
        }
    }
}
