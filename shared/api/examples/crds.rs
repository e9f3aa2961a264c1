//! Writes the CRDs: `cargo run -p api --example crds -- infra/chart/charts/crds/templates`. `make crds` calls it.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: crds DIRECTORY");
        return ExitCode::from(2);
    };
    for crd in api::schema::crds() {
        let path = directory.join(&crd.file_name);
        let written = crd.to_yaml().map_err(|error| error.to_string());
        if let Err(error) =
            written.and_then(|yaml| std::fs::write(&path, yaml).map_err(|error| error.to_string()))
        {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
