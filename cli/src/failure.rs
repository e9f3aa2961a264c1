//! Errors of commands as text: the causes, and a remedy for errors of AWS.

use ports::{CloudError, LedgerError, RegistryError};

/// Renders an error with its causes, and a remedy if an answer of AWS, or its absence, is among them. `profile` is the profile whose
/// credentials are used, if one is named.
pub(crate) fn text(error: &anyhow::Error, profile: Option<&str>) -> String {
    let text = format!("{error:#}");
    let is_of_aws = error.chain().any(|cause| {
        cause.is::<CloudError>() || cause.is::<LedgerError>() || cause.is::<RegistryError>()
    });
    match remedy(&text, profile).filter(|_| is_of_aws) {
        Some(remedy) => {
            let text = without_credentials(&text).unwrap_or(text);
            format!("{text}\n  remedy: {remedy}")
        }
        None => text,
    }
}

/// The error with the profile's problem in place of the SDK's list of sources that had no credentials.
fn without_credentials(text: &str) -> Option<String> {
    let (call, sources) = text.split_once("no credentials found in chain")?;
    let (call, _) = call.split_once(": dispatch failure")?;
    let call = call.trim_end_matches(" has no known outcome");
    let mut sources = sources.lines().map(str::trim);
    let problem = sources.find_map(|source| source.strip_prefix("Profile: "));
    let problem = problem.and_then(|problem| problem.split_once("not enabled: "));
    Some(match problem {
        Some((_, problem)) => format!("{call}: no credentials: {problem}"),
        None => format!("{call}: no credentials"),
    })
}

/// The profile that the environment names.
#[expect(
    clippy::disallowed_methods,
    reason = "the name is printed; the SDK itself reads the configuration"
)]
pub(crate) fn profile() -> Option<String> {
    let profile = std::env::var("AWS_PROFILE").ok();
    profile.filter(|profile| !profile.is_empty())
}

/// Remedy for an error of AWS, by the codes of services and the messages of the SDK's credential providers.
fn remedy(text: &str, profile: Option<&str>) -> Option<String> {
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let option = profile.map_or_else(String::new, |name| format!(" --profile {name}"));
    if let Some(action) = after(text, "is not authorized to perform: ") {
        let resource = after(text, "on resource: ");
        let resource = resource.map_or_else(String::new, |resource| format!(" on {resource}"));
        let user = after(text, "User: ").unwrap_or("the user of this command");
        return Some(format!(
            "allow {action}{resource} to {user}, or use other credentials by AWS_PROFILE (docs/reference/permissions.md)"
        ));
    }
    if has(&["cargo feature(s) enabled: credentials-login"]) {
        return Some(format!(
            "eval \"$(aws configure export-credentials{option} --format env)\": whittle does not read the credentials of aws login"
        ));
    }
    if has(&["SSO token", "sso-session", "SSO"]) && !has(&["invalid SSO config"]) {
        return Some(format!("aws sso login{option}"));
    }
    if has(&[
        "ExpiredToken",
        "RequestExpired",
        "token included in the request is expired",
    ]) {
        return Some(format!(
            "get new credentials: aws sso login{option}, or the program that issued them"
        ));
    }
    if has(&[
        "was not defined",
        "No profiles were defined",
        "invalid profile",
        "invalid SSO config",
    ]) {
        return Some(
            "name a profile of ~/.aws/config by AWS_PROFILE: aws configure list-profiles"
                .to_owned(),
        );
    }
    if has(&[
        "no providers in chain provided credentials",
        "credential provider was not enabled",
    ]) {
        return Some(
            "name credentials: AWS_PROFILE, aws configure sso, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned(),
        );
    }
    if has(&["loading credentials", "CredentialProcess"]) {
        return Some(format!(
            "check the credentials: aws sts get-caller-identity{option}"
        ));
    }
    if has(&["Missing Region", "egion must be set", "egion is not set"]) {
        return Some("name the stack's Region: AWS_REGION, or `region` in the profile".to_owned());
    }
    if has(&[
        "InvalidClientTokenId",
        "UnrecognizedClient",
        "InvalidSignature",
        "SignatureDoesNotMatch",
        "security token included in the request is invalid",
    ]) {
        return Some(format!(
            "check the credentials and this machine's clock: aws sts get-caller-identity{option}"
        ));
    }
    if has(&["AccessDenied", "UnauthorizedOperation", " denied "]) {
        return Some(
            "allow the action to the user of this command, or use other credentials by AWS_PROFILE (docs/reference/permissions.md)".to_owned(),
        );
    }
    if has(&["hrottl", "TooManyRequests", "RequestLimitExceeded"]) {
        return Some("AWS limits the rate of calls: repeat the command in a minute".to_owned());
    }
    if has(&["dispatch failure", "timeout", "timed out"]) {
        return Some(
            "check the network, HTTPS_PROXY, AWS_REGION and AWS_ENDPOINT_URL: AWS was not reached"
                .to_owned(),
        );
    }
    None
}

