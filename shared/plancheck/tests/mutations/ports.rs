//! Host ports: who takes one takes it for its protocol and address, and on every address if it names none.

use model::pod::HostPort;

use super::*;

/// Whether two pods that want these may share a node.
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
    let offences = check(&world.snapshot, &world.plan);
    offences.iter().all(|one| !one.text.contains("host port"))
}

#[test]
fn a_host_port_is_taken_once_by_protocol_and_address() {
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
