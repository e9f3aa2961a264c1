//! User data of launch templates.

use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;

use crate::import_group;

#[test]
fn variables_that_the_script_sets_to_literals_are_resolved_in_bootstrap_arguments() {
    let script = "MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=\"//\"

--//
Content-Type: text/x-shellscript; charset=\"us-ascii\"
#!/bin/bash
set -ex
B64_CLUSTER_CA=QUJD
API_SERVER_URL=https://x
K8S_CLUSTER_DNS_IP=172.20.0.10
PODS=17 TEAM='a'
export ARGS=\"--node-labels=team=$TEAM --max-pods=$PODS\"
/etc/eks/bootstrap.sh prod --kubelet-extra-args \"$ARGS\" \\
  --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint $API_SERVER_URL --dns-cluster-ip ${K8S_CLUSTER_DNS_IP} --use-max-pods false
--//--
";
    let (output, manifests, messages) = import_group(script, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for line in [
        "    - 172.20.0.10\n",
        "    maxPods: 17\n",
        "        team: a\n",
    ] {
        assert!(manifests.contains(line), "{line}: {manifests}");
    }
    assert!(!manifests.contains("bootstrap.sh"), "{manifests}");
}

#[test]
fn bootstrap_arguments_that_are_computed_on_the_instance_are_refused() {
    for (script, argument) in [
        (
            "/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS",
            "--dns-cluster-ip $DNS",
        ),
        (
            "DNS=10.0.0.10\nDNS=10.0.0.11\n/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS",
            "--dns-cluster-ip $DNS",
        ),
        (
            ". /etc/environment\nDNS=10.0.0.10\n/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS",
            "--dns-cluster-ip $DNS",
        ),
        (
            "DNS=$(curl -s http://169.254.169.254)\n/etc/eks/bootstrap.sh prod --dns-cluster-ip \"$DNS\"",
            "--dns-cluster-ip $DNS",
        ),
        (
            "/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS\nDNS=10.0.0.10",
            "--dns-cluster-ip $DNS",
        ),
        (
            "/etc/eks/bootstrap.sh prod --max-pods `nproc`",
            "--max-pods `nproc`",
        ),
        (
            "/etc/eks/bootstrap.sh $CLUSTER --kubelet-extra-args \"--node-labels=zone=$ZONE\"",
            "--node-labels=zone=$ZONE",
        ),
        (
            "/etc/eks/bootstrap.sh prod --kubelet-extra-args \"$ARGS\"",
            "$ARGS",
        ),
        ("/etc/eks/bootstrap.sh prod $ARGS", "$ARGS"),
    ] {
        let (output, manifests, messages) =
            import_group(format!("#!/bin/bash\n{script}\n"), json!({}), &[]);
        assert_eq!(output.status.code(), Some(1), "{script}: {messages}");
        assert_eq!(manifests, "", "{script}");
        let refusal = format!(
            "LaunchTemplateData.UserData is {argument}: its value is computed on the instance"
        );
        assert!(messages.contains(&refusal), "{script}: {messages}");
    }
}

#[test]
fn scripts_that_call_nodeadm_or_write_its_config_are_refused() {
    let document = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {flags: [\"--node-labels=a=b\"]}}\n";
    let written = format!("#!/bin/bash\ncat <<EOF > /etc/eks/nodeadm.d/10.yaml\n{document}EOF\n");
    let mime = |script: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==B==\"\n\n--==B==\nContent-Type: text/x-shellscript\n\n{script}\n--==B==--\n"
        )
    };
    let call = "the instance calls it at boot with the generated NodeConfig";
    let write = "a script writes it on the instance";
    for (user_data, value, remedy) in [
        (
            mime(&format!(
                "{written}nodeadm init --config-source file:///tmp/cfg.yaml"
            )),
            "nodeadm init",
            call,
        ),
        (
            "#!/bin/bash\nset -o xtrace\nnodeadm init -c file:///tmp/cfg.yaml\n".to_owned(),
            "nodeadm init",
            call,
        ),
        (
            "#cloud-config\nruncmd:\n- [/usr/bin/nodeadm, init]\n".to_owned(),
            "nodeadm init",
            call,
        ),
        (mime(&written), "kind: NodeConfig", write),
        (written.clone(), "kind: NodeConfig", write),
    ] {
        let (output, manifests, messages) = import_group(&user_data, json!({}), &[]);
        assert_eq!(output.status.code(), Some(1), "{user_data}: {messages}");
        assert_eq!(manifests, "", "{user_data}");
        let refusal = format!("UserData is {value}: {remedy}");
        assert!(messages.contains(&refusal), "{user_data}: {messages}");
    }
    let (output, manifests, messages) = import_group(
        "#!/bin/bash\n# nodeadm init runs after this.\nsysctl -w vm.max_map_count=262144\n",
        json!({}),
        &[],
    );
    assert!(output.status.success(), "{messages}");
    assert!(manifests.contains("vm.max_map_count"), "{manifests}");
}

#[test]
fn kubelet_flags_of_a_node_config_are_read_across_items() {
    let config = "
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    flags: [--node-labels, x=y, --max-pods=20 --register-with-taints a=b:NoSchedule --v=2, --fail-swap-on, --v 3]
";
    let (output, manifests, messages) = import_group(config, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for part in [
        "        x: \"y\"\n",
        "    maxPods: 20\n",
        "        key: a\n        value: b\n",
    ] {
        assert!(manifests.contains(part), "{part}: {manifests}");
    }
    let flags =
        "        flags:\n        - \"--v=2\"\n        - \"--fail-swap-on\"\n        - \"--v 3\"\n";
    assert!(manifests.contains(flags), "{manifests}");
}

/// Asserts that a group with this user data is refused with this text.
fn assert_refused(user_data: &str, refusal: &str) {
    let (output, manifests, messages) = import_group(user_data, json!({}), &[]);
    assert_eq!(output.status.code(), Some(1), "{user_data}: {messages}");
    assert_eq!(manifests, "", "{user_data}");
    assert!(
        messages.contains(&format!("LaunchTemplateData.UserData is {refusal}")),
        "{user_data}: {messages}"
    );
}

#[test]
fn refused_variable_names_the_line_that_makes_it_unknown() {
    for (script, cause) in [
        (
            "if a; then\n  DNS=1\nfi",
            "line 3 sets DNS inside the `if` that begins in line 2",
        ),
        ("DNS=1\n\nDNS=2", "lines 2 and 4 set DNS"),
        ("DNS=$(hostname)", "line 2 sets DNS to what it computes"),
        (
            "source /etc/environment",
            "line 2, `source /etc/environment`, may set it",
        ),
        (":", "the script does not set DNS"),
    ] {
        let last = script.lines().count() + 2;
        assert_refused(
            &format!(
                "#!/bin/bash\n{script}\n/etc/eks/bootstrap.sh prod --dns-cluster-ip \"$DNS\"\n"
            ),
            &format!(
                "--dns-cluster-ip $DNS: its value is computed on the instance ({cause}): write the value itself into line {last}"
            ),
        );
    }
}

#[test]
fn conditional_bootstrap_call_is_reported_with_its_line() {
    const CALL: &str = "/etc/eks/bootstrap.sh prod --max-pods 9";
    for (script, context) in [
        (
            "if a; then\nCALL\nfi",
            "line 3 is conditional, inside the `if` that begins in line 2",
        ),
        (
            "case $(uname -m) in\nx86_64)\nCALL\n;;\nesac",
            "line 4 is conditional, inside the `case`",
        ),
        (
            "for i in 1 2; do\nCALL\ndone",
            "line 3 is conditional, inside the `for`",
        ),
        (
            "start() {\n  CALL\n}\nstart",
            "line 3 is conditional, inside the `function` that begins in line 2",
        ),
        ("{\nCALL\n} > log", "line 3 is conditional, inside the `{`"),
        ("(\nCALL\n)", "line 3 is conditional, inside the `(`"),
        ("[ -e /a ] && CALL", "line 2 is conditional, after `&&`"),
        ("a ||\\\nCALL", "line 3 is conditional, after `||`"),
        ("CALL | tee log", "line 2 is conditional, in a pipeline"),
        ("CALL &", "line 2 is conditional, in the background"),
        (
            "[ -e /done ] && exit 0\nCALL",
            "line 3 is conditional, after line 2, which may end the script",
        ),
    ] {
        let script = script.replace("CALL", CALL);
        assert_refused(
            &format!("#!/bin/bash\n{script}\n"),
            &format!("/etc/eks/bootstrap.sh: the call of {context}"),
        );
    }
}

#[test]
fn bootstrap_script_that_is_not_called_plainly_is_reported_with_its_line() {
    for (user_data, refusal) in [
        (
            "#!/bin/bash\necho 'a\n/etc/eks/bootstrap.sh prod",
            "/etc/eks/bootstrap.sh: line 2 of the script is not understood: ' is not closed",
        ),
        (
            "#!/bin/bash\nsed -i 's/a/b/' /etc/eks/bootstrap.sh\n",
            "/etc/eks/bootstrap.sh: line 2 names it other than by a plain call",
        ),
        (
            "#!/bin/bash\ncat <<EOF > /run.sh\n/etc/eks/bootstrap.sh prod\nEOF\nbash /run.sh\n",
            "/etc/eks/bootstrap.sh: line 3 names it other than by a plain call",
        ),
        (
            "#!/bin/bash\n/etc/eks/bootstrap.sh prod\n/etc/eks/bootstrap.sh prod --max-pods 3\n",
            "/etc/eks/bootstrap.sh: lines 2 and 3 call it",
        ),
        (
            "#!/bin/bash\n/etc/eks/bootstrap.sh prod || exit 1\n",
            "/etc/eks/bootstrap.sh: the call of line 2 shares its lines with other commands",
        ),
        (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/cloud-config\n\npackages: [jq]\n\
             --B\nContent-Type: text/x-shellscript\n\n#!/bin/bash\na && /etc/eks/bootstrap.sh prod\n--B--\n",
            "/etc/eks/bootstrap.sh: part 2: the call of line 2 is conditional",
        ),
        (
            "#cloud-config\nruncmd:\n# it's AL2\n- /etc/eks/bootstrap.sh prod\n",
            "/etc/eks/bootstrap.sh: line 4 calls it",
        ),
        (
            "#cloud-config\nruncmd:\n- - /var/lib/cloud/scripts/eksctl/bootstrap.al2.sh\n",
            "#cloud-config: line 3 is eksctl's, which starts the kubelet with settings of its own",
        ),
        (
            "#cloud-config\nruncmd:\n- - nodeadm\n  - init\n",
            "nodeadm init: the instance calls it at boot with the generated NodeConfig, and a second call would override that: take \
             line 3 out",
        ),
        (
            "#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args --node-labels={a,b}=c\n",
            "--node-labels={a,b}=c: line 2: the shell replaces",
        ),
        (
            "#!/bin/bash\n/etc/eks/bootstrap.sh prod other\n",
            "other: line 2: the script takes one name",
        ),
    ] {
        assert_refused(user_data, refusal);
    }
}

#[test]
fn bootstrap_call_is_read_whatever_its_layout() {
    for call in [
        "/etc/eks/bootstrap.sh prod --kubelet-extra-args '--node-labels=team=a --max-pods=17' > /var/log/b.log 2>&1",
        "exec /etc/eks/bootstrap.sh --kubelet-extra-args \"--node-labels=team=a --max-pods=17\" prod # join",
        "sudo bash -x /etc/eks/bootstrap.sh prod \\\n  --kubelet-extra-args '--node-labels=team=a\n  --max-pods=17'",
        "/etc/eks/bootstrap.sh \"${UNKNOWN}\" --kubelet-extra-args='--node-labels team=a --max-pods 17' --b64-cluster-ca $CA;",
    ] {
        let script = format!("#!/bin/bash\nset -e\n{call}\necho /etc/eks/done\n");
        let (output, manifests, messages) = import_group(&script, json!({}), &[]);
        assert!(output.status.success(), "{call}: {messages}");
        for part in [
            "  amiFamily: AL2\n",
            "    maxPods: 17\n",
            "        team: a\n",
            "    #!/bin/bash\n    set -e\n    echo /etc/eks/done\n",
        ] {
            assert!(manifests.contains(part), "{call}: {part}: {manifests}");
        }
        assert!(!manifests.contains("max-pods"), "{call}: {manifests}");
    }
}

#[test]
fn comments_and_image_names_do_not_decide_the_family() {
    for (user_data, family) in [
        (
            "#!/bin/bash\n# nodeadm is for AL2023\n/etc/eks/bootstrap.sh prod # not nodeadm\n",
            "AL2",
        ),
        (
            "[settings.host-containers.nodeadm]\nenabled = true\nsource = \"example.com/nodeadm:1\"\n",
            "Bottlerocket",
        ),
        ("settings.kubernetes.max-pods = 20\n", "Bottlerocket"),
        (
            "#!/bin/bash\n# as /etc/eks/bootstrap.sh of AL2 does, or nodeadm\nstart-kubelet\n",
            "Custom",
        ),
        ("#!/bin/bash\ndocker pull example.com/nodeadm:1\n", "Custom"),
        ("#!/bin/bash\nsystemctl restart nodeadm-config\n", "AL2023"),
    ] {
        let (output, manifests, messages) = import_group(user_data, json!({}), &[]);
        assert!(output.status.success(), "{user_data}: {messages}");
        assert!(
            manifests.contains(&format!("  amiFamily: {family}\n")),
            "{user_data}: {manifests}"
        );
    }
}

#[test]
fn compressed_and_encoded_user_data_is_read() {
    let script = "#!/bin/bash\n/etc/eks/bootstrap.sh prod --max-pods 9 --local-disks raid0\n";
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(script.as_bytes()).unwrap();
    let compressed = encoder.finish().unwrap();
    let archive = format!(
        "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n--B\nContent-Transfer-Encoding: base64\n\
         Content-Type: text/x-shellscript\n\n{}\n--B--\n",
        STANDARD.encode(script)
    );
    for user_data in [compressed, archive.into_bytes()] {
        let (output, manifests, messages) = import_group(user_data, json!({}), &[]);
        assert!(output.status.success(), "{messages}");
        for part in [
            "  amiFamily: AL2\n",
            "    maxPods: 9\n",
            "  instanceStorePolicy: RAID0\n",
        ] {
            assert!(manifests.contains(part), "{part}: {manifests}");
        }
        assert!(!manifests.contains("userData"), "{manifests}");
    }
}

#[test]
fn node_config_in_json_is_read() {
    let config = json!({
        "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig",
        "spec": {"kubelet": {"config": {"maxPods": 20}, "flags": ["--node-labels=team=a"]}},
    });
    let (output, manifests, messages) = import_group(config.to_string(), json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for part in [
        "  amiFamily: AL2023\n",
        "    maxPods: 20\n",
        "        team: a\n",
    ] {
        assert!(manifests.contains(part), "{part}: {manifests}");
    }
}

#[test]
fn labels_and_taints_that_are_not_read_are_reported_with_their_line() {
    let script = "#!/bin/bash\n# --node-labels=a=b\nstart-kubelet --node-labels=team=a \\\n  --register-with-taints=x=y:NoSchedule\n";
    let (output, _, messages) = import_group(script, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for warning in [
        "line 3 of the user data has --node-labels, which is not read",
        "line 4 of the user data has --register-with-taints, which is not read",
    ] {
        assert!(messages.contains(warning), "{warning}: {messages}");
    }
    let call =
        "#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args --node-labels=team=a\n";
    let (_, _, messages) = import_group(call, json!({}), &[]);
    assert!(!messages.contains("which is not read"), "{messages}");
}

#[test]
fn boothooks_and_headers_of_parts_stay_in_the_archive() {
    let archive = |parts: &[&str]| {
        let parts: Vec<String> = parts.iter().map(|part| format!("--//\n{part}\n")).collect();
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n{}--//--\n",
            parts.concat()
        )
    };
    let call = "Content-Type: text/x-shellscript\n\n#!/bin/bash\n/etc/eks/bootstrap.sh prod --max-pods 9\n";
    let boothook = "Content-Type: text/cloud-boothook\n\n#!/bin/bash\nearly\n";
    let config = "Content-Type: text/cloud-config\nMerge-Type: list(append)+dict(recurse_array)+str()\n\n#cloud-config\nruncmd: []\n";
    let script = "Content-Type: text/x-shellscript\n\n#!/bin/bash\nlate\n";
    let per_boot = "Content-Type: text/x-shellscript-per-boot\n\n#!/bin/bash\noften\n";
    for (parts, expected) in [
        (
            &[boothook, call][..],
            &["Content-Type: text/cloud-boothook\n", "early\n"][..],
        ),
        (
            &["\n#cloud-boothook\nearly\n", call],
            &["multipart/mixed", "#cloud-boothook\n"],
        ),
        (
            &[config, call],
            &[
                "Content-Type: text/cloud-config\n",
                "Merge-Type: list(append)+dict(recurse_array)+str()\n",
            ],
        ),
        (
            &[per_boot, call],
            &[
                "multipart/mixed",
                "Content-Type: text/x-shellscript-per-boot\n",
            ],
        ),
        (
            &[script, call],
            &["userData: |\n    #!/bin/bash\n    late\n"],
        ),
    ] {
        let (output, manifests, messages) = import_group(archive(parts), json!({}), &[]);
        assert!(output.status.success(), "{messages}");
        for text in expected {
            assert!(manifests.contains(text), "{text}: {manifests}");
        }
        assert!(!manifests.contains("bootstrap.sh"), "{manifests}");
    }
}

#[test]
fn lone_boothook_becomes_an_archive_unless_its_family_is_custom() {
    let script = "#cloud-boothook\n#!/bin/bash\nearly\n";
    let call = format!("{script}/etc/eks/bootstrap.sh prod --max-pods 9\n");
    for (user_data, is_archive) in [(call.as_str(), true), (script, false)] {
        let (output, manifests, messages) = import_group(user_data, json!({}), &[]);
        assert!(output.status.success(), "{messages}");
        assert!(manifests.contains("#cloud-boothook\n"), "{manifests}");
        let header = "Content-Type: text/cloud-boothook\n";
        assert_eq!(manifests.contains(header), is_archive, "{manifests}");
    }
}
