//! Unit tests of a session: its end after the handshake, and the limit of its messages.

use std::time::SystemTime;

use cannery_testkit::tls::ClientOptions;
use quinn_proto::crypto::Session as _;
use rustls::pki_types::ServerName;
use rustls::quic::ClientConnection;

use super::*;
use crate::quic::crypto::suites;
use crate::{Certificates, Context, Protocol, Seed, SelfSigned, Settings, Version as TlsVersion};

/// Returns a session and a client. The session has not received its hello.
fn pair() -> (Session, ClientConnection) {
    let now = SystemTime::now();
    let context = Context::new(Settings {
        certificates: Certificates::self_signed(SelfSigned::Ecdsa, &["localhost".to_owned()], now).unwrap(),
        seed: Some(Seed::generate(now).unwrap()),
        versions: vec![TlsVersion::Tls13],
        protocols: vec![Protocol::Http2],
        now,
    });
    let config = Arc::new(context.unwrap().quic_config(suites::provider()).unwrap());
    let session = Session::new(config, Vec::new(), Arc::default()).unwrap();

    let tls = Arc::new(ClientOptions::default().tls13().protocols(&["h3"]).build());
    let name = ServerName::try_from("localhost").unwrap();
    (session, ClientConnection::new(tls, Version::V1, name, Vec::new()).unwrap())
}

/// Moves the messages of the client to the session, one level of encryption after the other.
fn send_to_session(client: &mut ClientConnection, session: &mut Session) -> Result<(), TransportError> {
    let mut messages = Vec::new();
    while client.write_hs(&mut messages).is_some() {}
    session.read_handshake(&messages).map(|_| ())
}

/// Moves the messages of the session to the client. Returns the number of key sets that the session returned.
fn send_to_client(session: &mut Session, client: &mut ClientConnection) -> usize {
    let mut key_sets = 0;
    loop {
        let mut messages = Vec::new();
        let keys = session.write_handshake(&mut messages);
        key_sets += usize::from(keys.is_some());
        if !messages.is_empty() {
            client.read_hs(&messages).unwrap();
        } else if keys.is_none() {
            return key_sets;
        }
    }
}

#[test]
fn session_keeps_only_its_properties_after_the_handshake() {
    let (mut session, mut client) = pair();
    assert!(session.next_1rtt_keys().is_none());
    send_to_session(&mut client, &mut session).unwrap();
    assert_eq!(send_to_client(&mut session, &mut client), 2);
    assert!(session.is_handshaking() && matches!(session.stage, Stage::Handshake(_)));
    assert!(session.next_1rtt_keys().is_some());

    send_to_session(&mut client, &mut session).unwrap();
    assert!(!session.is_handshaking());
    assert_eq!(send_to_client(&mut session, &mut client), 0, "a ticket");
    assert!(matches!(session.stage, Stage::Established { .. }));
    assert_eq!(client.tls13_tickets_received(), 1);

    let state: Box<SessionState> = session.handshake_data().unwrap().downcast().unwrap();
    assert_eq!(state.server_name.as_deref(), Some("localhost"));
    assert_eq!(state.handshake_kind, HandshakeKind::Full);
    assert!(!session.is_handshaking() && session.next_1rtt_keys().is_some());
}

#[test]
fn message_after_the_handshake_is_refused() {
    let (mut session, mut client) = pair();
    send_to_session(&mut client, &mut session).unwrap();
    send_to_client(&mut session, &mut client);
    send_to_session(&mut client, &mut session).unwrap();
    send_to_client(&mut session, &mut client);

    // A KeyUpdate, which QUIC does not use (RFC 9001 §6).
    let error = session.read_handshake(&[24, 0, 0, 1, 0]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::crypto(10), "unexpected_message");
}

#[test]
fn messages_are_limited() {
    let (mut session, _) = pair();
    let mut message = vec![1, 0, 0xff, 0xff];
    message.resize(HANDSHAKE_BYTES_MAX, 0);
    session.read_handshake(&message).unwrap();
    let error = session.read_handshake(&[0]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::CRYPTO_BUFFER_EXCEEDED);
}

#[test]
fn alert_of_the_library_becomes_the_error_code() {
    let (mut session, _) = pair();
    let error = session.read_handshake(&[20, 0, 0, 1, 0]).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::crypto(10), "unexpected_message");
    assert!(!error.reason.is_empty());
}

#[test]
fn parts_that_only_clients_need_are_absent() {
    let (session, _) = pair();
    assert!(session.early_crypto().is_none() && session.early_data_accepted().is_none());
    assert!(session.peer_identity().is_none());
    assert!(!session.is_valid_retry(&ConnectionId::new(&[]), &[], &[]));
    assert!(session.export_keying_material(&mut [0; 16], b"label", &[]).is_err());
}
