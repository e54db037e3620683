//! Archives can be partly copied from another one, moved to another file, or widened. In each case, we should get the same bytes as
//! if we wrote them directly.
//!
//! Most of them are so long that the writer uses its thread.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

mod support;

use std::sync::Arc;

use cannery_archive::{Archive, Digest, Extent, Format, Loading, Writer};
use proptest::prelude::*;

/// A body, and how we write it.
#[derive(Debug, Clone)]
struct Body {
    content: Vec<u8>,
    is_copied: bool,
    /// The archive moves to another file before this body.
    moves_before: bool,
}

fn writer(format: Format) -> Writer {
    Writer::new(tempfile::tempfile().unwrap(), format).unwrap()
}

/// Writes all contents, starting with the last one if `is_reversed`. Returns the archive and the position of each content.
fn source(bodies: &[Body], format: Format, is_reversed: bool) -> (Arc<Archive>, Vec<Extent>) {
    let mut writer = writer(format);
    let mut order: Vec<usize> = (0..bodies.len()).collect();
    if is_reversed {
        order.reverse();
    }
    let mut extents = vec![None; bodies.len()];
    for place in order {
        support::put_body(&mut writer, &bodies[place].content);
        extents[place] = writer.body_extents().last().copied();
    }
    let (file, _) = writer.finish().unwrap();
    let archive = Archive::from_file(&file, Loading::Mapped).unwrap();
    (Arc::new(archive), extents.into_iter().map(Option::unwrap).collect())
}

fn plain(bodies: &[Body], format: Format) -> Vec<u8> {
    let mut writer = writer(format);
    for body in bodies {
        support::put_body(&mut writer, &body.content);
    }
    support::finish(writer)
}

/// Returns bodies with different contents. Some of them are long.
fn bodies() -> impl Strategy<Value = Vec<Body>> {
    let length =
        prop_oneof![6 => 0..5_000_usize, 2 => 20_000..200_000_usize, 1 => 1_000_000..1_500_000_usize];
    let body = (length, prop::bool::weighted(0.8), prop::bool::weighted(0.05));
    prop::collection::vec(body, 1..60).prop_map(|bodies| {
        let body = |(number, (length, is_copied, moves_before)): (u32, (usize, bool, bool))| {
            let mut content = number.to_le_bytes().to_vec();
            content.resize(4 + length, b'a');
            Body { content, is_copied, moves_before }
        };
        (0..).zip(bodies).map(body).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn copies_have_the_same_bytes(bodies in bodies(), is_reversed: bool, is_wide: bool) {
        let format = if is_wide { Format::Cdb64 } else { Format::Cdb };
        let (archive, extents) = source(&bodies, format, is_reversed);
        let mut writer = writer(format);
        writer.set_source(archive);
        for (body, extent) in bodies.iter().zip(extents) {
            if body.moves_before {
                writer.move_to(tempfile::tempfile().unwrap()).unwrap();
            }
            if body.is_copied {
                writer.copied_body(&Digest::of(&body.content), extent).unwrap();
            } else {
                support::put_body(&mut writer, &body.content);
            }
        }
        prop_assert!(support::finish(writer) == plain(&bodies, format));
    }

    #[test]
    fn widened_archive_has_the_same_bytes(bodies in bodies()) {
        let mut narrow = writer(Format::Cdb);
        for body in &bodies {
            support::put_body(&mut narrow, &body.content);
        }
        let wide = narrow.widen(tempfile::tempfile().unwrap()).unwrap();
        prop_assert!(support::finish(wide) == plain(&bodies, Format::Cdb64));
    }
}

#[test]
#[should_panic(expected = "the source has the body")]
fn body_beyond_the_source_is_refused() {
    let (archive, extents) =
        source(&[Body { content: b"a".to_vec(), is_copied: true, moves_before: false }], Format::Cdb, false);
    let mut writer = writer(Format::Cdb);
    writer.set_source(archive);
    let _ = writer.copied_body(&Digest::of(b"b"), Extent { position: extents[0].position, length: 1 << 20 });
}
