//! A full TLS 1.3 handshake with one certificate, without choices: the cryptography that no server can avoid (RFC 8446, RFC 8448).
//!
//! The client must offer TLS_AES_128_GCM_SHA256 and a key share of X25519MLKEM768 or X25519, and verify ECDSA signatures on P-256.

use std::path::Path;

use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::kem::{EncapsulationKey, ML_KEM_768};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::Refusal;
use crate::record::{HANDSHAKE, Keys, Secret, expand, hmac};

const TLS_AES_128_GCM_SHA256: u16 = 0x1301;
const ECDSA_SECP256R1_SHA256: u16 = 0x0403;

// Named groups.
const GROUP_X25519: u16 = 0x001d;
const GROUP_X25519MLKEM768: u16 = 0x11ec;

/// The encapsulation key of ML-KEM-768, which precedes the client's share of X25519.
const ENCAPSULATION_KEY_BYTES: usize = 1184;

// Messages.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const CERTIFICATE: u8 = 11;
const CERTIFICATE_VERIFY: u8 = 15;
const FINISHED: u8 = 20;

// Extensions.
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// The certificate and its key.
pub(crate) struct Identity {
    random: SystemRandom,
    key: EcdsaKeyPair,
    /// The message with the certificate.
    certificate: Vec<u8>,
}

impl Identity {
    /// Reads a certificate and a P-256 key in PEM.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Identity, String> {
        let of = |path: &Path, error: pem::Error| format!("{}: {error}", path.display());
        let public = CertificateDer::from_pem_file(certificate).map_err(|error| of(certificate, error))?;
        let private = PrivatePkcs8KeyDer::from_pem_file(key).map_err(|error| of(key, error))?;
        Identity::new(&public, private.secret_pkcs8_der())
            .map_err(|error| format!("{}: {error}", key.display()))
    }

    /// Takes a certificate and a P-256 key in DER.
    pub(crate) fn new(certificate: &[u8], key: &[u8]) -> Result<Identity, Refusal> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key);
        // An empty context, and a list with one entry that has no extensions.
        let entry = [&with_length24(certificate)[..], &[0, 0]].concat();
        let certificate = message(CERTIFICATE, &[&[0][..], &with_length24(&entry)].concat());
        Ok(Identity { random: SystemRandom::new(), key: key.map_err(|_| "not a P-256 key")?, certificate })
    }
}

/// A handshake that waits for the client's Finished.
pub(crate) struct Awaited {
    client: Keys,
    finished: Secret,
    application: (Keys, Keys),
}

impl Awaited {
    /// Decrypts the record with the client's Finished in place. Returns the keys for receiving and sending application data.
    pub(crate) fn finish(mut self, record: &mut [u8]) -> Result<(Keys, Keys), Refusal> {
        let start = crate::record::HEADER_BYTES;
        let (content_type, length) = self.client.open(record)?;
        let is_right =
            content_type == HANDSHAKE && record[start..start + length] == *message(FINISHED, &self.finished);
        if is_right { Ok(self.application) } else { Err("a wrong Finished") }
    }
}

