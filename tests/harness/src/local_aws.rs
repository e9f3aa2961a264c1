//! Both emulators combined to one account.

use crate::{CREDENTIALS, Ministack, Moto, Proxy, Stack};

/// Services that moto emulates; ministack emulates the others.
const MOTO_SERVICES: [&str; 4] = [
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_EKS",
    "AWS_ENDPOINT_URL_IAM",
    "AWS_ENDPOINT_URL_SSM",
];

/// Names of [`MOTO_SERVICES`] in signatures of requests.
const SIGNED_FOR_MOTO: &[&str] = &["ec2", "eks", "iam", "ssm"];

/// Services of ministack that functions call through a proxy.
const PROXIED_SERVICES: [&str; 3] = [
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_STS",
];

/// moto and ministack as one account, seeded for one cluster. Functions reach them through proxies, all other clients
/// directly.
#[derive(Debug)]
pub struct LocalAws {
    pub ministack: Ministack,
    pub moto: Moto,
    pub to_ministack: Proxy,
    pub to_moto: Proxy,
}

impl LocalAws {
    /// Starts both emulators for a cluster of this name.
    ///
    /// # Panics
    ///
    /// If either does not start.
    #[must_use]
    pub fn start(cluster: &str) -> Self {
        let (to_ministack, to_moto) = (Proxy::start(), Proxy::start());
        let moto = Moto::start(cluster);
        to_moto.forward_to(moto.endpoint());
        let to_services = |services: &[&'static str], endpoint: &str| {
            let services = services.iter();
            let endpoints = services.map(|service| (*service, endpoint.to_owned()));
            endpoints.collect::<Vec<_>>()
        };
        let mut endpoints = to_services(&MOTO_SERVICES, to_moto.endpoint());
        endpoints.extend(to_services(&PROXIED_SERVICES, to_ministack.endpoint()));
        let ministack = Ministack::start(&endpoints);
        to_ministack.forward_to(ministack.endpoint());
        Self {
            ministack,
            moto,
            to_ministack,
            to_moto,
        }
    }

    /// Environment variables that direct a process to the emulators.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment: Vec<_> = CREDENTIALS
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        environment.push(("AWS_ENDPOINT_URL", self.ministack.endpoint().to_owned()));
        let moto = self.moto.endpoint();
        environment.extend(MOTO_SERVICES.map(|service| (service, moto.to_owned())));
        environment
    }

    /// Answers for all services on this port of 127.0.0.1, for programs that know one endpoint, until the proxy is dropped.
    ///
    /// # Panics
    ///
    /// If the port is in use.
    #[must_use]
    pub fn serve_on(&self, port: u16) -> Proxy {
        let proxy = Proxy::start_on(port);
        proxy.forward_to(self.ministack.endpoint());
        proxy.forward_services_to(SIGNED_FOR_MOTO, self.moto.endpoint());
        proxy
    }

    /// Deploys the built template with `sam deploy`.
    ///
    /// # Panics
    ///
    /// If the functions are not built or the deployment fails.
    #[must_use]
    pub fn deploy(&self, stack: &str) -> Stack<'_> {
        Stack::deploy(self, stack)
    }
}
