#![no_main]

mod manifests;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use model::InstanceType;

static TYPES: LazyLock<Arc<Vec<InstanceType>>> = LazyLock::new(manifests::types);

fuzz_target!(|text: &str| manifests::plan(text, &TYPES));
