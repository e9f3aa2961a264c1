//! The templates, as SAM parses and as CloudFormation receives them.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

const READ: &str = "
import json, sys
from samtranslator.yaml_helper import yaml_parse
print(json.dumps(yaml_parse(open(sys.argv[1]).read()), default=str))
";

/// Python script that translates a template. Local code paths are replaced by packaged ones, because SAM checks no more
/// of them.
const TRANSLATE: &str = "
import json, sys
from samtranslator.yaml_helper import yaml_parse
from samtranslator.translator.transform import transform
template = yaml_parse(open(sys.argv[1]).read())
for resource in template['Resources'].values():
    place = {'AWS::Serverless::Function': 'CodeUri', 'AWS::Serverless::Application': 'Location'}.get(resource['Type'])
    if place:
        resource['Properties'][place] = 's3://packaged/' + resource['Properties'][place].replace('../', '')
parameters = {name: str(of.get('Default', '')) for name, of in template['Parameters'].items()}
parameters.update(json.loads(sys.argv[2]))
class Policies:
    def load(self): return {}
print(json.dumps(transform(template, parameters, Policies()), default=str))
";

/// Template of this repository, by its path, as JSON.
///
/// # Panics
///
/// If SAM cannot parse it.
#[must_use]
pub fn template(path: &str) -> Value {
    python(READ, path, &json!({}))
}

/// CloudFormation template that SAM generates with these parameters; all others have their defaults.
///
/// # Panics
///
/// If SAM rejects the template.
#[must_use]
pub fn translated(path: &str, parameters: &Value) -> Value {
    python(TRANSLATE, path, parameters)
}

fn python(script: &str, path: &str, parameters: &Value) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    let output = Command::new(crate::tool("sam/bin/python"))
        .args(["-c", script])
        .arg(file)
        .arg(parameters.to_string())
        .env("AWS_DEFAULT_REGION", crate::REGION)
        .output()
        .unwrap_or_else(|error| panic!("python does not start: {error}"));
    assert!(
        output.status.success(),
        "{path}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{path}: {error}"))
}
