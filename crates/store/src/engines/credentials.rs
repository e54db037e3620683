//! Credentials, as other programs of the same ecosystem find them: Docker's configuration and helpers, and the chain of AWS.

pub(super) mod aws;
mod docker;
mod helper;

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use super::{Address, StoreSettings};
use crate::error::{StoreError, StoreErrorKind};
use crate::limits::{RENEWAL_INTERVAL, RENEWAL_MARGIN};

/// A proof of identity that a store accepts instead of an anonymous request.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credentials {
    /// Nothing.
    #[default]
    Anonymous,
    /// A user with a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token for requests.
    Bearer(String),
    /// A token that is exchanged for tokens for requests.
    Refresh(String),
    /// Keys of AWS.
    Aws {
        /// The access key.
        key: String,
        /// The secret key.
        secret: String,
        /// The token of a session.
        token: Option<String>,
        /// The region.
        region: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets must not end up in logs.
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Returns the value of an `Authorization` field that needs no exchange.
    pub(super) fn authorization(&self) -> Option<String> {
        match self {
            Credentials::Basic { user, password } => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
            }
            Credentials::Bearer(token) => Some(format!("Bearer {token}")),
            _ => None,
        }
    }
}

/// Credentials, and how long they are good for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The credentials.
    pub credentials: Credentials,
    /// When they expire, in seconds since 1970, if their source says so.
    pub expires: Option<u64>,
    /// Whether a file, a program or a service may have others later.
    pub may_change: bool,
    /// A file that may have credentials and can't be read, and the reason.
    #[serde(default)]
    pub unread: Option<String>,
}

/// Finds the credentials for a store, again and again.
#[derive(Clone)]
pub struct Finder {
    address: Address,
    settings: StoreSettings,
    /// Whether a profile of AWS has given the keys.
    has_profile: bool,
}

impl Finder {
    /// Returns a finder that has found none yet.
    #[must_use]
    pub fn new(address: Address, settings: StoreSettings) -> Finder {
        Finder { address, settings, has_profile: false }
    }

    /// Finds the credentials. This may run a credential helper, and ask a service for keys.
    ///
    /// # Errors
    /// Returns [`StoreError`] if a configuration, a helper or a service is broken. Without any credentials, requests are anonymous,
    /// except those to S3.
    pub fn find(&mut self) -> Result<Lease, StoreError> {
        let token = || {
            Lease::fixed(variable("CANNERY_STORE_TOKEN").map_or(Credentials::Anonymous, Credentials::Bearer))
        };
        match &self.address {
            Address::Folder(_) => Ok(Lease::default()),
            Address::Web(_) => Ok(token()),
            Address::Oci { registry, .. } => {
                let (lease, unread) = match docker::find(registry)? {
                    (Credentials::Anonymous, unread) => (token(), unread),
                    (credentials, _) => (Lease::fixed(credentials), None),
                };
                // The user may log in later, and the next look may be able to read the file.
                Ok(Lease { may_change: true, unread, ..lease })
            }
            Address::S3 { .. } => aws::find(&self.settings, &mut self.has_profile),
        }
    }
}

impl Lease {
    fn fixed(credentials: Credentials) -> Lease {
        Lease { credentials, ..Lease::default() }
    }

    /// Returns whether the credentials expire within this time.
    fn expires_within(&self, time: Duration) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.expires.is_some_and(|expires| expires <= (now + time).as_secs())
    }
}

/// Finds credentials again.
pub type Source = Box<dyn FnMut() -> Result<Lease, StoreError> + Send>;

/// Credentials of an open store. They are replaced before they expire, and once the store refuses them.
pub struct Login {
    lease: Lease,
    source: Option<Source>,
    /// When the source was last asked.
    asked: Instant,
    /// Why it has found none then.
    failure: Option<StoreError>,
}

impl Login {
    /// Returns a login with credentials that `source` has just found.
    #[must_use]
    pub fn new(lease: Lease, source: Option<Source>) -> Login {
        Login { lease, source, asked: Instant::now(), failure: None }
    }

    /// Finds the credentials for a store, now and whenever they have to be replaced.
    ///
    /// # Errors
    /// The same as [`Finder::find`].
    pub fn find(address: &Address, settings: &StoreSettings) -> Result<Login, StoreError> {
        let mut finder = Finder::new(address.clone(), settings.clone());
        let lease = finder.find()?;
        Ok(Login::new(lease, Some(Box::new(move || finder.find()))))
    }

