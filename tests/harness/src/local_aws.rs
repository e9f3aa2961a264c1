//! Both emulators as one account.

use crate::{CREDENTIALS, Ministack, Moto, Stack};

/// The services moto answers for; ministack has the rest.
const MOTO_SERVICES: [&str; 4] = [
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_EKS",
    "AWS_ENDPOINT_URL_IAM",
    "AWS_ENDPOINT_URL_SSM",
];

/// moto and ministack as one account, seeded for one cluster.
#[derive(Debug)]
pub struct LocalAws {
    pub ministack: Ministack,
    pub moto: Moto,
}

impl LocalAws {
    /// Starts both for a cluster of this name.
    ///
    /// # Panics
    /// If either does not start.
    #[must_use]
    pub fn start(cluster: &str) -> Self {
        let moto = Moto::start(cluster);
        let ministack = Ministack::start(&moto_endpoints(&moto));
        Self { ministack, moto }
    }

    /// What a process needs in its environment to take this for AWS.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment: Vec<_> = CREDENTIALS
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        environment.push(("AWS_ENDPOINT_URL", self.ministack.endpoint().to_owned()));
        environment.extend(moto_endpoints(&self.moto));
        environment
    }

    /// Deploys the built template with `sam deploy`.
    ///
    /// # Panics
    /// If the functions are not built or the deployment fails.
    #[must_use]
    pub fn deploy(&self, stack: &str) -> Stack<'_> {
        Stack::deploy(self, stack)
    }
}

fn moto_endpoints(moto: &Moto) -> Vec<(&'static str, String)> {
    MOTO_SERVICES
        .map(|service| (service, moto.endpoint().to_owned()))
        .into()
}
