//! Registers the account key at an authority (RFC 8555 §7.3).
//!
//! `instant-acme` either generates the key or leaves out contact and external account. But our key must be on disk before the
//! authority knows it, so this request is our own.

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{Request, Response};
use instant_acme::Problem;
use serde_json::{Value, json};

use super::account::AccountKey;
use super::http::Http;
use super::problem::refused;
use super::{AuthoritySettings, Directory};
use crate::error::Error;

/// How often a request is repeated because its nonce was refused. Authorities forget nonces when they restart.
const NONCES_MAX: usize = 4;

/// Registers the key and returns the account's URL. If the authority knows the key, it is that of the same account.
pub(super) fn register(
    http: &Http,
    directory: &Directory,
    key: &AccountKey,
    settings: &AuthoritySettings,
) -> Result<String, Error> {
    let payload = payload(directory, key, settings)?.to_string();
    let new_nonce = || nonce(&send(http, Request::get(&directory.new_nonce), Bytes::new())?);
    let mut nonce = new_nonce()?;
    for _ in 0..NONCES_MAX {
        let protected = json!({
            "alg": "ES256",
            "jwk": key.public_key(),
            "nonce": nonce,
            "url": directory.new_account,
        });
        let body = sign(&protected, &payload, |input| signature(key, input))?.to_string();
        let request = Request::post(&directory.new_account).header(CONTENT_TYPE, "application/jose+json");
        let response = send(http, request, Bytes::from(body))?;
        if response.status().is_success() {
            let url = response.headers().get(LOCATION).and_then(|url| url.to_str().ok());
            return url.map(str::to_owned).ok_or_else(|| senseless("a new account has no URL"));
        }

        let problem: Problem = serde_json::from_slice(response.body())
            .map_err(|_| senseless("a problem of a registration is not the JSON of RFC 7807"))?;
        match refused(&problem, http.last()) {
            Error::Refused { kind, .. } if kind == "badNonce" => {}
            error => return Err(of_external_account(error, settings)),
        }
        // RFC 8555 §6.5 requires one in the response, but proxies may remove it.
        nonce = self::nonce(&response).or_else(|_| new_nonce())?;
    }
    Err(senseless("it refuses its own nonces"))
}

/// Tells the refusal of an external account from others. RFC 8555 §7.3.4 doesn't say by which problem an authority refuses it.
fn of_external_account(error: Error, settings: &AuthoritySettings) -> Error {
    match (error, &settings.external_account) {
        (Error::Refused { kind, detail, .. }, Some(external))
            if matches!(kind.as_str(), "unauthorized" | "malformed" | "externalAccountRequired") =>
        {
            Error::ExternalAccount { id: external.id.clone(), kind, detail }
        }
        (error, _) => error,
    }
}

fn payload(directory: &Directory, key: &AccountKey, settings: &AuthoritySettings) -> Result<Value, Error> {
    let mut payload = json!({ "termsOfServiceAgreed": settings.agrees });
    if let Some(address) = &settings.contact {
        payload["contact"] = json!([format!("mailto:{address}")]);
    }
    if let Some(external) = &settings.external_account {
        let protected = json!({ "alg": "HS256", "kid": external.id, "url": directory.new_account });
        let hmac_key = hmac::Key::new(hmac::HMAC_SHA256, &external.key);
        let binding = sign(&protected, &key.public_key().to_string(), |input| {
            Ok(hmac::sign(&hmac_key, input).as_ref().to_vec())
        })?;
        payload["externalAccountBinding"] = binding;
    }
    Ok(payload)
}

/// Returns a JSON Web Signature in its flattened form (RFC 7515 §7.2.2).
fn sign(
    protected: &Value,
    payload: &str,
    signature: impl FnOnce(&[u8]) -> Result<Vec<u8>, Error>,
) -> Result<Value, Error> {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let (protected, payload) = (encode(protected.to_string().as_bytes()), encode(payload.as_bytes()));
    let signature = signature(format!("{protected}.{payload}").as_bytes())?;
    Ok(json!({ "protected": protected, "payload": payload, "signature": encode(&signature) }))
}

fn signature(key: &AccountKey, input: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = || Error::Crypto { why: "the account key cannot sign".into() };
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.pkcs8).map_err(|_| failed())?;
    let signature = pair.sign(&SystemRandom::new(), input).map_err(|_| failed())?;
    Ok(signature.as_ref().to_vec())
}

fn send(http: &Http, request: http::request::Builder, body: Bytes) -> Result<Response<Bytes>, Error> {
    let request =
        request.body(body).map_err(|error| senseless(&format!("its directory has a bad URL ({error})")))?;
    http.exchange(request).map_err(|fault| fault.into_error(http.last()))
}

fn nonce(response: &Response<Bytes>) -> Result<String, Error> {
    let nonce = response.headers().get("replay-nonce").and_then(|nonce| nonce.to_str().ok());
    nonce.map(str::to_owned).ok_or_else(|| senseless("a response has no nonce"))
}

fn senseless(why: &str) -> Error {
    Error::Senseless { why: why.to_owned() }
}
