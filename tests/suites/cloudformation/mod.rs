//! Model of CloudFormation's evaluation of a template: parameters, conditions and references become values, and resources without a
//! name get one.

use std::collections::BTreeMap;

use harness::{ACCOUNT, REGION};
use serde_json::{Value, json};

/// A template deployed as a stack of this name. Parameters have their defaults unless set.
pub(crate) struct Deployed<'t> {
    template: &'t Value,
    stack: &'t str,
    parameters: BTreeMap<String, String>,
}

impl<'t> Deployed<'t> {
    pub(crate) fn new(template: &'t Value, stack: &'t str) -> Self {
        Self {
            template,
            stack,
            parameters: BTreeMap::new(),
        }
    }

    pub(crate) fn with(mut self, parameter: &str, value: &str) -> Self {
        self.parameters
            .insert(parameter.to_owned(), value.to_owned());
        self
    }

    /// The value in the deployed resource.
    pub(crate) fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Array(items) => items
                .iter()
                .map(|item| self.resolve(item))
                .filter(|item| !item.is_null())
                .collect(),
            Value::Object(object) => match object.iter().next() {
                Some((key, of)) if object.len() == 1 => match key.as_str() {
                    "Ref" => self.named(of.as_str().unwrap(), false),
                    "Fn::GetAtt" => self.named(&attribute(of), true),
                    "Fn::Sub" => self.substituted(of.as_str().unwrap()),
                    "Fn::If" => {
                        let chosen = if self.holds(of[0].as_str().unwrap()) {
                            1
                        } else {
                            2
                        };
                        self.resolve(&of[chosen])
                    }
                    "Fn::Split" => {
                        let text = self.resolve(&of[1]);
                        let parts = text.as_str().unwrap().split(of[0].as_str().unwrap());
                        json!(parts.collect::<Vec<_>>())
                    }
                    _ => json!({ key: self.resolve(of) }),
                },
                _ => object
                    .iter()
                    .map(|(key, of)| (key.clone(), self.resolve(of)))
                    .filter(|(_, of)| !of.is_null())
                    .collect(),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }

    /// Whether the resource is created: it has no condition or its condition holds.
    pub(crate) fn has(&self, resource: &Value) -> bool {
        resource["Condition"]
            .as_str()
            .is_none_or(|condition| self.holds(condition))
    }

    fn holds(&self, condition: &str) -> bool {
        self.is_true(&self.template["Conditions"][condition])
    }

    fn is_true(&self, condition: &Value) -> bool {
        match (&condition["Fn::Not"], &condition["Fn::Equals"]) {
            (Value::Array(one), _) => !self.is_true(&one[0]),
            (_, Value::Array(two)) => self.resolve(&two[0]) == self.resolve(&two[1]),
            _ => panic!("{condition} is not known here"),
        }
    }

    fn substituted(&self, text: &str) -> Value {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').unwrap();
            done.push_str(before);
            // IAM's own variables stay: CloudFormation writes ${!aws:PrincipalTag/cluster} as ${aws:PrincipalTag/cluster}.
            if let Some(variable) = name.strip_prefix('!') {
                done.push_str(&format!("${{{variable}}}"));
            } else if name.starts_with("aws:") {
                done.push_str(&format!("${{{name}}}"));
            } else {
                let (name, arn) = match name.split_once('.') {
                    Some((name, _)) => (name, true),
                    None => (name, false),
                };
                done.push_str(self.named(name, arn).as_str().unwrap());
            }
            rest = after;
        }
        done.push_str(rest);
        json!(done)
    }

    /// Value of a pseudo parameter, a parameter, or a resource by its logical name.
    fn named(&self, name: &str, arn: bool) -> Value {
        match name {
            "AWS::Partition" => return json!("aws"),
            "AWS::Region" => return json!(REGION),
            "AWS::AccountId" => return json!(ACCOUNT),
            "AWS::StackName" => return json!(self.stack),
            "AWS::URLSuffix" => return json!("amazonaws.com"),
            "AWS::NoValue" => return Value::Null,
            _ => {}
        }
        if let Some(set) = self.parameters.get(name) {
            return json!(set);
        }
        if let Some(parameter) = self.template["Parameters"].get(name) {
            return parameter["Default"].clone();
        }
        if !arn {
            return json!(name);
        }
        let kind = self.template["Resources"][name]["Type"].as_str();
        let kind = kind.unwrap_or_else(|| panic!("the template has no {name}"));
        json!(match kind {
            "AWS::SQS::Queue" => format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"),
            "AWS::DynamoDB::Table" => format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"),
            "AWS::S3::Bucket" => format!("arn:aws:s3:::{name}"),
            "AWS::IAM::Role" => format!("arn:aws:iam::{ACCOUNT}:role/{name}"),
            "AWS::Logs::LogGroup" => format!("arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"),
            "AWS::Events::Rule" => {
                let name = physical_name(self.stack, name, RULE_NAME_MAX);
                format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}")
            }
            other => panic!("the ARN of {name}, a {other}, is not known here"),
        })
    }
}

/// Logical name of `Name.Attribute` or `[Name, Attribute]`.
fn attribute(of: &Value) -> String {
    let text = of.as_str().or_else(|| of[0].as_str()).unwrap();
    text.split('.').next().unwrap().to_owned()
}

/// Longest name of an EventBridge rule, in characters (PutRule).
const RULE_NAME_MAX: usize = 64;

/// Random tail that CloudFormation appends to a name, with its dash. Tails of 12 and 13 characters have been observed; the longer
/// one leaves less room.
const TAIL: &str = "-ABCDEFGHIJKLM";

/// The name that CloudFormation gives to a resource without one: stack, logical name and a random tail. If that is too long, stack
/// and logical name are cut to half of the available length each.
pub(crate) fn physical_name(stack: &str, logical: &str, longest: usize) -> String {
    let room = longest - TAIL.len() - 1;
    let half = room.div_ceil(2);
    let (stack, logical) = if stack.len() + logical.len() > room {
        let logical: String = logical.chars().take(room - half).collect();
        (stack.chars().take(half).collect(), logical)
    } else {
        (stack.to_owned(), logical.to_owned())
    };
    format!("{stack}-{logical}{TAIL}")
}

#[test]
fn rule_names_are_truncated_as_cloudformation_does() {
    let name = physical_name(
        "mylongerapp-playground-new",
        "InstancesTerminatingRule",
        RULE_NAME_MAX,
    );
    assert!(
        name.starts_with("mylongerapp-playground-ne-Instances"),
        "{name}"
    );
    assert_eq!(name.len(), RULE_NAME_MAX);
    let short = physical_name("whittle", "SpotInterruptionRule", RULE_NAME_MAX);
    assert_eq!(short, format!("whittle-SpotInterruptionRule{TAIL}"));
}
