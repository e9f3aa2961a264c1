//! CEL expressions in kubelet settings, evaluated for every instance type (feature gate `NodeClassCEL`, docs/spec/aws.md#kubelet).

use std::collections::BTreeMap;

use api::karpenter::{KubeletSettings, MaxPods};
use cel::{Context, ExecutionError, Program, Value, extractors::Arguments};
use model::{
    catalog::Overhead,
    quantity::Quantity,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources},
};
use thiserror::Error;

use crate::instance_types::InstanceTypeInfo;

/// Upper bound on an expression's length in bytes: CEL's macros could make a longer one expensive to evaluate.
const EXPRESSION_BYTES_MAX: usize = 1024;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// The expression gives no usable value for any instance type.
    #[error(
        "spec.kubelet.{field}: \"{expression}\" is not an expression that returns a number: {problem}"
    )]
    Invalid {
        field: String,
        expression: String,
        problem: String,
    },
    #[error("spec.kubelet.{field}: \"{expression}\" cannot be used for {instance_type}: {problem}")]
    Failed {
        field: String,
        expression: String,
        instance_type: String,
        problem: String,
    },
}

/// The kubelet settings of a NodeClass, ready to be resolved for each instance type.
pub(crate) struct Expressions {
    settings: KubeletSettings,
    max_pods: Option<Result<Expression, ExpressionError>>,
    kube_reserved: Vec<(String, Result<Expression, ExpressionError>)>,
    system_reserved: Vec<(String, Result<Expression, ExpressionError>)>,
    functions: Context<'static>,
}

/// The settings for one instance type, and the errors of evaluating them.
pub(crate) struct Resolved {
    /// The settings with expressions replaced by their values; an expression that failed counts as not set.
    pub(crate) settings: KubeletSettings,
    pub(crate) max_pods: Result<(), ExpressionError>,
    pub(crate) reserved: Result<(), ExpressionError>,
}

impl Expressions {
    /// Compiles the expressions in `settings`. With the gate off, expressions count as not set.
    pub(crate) fn of(mut settings: KubeletSettings, gate: bool) -> Self {
        let max_pods = match settings.max_pods.take() {
            Some(MaxPods::Expression(text)) => {
                gate.then(|| Expression::compile("maxPods".to_owned(), text))
            }
            count => {
                settings.max_pods = count;
                None
            }
        };
        let split = |name: &str, entries: &mut BTreeMap<String, String>| {
            let expressions = entries.extract_if(.., |_, text| is_expression(text));
            let compiled = expressions.filter(|_| gate).map(|(resource, text)| {
                let field = format!("{name}[{resource}]");
                (resource, Expression::compile(field, text))
            });
            compiled.collect()
        };
        let kube_reserved = split("kubeReserved", &mut settings.kube_reserved);
        let system_reserved = split("systemReserved", &mut settings.system_reserved);
        Self {
            settings,
            max_pods,
            kube_reserved,
            system_reserved,
            functions: functions(),
        }
    }

    /// Evaluates the settings for one instance type. `default_pods` is the number of pods of the type if the settings do not set it.
    pub(crate) fn resolve(&self, info: &InstanceTypeInfo, default_pods: i64) -> Resolved {
        let mut settings = self.settings.clone();
        let mut max_pods = Ok(());
        if let Some(expression) = &self.max_pods {
            match self.pods(expression.as_ref(), info, default_pods) {
                Ok(pods) => settings.max_pods = Some(MaxPods::Count(pods)),
                Err(error) => max_pods = Err(error),
            }
        }
        let pods = match settings.max_pods {
            Some(MaxPods::Count(pods)) => i64::from(pods),
            Some(MaxPods::Expression(_)) | None => default_pods,
        };
        let mut reserved = Ok(());
        let all = [
            (&self.kube_reserved, &mut settings.kube_reserved),
            (&self.system_reserved, &mut settings.system_reserved),
        ];
        for (expressions, entries) in all {
            for (resource, expression) in expressions {
                match self.amount(resource, expression.as_ref(), info, pods) {
                    Ok(text) => {
                        entries.insert(resource.clone(), text);
                    }
                    Err(error) => reserved = reserved.and(Err(error)),
                }
            }
        }
        Resolved {
            settings,
            max_pods,
            reserved,
        }
    }

