use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::Sha256;

/// Headers that prove that a body was written by a holder of the key, and when: HMAC-SHA256 over `<seconds>.<body>`.
pub(super) fn signature(key: &str, now: Timestamp, body: &str) -> Vec<(String, String)> {
    let seconds = now.as_second().to_string();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        // HMAC takes keys of any length.
        return Vec::new();
    };
    mac.update(format!("{seconds}.{body}").as_bytes());
    let code = mac.finalize().into_bytes();
    let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        ("x-whittle-timestamp".to_owned(), seconds),
        ("x-whittle-signature".to_owned(), format!("sha256={hex}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value is the output of `printf 0.body | openssl dgst -sha256 -hmac Jefe`.
    #[test]
    fn signature_covers_time_and_body() {
        let of = |key, seconds, body| {
            let at = Timestamp::from_second(seconds).unwrap();
            signature(key, at, body)[1].1.clone()
        };
        assert_eq!(of("Jefe", 0, "body"), EXPECTED);
        for other in [
            of("jefe", 0, "body"),
            of("Jefe", 1, "body"),
            of("Jefe", 0, "Body"),
        ] {
            assert_ne!(other, EXPECTED);
        }
    }

    const EXPECTED: &str =
        "sha256=d3326e399d2f2a7516e1b2ec9cfd9c5c187ce9676bff6005e08faa2a6de2f1e4";
}
