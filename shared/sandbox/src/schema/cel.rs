use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, Program, objects::Key},
};
use serde_json::Value;

use super::{Additional, Schema};
use crate::json;

/// Compiled entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub struct Rule {
    source: String,
    program: Program,
    message: Option<String>,
    message_expression: Option<Program>,
    field_path: Option<String>,
    reason: Option<String>,
    /// Uses `oldSelf`: evaluated on updates only.
    is_transition: bool,
    /// `optionalOldSelf`: evaluated on creation too.
    runs_on_create: bool,
}

/// Violation of a rule.
pub(super) struct RuleViolation {
    pub message: String,
    /// The rule could not be evaluated on this value.
    pub is_failure: bool,
    pub reason: Option<String>,
    /// `fieldPath` of the rule, such as `.spec.foo`.
    pub field_path: Option<String>,
}

/// Cache of function names and whether the CEL library has them.
#[derive(Default)]
pub(super) struct FunctionCache {
    known: BTreeMap<String, bool>,
}

impl FunctionCache {
    /// Returns whether the library has a function. It is called without arguments: only the error "undeclared" means
    /// no.
    fn has(&mut self, name: &str) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let has = Program::compile(&format!("{name}()")).is_ok_and(|call| {
            let answer = call.execute(&Context::default().with_all());
            !matches!(answer, Err(ExecutionError::UndeclaredReference(_)))
        });
        self.known.insert(name.to_owned(), has);
        has
    }
}

impl Rule {
    pub(super) fn compile(rule: &Value, functions: &mut FunctionCache) -> Result<Self, String> {
        let source = json::text(rule, &["rule"]);
        let optional = |field: &str| json::at(rule, &[field]).as_str().map(str::to_owned);
        let program = compile(source, functions)?;
        let message_expression = optional("messageExpression")
            .map(|expression| compile(&expression, functions))
            .transpose()?;
        let is_transition = program.references().has_variable("oldSelf");
        Ok(Self {
            source: source.to_owned(),
            program,
            message: optional("message"),
            message_expression,
            field_path: optional("fieldPath"),
            reason: optional("reason"),
            is_transition,
            runs_on_create: json::flag(rule, &["optionalOldSelf"]),
        })
    }

    /// Evaluates the rule on a value and, for an update, the value it replaces.
    pub(super) fn check(
        &self,
        context: &Context<'_>,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), RuleViolation> {
        if self.is_transition && old.is_none() && !self.runs_on_create {
            return Ok(());
        }
        let mut scope = context.new_inner_scope();
        scope.add_variable_from_value("self", to_cel(value, Some(schema)));
        if let Some(old) = old {
            scope.add_variable_from_value("oldSelf", to_cel(old, Some(schema)));
        } else if self.runs_on_create {
            scope.add_variable_from_value("oldSelf", kube_cel::cel::Value::Null);
        }
        let failure = match self.program.execute(&scope) {
            Ok(kube_cel::cel::Value::Bool(true)) => return Ok(()),
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        let expressed = || match self.message_expression.as_ref()?.execute(&scope) {
            Ok(kube_cel::cel::Value::String(message)) => Some(message.to_string()),
            Ok(_) | Err(_) => None,
        };
        let message = match &failure {
            Some(error) => {
                let rule = self.message.as_ref().unwrap_or(&self.source);
                format!("{} evaluating rule: {rule}", uncapitalized(error))
            }
            None => expressed()
                .or_else(|| self.message.clone())
                .unwrap_or_else(|| format!("failed rule: {}", self.source)),
        };
        Err(RuleViolation {
            message,
            is_failure: failure.is_some(),
            reason: self.reason.clone(),
            field_path: self.field_path.clone(),
        })
    }
}

fn uncapitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// Compiles an expression; rejects calls of unknown functions, which the library would report only at evaluation.
fn compile(source: &str, functions: &mut FunctionCache) -> Result<Program, String> {
    let program = Program::compile(source).map_err(|error| format!("\"{source}\": {error}"))?;
    let missing: BTreeSet<String> = program
        .references()
        .functions()
        .into_iter()
        .filter(|name| {
            name.chars()
                .all(|c| c.is_alphanumeric() || c == '.' || c == '_')
        })
        .filter(|name| !name.starts_with('_') && !functions.has(name))
        .map(str::to_owned)
        .collect();
    if missing.is_empty() {
        Ok(program)
    } else {
        let missing: Vec<String> = missing.into_iter().collect();
        Err(format!(
            "\"{source}\": the function {} cannot be evaluated here",
            missing.join(", ")
        ))
    }
}

/// Functions available to rules; created once per validation.
pub(super) fn context() -> Context<'static> {
    Context::default().with_all()
}

/// JSON value as seen by rules: declared fields under their escaped names, map keys unchanged, formats as CEL types.
fn to_cel(value: &Value, schema: Option<&Schema>) -> kube_cel::cel::Value {
    use kube_cel::cel::Value as Cel;
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer)
                if schema.is_none_or(|schema| schema.kind != Some(super::Kind::Number)) =>
            {
                Cel::Int(integer)
            }
            _ => number.as_f64().map_or(Cel::Null, Cel::Float),
        },
        Value::String(text) => string_to_cel(text, schema),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            Cel::List(Arc::new(
                items.iter().map(|item| to_cel(item, schema)).collect(),
            ))
        }
        Value::Object(fields) => {
            let is_map = schema.is_some_and(Schema::is_map);
            let entries: Vec<(Key, Cel)> = fields
                .iter()
                .map(|(name, value)| {
                    let key = if is_map { name.clone() } else { escape(name) };
                    let schema = schema.and_then(|schema| match &schema.additional {
                        Additional::Each(each) => Some(&**each),
                        Additional::None | Additional::Any => schema.properties.get(name),
                    });
                    (Key::from(key), to_cel(value, schema))
                })
                .collect();
            Cel::Map(kube_cel::cel::objects::Map {
                map: Arc::new(entries.into_iter().collect()),
            })
        }
    }
}

fn string_to_cel(text: &str, schema: Option<&Schema>) -> kube_cel::cel::Value {
    let format = schema.and_then(|schema| schema.limits.format.as_deref());
    let function = match format {
        Some("date-time") => "timestamp",
        Some("duration") => "duration",
        _ => return kube_cel::cel::Value::String(Arc::new(text.to_owned())),
    };
    // The library's own conversion yields the types that rules construct themselves.
    let mut scope = Context::default();
    scope.add_variable_from_value("text", text.to_owned());
    Program::compile(&format!("{function}(text)"))
        .ok()
        .and_then(|conversion| conversion.execute(&scope).ok())
        .unwrap_or_else(|| kube_cel::cel::Value::String(Arc::new(text.to_owned())))
}

/// Reserved words of CEL.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Field name as written in rules (Kubernetes: "escaping of property names").
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