    /// Returns credentials that haven't expired, unless the source has no others.
    pub(super) fn credentials(&mut self) -> Result<&Credentials, StoreError> {
        if self.lease.expires_within(RENEWAL_MARGIN) && self.may_ask() {
            // The service may be back in time.
            let _ = self.ask();
        }
        match &self.failure {
            // The store would only say that they are wrong.
            Some(failure) if self.lease.expires_within(Duration::ZERO) => Err(failure.clone()),
            _ => Ok(&self.lease.credentials),
        }
    }

    /// Asks the source after the store has refused the credentials. Returns whether it has others now.
    pub(super) fn replace_refused(&mut self) -> Result<bool, StoreError> {
        if !self.may_ask() {
            return self.failure.clone().map_or(Ok(false), Err);
        }
        let before = self.lease.credentials.clone();
        self.ask()?;
        Ok(self.lease.credentials != before)
    }

    /// Returns the error for a request that was refused because credentials weren't read, if that is so.
    pub(super) fn unread(&self) -> Option<StoreError> {
        let unread =
            self.lease.unread.as_ref().filter(|_| self.lease.credentials == Credentials::Anonymous)?;
        let message = format!(
            "the registry demands credentials, and they may be in a file that can't be read: {unread}"
        );
        Some(
            StoreError::new(StoreErrorKind::Denied, message)
                .hint("let this user read the file, or name another one in the variable REGISTRY_AUTH_FILE"),
        )
    }

    /// Returns whether the source may have other credentials. It isn't asked before each request that the store never permits.
    fn may_ask(&self) -> bool {
        self.lease.may_change && self.source.is_some() && self.asked.elapsed() >= RENEWAL_INTERVAL
    }

    fn ask(&mut self) -> Result<(), StoreError> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let found = source();
        self.asked = Instant::now();
        self.failure = found.as_ref().err().cloned();
        // A file that is replaced at the moment may seem to have none.
        self.lease = Lease { may_change: true, ..found? };
        Ok(())
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn home(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(variable("HOME")?).join(path))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", Lease::fixed(Credentials::Bearer("secret".into())));
        assert!(!shown.contains("secret"), "{shown}");
    }

    fn lease(token: &str, expires: u64) -> Lease {
        let credentials = Credentials::Bearer(token.into());
        Lease { credentials, expires: Some(expires), may_change: true, unread: None }
    }

    /// Returns a login that was last renewed an hour ago, and the number of questions to its source.
    fn login(before: Lease, after: Result<Lease, &'static str>) -> (Login, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let questions = Arc::clone(&count);
        let source = move || {
            questions.fetch_add(1, Ordering::Relaxed);
            after.clone().map_err(|why| StoreError::new(StoreErrorKind::Failing, why))
        };
        let mut login = Login::new(before, Some(Box::new(source)));
        login.asked = Instant::now().checked_sub(Duration::from_secs(3600)).unwrap();
        (login, count)
    }

    #[test]
    fn credentials_are_replaced_before_they_expire() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let (soon, later) = (now + 60, now + 7200);
        let new = Credentials::Bearer("new".into());
        let (mut expiring, count) = login(lease("old", soon), Ok(lease("new", later)));
        assert!(*expiring.credentials().unwrap() == new && *expiring.credentials().unwrap() == new);
        assert_eq!(count.load(Ordering::Relaxed), 1);

        let (mut fresh, count) = login(lease("old", later), Ok(lease("new", later)));
        assert_eq!((*fresh.credentials().unwrap() == new, count.load(Ordering::Relaxed)), (false, 0));
        assert!(fresh.replace_refused().unwrap() && *fresh.credentials().unwrap() == new);
        // The store may refuse what no credentials permit.
        assert_eq!((fresh.replace_refused().unwrap(), count.load(Ordering::Relaxed)), (false, 1));

        // A service that is down must not matter before the credentials expire.
        let (mut expiring, _) = login(lease("old", soon), Err("down"));
        assert!(expiring.credentials().is_ok());
        let (mut expired, count) = login(lease("old", now - 1), Err("down"));
        // The source isn't asked again at once, but the reason stays.
        for _ in 0..2 {
            assert_eq!(expired.credentials().unwrap_err().message, "down");
            assert_eq!(expired.replace_refused().unwrap_err().message, "down");
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
