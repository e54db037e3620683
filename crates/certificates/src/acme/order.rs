//! One order (RFC 8555 §7.4): its names are proven, a key is generated, and the certificate is fetched.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls_pki_types::Der;
use zeroize::Zeroizing;

use super::http::Http;
use super::problem::{refused, translate};
use super::unfinished::{OrderFile, UnfinishedOrder};
use crate::certificate::RenewalId;
use crate::challenge::{Challenges, Method, Record, Records};
use crate::error::{Error, Evidence};
use crate::limits::{ORDER_TIMEOUT, POLL_INTERVAL, POLL_INTERVAL_MIN};
use crate::names::{Name, Names};
use crate::persistent_record::{DNS_PERSIST_01, PersistentRecord};

/// Kind of a certificate's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256: small and fast. All browsers of the last ten years accept it.
    #[default]
    Ecdsa,
    /// RSA with 2,048 bits, for older clients.
    Rsa,
}

/// An order to place.
pub(crate) struct OrderRequest<'a> {
    pub(crate) names: &'a Names,
    pub(crate) key: KeyKind,
    pub(crate) profile: Option<&'a str>,
    pub(crate) replaces: Option<&'a RenewalId>,
    pub(crate) challenges: &'a Challenges,
    /// Where the order is kept while the authority issues the certificate.
    pub(crate) file: OrderFile<'a>,
    /// Set if the authority may have issued a certificate that is lost.
    pub(crate) is_lost: &'a Cell<bool>,
}

/// Orders a certificate. Returns a bundle: the chain and its key, in PEM. `persistent` has the DNS records that should be there.
pub(super) async fn obtain(
    account: &Account,
    http: &Http,
    directory: &str,
    request: &OrderRequest<'_>,
    persistent: &[PersistentRecord],
) -> Result<Zeroizing<String>, Error> {
    let failed = |error| translate(error, http.last());
    let identifiers: Vec<_> = request.names.as_slice().iter().map(identifier).collect();
    let mut new_order = NewOrder::new(&identifiers);
    if let Some(profile) = request.profile {
        new_order = new_order.profile(profile);
    }
    if let Some(RenewalId { authority_key_identifier, serial }) = request.replaces {
        let (key_identifier, serial) = (Der::from_slice(authority_key_identifier), Der::from_slice(serial));
        new_order = new_order.replaces(CertificateIdentifier::new(key_identifier, serial));
    }
    let hook = request.challenges.hook();
    let records = hook.map(|hook| Records::open(hook, request.file.folder));
    let mut records = records.transpose()?;
    let mut order = account.new_order(&new_order).await.map_err(failed)?;

    // All records come first: `*.example.com` and `example.com` share a name, and an authority that has looked it up for one of them
    // may remember the answer.
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        prepare(authorization.map_err(failed)?, request.challenges, records.as_mut())?;
    }
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failed)?;
        if let Some((name, mut challenge)) = challenge(&mut authorization, request.challenges)? {
            let asked = challenge.set_ready().await.map_err(failed);
            let kind = &challenge.r#type;
            asked.map_err(|error| of_challenge(error, &name.to_string(), kind, persistent))?;
        }
    }

    let limit = timeout();
    match await_checks(&mut order, http, limit).await {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Ok(OrderStatus::Pending | OrderStatus::Processing) => {
            let retry_after = http.last().retry_after;
            return Err(Error::Timeout { what: "checking the names", limit, retry_after });
        }
        // The order's error is often only a summary of those of its names.
        Ok(OrderStatus::Invalid) => return Err(why_invalid(&mut order, http, persistent).await),
        Err(error) => {
            let is_invalid = matches!(order.state().status, OrderStatus::Invalid);
            return Err(if is_invalid { why_invalid(&mut order, http, persistent).await } else { error });
        }
    }
    drop(records);

    let key = generate_key(request.key)?;
    // From here on, the authority may issue the certificate whatever happens to this process.
    request.file.write(directory, request.names, order.url(), &key)?;
    finish(&mut order, http, &key, request).await
}

/// Waits until the authority has checked the names. A poll that fails is repeated within the time that it has.
async fn await_checks(order: &mut Order, http: &Http, limit: Duration) -> Result<OrderStatus, Error> {
    let end = Instant::now() + limit;
    let mut pause = POLL_INTERVAL_MIN;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let error = match order.poll_ready(&RetryPolicy::new().timeout(left)).await {
            Ok(status) => return Ok(status),
            Err(instant_acme::Error::Timeout(_)) => {
                let retry_after = http.last().retry_after;
                return Err(Error::Timeout { what: "checking the names", limit, retry_after });
            }
            Err(error) => translate(error, http.last()),
        };
        let wait = error.retry_after().unwrap_or_default().max(pause);
        let is_invalid = matches!(order.state().status, OrderStatus::Invalid);
        if is_invalid || !may_pass(&error) || Instant::now() + wait >= end {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        pause = (2 * pause).min(POLL_INTERVAL);
    }
}

