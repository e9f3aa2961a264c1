//! Host ports conflict if port and protocol are equal and the addresses are equal or unspecified.

use model::pod::HostPort;

use super::*;

/// Whether two pods with these host ports may share a node.
fn share(one: (&str, i32, &str), other: (&str, i32, &str)) -> bool {
    let mut world = World::valid();
    let moved = world.launch(ZONAL).pods.pop().unwrap();
    world.launch(PLAIN).pods.push(moved);
    for (pod, (ip, port, protocol)) in [("port-0", one), ("port-1", other)] {
        world.pod(pod).host_ports = vec![HostPort {
            ip: ip.into(),
            port,
            protocol: protocol.into(),
        }];
    }
    let violations = check(&world.snapshot, &world.plan);
    violations
        .iter()
        .all(|violation| !violation.text.contains("host port"))
}

#[test]
fn host_port_is_used_once_per_protocol_and_address() {
    const ONE: &str = "10.0.0.1";
    const OTHER: &str = "10.0.0.2";
    const EVERY: &str = "0.0.0.0";
    assert!(!share((ONE, 80, "TCP"), (ONE, 80, "TCP")));
    assert!(share((ONE, 80, "TCP"), (ONE, 81, "TCP")));
    assert!(share((ONE, 80, "TCP"), (ONE, 80, "UDP")));
    assert!(share((ONE, 80, "TCP"), (OTHER, 80, "TCP")));
    assert!(!share((ONE, 80, "TCP"), (EVERY, 80, "TCP")));
    assert!(!share((EVERY, 80, "TCP"), (ONE, 80, "TCP")));
    assert!(!share(("::", 80, "TCP"), (ONE, 80, "TCP")));
    assert!(share((EVERY, 80, "TCP"), (EVERY, 80, "UDP")));
}