    /// Checks that every expression gives every instance type a usable number; returns the reason of the first that does not.
    pub(crate) fn check(
        &self,
        info: &InstanceTypeInfo,
        default_pods: i64,
    ) -> Result<(), ExpressionError> {
        let resolved = self.resolve(info, default_pods);
        resolved.max_pods.and(resolved.reserved)
    }

    /// Checks that every expression compiles.
    pub(crate) fn compiled(&self) -> Result<(), ExpressionError> {
        let reserved = self.kube_reserved.iter().chain(&self.system_reserved);
        let mut all = self
            .max_pods
            .iter()
            .chain(reserved.map(|(_, expression)| expression));
        match all.find_map(|expression| expression.as_ref().err()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.max_pods.is_none() && self.kube_reserved.is_empty() && self.system_reserved.is_empty()
    }

    fn pods(
        &self,
        expression: Result<&Expression, &ExpressionError>,
        info: &InstanceTypeInfo,
        default_pods: i64,
    ) -> Result<i32, ExpressionError> {
        let expression = expression.map_err(Clone::clone)?;
        let number = expression.number(info, default_pods, &self.functions)?;
        let pods = i32::try_from(number).ok().filter(|pods| *pods >= 0);
        pods.ok_or_else(|| {
            expression.failed(
                info,
                format!("it returns {number}, expected 0 to {}", i32::MAX),
            )
        })
    }

    fn amount(
        &self,
        resource: &str,
        expression: Result<&Expression, &ExpressionError>,
        info: &InstanceTypeInfo,
        pods: i64,
    ) -> Result<String, ExpressionError> {
        let expression = expression.map_err(Clone::clone)?;
        let number = expression.number(info, pods, &self.functions)?;
        if number < 0 {
            let problem = format!("it returns {number}, expected a number from 0");
            return Err(expression.failed(info, problem));
        }
        Ok(match resource {
            CPU => format!("{}m", rounded_up(number, 10)),
            MEMORY => format!("{}Mi", rounded_up(number, 16)),
            EPHEMERAL_STORAGE => format!("{number}Gi"),
            _ => number.to_string(),
        })
    }
}

/// The settings as they are passed to a node: an entry that is an expression has the value resolved for its instance type, or is left out
/// if there is none.
pub(crate) fn as_resolved(
    mut settings: KubeletSettings,
    resolved: Option<&Overhead>,
) -> KubeletSettings {
    let replace = |entries: &mut BTreeMap<String, String>, amounts: Option<&Resources>| {
        let expressions: Vec<String> = entries
            .extract_if(.., |_, text| is_expression(text))
            .map(|(resource, _)| resource)
            .collect();
        let amounts = amounts.map_or_else(Resources::default, Clone::clone);
        for resource in expressions {
            if let Some(amount) = amounts.0.get(&resource) {
                let text = text(&resource, *amount);
                entries.insert(resource, text);
            }
        }
    };
    replace(
        &mut settings.kube_reserved,
        resolved.map(|overhead| &overhead.kube_reserved),
    );
    replace(
        &mut settings.system_reserved,
        resolved.map(|overhead| &overhead.system_reserved),
    );
    settings
}

/// Whether an entry of reserved resources is an expression.
pub(crate) fn is_expression(text: &str) -> bool {
    text.parse::<Quantity>().is_err()
}

/// An amount that an expression gave, with the unit of its resource.
fn text(resource: &str, amount: i64) -> String {
    match resource {
        CPU => format!("{amount}m"),
        MEMORY => format!("{}Mi", amount / MIB),
        EPHEMERAL_STORAGE => format!("{}Gi", amount / GIB),
        _ => amount.to_string(),
    }
}

/// Rounds up to the next multiple of `step`; a number without such a multiple in range is returned as it is.
fn rounded_up(number: i64, step: i64) -> i64 {
    let missing = (step - number.rem_euclid(step)).rem_euclid(step);
    number.checked_add(missing).unwrap_or(number)
}

struct Expression {
    field: String,
    text: String,
    program: Program,
}

impl Expression {
    fn compile(field: String, text: String) -> Result<Self, ExpressionError> {
        let invalid = |problem: String| ExpressionError::Invalid {
            field: field.clone(),
            expression: text.chars().take(EXPRESSION_BYTES_MAX).collect(),
            problem,
        };
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(invalid(format!(
                "it is longer than {EXPRESSION_BYTES_MAX} bytes"
            )));
        }
        let program = Program::compile(&text).map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            field,
            text,
            program,
        })
    }

    /// The value for an instance type. A fraction is cut off.
    fn number(
        &self,
        info: &InstanceTypeInfo,
        max_pods: i64,
        functions: &Context<'_>,
    ) -> Result<i64, ExpressionError> {
        let mut scope = functions.new_inner_scope();
        let network = &info.network_info;
        for (name, number) in [
            ("vcpus", info.vcpu_info.default_vcpus),
            ("memory_mib", info.memory_info.size_in_mib),
            ("default_enis", info.default_interfaces()),
            ("ips_per_eni", network.ipv4_addresses_per_interface),
            ("max_pods", max_pods),
        ] {
            scope.add_variable_from_value(name, number);
        }
        scope.add_variable_from_value("instance_type", info.instance_type.clone());
        match self.program.execute(&scope) {
            Ok(Value::Int(number)) => Ok(number),
            Ok(Value::Float(number)) => whole(number).ok_or_else(|| {
                self.failed(info, format!("it returns {number}, which is out of range"))
            }),
            Ok(other) => {
                Err(self.invalid(format!("it returns a value of type {}", other.type_of())))
            }
            Err(error) if is_about_values(&error) => Err(self.failed(info, error.to_string())),
            Err(error) => Err(self.invalid(error.to_string())),
        }
    }

    fn invalid(&self, problem: String) -> ExpressionError {
        ExpressionError::Invalid {
            field: self.field.clone(),
            expression: self.text.clone(),
            problem,
        }
    }

    fn failed(&self, info: &InstanceTypeInfo, problem: String) -> ExpressionError {
        ExpressionError::Failed {
            field: self.field.clone(),
            expression: self.text.clone(),
            instance_type: info.instance_type.clone(),
            problem,
        }
    }
}

