//! Encoder for pprof's `profile.proto`, a Protocol Buffers message.
//!
//! We only need a few fields, so we encode them by hand to avoid a Protocol Buffers library and a code generator.

use std::collections::HashMap;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Nanoseconds,
    Bytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Nanoseconds => "nanoseconds",
            Unit::Bytes => "bytes",
        }
    }
}

/// Values by call stack. Each function has exactly one location.
#[derive(Debug)]
pub(super) struct Profile {
    /// Encoded fields, except for strings and functions.
    fields: Vec<u8>,
    strings: Table,
    functions: Table,
    values: usize,
}

/// Distinct strings, numbered in order.
#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<String, u64>,
    order: Vec<String>,
}

impl Table {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.order.len() as u64;
        self.order.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

impl Profile {
    /// Returns a profile without samples.
    ///
    /// `values` contains the name and unit of each value in a sample.
    pub(super) fn new(values: &[(&str, Unit)]) -> Profile {
        let mut profile = Profile {
            fields: Vec::new(),
            strings: Table::default(),
            functions: Table::default(),
            values: values.len(),
        };
        // The format requires that string 0 is empty.
        profile.strings.number("");
        for (name, unit) in values {
            let value_type = profile.value_type(name, *unit);
            put_bytes(&mut profile.fields, 1, &value_type);
        }
        profile
    }

    /// Sets the sampling interval.
    pub(super) fn set_period(&mut self, (name, unit): (&str, Unit), period: i64) {
        let value_type = self.value_type(name, unit);
        put_bytes(&mut self.fields, 11, &value_type);
        put_number(&mut self.fields, 12, period.cast_unsigned());
    }

    /// Sets the value to show by default. Otherwise, it's the last one.
    pub(super) fn set_default(&mut self, name: &str) {
        let number = self.strings.number(name);
        put_number(&mut self.fields, 14, number);
    }

    /// Sets the duration of the measurement.
    pub(super) fn set_duration(&mut self, duration: Duration) {
        put_number(&mut self.fields, 10, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a sample. It consists of a stack of functions (innermost first), values, and a label.
    pub(super) fn push(&mut self, stack: &[String], values: &[i64], label: Option<(&str, &str)>) {
        debug_assert_eq!(values.len(), self.values);

        let mut sample = Vec::new();
        for function in stack {
            put_number(&mut sample, 1, self.functions.number(function) + 1);
        }
        for value in values {
            put_number(&mut sample, 2, value.cast_unsigned());
        }

        if let Some((key, text)) = label {
            let mut label = Vec::new();
            put_number(&mut label, 1, self.strings.number(key));
            put_number(&mut label, 2, self.strings.number(text));
            put_bytes(&mut sample, 3, &label);
        }

        put_bytes(&mut self.fields, 2, &sample);
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut strings = self.strings.order.clone();
        let mut out = self.fields.clone();
        // IDs MUST NOT be 0. A function has only one location, so both can use the same ID.
        for (id, name) in (1u64..).zip(&self.functions.order) {
            let number = strings.len() as u64;
            strings.push(name.clone());

            let mut function = Vec::new();
            put_number(&mut function, 1, id);
            put_number(&mut function, 2, number);
            put_number(&mut function, 3, number);
            put_bytes(&mut out, 5, &function);

            let mut line = Vec::new();
            put_number(&mut line, 1, id);
            let mut location = Vec::new();
            put_number(&mut location, 1, id);
            put_bytes(&mut location, 4, &line);
            put_bytes(&mut out, 4, &location);
        }

        for text in &strings {
            put_bytes(&mut out, 6, text.as_bytes());
        }
        out
    }

    fn value_type(&mut self, name: &str, unit: Unit) -> Vec<u8> {
        let mut value_type = Vec::new();
        put_number(&mut value_type, 1, self.strings.number(name));
        put_number(&mut value_type, 2, self.strings.number(unit.name()));
        value_type
    }
}

/// Appends a numeric field (wire type 0).
fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(out, field << 3);
    put_varint(out, number);
}

/// Appends a field with bytes, a string or a message (wire type 2).
fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a number as groups of seven bits, the lowest first.
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_in_groups_of_seven_bits() {
        let encoded = |number| {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            out
        };
        // The examples of the documentation of Protocol Buffers.
        assert_eq!(encoded(1), [1]);
        assert_eq!(encoded(150), [0x96, 0x01]);
        assert_eq!(encoded(u64::MAX).len(), 10);
    }

    #[test]
    fn profile_has_its_strings_and_functions_once() {
        let mut profile = Profile::new(&[("cpu", Unit::Count)]);
        profile.push(&["inner".into(), "outer".into()], &[1], None);
        profile.push(&["outer".into()], &[2], Some(("thread", "worker")));
        let bytes = profile.encode();
        for name in ["inner", "outer", "worker"] {
            assert_eq!(
                bytes.windows(name.len()).filter(|found| *found == name.as_bytes()).count(),
                1,
                "{name}"
            );
        }
    }
}
