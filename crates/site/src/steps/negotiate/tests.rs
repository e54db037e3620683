//! Tests weights, and which representation we choose.

use super::*;
use cannery_archive::Extent;

fn chosen(available: &[Coding], accept_encoding: Option<&str>) -> Option<Coding> {
    let representations = available.iter().map(|coding| {
        let body = Extent { position: 0, length: 0 };
        Ok(Representation { coding: *coding, etag: b"0123456789abcdef", body, head: 0 })
    });
    let values = accept_encoding.map_or(Values::NONE, |value| Values::one(value.as_bytes()));
    choose(representations, &values).unwrap().map(|representation| representation.coding)
}

const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

#[test]
fn smallest_of_highest_weight_is_chosen() {
    use Coding::{Brotli, Gzip, Identity, Zstd};
    for (accept_encoding, expected) in [
        ("gzip, deflate, br, zstd", Brotli),
        ("gzip", Gzip),
        ("x-gzip", Gzip),
        ("GZIP", Gzip),
        ("br;q=1, gzip;q=0.8", Brotli),
        ("br;q=0.8, gzip;q=1.0", Gzip),
        ("gzip;q=0", Identity),
        ("br;q=0, *", Zstd),
        ("*", Brotli),
        ("*;q=0", Identity),
        ("*;q=0, zstd", Zstd),
        ("identity;q=0.5, gzip;q=0.2", Identity),
        ("gzip;q=0.001", Gzip),
        ("identity;q=0", Identity),
        ("deflate", Identity),
        ("", Identity),
        (" , ,", Identity),
        ("gzip ; q=1", Gzip),
        ("gzip;q=1.5", Identity),
        ("gzip;q=0.0001", Identity),
        ("gzip;q=", Identity),
        ("gzip;level=9", Identity),
        ("br;q=x, gzip", Gzip),
        ("brotli", Identity),
        ("gzip;q=0, gzip", Identity),
    ] {
        assert_eq!(chosen(&ALL, Some(accept_encoding)), Some(expected), "{accept_encoding:?}");
    }
}

#[test]
fn absent_field_prefers_identity() {
    assert_eq!(chosen(&ALL, None), Some(Coding::Identity));
    assert_eq!(chosen(&[Coding::Gzip], None), Some(Coding::Gzip));
}

#[test]
fn unacceptable_coding_does_not_replace_identity() {
    assert_eq!(chosen(&[Coding::Gzip], Some("")), None);
    assert_eq!(chosen(&[Coding::Gzip], Some("br")), None);
    assert_eq!(chosen(&[Coding::Gzip], Some("gzip;q=0")), None);
    assert_eq!(chosen(&[Coding::Gzip], Some("gzip")), Some(Coding::Gzip));
}

#[test]
fn list_may_have_several_field_lines() {
    let mut values = Values::one(b"gzip;q=0.5");
    values.push(b"br").unwrap();
    let weights = Weights::parse(&values);
    assert_eq!((weights.of(Coding::Gzip), weights.of(Coding::Brotli)), (1000, FULL));
}
