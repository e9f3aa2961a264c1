#![no_main]

#[expect(dead_code, reason = "what it plans is another target's concern")]
mod manifests;
mod windows;

libfuzzer_sys::fuzz_target!(|text: &str| windows::budget(text));
