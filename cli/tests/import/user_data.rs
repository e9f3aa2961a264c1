//! User data of launch templates.

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
            import_group(&format!("#!/bin/bash\n{script}\n"), json!({}), &[]);
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
