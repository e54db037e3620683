//! Compares docs/limits.md and docs/design/limits.md with the code: every limit has one row with its value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cannery_routes::limits as content_limits;
use cannery_transport::limits as tls_limits;
use cannery_wire::limits as http_limits;

use super::LINGER;
use crate::config::Timeouts;
use crate::content::limits as site_limits;
use crate::context::DRAIN_GRACE;
use crate::http3::{
    ATTEMPTS_PER_ITERATION_MAX, ATTEMPTS_WAITING_MAX, HANDSHAKE_SILENCE_MAX, HANDSHAKES_WAITING_MAX,
    SHARED_SOCKETS_MAX, SILENCE_MIN,
};
use crate::routes::limits as route_limits;

/// Lists constants of a module as pairs of name and value.
macro_rules! values {
    ($module:ident: $($name:ident)*) => {
        [$((stringify!($name), $module::$name.to_string())),*]
    };
}

/// Returns all limits with their values.
fn limits() -> BTreeMap<&'static str, String> {
    let http_limits = values!(http_limits:
        RESPONSE_BYTES_RESERVED RESPONSE_SEGMENTS_MAX BLOCK_BYTES_MAX CHUNK_LINE_BYTES_MAX CONNECTIONS_BYTES_MAX
        CONTENT_BLOCK_BYTES CONTENT_SKIPPED_BYTES_MAX CONTINUATIONS_MAX COPIED_BODY_BYTES_MAX CREDITED_DATA_BYTES_MIN CREDIT_MAX
        CREDIT_PER_RESPONSE CREDIT_PER_SECOND
        FIELDS_MAX FIELD_LIST_BYTES_DECODED_MAX FIELD_LIST_BYTES_MAX HANDSHAKES_PER_ITERATION_MAX HEAD_BYTES_MAX
        HPACK_TABLE_BYTES ZERO_COPY_BODY_BYTES_MIN METHOD_BYTES_MAX OUTPUT_BYTES PRIORITIES_REMEMBERED_MAX
        PROXY_HEADER_BYTES_MAX PROXY_LINE_BYTES_MAX RESETS_MAX RESETS_PER_SECOND SEALED_BYTES_MAX SEALED_BYTES_MIN
        SEGMENTS_MAX SEND_BYTES_PER_SECOND_MIN SETTINGS_COST STREAMS_MAX RESET_STREAMS_REMEMBERED_MAX TARGET_BYTES_MAX
        CONTROL_FRAME_BYTES_MAX FIELD_SECTION_BYTES_MAX INSTRUCTION_BYTES_PER_TOKEN QPACK_INSTRUCTION_BYTES_MAX
        QPACK_TABLE_BYTES STREAM_BODY_COPIED_BYTES_MAX
    );

    let tls_limits = values!(tls_limits:
        COMPRESSED_CERTIFICATES_BYTES_MAX CONTENT_BYTES_MAX EMPTY_RECORDS_MAX FIRST_CONTENT_BYTES FIRST_FLIGHT_BYTES HANDSHAKE_BYTES_MAX KEY_RECORDS_LEFT
        RECORD_BYTES_MAX
        QUIC_AMPLIFICATION_MAX QUIC_BIDIRECTIONAL_STREAMS_AT_FIRST QUIC_BIDIRECTIONAL_STREAMS_MAX QUIC_CONNECTION_WINDOW_BYTES
        QUIC_DATAGRAM_BYTES_MAX QUIC_DRAINING_MAX QUIC_DRAINING_MS
        QUIC_CREDITED_BYTES_MIN QUIC_CREDIT_MAX QUIC_CREDIT_PER_READ QUIC_CREDIT_PER_SECOND QUIC_CREDIT_PER_STREAM_FRAME
        QUIC_FRAMES_PER_TOKEN QUIC_KEY_UPDATE_COST QUIC_PACKET_GAP_MAX QUIC_STORED_SESSIONS_MAX
        QUIC_EARLY_BYTES_MAX QUIC_EARLY_BYTES_TOTAL_MAX QUIC_FOREIGN_DATAGRAMS_MAX QUIC_FOREIGN_DATAGRAMS_PER_SECOND
        QUIC_HALF_OPEN_BEFORE_RETRY QUIC_HALF_OPEN_MAX QUIC_HANDSHAKE_DATAGRAM_BYTES QUIC_HANDSHAKE_GAP_BYTES_MAX
        QUIC_IDLE_MS QUIC_RESET_COMPUTED_INTERVAL_MS QUIC_RESETS_MAX QUIC_RESETS_PER_SECOND QUIC_RETRY_TOKEN_SECONDS
        QUIC_STREAM_WINDOW_BYTES QUIC_TOKENS_PER_CONNECTION
        QUIC_EARLY_DATAGRAMS_MAX QUIC_HANDSHAKE_PIECES_MAX QUIC_HIDDEN_PACKETS_MAX QUIC_PATH_CHALLENGES_MAX
        QUIC_PEER_IDS_REMEMBERED_MAX QUIC_RECEIVED_DATAGRAM_BYTES_MAX QUIC_UNREAD_PIECES_MAX QUIC_UNVALIDATED_ADDRESSES_MAX
        QUIC_UNVALIDATED_ADDRESS_MS
        QUIC_TOKEN_SECONDS QUIC_UNIDIRECTIONAL_STREAMS_MAX QUIC_USED_TOKENS_BITS QUIC_VERSION_NEGOTIATION_INTERVAL_MS
    );

    let Timeouts { head, idle, idle_crowded, handler, send } = Timeouts::default();
    let times = [
        ("head", head),
        ("idle", idle),
        ("idle_crowded", idle_crowded),
        ("handler", handler),
        ("send", send),
        ("DRAIN_GRACE", DRAIN_GRACE),
        ("LINGER", LINGER),
        ("HANDSHAKE_SILENCE_MAX", HANDSHAKE_SILENCE_MAX),
        ("SHARED_SOCKETS_MAX", SHARED_SOCKETS_MAX),
        ("READY_WITHIN", crate::process::READY_WITHIN),
        ("SILENCE_MIN", SILENCE_MIN),
        ("BODY_OCCUPIES_MAX", route_limits::BODY_OCCUPIES_MAX),
        ("BODY_WAITS_MAX", route_limits::BODY_WAITS_MAX),
        ("WORKER_HANDLER_MAX", route_limits::WORKER_HANDLER_MAX),
    ];
    let times = times.map(|(name, time)| (name, time.as_secs().to_string()));

    let route_limits = values!(route_limits:
        HANDLED_SEND_WINDOW_BYTES HANDLERS_CONTENT_BYTES_MAX HANDLERS_WAITING_MAX HANDLER_BODY_PENDING_BYTES
        HANDLER_CONTENT_BYTES_MAX BODY_COLLECTED_MS BODY_THREADS_PER_HANDLER_THREAD KEPT_STEP_BYTES
    );
    let attempts = [
        ("ATTEMPTS_PER_ITERATION_MAX", ATTEMPTS_PER_ITERATION_MAX.to_string()),
        ("ATTEMPTS_WAITING_MAX", ATTEMPTS_WAITING_MAX.to_string()),
        ("HANDSHAKES_WAITING_MAX", HANDSHAKES_WAITING_MAX.to_string()),
    ];
    let content_limits = values!(content_limits:
        BODY_BYTES_MAX BODY_COLLECTED_BYTES BOUNDARY_BYTES_MAX CONTENT_WAITING_BYTES PARTS_MAX PART_HEAD_BYTES_MAX PART_TEXT_BYTES_MAX
    );
    let site_limits = values!(site_limits:
        ARCHIVE_VERIFIED_BYTES_MAX PASSWORD_COUNTERS SITE_IDLE_SECONDS SITE_WAITING_MS_PER_SECOND SITE_WAIT_MS
        RELEASES_COPIED_BYTES_MAX SITES_ARCHIVES_MAX SITES_COPIED_BYTES_MAX SITE_COPIED_BYTES_MAX WRONG_PASSWORDS_PER_MINUTE_MAX
    );
    http_limits
        .into_iter()
        .chain(tls_limits)
        .chain(times)
        .chain(attempts)
        .chain(route_limits)
        .chain(content_limits)
        .chain(site_limits)
        .collect()
}

