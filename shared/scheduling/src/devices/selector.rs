//! CEL selectors over devices, as used by DeviceClasses and requests (docs/devices.md lists the supported functions).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        Context, Program, Value,
        objects::{Key, Map},
    },
};
use model::devices::{Attribute, Device};

/// Longest selector that Kubernetes accepts, in bytes.
const LONGEST: usize = 10 * 1024;

/// CEL functions, and the programs that convert attributes and capacities to CEL values.
pub(super) struct Evaluator {
    functions: Context<'static>,
    /// Always present, because the program's text is constant.
    quantity: Option<Program>,
    version: Option<Program>,
}

/// Compiled selector.
pub(super) struct Selector(Program);

impl Selector {
    /// Compiles a selector.
    ///
    /// # Errors
    ///
    /// The reason why the text is no valid expression.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        let program = Program::compile(text).map_err(|error| error.to_string())?;
        Ok(Self(program))
    }

    /// Whether a device matches the selector.
    ///
    /// # Errors
    ///
    /// The reason why the selector cannot be evaluated, such as an attribute that the device does not have.
    pub(super) fn matches(&self, device: &Value, with: &Evaluator) -> Result<bool, String> {
        let mut scope = with.functions.new_inner_scope();
        scope.add_variable_from_value("device", device.clone());
        match self.0.execute(&scope) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(format!("it returns a value of type {}", other.type_of())),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Evaluator {
    pub(super) fn new() -> Self {
        Self {
            functions: Context::default().with_all(),
            quantity: Program::compile("quantity(text)").ok(),
            version: Program::compile("semver(text)").ok(),
        }
    }

    /// Value of the variable `device`. Each of `domains` has entries in attributes and capacity, even if they are empty.
    pub(super) fn value(&self, device: &Device, domains: &BTreeSet<&str>) -> Value {
        let none: BTreeMap<&str, BTreeMap<&str, Value>> = domains
            .iter()
            .map(|domain| (*domain, BTreeMap::new()))
            .collect();
        let (mut attributes, mut capacity) = (none.clone(), none);
        for (name, attribute) in &device.attributes {
            if let (Some((domain, name)), Some(value)) =
                (name.split_once('/'), self.attribute(attribute))
            {
                attributes.entry(domain).or_default().insert(name, value);
            }
        }
        for (name, amount) in &device.capacity {
            let value = self.call(self.quantity.as_ref(), &amount.value.to_string());
            if let (Some((domain, name)), Some(value)) = (name.split_once('/'), value) {
                capacity.entry(domain).or_default().insert(name, value);
            }
        }
        let by_domain = |all: BTreeMap<&str, BTreeMap<&str, Value>>| {
            map(all.into_iter().map(|(domain, own)| (domain, map(own))))
        };
        map([
            ("driver", text(&device.driver)),
            ("attributes", by_domain(attributes)),
            ("capacity", by_domain(capacity)),
            ("allowMultipleAllocations", Value::Bool(device.is_shared)),
        ])
    }

    fn attribute(&self, attribute: &Attribute) -> Option<Value> {
        match attribute {
            Attribute::Text(value) => Some(text(value)),
            Attribute::Number(number) => Some(Value::Int(*number)),
            Attribute::Flag(flag) => Some(Value::Bool(*flag)),
            Attribute::Version(version) => self.call(self.version.as_ref(), version),
            Attribute::Unknown(_) => None,
        }
    }

    fn call(&self, function: Option<&Program>, argument: &str) -> Option<Value> {
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("text", text(argument));
        function?.execute(&scope).ok()
    }
}

fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn map<'k>(entries: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let entries = entries.into_iter();
    let entries = entries.map(|(key, value)| (Key::String(Arc::new(key.to_owned())), value));
    Value::Map(Map {
        map: Arc::new(entries.collect()),
    })
}

#[cfg(test)]
mod tests {
    use model::devices::{DeviceCapacity, qualified};

    use super::*;

    const DRIVER: &str = "gpu.nvidia.com";

    fn gpu() -> Device {
        let attributes = [
            ("productName", Attribute::Text("NVIDIA H200".to_owned())),
            (
                "cudaComputeCapability",
                Attribute::Version("9.0.0".to_owned()),
            ),
            ("driverVersion", Attribute::Unknown("driver".to_owned())),
            ("index", Attribute::Number(3)),
            ("healthy", Attribute::Flag(true)),
        ];
        let memory = DeviceCapacity {
            value: 140 << 30,
            policy: None,
        };
        Device {
            driver: DRIVER.to_owned(),
            name: "gpu-0".to_owned(),
            attributes: attributes
                .map(|(name, value)| (qualified(name, DRIVER), value))
                .into(),
            capacity: [(qualified("memory", DRIVER), memory)].into(),
            ..Device::default()
        }
    }

    fn judge(expression: &str) -> Result<bool, String> {
        let evaluator = Evaluator::new();
        let device = evaluator.value(&gpu(), &[DRIVER, "dra.net"].into());
        Selector::compile(expression)?.matches(&device, &evaluator)
    }

    #[test]
    fn devices_are_selected_by_driver_attributes_and_capacity() {
        for (expression, expected) in [
            ("device.driver == 'gpu.nvidia.com'", true),
            (
                "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H200'",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].productName.startsWith('Tesla')",
                false,
            ),
            (
                "device.attributes['gpu.nvidia.com'].productName in ['NVIDIA H200', 'NVIDIA L4']",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].index >= 3 && !(device.attributes['gpu.nvidia.com'].index > 3)",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].healthy || device.driver == 'other'",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].cudaComputeCapability.isGreaterThan(semver('8.9.0'))",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].cudaComputeCapability.compareTo(semver('9.0.0')) >= 0",
                true,
            ),
            (
                "device.attributes['gpu.nvidia.com'].cudaComputeCapability.isLessThan(semver('9.0.0'))",
                false,
            ),
            (
                "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('100Gi')) >= 0",
                true,
            ),
            (
                "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('140Gi'))",
                false,
            ),
            (
                "device.capacity['gpu.nvidia.com'].memory == quantity('140Gi')",
                true,
            ),
            ("'productName' in device.attributes['gpu.nvidia.com']", true),
            ("'rdma' in device.attributes['dra.net']", false),
            ("has(device.attributes['gpu.nvidia.com'].uuid)", false),
            ("device.allowMultipleAllocations", false),
        ] {
            assert_eq!(judge(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn expressions_that_cannot_be_evaluated_are_errors() {
        for expression in [
            "device.attributes['gpu.nvidia.com'].uuid == 'x'",
            "device.attributes['gpu.nvidia.com'].driverVersion == semver('580.0.0')",
            "device.attributes['elsewhere.com'].x",
            "device.driver",
            "device.driver ==",
            "unheard(device)",
        ] {
            assert!(judge(expression).is_err(), "{expression}");
        }
    }
}