/// Continues an order of an earlier attempt. Returns `None` if it can't end in a certificate any more.
pub(super) async fn resume(
    account: &Account,
    http: &Http,
    unfinished: &UnfinishedOrder,
    request: &OrderRequest<'_>,
) -> Result<Option<Zeroizing<String>>, Error> {
    let failed = |error| translate(error, http.last());
    let Some(key) = unfinished.key() else { return Ok(None) };
    let mut order = match account.order(unfinished.url.clone()).await.map_err(failed) {
        Ok(order) => order,
        // The authority has forgotten it.
        Err(error @ Error::Refused { .. }) if !may_pass(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if matches!(order.state().status, OrderStatus::Pending | OrderStatus::Invalid) {
        return Ok(None);
    }
    finish(&mut order, http, &key, request).await.map(Some)
}

/// Lets the authority issue the certificate. The order is kept on disk as long as it may succeed later.
async fn finish(
    order: &mut Order,
    http: &Http,
    key: &KeyPair,
    request: &OrderRequest<'_>,
) -> Result<Zeroizing<String>, Error> {
    let csr = signing_request(request.names, key)?;
    let is_final = Cell::new(matches!(order.state().status, OrderStatus::Processing | OrderStatus::Valid));
    let chain = issue(order, http, &csr, &is_final).await.inspect_err(|error| {
        // An odd response may come from a proxy, and the certificate exists: its key is only here.
        let may_succeed = is_final.get() && matches!(error, Error::Senseless { .. });
        if !may_pass(error) && !may_succeed && !matches!(error, Error::Timeout { .. }) {
            request.file.clear();
            request.is_lost.set(is_final.get());
        }
    })?;

    let key = Zeroizing::new(key.serialize_pem());
    let line_break = if chain.ends_with('\n') { "" } else { "\n" };
    Ok(Zeroizing::new(format!("{chain}{line_break}{}", key.as_str())))
}

/// Asks the authority to issue the certificate, and waits for it. Returns the chain in PEM.
///
/// If the authority can't issue it at the moment, we ask again once it permits that.
async fn issue(order: &mut Order, http: &Http, csr: &[u8], is_final: &Cell<bool>) -> Result<String, Error> {
    let failed = |error| translate(error, http.last());
    let limit = timeout();
    let deadline = Instant::now() + limit;
    let mut pause = POLL_INTERVAL_MIN;
    let mut refusal = None;
    let mut failed_poll = None;
    let mut asks_at = Instant::now();
    // Whether the state is not from before a request whose response is lost.
    let mut is_current = true;
    loop {
        let status = order.state().status;
        match status {
            OrderStatus::Ready if is_current && Instant::now() >= asks_at => {
                is_final.set(true);
                let asked = order.finalize_csr(csr).await.map_err(failed);
                asks_at = Instant::now() + POLL_INTERVAL;
                refusal = None;
                if let Err(error) = asked {
                    // Then the authority has got an earlier request (RFC 8555 §7.4).
                    let is_asked_already =
                        matches!(&error, Error::Refused { kind, .. } if kind == "orderNotReady");
                    if !may_pass(&error) && !is_asked_already {
                        is_final.set(false);
                        return Err(error);
                    }
                    // The authority may have got the request, although its response is lost.
                    is_current = false;
                    asks_at = asks_at.max(Instant::now() + error.retry_after().unwrap_or_default());
                    refusal = Some(error);
                }
            }
            OrderStatus::Valid if failed_poll.is_none() => match order.certificate().await.map_err(failed) {
                Ok(Some(chain)) => return Ok(chain),
                Ok(None) => {}
                // The certificate exists, and its key does only here.
                Err(error) if may_pass(&error) => {
                    pause = pause.max(error.retry_after().unwrap_or_default());
                    failed_poll = Some(error);
                }
                Err(error) => return Err(error),
            },
            OrderStatus::Invalid => {
                is_final.set(false);
                return Err(error_of(order, http));
            }
            // Also after a failed poll.
            OrderStatus::Valid | OrderStatus::Ready | OrderStatus::Pending | OrderStatus::Processing => {}
        }

        let is_refused = is_current && matches!(order.state().status, OrderStatus::Ready);
        let is_over = Instant::now() + pause >= deadline || is_refused && asks_at >= deadline;
        if is_over {
            is_final.set(!is_refused);
            let retry_after = http.last().retry_after;
            let timeout = Error::Timeout { what: "issuing the certificate", limit, retry_after };
            // The next attempt should wait for as long as the authority has asked for.
            return Err(refusal.filter(|_| is_refused).or(failed_poll).unwrap_or(timeout));
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(POLL_INTERVAL);
        match order.refresh().await.map(drop).map_err(failed) {
            Ok(()) => {
                is_current = true;
                failed_poll = None;
                pause = pause.max(http.last().retry_after.unwrap_or_default());
            }
            Err(error) if may_pass(&error) => {
                let wait = error.retry_after().unwrap_or_default();
                pause = pause.max(wait);
                asks_at = asks_at.max(Instant::now() + wait);
                failed_poll = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the time that the authority has for each of its two steps. Tests of debug builds shorten it.
fn timeout() -> Duration {
    let shortened = if cfg!(debug_assertions) { std::env::var("CANNERY_ORDER_TIMEOUT_S").ok() } else { None };
    let seconds = shortened.and_then(|seconds| seconds.parse().ok());
    seconds.map_or(ORDER_TIMEOUT, Duration::from_secs)
}

/// Adds to an error of a challenge what it was about.
fn of_challenge(
    mut error: Error,
    name: &str,
    kind: &ChallengeType,
    persistent: &[PersistentRecord],
) -> Error {
    if let Error::Refused { detail, evidence, .. } = &mut error {
        *evidence = match kind {
            ChallengeType::Dns01 => Evidence::HookRecord,
            ChallengeType::Unknown(kind) if kind == DNS_PERSIST_01 => {
                let domain = name.strip_prefix("*.").unwrap_or(name);
                let record = persistent.iter().find(|record| record.domain == domain);
                record.map_or(Evidence::Response, |record| Evidence::PersistentRecord(record.clone().into()))
            }
            _ => Evidence::Response,
        };
        *detail = format!("{name}: {detail}");
    }
    error
}

/// Returns `true` for errors that another attempt may not have.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Unreachable { .. } | Error::Failing { .. })
        || matches!(error, Error::Refused { kind, .. } if matches!(kind.as_str(), "rateLimited" | "badNonce"))
}

/// Sets the DNS record of a name, if that is how it is proven.
fn prepare(
    authorization: AuthorizationHandle<'_>,
    challenges: &Challenges,
    records: Option<&mut Records<'_>>,
) -> Result<(), Error> {
    // A challenge borrows the handle for all of its lifetime, which has to be a shorter one.
    let mut authorization = authorization;
    let Some((name, challenge)) = challenge(&mut authorization, challenges)? else { return Ok(()) };
    let (Method::Dns, Some(records)) = (challenges.method(&name), records) else { return Ok(()) };
    records.set(Record {
        name: format!("_acme-challenge.{}", name.domain()),
        value: challenge.key_authorization().dns_value(),
    })
}

/// Returns the challenge by which a name is proven, unless the authority has checked the name lately.
fn challenge<'a>(
    authorization: &'a mut AuthorizationHandle<'a>,
    challenges: &Challenges,
) -> Result<Option<(Name, ChallengeHandle<'a>)>, Error> {
    match authorization.status {
        AuthorizationStatus::Valid => return Ok(None),
        AuthorizationStatus::Pending => {}
        other => {
            return Err(Error::Senseless {
                why: format!("a new order has an authorization that is {other:?}"),
            });
        }
    }

    let name = authorized_name(authorization)?;
    let (kind, wanted) = match challenges.method(&name) {
        Method::Http => (ChallengeType::Http01, "http-01"),
        Method::Dns | Method::Impossible => (ChallengeType::Dns01, "dns-01"),
        Method::DnsPersist => (ChallengeType::Unknown(DNS_PERSIST_01.to_owned()), DNS_PERSIST_01),
    };
    let Some(challenge) = authorization.challenge(kind) else {
        return Err(Error::NoChallenge { name: name.to_string(), wanted });
    };
    Ok(Some((name, challenge)))
}

/// Returns the name that an authorization is for.
fn authorized_name(authorization: &AuthorizationHandle<'_>) -> Result<Name, Error> {
    let name = authorization.identifier().to_string();
    name.parse().map_err(|_| Error::Senseless { why: format!("an authorization is for `{name}`") })
}

/// Finds out why an order has become invalid: its challenges have the details.
async fn why_invalid(order: &mut Order, http: &Http, persistent: &[PersistentRecord]) -> Error {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { break };
        let failed = state
            .challenges
            .iter()
            .find_map(|challenge| Some((challenge.r#type.clone(), challenge.error.as_ref()?)));
        if let Some((kind, problem)) = failed {
            let error = refused(problem, http.last());
            let name = authorization.identifier().to_string();
            return of_challenge(error, &name, &kind, persistent);
        }
    }
    error_of(order, http)
}

/// Returns the error of an order that has become invalid.
fn error_of(order: &mut Order, http: &Http) -> Error {
    match &order.state().error {
        Some(problem) => refused(problem, http.last()),
        None => Error::Senseless { why: "an order has become invalid without a reason".into() },
    }
}

fn identifier(name: &Name) -> Identifier {
    match name {
        Name::Address(address) => Identifier::Ip(IpAddr::to_canonical(address)),
        name => Identifier::Dns(name.to_string()),
    }
}

fn generate_key(kind: KeyKind) -> Result<KeyPair, Error> {
    let key = KeyPair::generate_for(match kind {
        KeyKind::Ecdsa => &PKCS_ECDSA_P256_SHA256,
        KeyKind::Rsa => &PKCS_RSA_SHA256,
    });
    key.map_err(|error| Error::Crypto { why: error.to_string() })
}

/// Returns a signing request in DER. The names are only in the extension, as authorities want it.
fn signing_request(names: &Names, key: &KeyPair) -> Result<Vec<u8>, Error> {
    let failed = |error: rcgen::Error| Error::Crypto { why: error.to_string() };
    let names: Vec<_> = names.as_slice().iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key).map_err(failed)?.der().to_vec())
}
