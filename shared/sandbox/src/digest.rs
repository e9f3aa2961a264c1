//! Hash of texts, for names and ids of objects.

/// FNV-1a hash: names made from it must be equal on every run; they need not be secret.
pub(crate) fn digest(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
