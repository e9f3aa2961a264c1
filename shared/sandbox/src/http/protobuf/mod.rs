//! Decoder of bodies that typed Go clients send in protobuf regardless of discovery: `kubectl create …`, `kubectl auth
//! can-i`, Helm's release records. [`messages`] lists the supported messages; others are rejected by name.

mod messages;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use messages::{Message, Type};
use serde_json::{Map, Value, json};

use crate::{
    error::{ApiError, ApiResult},
    json,
    server::{micro_time, rfc3339},
};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Magic prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Decodes a body to the JSON object that it represents.
pub(super) fn decode(body: &[u8]) -> ApiResult<Value> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or_else(|| unreadable("it does not begin as Kubernetes' envelope does"))?;
    let envelope = message("Unknown", envelope)?;
    let kind = json::text(&envelope, &["typeMeta", "kind"]);
    let raw = STANDARD
        .decode(json::text(&envelope, &["raw"]))
        .unwrap_or_default();
    let mut object = message(kind, &raw)?;
    for field in ["apiVersion", "kind"] {
        let value = json::at(&envelope, &["typeMeta", field]).clone();
        json::set(&mut object, &[field], value);
    }
    Ok(object)
}

fn unreadable(problem: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the body is no protobuf that can be read: {problem}"
    ))
}

fn unknown(what: &str) -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the simulated cluster cannot read {what} in protobuf: send JSON, with kubectl by `kubectl create … --dry-run=client -o yaml | kubectl apply -f -`"
        ),
    )
}

fn message(name: &str, bytes: &[u8]) -> ApiResult<Value> {
    let known = messages::find(name).ok_or_else(|| unknown(&format!("a {name}")))?;
    let mut fields = Map::new();
    for (number, wire) in Fields(bytes) {
        let wire = wire.ok_or_else(|| unreadable("it ends within a field"))?;
        read(name, known, number, wire, &mut fields)?;
    }
    Ok(Value::Object(fields))
}

fn read(
    name: &str,
    known: &Message,
    number: u64,
    wire: Wire<'_>,
    fields: &mut Map<String, Value>,
) -> ApiResult<()> {
    let (field, kind) = known
        .get(&number)
        .ok_or_else(|| unknown(&format!("field {number} of a {name}")))?;
    match kind {
        Type::One(kind) => {
            // Go writes empty strings and times where JSON omits them.
            let value = value(kind, wire)?;
            if !value.is_null() && value != "" {
                fields.insert((*field).to_owned(), value);
            }
        }
        Type::Many(kind) => {
            let list = fields
                .entry(*field)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                list.push(value(kind, wire)?);
            }
        }
        Type::Map(kind) => {
            let (mut key, mut entry) = (String::new(), None);
            for (number, part) in Fields(wire.bytes()) {
                let part = part.ok_or_else(|| unreadable("it ends within a map"))?;
                match number {
                    1 => key = part.text(),
                    _ => entry = Some(value(kind, part)?),
                }
            }
            let map = fields
                .entry(*field)
                .or_insert_with(|| Value::Object(Map::new()));
            json::set(map, &[&key], entry.unwrap_or_else(|| json!("")));
        }
    }
    Ok(())
}

fn value(kind: &str, wire: Wire<'_>) -> ApiResult<Value> {
    Ok(match kind {
        "string" => json!(wire.text()),
        "bytes" => json!(STANDARD.encode(wire.bytes())),
        "bool" => json!(wire.number() != 0),
        "int" => json!(wire.number().cast_signed()),
        "Time" | "MicroTime" => time(kind, wire.bytes()),
        "Quantity" => {
            let quantity = message("QuantityText", wire.bytes())?;
            json::at(&quantity, &["string"]).clone()
        }
        "IntOrString" => {
            let either = message("IntOrStringParts", wire.bytes())?;
            let is_text = json::integer(&either, &["type"]) == Some(1);
            let part = if is_text { "strVal" } else { "intVal" };
            json::at(&either, &[part]).clone()
        }
        name => message(name, wire.bytes())?,
    })
}

fn time(kind: &str, bytes: &[u8]) -> Value {
    let mut seconds = None;
    let mut nanos = 0;
    for (number, part) in Fields(bytes) {
        match (number, part) {
            (1, Some(part)) => seconds = Some(part.number().cast_signed()),
            (2, Some(part)) => nanos = i32::try_from(part.number()).unwrap_or(0),
            _ => {}
        }
    }
    let time = seconds.and_then(|seconds| Timestamp::new(seconds, nanos).ok());
    match time {
        None => Value::Null,
        Some(time) if kind == "MicroTime" => json!(micro_time(time)),
        Some(time) => json!(rfc3339(time)),
    }
}

/// Content of a field by wire type.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }

    fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// Iterator over the fields of a message: number and content; the content is `None` if the bytes are truncated.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn content(&mut self, wire_type: u64) -> Option<Wire<'a>> {
        Some(match wire_type {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(
                self.take(4)?.try_into().ok()?,
            ))),
            _ => return None,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Option<Wire<'a>>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.varint().and_then(|key| {
            let content = self.content(key & 7)?;
            Some((key >> 3, Some(content)))
        });
        // A malformed field ends the message.
        Some(field.unwrap_or_else(|| {
            self.0 = &[];
            (0, None)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[(number << 3) | 2, length], content].concat()
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &type_meta), &field(2, raw)].concat()
    }

    #[test]
    fn config_map_is_decoded() {
        let labels = field(11, &[field(1, b"app"), field(2, b"web")].concat());
        let metadata = field(
            1,
            &[field(1, b"a"), field(3, b""), field(8, b""), labels].concat(),
        );
        let data = field(2, &[field(1, b"key"), field(2, b"value")].concat());
        let object = decode(&body("ConfigMap", &[metadata, data].concat())).unwrap();
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
                "metadata": {"name": "a", "labels": {"app": "web"}},
            })
        );
    }

    #[test]
    fn unknown_messages_are_rejected_by_name() {
        let error = decode(&body("Gizmo", b"")).unwrap_err();
        assert!(error.message.contains("a Gizmo"), "{error}");
        let error = decode(&body("ConfigMap", &field(15, b"?"))).unwrap_err();
        assert!(error.message.contains("field 15 of a ConfigMap"), "{error}");
        assert_eq!(decode(b"{}").unwrap_err().code, 400);
        let cut = body("ConfigMap", &[0x0a, 0x09, 0x01]);
        assert_eq!(decode(&cut).unwrap_err().code, 400);
    }
}
