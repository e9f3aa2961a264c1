#![no_main]

mod texts;

libfuzzer_sys::fuzz_target!(|text: &str| texts::parameters(text));
