//! Host ports: pods on the same node must not use the same port (docs/spec/scheduling.md#host-ports).

use model::pod::HostPort;

/// First port of `wanted` that conflicts with one of `taken`.
pub(crate) fn conflict<'p>(wanted: &'p [HostPort], taken: &[HostPort]) -> Option<&'p HostPort> {
    wanted
        .iter()
        .find(|port| taken.iter().any(|other| collide(port, other)))
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let any = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
    a.port == b.port && protocol(a) == protocol(b) && (any(&a.ip) || any(&b.ip) || a.ip == b.ip)
}

/// Protocol with its default. The API server fills in TCP for pods, but not in a DaemonSet's template.
fn protocol(port: &HostPort) -> &str {
    if port.protocol.is_empty() {
        "TCP"
    } else {
        &port.protocol
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_collide_when_port_protocol_and_address_meet() {
        let port = |ip: &str, port, protocol: &str| HostPort {
            ip: ip.to_owned(),
            port,
            protocol: protocol.to_owned(),
        };
        let web = port("", 80, "TCP");
        for other in [port("10.0.0.1", 80, "TCP"), port("::", 80, "")] {
            assert!(collide(&web, &other), "{other:?}");
            assert!(collide(&other, &web), "{other:?}");
        }
        for other in [port("", 81, "TCP"), port("", 80, "UDP")] {
            assert!(!collide(&web, &other), "{other:?}");
        }
        assert!(!collide(
            &port("10.0.0.1", 80, "TCP"),
            &port("10.0.0.2", 80, "TCP")
        ));
    }
}
