//! Names of instance profiles (spec/aws §17.3).

/// The name that earlier releases of Karpenter gave a NodeClass's profile; such profiles are deleted with the class.
pub fn legacy_profile_name(cluster: &str, region: &str, node_class: &str) -> String {
    let text = region.bytes().chain(node_class.bytes());
    let digest = text.fold(FNV_OFFSET, |digest, byte| {
        digest.wrapping_mul(FNV_PRIME) ^ u64::from(byte)
    });
    format!("{cluster}_{digest}")
}

/// FNV-1 with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_names_are_those_that_exist_in_accounts() {
        let name = legacy_profile_name("test-cluster", "us-east-1", "default");
        assert_eq!(name, "test-cluster_15843455441266977890");
    }
}