/// Answers the ClientHello of a record. Appends the server's records.
pub(crate) fn answer(
    identity: &Identity,
    hello: &[u8],
    protocol: Option<&[u8]>,
    output: &mut Vec<u8>,
) -> Result<Awaited, Refusal> {
    let offer = Offer::parse(hello).ok_or("not a ClientHello with the expected offers")?;
    let (share, shared) = agree(&identity.random, &offer)?;

    let mut random = [0; 32];
    identity.random.fill(&mut random).map_err(|_| "no random numbers")?;
    let extensions = [
        extension(SUPPORTED_VERSIONS, &[3, 4]),
        extension(KEY_SHARE, &[&offer.group.to_be_bytes()[..], &with_length16(&share)].concat()),
    ];
    let server_hello = [
        &[3, 3][..],
        &random,
        &[u8::try_from(offer.session.len()).map_err(|_| "a long session ID")?],
        offer.session,
        &TLS_AES_128_GCM_SHA256.to_be_bytes(),
        &[0],
        &with_length16(&extensions.concat()),
    ];
    let server_hello = message(SERVER_HELLO, &server_hello.concat());
    output.extend_from_slice(&[HANDSHAKE, 3, 3]);
    output.extend_from_slice(&with_length16(&server_hello));

    // The key schedule (RFC 8446, section 7.1), without a PSK.
    let mut transcript = digest::Context::new(&SHA256);
    transcript.update(hello);
    transcript.update(&server_hello);
    let empty = digest::digest(&SHA256, &[]);
    let early = hmac(&[0; 32], &[0; 32]);
    let handshake = hmac(&expand::<32>(&early, "derived", empty.as_ref()), &shared);
    let hash = transcript.clone().finish();
    let client_secret = expand(&handshake, "c hs traffic", hash.as_ref());
    let server_secret = expand(&handshake, "s hs traffic", hash.as_ref());

    let protocol = protocol.filter(|_| offer.has_protocols).map(|name| {
        let name = [&[u8::try_from(name.len()).expect("short")][..], name].concat();
        extension(ALPN, &with_length16(&name))
    });
    let mut flight = message(ENCRYPTED_EXTENSIONS, &with_length16(&protocol.unwrap_or_default()));
    flight.extend_from_slice(&identity.certificate);
    transcript.update(&flight);
    let hash = transcript.clone().finish();
    let signed = [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", hash.as_ref()].concat();
    let signature = identity.key.sign(&identity.random, &signed).map_err(|_| "no signature")?;
    let verify = [&ECDSA_SECP256R1_SHA256.to_be_bytes()[..], &with_length16(signature.as_ref())].concat();
    let verify = message(CERTIFICATE_VERIFY, &verify);
    transcript.update(&verify);
    let finished = message(FINISHED, &finished(&server_secret, &transcript));
    transcript.update(&finished);
    flight.extend_from_slice(&verify);
    flight.extend_from_slice(&finished);
    Keys::new(&server_secret).seal(HANDSHAKE, &flight, output);

    let master = hmac(&expand::<32>(&handshake, "derived", empty.as_ref()), &[0; 32]);
    let hash = transcript.clone().finish();
    let application = |label| Keys::new(&expand(&master, label, hash.as_ref()));
    Ok(Awaited {
        client: Keys::new(&client_secret),
        finished: self::finished(&client_secret, &transcript),
        application: (application("c ap traffic"), application("s ap traffic")),
    })
}

/// Returns the content of a Finished message after these messages.
fn finished(secret: &Secret, transcript: &digest::Context) -> Secret {
    hmac(&expand::<32>(secret, "finished", &[]), transcript.clone().finish().as_ref())
}

/// Returns our key share and the shared secret.
fn agree(random: &SystemRandom, offer: &Offer<'_>) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let (mut share, mut shared) = (Vec::new(), Vec::new());
    let mut peer = offer.share;
    if offer.group == GROUP_X25519MLKEM768 {
        let (key, rest) = peer.split_at_checked(ENCAPSULATION_KEY_BYTES).ok_or("a short key share")?;
        let key = EncapsulationKey::new(&ML_KEM_768, key).map_err(|_| "a wrong encapsulation key")?;
        let (ciphertext, secret) = key.encapsulate().map_err(|_| "no encapsulation")?;
        share.extend_from_slice(ciphertext.as_ref());
        shared.extend_from_slice(secret.as_ref());
        peer = rest;
    }
    let ours = EphemeralPrivateKey::generate(&X25519, random).map_err(|_| "no key")?;
    share.extend_from_slice(ours.compute_public_key().map_err(|_| "no public key")?.as_ref());
    agreement::agree_ephemeral(ours, UnparsedPublicKey::new(&X25519, peer), "a wrong key share", |secret| {
        shared.extend_from_slice(secret);
        Ok(())
    })?;
    Ok((share, shared))
}

/// The parts of a ClientHello that the answer depends on.
struct Offer<'a> {
    session: &'a [u8],
    group: u16,
    share: &'a [u8],
    has_protocols: bool,
}

impl Offer<'_> {
    /// Parses the content of a record.
    fn parse(message: &[u8]) -> Option<Offer<'_>> {
        let mut reader = Reader(message);
        let is_hello = reader.number(1)? == usize::from(CLIENT_HELLO);
        let mut hello = Reader(reader.list(3)?);
        hello.take(2 + 32)?;
        let session = hello.list(1)?;
        let mut suites = hello.list(2)?.chunks(2);
        let has_suite = suites.any(|suite| suite == TLS_AES_128_GCM_SHA256.to_be_bytes());
        hello.list(1)?;

        let mut extensions = Reader(hello.list(2)?);
        let (mut best, mut has_protocols) = (None, false);
        while !extensions.0.is_empty() {
            let kind = extensions.number(2)?;
            let mut content = Reader(extensions.list(2)?);
            has_protocols |= kind == usize::from(ALPN);
            if kind == usize::from(KEY_SHARE) {
                let mut shares = Reader(content.list(2)?);
                while !shares.0.is_empty() {
                    let group = u16::try_from(shares.number(2)?).ok()?;
                    let share = shares.list(2)?;
                    let is_better = best.is_none() || group == GROUP_X25519MLKEM768;
                    if matches!(group, GROUP_X25519 | GROUP_X25519MLKEM768) && is_better {
                        best = Some((group, share));
                    }
                }
            }
        }
        let (group, share) = best?;
        (is_hello && has_suite).then_some(Offer { session, group, share, has_protocols })
    }
}

/// The unread part of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Reads bytes after their number, which has `bytes` bytes.
    fn list(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.take(length)
    }
}

fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &with_length24(content)].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_length16(content)].concat()
}

fn with_length16(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("handshake messages are short");
    [&length.to_be_bytes()[..], content].concat()
}

fn with_length24(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("handshake messages are short");
    [&length.to_be_bytes()[1..], content].concat()
}
