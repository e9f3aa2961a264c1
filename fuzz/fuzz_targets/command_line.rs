#![no_main]

mod command;

libfuzzer_sys::fuzz_target!(|text: &str| command::line(text));
