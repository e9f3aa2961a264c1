//! Arbitrary values of any deserializable type, made from a list of random words: each word decides one choice.
//!
//! The type's own `Deserialize` describes it, so fields and variants that are added later are covered without a change here.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, MapAccess,
    SeqAccess, VariantAccess, Visitor, value::StringDeserializer,
};

/// Upper bound on the elements of a list. Recursive types end when the words run out.
const ELEMENTS_MAX: u64 = 3;

/// The value that these words encode.
pub(crate) fn arbitrary<T: DeserializeOwned>(words: &[u64]) -> T {
    let mut source = Source { words, at: 0 };
    T::deserialize(&mut source)
        .unwrap_or_else(|error| panic!("{}: {error}", std::any::type_name::<T>()))
}

pub(crate) struct Source<'w> {
    words: &'w [u64],
    at: usize,
}

#[derive(Debug)]
pub(crate) struct GenerationError(String);

impl fmt::Display for GenerationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GenerationError {}

impl serde::de::Error for GenerationError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct DisplayExpected<'a>(&'a dyn Expected);

impl fmt::Display for DisplayExpected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Source<'_> {
    /// Returns the next word; zero, the smallest choice, when none is left.
    fn word(&mut self) -> u64 {
        let word = self.words.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        word
    }

    fn below(&mut self, most: u64) -> u64 {
        self.word() % most.max(1)
    }

    fn text(&mut self, expected: &dyn Expected) -> String {
        const TEXTS: [&str; 12] = [
            "",
            "a",
            "default",
            "Ünïcode/✓",
            "with \"quotes\" and \\",
            "line\nbreak\t\u{1}",
            "i-0123456789abcdef0",
            "a#b",
            "0",
            "null",
            "\u{10ffff}",
            "m5.large",
        ];
        let wanted = DisplayExpected(expected).to_string();
        if wanted.contains("duration") {
            let seconds = i64::try_from(self.below(1_000_000)).unwrap();
            return jiff::SignedDuration::from_secs(seconds).to_string();
        }
        if wanted.contains("timestamp") {
            // Timestamps are in milliseconds, the resolution of functions' clocks.
            let at = i64::try_from(self.below(4_000_000_000_000)).unwrap();
            return jiff::Timestamp::from_millisecond(at).unwrap().to_string();
        }
        let chosen = self.below(TEXTS.len() as u64 + 1);
        match TEXTS.get(usize::try_from(chosen).unwrap()) {
            Some(text) => (*text).to_owned(),
            None => format!("{:x}", self.word()),
        }
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $number:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
            let word = self.word();
            // Small values, and both ends of the range.
            visitor.$visit(match word % 4 {
                0 => <$number>::MAX,
                1 => <$number>::MIN,
                _ => <$number>::try_from(word % 100).unwrap_or_default(),
            })
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Source<'_> {
    type Error = GenerationError;

    numbers! {
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
    }

    /// Called only for JSON values, which do not name a type.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        let expected = DisplayExpected(&visitor as &dyn Expected).to_string();
        if !expected.contains("any valid JSON value") {
            return Err(GenerationError::custom(format!(
                "{expected}: make it by hand"
            )));
        }
        match self.below(7) {
            0 => visitor.visit_unit(),
            1 => self.deserialize_bool(visitor),
            2 => self.deserialize_i64(visitor),
            3 => self.deserialize_string(visitor),
            4 => self.deserialize_seq(visitor),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        visitor.visit_bool(self.below(2) == 1)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GenerationError> {
        Err(GenerationError::custom("no record holds a fraction"))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GenerationError> {
        Err(GenerationError::custom("no record holds a fraction"))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        visitor.visit_char('x')
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        let text = self.text(&visitor);
        visitor.visit_string(text)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        match self.below(3) {
            0 => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        let left = self.below(ELEMENTS_MAX + 1);
        visitor.visit_seq(Elements { source: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        let left = len as u64;
        visitor.visit_seq(Elements { source: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GenerationError> {
        let left = self.below(ELEMENTS_MAX + 1);
        visitor.visit_map(Elements { source: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        visitor.visit_map(Fields {
            source: self,
            left: fields.iter(),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        let chosen = usize::try_from(self.below(variants.len() as u64)).unwrap();
        let variant = variants.get(chosen).copied().unwrap_or_default();
        visitor.visit_enum(Variant {
            source: self,
            variant,
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        self.deserialize_string(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        visitor.visit_unit()
    }
}

/// Elements of a list, or entries of a map.
struct Elements<'a, 'w> {
    source: &'a mut Source<'w>,
    left: u64,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = GenerationError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, GenerationError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.source).map(Some)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, '_> {
    type Error = GenerationError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, GenerationError> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, GenerationError> {
        seed.deserialize(&mut *self.source)
    }
}

struct Fields<'a, 'w> {
    source: &'a mut Source<'w>,
    left: std::slice::Iter<'static, &'static str>,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = GenerationError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, GenerationError> {
        let Some(name) = self.left.next() else {
            return Ok(None);
        };
        let name = StringDeserializer::new((*name).to_owned());
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, GenerationError> {
        seed.deserialize(&mut *self.source)
    }
}

struct Variant<'a, 'w> {
    source: &'a mut Source<'w>,
    variant: &'static str,
}

impl<'de, 'a, 'w> EnumAccess<'de> for Variant<'a, 'w> {
    type Error = GenerationError;
    type Variant = &'a mut Source<'w>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), GenerationError> {
        let name = StringDeserializer::new(self.variant.to_owned());
        Ok((seed.deserialize(name)?, self.source))
    }
}

impl<'de> VariantAccess<'de> for &mut Source<'_> {
    type Error = GenerationError;

    fn unit_variant(self) -> Result<(), GenerationError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, GenerationError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GenerationError> {
        self.deserialize_struct("", fields, visitor)
    }
}
