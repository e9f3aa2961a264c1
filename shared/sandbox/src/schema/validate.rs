use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Number, Value};

use super::{Additional, Bound, Kind, Limits, ListKind, Schema, cel, formats};
use crate::error::FieldError;

impl Schema {
    /// Returns every error of a pruned and defaulted object; `old` is the object that it replaces.
    pub fn validate(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check(value, "", &mut errors);
        self.check_lists(value, "", &mut errors);
        if errors.iter().any(is_blocking) {
            // Rules may assume a value that conforms to the schema.
            return errors;
        }
        let context = cel::context();
        self.check_rules(&context, value, old, "", &mut errors);
        errors
    }

    fn check(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        if value.is_null() && self.nullable {
            return;
        }
        if !self.has_type(value) {
            errors.push(self.wrong_type(value, path));
            return;
        }
        self.limits.check(value, path, errors);
        self.check_branches(value, path, errors);
        if let Some(items) = value.as_array() {
            if let Some(schema) = &self.items {
                for (index, item) in items.iter().enumerate() {
                    schema.check(item, &format!("{path}[{index}]"), errors);
                }
            }
        } else if let Some(fields) = value.as_object() {
            for name in &self.limits.required {
                if !fields.contains_key(name) {
                    errors.push(FieldError::required(join(path, name), ""));
                }
            }
            for (name, field) in fields {
                if let Some(schema) = self.child(name) {
                    schema.check(field, &self.child_path(path, name), errors);
                }
            }
        }
    }

    fn has_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_integer(value);
        }
        match self.kind {
            None => true,
            Some(Kind::Object) => value.is_object(),
            Some(Kind::Array) => value.is_array(),
            Some(Kind::String) => value.is_string(),
            Some(Kind::Boolean) => value.is_boolean(),
            Some(Kind::Number) => value.is_number(),
            Some(Kind::Integer) => is_integer(value),
        }
    }

    fn wrong_type(&self, value: &Value, path: &str) -> FieldError {
        let wanted = match self.kind {
            _ if self.int_or_string => "integer,string",
            Some(Kind::Object) => "object",
            Some(Kind::Array) => "array",
            Some(Kind::String) => "string",
            Some(Kind::Integer) => "integer",
            Some(Kind::Number) => "number",
            Some(Kind::Boolean) => "boolean",
            None => "any",
        };
        let given = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) if is_integer(value) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        FieldError::type_invalid(
            path,
            &Value::from(given),
            &format!("{path} in body must be of type {wanted}: \"{given}\""),
        )
    }

    fn check_branches(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let holds = |schema: &Schema| {
            let mut errors = Vec::new();
            schema.check(value, path, &mut errors);
            errors.is_empty()
        };
        for schema in &self.all_of {
            schema.check(value, path, errors);
        }
        let mut fail = |problem: &str| {
            errors.push(FieldError::invalid(
                path,
                &type_name(value),
                &format!("{path} in body {problem}"),
            ));
        };
        // `anyOf: [integer, string]` declares int-or-string, which the type check has covered.
        if !self.any_of.is_empty() && !self.int_or_string && !self.any_of.iter().any(holds) {
            fail("must validate at least one schema (anyOf)");
        }
        if !self.one_of.is_empty() && self.one_of.iter().filter(|s| holds(s)).count() != 1 {
            fail("must validate one and only one schema (oneOf)");
        }
        if self.not.as_deref().is_some_and(holds) {
            fail("must not validate the schema (not)");
        }
    }

    /// Checks that lists of type set or map have no duplicate elements.
    fn check_lists(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        if let Some(items) = value.as_array() {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let at = format!("{path}[{index}]");
                let identity = match &self.list {
                    ListKind::Atomic => None,
                    ListKind::Set => Some(item.clone()),
                    ListKind::Map(keys) => Some(identity(item, keys)),
                };
                if let Some(identity) = identity
                    && !seen.insert(identity.to_string())
                {
                    errors.push(FieldError::duplicate(&at, &identity));
                }
                if let Some(schema) = &self.items {
                    schema.check_lists(item, &at, errors);
                }
            }
        } else if let Some(fields) = value.as_object() {
            for (name, field) in fields {
                if let Some(schema) = self.child(name) {
                    schema.check_lists(field, &self.child_path(path, name), errors);
                }
            }
        }
    }

    fn check_rules(
        &self,
        context: &kube_cel::cel::Context<'_>,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() {
            return;
        }
        for rule in &self.rules {
            if let Err(broken) = rule.check(context, self, value, old) {
                let field = format!("{path}{}", broken.field_path.as_deref().unwrap_or_default());
                let field = field.trim_start_matches('.').to_owned();
                errors.push(broken_rule(field, value, &broken));
            }
        }
        if let Some(items) = value.as_array() {
            if let Some(schema) = &self.items {
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| self.counterpart(item, old));
                    schema.check_rules(context, item, old, &format!("{path}[{index}]"), errors);
                }
            }
        } else if let Some(fields) = value.as_object() {
            for (name, field) in fields {
                if let Some(schema) = self.child(name) {
                    let old = old.and_then(|old| old.get(name));
                    schema.check_rules(context, field, old, &self.child_path(path, name), errors);
                }
            }
        }
    }

    /// Element of the old list that an element replaces; only lists of type map identify it.
    fn counterpart<'a>(&self, item: &Value, old: &'a Value) -> Option<&'a Value> {
        let ListKind::Map(keys) = &self.list else {
            return None;
        };
        let wanted = identity(item, keys);
        old.as_array()?
            .iter()
            .find(|old| identity(old, keys) == wanted)
    }

    fn child(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(schema) => Some(schema),
            Additional::None | Additional::Any => None,
        })
    }

    fn child_path(&self, path: &str, name: &str) -> String {
        join(path, name)
    }
}

