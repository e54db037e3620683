//! Tests for the parser of priorities.

use super::*;
use proptest::prelude::*;

#[test]
fn urgency_and_incremental_are_read() {
    for (value, urgency, incremental) in [
        ("", 3, false),
        ("u=0", 0, false),
        ("i", 3, true),
        ("u=5, i", 5, true),
        ("i,u=1", 1, true),
        ("u=2;a=b;c, i=?0", 2, false),
        (" u=7 ,\ti=?1 ", 7, true),
        // If a key is repeated, the last member should count (RFC 8941 §3.2).
        ("u=1, u=4", 4, false),
        // We ignore other members, and also members of a different type.
        ("u=1, x=\"a, \\\"b\", i", 1, true),
        ("u=8", 3, false),
        ("u=-1, i", 3, true),
        ("u=1.5, i=1", 3, false),
        ("u, i", 3, true),
    ] {
        assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental }, "{value:?}");
    }
}

#[test]
fn invalid_values_are_ignored() {
    for value in ["u=1,", "u=1 i", "u=", "=1", "U=1", "u=1,,i", ",u=1", "i, x=\"a", "u=1; ,=", "\0"] {
        assert_eq!(Priority::parse(value.as_bytes()), Priority::DEFAULT, "{value:?}");
    }
}

proptest! {
    #[test]
    fn any_value_yields_a_valid_priority(value in proptest::collection::vec(any::<u8>(), 0..40)) {
        prop_assert!(Priority::parse(&value).urgency <= 7);
    }

    #[test]
    fn parsing_reverses_formatting(urgency in 0u8..8, incremental: bool) {
        let value = format!("u={urgency}{}", if incremental { ", i" } else { "" });
        prop_assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, incremental });
    }
}