/// The word after a phrase.
fn after<'t>(text: &'t str, phrase: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(phrase)?;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_end_matches([',', '.', ';']))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn of_cloud(message: &str) -> anyhow::Error {
        let error = CloudError::Unknown {
            action: "ssm:GetParameter".to_owned(),
            message: message.to_owned(),
        };
        Err::<(), _>(error)
            .context("cannot find stack whittle")
            .unwrap_err()
    }

    #[test]
    fn sources_without_credentials_are_summed_up_by_the_problem_of_the_profile() {
        let chain = "dispatch failure: other: the credential provider was not enabled: no credentials found in chain. Attempted:\n  \
             Environment: the credential provider was not enabled: environment variable not set\n  \
             Profile: the credential provider was not enabled: profile `nobody` was not defined\n  \
             EcsContainer: the credential provider was not enabled: ECS provider not configured\n";
        assert_eq!(
            text(&of_cloud(chain), Some("nobody")),
            "cannot find stack whittle: ssm:GetParameter: no credentials: profile `nobody` was not defined\n  \
             remedy: name a profile of ~/.aws/config by AWS_PROFILE: aws configure list-profiles"
        );
    }

    /// Messages as services and the SDK write them, with the remedy's beginning.
    const RECORDED: &[(&str, &str)] = &[
        (
            "AccessDeniedException: User: arn:aws:sts::123456789012:assumed-role/dev/ann is not authorized to perform: ssm:GetParameter on \
             resource: arn:aws:ssm:eu-central-1:123456789012:parameter/whittle/stacks/whittle because no identity-based policy allows the \
             ssm:GetParameter action",
            "allow ssm:GetParameter on arn:aws:ssm:eu-central-1:123456789012:parameter/whittle/stacks/whittle to \
             arn:aws:sts::123456789012:assumed-role/dev/ann,",
        ),
        (
            "dispatch failure: other: an error occurred while loading credentials: the SSO token has expired and cannot be refreshed",
            "aws sso login --profile dev",
        ),
        (
            "ExpiredTokenException: The security token included in the request is expired",
            "get new credentials: aws sso login --profile dev",
        ),
        (
            "dispatch failure: other: the credential provider was not enabled: no providers in chain provided credentials",
            "name credentials: AWS_PROFILE",
        ),
        (
            "dispatch failure: other: the credentials provider was not properly configured: ProfileFile provider could not be built: profile \
             `nobody` was not defined: could not find source profile",
            "name a profile of ~/.aws/config",
        ),
        (
            "ThrottlingException: Rate exceeded",
            "AWS limits the rate of calls",
        ),
        (
            "UnrecognizedClientException: The security token included in the request is invalid.",
            "check the credentials and this machine's clock",
        ),
        (
            "dispatch failure: io error: client error (Connect): dns error: failed to lookup address information",
            "check the network",
        ),
    ];

    #[test]
    fn recorded_errors_have_a_remedy() {
        for (message, expected) in RECORDED {
            let text = text(&of_cloud(message), Some("dev"));
            let (what, remedy) = text.split_once("\n  remedy: ").unwrap_or((&text, ""));
            assert!(remedy.starts_with(expected), "{text}");
            assert_eq!(
                what,
                format!(
                    "cannot find stack whittle: ssm:GetParameter has no known outcome: {message}"
                )
            );
        }
    }

    #[test]
    fn errors_of_the_ledger_and_registry_have_a_remedy_and_others_have_none() {
        let throttled = LedgerError::Throttled {
            action: "GetItem".to_owned(),
        };
        assert!(text(&throttled.into(), None).ends_with("repeat the command in a minute"));
        let denied = RegistryError::Denied {
            action: "ssm:GetParametersByPath".to_owned(),
            message: "AccessDeniedException: no".to_owned(),
        };
        assert!(text(&denied.into(), None).contains("allow the action"));
        let other = anyhow::anyhow!("the API server timed out");
        assert_eq!(text(&other, None), "the API server timed out");
    }
}
