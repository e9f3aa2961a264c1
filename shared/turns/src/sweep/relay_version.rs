//! Versions of relays that a stack works with: they are upgraded separately, the relay by Helm and the stack by SAM.

/// Number of minor versions that a relay may be behind.
const MINORS_BEHIND: u64 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelayCompatibility {
    Supported,
    /// The relay's reports are used, and users are warned.
    Unknown(String),
    /// The relay's reports are ignored: the sweep wakes lanes, as without a relay.
    TooOld(String),
}

/// Compares the relay's version with the stack's, both as Cargo writes versions.
pub(crate) fn compatibility(relay: &str, stack: &str) -> RelayCompatibility {
    let upgrade = "upgrade the chart with `helm upgrade`";
    let (Some((major, minor)), Some((own_major, own_minor))) = (parts(relay), parts(stack)) else {
        return RelayCompatibility::Unknown(format!(
            "the relay's version {relay:?} is not known to the stack of version {stack}: {upgrade}"
        ));
    };
    if (major, minor) > (own_major, own_minor) {
        let text = format!(
            "the relay's version {relay} is newer than the stack's, {stack}: deploy the stack again"
        );
        RelayCompatibility::Unknown(text)
    } else if major == own_major && minor + MINORS_BEHIND >= own_minor {
        RelayCompatibility::Supported
    } else {
        RelayCompatibility::TooOld(format!(
            "the relay's version {relay} is more than {MINORS_BEHIND} minor versions older than the stack's, {stack}, so its wakes are ignored: {upgrade}"
        ))
    }
}

fn parts(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_up_to_two_minor_versions_behind_are_supported() {
        for relay in ["1.5.0", "1.4.9", "1.3.0", "1.5.7-rc.1"] {
            assert_eq!(
                compatibility(relay, "1.5.2"),
                RelayCompatibility::Supported,
                "{relay}"
            );
        }
        assert_eq!(
            compatibility("0.1.0", "0.1.0"),
            RelayCompatibility::Supported
        );
    }

    #[test]
    fn older_relays_are_refused_with_a_remedy() {
        for relay in ["1.2.9", "0.9.0"] {
            let RelayCompatibility::TooOld(text) = compatibility(relay, "1.5.0") else {
                panic!("{relay}");
            };
            assert!(
                text.contains(relay) && text.contains("helm upgrade"),
                "{text}"
            );
        }
    }

    #[test]
    fn newer_or_unreadable_relay_versions_work_with_a_warning() {
        for relay in ["1.6.0", "2.0.0", "", "dev"] {
            assert!(
                matches!(
                    compatibility(relay, "1.5.0"),
                    RelayCompatibility::Unknown(_)
                ),
                "{relay}"
            );
        }
    }
}
