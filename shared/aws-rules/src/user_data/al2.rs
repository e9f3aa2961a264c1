//! Amazon Linux 2: a shell script that calls the image's own bootstrap script (docs/spec/aws.md#user-data-al2).

use super::{
    UserDataError, UserDataInput, kubelet,
    mime::{self, Part},
};
use crate::cluster::{IpFamily, ip_family};

pub(super) fn render(boot: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let mut parts = match boot.custom() {
        "" => Vec::new(),
        text if mime::is_archive(text) => mime::parse(text)?,
        text => vec![Part::new(mime::SHELL_SCRIPT, text)],
    };
    parts.push(Part::new(mime::SHELL_SCRIPT, script(boot)?));
    Ok(mime::write(&parts))
}

fn script(boot: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let settings = boot.kubelet()?;
    let cluster = boot.cluster;
    let mut call = vec![format!(
        "/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}' --b64-cluster-ca '{}'",
        cluster.name, cluster.endpoint, cluster.certificate_authority
    )];
    if let Some(dns) = boot.cluster_dns(&settings).first() {
        if ip_family(dns) == IpFamily::V6 {
            call.push("--ip-family ipv6".to_owned());
        }
        call.push(format!("--dns-cluster-ip '{dns}'"));
    }
    call.push("--use-max-pods false".to_owned());
    call.push(format!(
        "--kubelet-extra-args '{}'",
        kubelet::flags(boot, &settings)
    ));
    if boot.joins_disks() {
        call.push("--local-disks raid0".to_owned());
    }
    Ok(format!(
        "#!/bin/bash -xe\n\
         exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n\
         {}",
        call.join(" \\\n")
    ))
}