/// Whether an error depends on an instance type's numbers. Every other error occurs with each instance type.
fn is_about_values(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::IndexOutOfBounds(_)
            | ExecutionError::NoSuchKey(_)
            | ExecutionError::FunctionError { .. }
    )
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is cut on purpose, and the range was checked"
)]
fn whole(number: f64) -> Option<i64> {
    /// The smallest float that is too large for an `i64`: 2^63.
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    (-I64_END..I64_END)
        .contains(&number)
        .then(|| number.trunc() as i64)
}

/// Standard CEL, and `max` and `min` of two numbers, either of which may be a float.
fn functions() -> Context<'static> {
    let mut context = Context::default();
    context.add_function("max", |arguments: Arguments| {
        of_two(&arguments, i64::max, f64::max)
    });
    context.add_function("min", |arguments: Arguments| {
        of_two(&arguments, i64::min, f64::min)
    });
    context
}

fn of_two(
    Arguments(arguments): &Arguments,
    whole: impl Fn(i64, i64) -> i64,
    fraction: impl Fn(f64, f64) -> f64,
) -> Result<Value, ExecutionError> {
    let [first, second] = arguments.as_slice() else {
        return Err(ExecutionError::invalid_argument_count(2, arguments.len()));
    };
    if let (Value::Int(first), Value::Int(second)) = (first, second) {
        return Ok(Value::Int(whole(*first, *second)));
    }
    Ok(Value::Float(fraction(as_float(first)?, as_float(second)?)))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::wildcard_enum_match_arm,
    reason = "mixed numbers are compared as CEL's doubles; nothing else is a number"
)]
fn as_float(value: &Value) -> Result<f64, ExecutionError> {
    match value {
        Value::Float(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