impl Limits {
    fn check(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        if !self.choices.is_empty() && !self.choices.contains(value) {
            errors.push(FieldError::unsupported(path, value, &self.choices));
        }
        match value {
            Value::String(text) => self.check_text(text, value, path, errors),
            Value::Number(number) => self.check_number(number, value, path, errors),
            Value::Array(items) => self.check_items(items, path, errors),
            Value::Object(fields) => self.check_size(fields.len(), value, path, errors),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_text(&self, text: &str, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let length = text.chars().count() as u64;
        if let Some(most) = self.max_length
            && length > most
        {
            errors.push(FieldError::too_long(
                path,
                &format!("may not be more than {most} bytes"),
            ));
        }
        if let Some(least) = self.min_length
            && length < least
        {
            let problem = format!("{path} in body should be at least {least} chars long");
            errors.push(FieldError::invalid(path, value, &problem));
        }
        if let Some(pattern) = &self.pattern
            && !pattern.is_match(text)
        {
            let problem = format!("{path} in body should match '{pattern}'");
            errors.push(FieldError::invalid(path, value, &problem));
        }
        if let Some(format) = &self.format
            && !formats::is_format(format, text)
        {
            let problem = format!("{path} in body must be of type {format}: {value}");
            errors.push(FieldError::invalid(path, value, &problem));
        }
    }

    fn check_number(
        &self,
        number: &Number,
        value: &Value,
        path: &str,
        errors: &mut Vec<FieldError>,
    ) {
        let mut fail = |problem: String| {
            let problem = format!("{path} in body {problem}");
            errors.push(FieldError::invalid(path, value, &problem));
        };
        if let Some(Bound { value, exclusive }) = &self.minimum {
            match compare(number, value) {
                Ordering::Less => fail(format!("should be greater than or equal to {value}")),
                Ordering::Equal if *exclusive => fail(format!("should be greater than {value}")),
                Ordering::Equal | Ordering::Greater => {}
            }
        }
        if let Some(Bound { value, exclusive }) = &self.maximum {
            match compare(number, value) {
                Ordering::Greater => fail(format!("should be less than or equal to {value}")),
                Ordering::Equal if *exclusive => fail(format!("should be less than {value}")),
                Ordering::Equal | Ordering::Less => {}
            }
        }
        if let (Some(step), Some(number)) = (self.multiple_of, number.as_f64())
            && (number / step).fract().abs() > f64::EPSILON
        {
            fail(format!("should be a multiple of {step}"));
        }
        let fits = match self.format.as_deref() {
            Some("int32") => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
            _ => true,
        };
        if !fits {
            fail("must be of type int32".to_owned());
        }
    }

    fn check_items(&self, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
        let count = items.len() as u64;
        if let Some(most) = self.max_items
            && count > most
        {
            errors.push(FieldError::too_many(path, items.len(), most));
        }
        if let Some(least) = self.min_items
            && count < least
        {
            let problem = format!("{path} in body should have at least {least} items");
            errors.push(FieldError::invalid(path, &Value::from(count), &problem));
        }
        if self.unique_items {
            let distinct: BTreeSet<String> = items.iter().map(Value::to_string).collect();
            if distinct.len() < items.len() {
                let problem = format!("{path} in body shouldn't contain duplicates");
                errors.push(FieldError::invalid(path, &Value::from("array"), &problem));
            }
        }
    }

    fn check_size(&self, size: usize, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let count = size as u64;
        if let Some(most) = self.max_properties
            && count > most
        {
            errors.push(FieldError::too_many(path, size, most));
        }
        if let Some(least) = self.min_properties
            && count < least
        {
            let problem = format!("{path} in body should have at least {least} properties");
            errors.push(FieldError::invalid(path, &type_name(value), &problem));
        }
    }
}

/// Returns whether an error prevents the evaluation of rules.
fn is_blocking(error: &FieldError) -> bool {
    [
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueNotSupported",
    ]
    .contains(&error.reason)
}

fn broken_rule(field: String, value: &Value, broken: &cel::RuleViolation) -> FieldError {
    match broken.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(field, &broken.message),
        Some("FieldValueRequired") => FieldError::required(field, &broken.message),
        Some("FieldValueDuplicate") => FieldError::duplicate(field, value),
        Some(_) | None if broken.is_failure => {
            FieldError::invalid(field, &type_name(value), &broken.message)
        }
        Some(_) | None => FieldError::rule(field, value, &broken.message),
    }
}

/// Scalar itself, or the name of the value's type.
fn type_name(value: &Value) -> Value {
    match value {
        Value::Array(_) => Value::from("array"),
        Value::Object(_) => Value::from("object"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn compare(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a
            .as_f64()
            .partial_cmp(&b.as_f64())
            .unwrap_or(Ordering::Equal),
    }
}

/// Values of a list map's keys in one element.
fn identity(item: &Value, keys: &[String]) -> Value {
    keys.iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
