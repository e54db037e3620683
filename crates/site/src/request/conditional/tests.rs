//! Tests the comparison of tags and dates, and the order in which we check conditions.

use super::*;

const ETAG: &[u8; ETag::BYTES] = b"0123456789abcdef";
const MODIFIED: u64 = 784_111_777;
const NOW: u64 = 1_763_700_000;

const BOTH: Validators<'static> = Validators { etag: Some(ETAG), modified: Some(MODIFIED) };
const SAME_DATE: Single<'static> = Single::Value(b"Sun, 06 Nov 1994 08:49:37 GMT");
const EARLIER: Single<'static> = Single::Value(b"Sunday, 06-Nov-94 08:49:36 GMT");
const LATER: Single<'static> = Single::Value(b"Sun Nov  6 08:49:38 1994");

fn verdict(conditions: Conditions<'_>) -> Verdict {
    evaluate(&conditions, BOTH, NOW)
}

#[test]
fn if_none_match_compares_weakly() {
    let matches = |value: &str| !is_if_none_match_true(&Values::one(value.as_bytes()), Some(ETAG));
    for value in [
        "*",
        " * ",
        "\"0123456789abcdef\"",
        "W/\"0123456789abcdef\"",
        "\"x\", \"0123456789abcdef\"",
        "\"a,b\",W/\"c\" , \"0123456789abcdef\"",
    ] {
        assert!(matches(value), "{value}");
    }

    for value in [
        "",
        "\"x\"",
        "0123456789abcdef",
        "\"0123456789abcdef",
        "w/\"0123456789abcdef\"",
        "\"0123456789ABCDEF\"",
        "x \"0123456789abcdef\"",
        "\"0123456789abcde\"",
    ] {
        assert!(!matches(value), "{value}");
    }
}

#[test]
fn if_match_compares_strongly() {
    let matches = |value: &str| is_if_match_true(&Values::one(value.as_bytes()), Some(ETAG));
    assert!(matches("*") && matches("\"0123456789abcdef\"") && matches("W/\"x\", \"0123456789abcdef\""));
    assert!(!matches("W/\"0123456789abcdef\"") && !matches("\"x\"") && !matches(""));
    let tag = Values::one(b"\"0123456789abcdef\"");
    assert!(!is_if_match_true(&tag, None), "a tag that is not sent cannot match");
}

#[test]
fn dates_are_compared_to_the_second() {
    let since = |if_modified_since| verdict(Conditions { if_modified_since, ..Conditions::NONE });
    assert_eq!(since(SAME_DATE), Verdict::NotModified);
    assert_eq!(since(LATER), Verdict::NotModified);
    assert_eq!(since(EARLIER), Verdict::Send);
    let until = |if_unmodified_since| verdict(Conditions { if_unmodified_since, ..Conditions::NONE });
    assert_eq!(until(SAME_DATE), Verdict::Send);
    assert_eq!(until(LATER), Verdict::Send);
    assert_eq!(until(EARLIER), Verdict::Failed);
    for ignored in [Single::Value(b"yesterday"), Single::Repeated, Single::Absent] {
        assert_eq!((since(ignored), until(ignored)), (Verdict::Send, Verdict::Send));
    }
}

#[test]
fn resource_without_date_ignores_date_conditions() {
    let conditions =
        Conditions { if_modified_since: LATER, if_unmodified_since: EARLIER, ..Conditions::NONE };
    let undated = Validators { modified: None, ..BOTH };
    assert_eq!(evaluate(&conditions, undated, NOW), Verdict::Send);
}

#[test]
fn conditions_are_evaluated_in_order() {
    let (same, other) = (Values::one(b"\"0123456789abcdef\""), Values::one(b"\"x\""));
    // Tags override dates of the same kind.
    let both = Conditions { if_match: same, if_unmodified_since: EARLIER, ..Conditions::NONE };
    assert_eq!(verdict(both), Verdict::Send);
    let both = Conditions { if_none_match: other, if_modified_since: SAME_DATE, ..Conditions::NONE };
    assert_eq!(verdict(both), Verdict::Send);
    // `If-Match` and `If-Unmodified-Since` come before the other two.
    let both = Conditions { if_match: other, if_none_match: same, ..Conditions::NONE };
    assert_eq!(verdict(both), Verdict::Failed);
    let both = Conditions { if_match: same, if_none_match: same, ..Conditions::NONE };
    assert_eq!(verdict(both), Verdict::NotModified);
    let both = Conditions { if_unmodified_since: EARLIER, if_none_match: same, ..Conditions::NONE };
    assert_eq!(verdict(both), Verdict::Failed);
}

#[test]
fn range_applies_only_to_same_representation() {
    let applies = |if_range| range_applies(if_range, BOTH, NOW);
    assert!(applies(Single::Absent) && applies(Single::Value(b"\"0123456789abcdef\"")));
    assert!(applies(SAME_DATE));
    for if_range in [
        Single::Value(b"W/\"0123456789abcdef\""),
        Single::Value(b"\"x\""),
        Single::Value(b"*"),
        Single::Value(b""),
        LATER,
        EARLIER,
        Single::Repeated,
    ] {
        assert!(!applies(if_range), "{if_range:?}");
    }
    assert!(!range_applies(SAME_DATE, BOTH, MODIFIED), "the resource can still change within this second");
}
