//! Windows: a PowerShell block that calls the image's own bootstrap script (docs/spec/aws.md#user-data-windows).

use super::{UserDataError, UserDataInput, kubelet};

pub(super) fn render(boot: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let settings = boot.kubelet()?;
    let cluster = boot.cluster;
    let mut call = format!(
        "& $EKSBootstrapScriptFile -EKSClusterName '{}' -APIServerEndpoint '{}'",
        cluster.name, cluster.endpoint
    );
    if !cluster.certificate_authority.is_empty() {
        call.push_str(&format!(
            " -Base64ClusterCA '{}'",
            cluster.certificate_authority
        ));
    }
    call.push_str(&format!(
        " -KubeletExtraArgs '{}'",
        kubelet::flags(boot, &settings)
    ));
    if let Some(dns) = boot.cluster_dns(&settings).first() {
        call.push_str(&format!(" -DNSClusterIP '{dns}'"));
    }
    let custom = match boot.custom() {
        "" => String::new(),
        text => format!("{text}\n"),
    };
    Ok(format!(
        "<powershell>\n{custom}\
         [string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n\
         {call}\n</powershell>"
    ))
}