/// Extracts the rows of the pages (the name in the last column and the number in the second).
fn rows(pages: &str) -> BTreeMap<&str, String> {
    let mut rows = BTreeMap::new();
    for line in pages.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, value, .., last, _] = cells[..] else { continue };
        let Some(name) = last.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let is_of_number = |sign: &char| sign.is_ascii_digit() || *sign == ',';
        let number: String = value.chars().take_while(is_of_number).filter(char::is_ascii_digit).collect();
        assert!(rows.insert(name, number).is_none(), "{name} has two rows");
    }
    rows
}

#[test]
fn every_limit_has_a_row_with_its_value() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let limits = limits();
    for path in [
        "crates/wire/src/limits.rs",
        "crates/transport/src/limits.rs",
        "crates/routes/src/limits.rs",
        "crates/server/src/routes/limits.rs",
        "crates/server/src/content/limits.rs",
    ] {
        let text = read(path);
        let names = text.lines().filter_map(|line| {
            let public = line.strip_prefix("pub const ").or(line.strip_prefix("pub(crate) const "));
            public?.split(':').next()
        });
        let unknown: BTreeSet<&str> = names.filter(|name| !limits.contains_key(name)).collect();
        assert!(unknown.is_empty(), "add them to this test and to docs/design/limits.md: {unknown:?}");
    }
    let pages = ["docs/limits.md", "docs/design/limits.md"].map(read).concat();
    assert_eq!(rows(&pages), limits, "the pages on the left, the code on the right");
}
