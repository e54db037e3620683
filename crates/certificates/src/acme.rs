//! The certificate authority: its directory, our account, orders, and advice about renewals.
//!
//! `instant-acme` implements ACME. This room adds the HTTP client, errors that operators understand, and what must be on disk.

mod account;
mod http;
mod order;
mod problem;
mod registration;
mod renewal_info;
mod unfinished;

pub(crate) use account::{ACCOUNTS_FILE, AccountKey, Accounts, KEY_FILE};
pub use order::KeyKind;
pub(crate) use order::OrderRequest;
pub(crate) use unfinished::OrderFile;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use instant_acme::Account;
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use zeroize::Zeroizing;

use crate::certificate::RenewalId;
use crate::challenge::DnsProof;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::folder::{self, Folder};
use crate::limits::ORDER_INTERVAL_MIN;
use crate::names::Names;
use crate::persistent_record::PersistentRecord;
use http::Http;
use problem::translate;

/// Which authority to use, and how it knows us.
#[derive(Clone, Debug)]
pub struct AuthoritySettings {
    /// The URL of the directory.
    pub directory: String,
    /// A PEM file with the root certificates of the authority's own server. `None`: those of the web.
    pub roots: Option<PathBuf>,
    /// Whether the operator agrees to the terms of service.
    pub agrees: bool,
    /// An email address for the account.
    pub contact: Option<String>,
    /// An account that the authority gave out by other means.
    pub external_account: Option<ExternalAccount>,
}

/// An external account binding (RFC 8555 §7.3.4).
#[derive(Clone)]
pub struct ExternalAccount {
    /// The key identifier.
    pub id: String,
    /// The HMAC key.
    pub key: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExternalAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An authority.
pub(crate) struct Authority {
    settings: AuthoritySettings,
    http: Http,
    runtime: Runtime,
    account: Option<Account>,
    /// When this process has registered the account.
    registered: Option<Instant>,
}

/// The parts of a directory that `instant-acme` doesn't use or doesn't tell.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    new_nonce: String,
    new_account: String,
    renewal_info: Option<String>,
    #[serde(default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    terms_of_service: Option<String>,
    #[serde(default)]
    caa_identities: Vec<String>,
}

/// The window of a certificate's renewal, and when to ask again.
pub(crate) struct RenewalWindow {
    pub(crate) window: (Timestamp, Timestamp),
    pub(crate) retry_after: Option<Duration>,
}

impl Authority {
    /// Prepares requests, and sends none.
    pub(crate) fn new(settings: AuthoritySettings) -> Result<Authority, Error> {
        let roots = settings.roots.as_deref().map(read_roots).transpose()?;
        let http = Http::new(roots.as_ref().map(|roots| roots.as_slice()));
        // `instant-acme` only needs timers.
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::Crypto { why: error.to_string() })?;
        Ok(Authority { settings, http, runtime, account: None, registered: None })
    }

    pub(crate) fn directory(&self) -> &str {
        &self.settings.directory
    }

    /// Checks whether the terms of service are agreed to, if we have no account yet.
    pub(crate) fn check_terms(&self, folder: &Folder, key: &AccountKey) -> Result<(), Error> {
        let has_account = || {
            let accounts = Accounts::read(&folder.file(ACCOUNTS_FILE))?;
            Ok(self.account.is_some() || accounts.get(&self.settings.directory, key).is_some())
        };
        if self.settings.agrees || has_account()? {
            return Ok(());
        }
        self.read_directory()?.meta.check_agreement(self.settings.agrees)
    }

    /// Orders a certificate. Returns a bundle in PEM.
    pub(crate) fn order(
        &mut self,
        folder: &Folder,
        key: &AccountKey,
        request: &OrderRequest<'_>,
    ) -> Result<Zeroizing<String>, Error> {
        let account = self.account(folder, key)?;
        let records = match request.challenges.dns {
            DnsProof::Persistent => self.persistent_records(&account, request.names)?,
            DnsProof::None | DnsProof::Hook(_) => Vec::new(),
        };
        // The authority would look for records that can't be there, and each failure counts.
        if self.registered.is_some_and(|at| at.elapsed() < ORDER_INTERVAL_MIN) && !records.is_empty() {
            return Err(Error::NewAccount { records });
        }
        let directory = &self.settings.directory;
        let result = self.runtime.block_on(order::obtain(&account, &self.http, directory, request, &records));
        if let Err(Error::Refused { kind, .. }) = &result
            && kind == "accountDoesNotExist"
        {
            // The authority has forgotten it, as those for tests do.
            self.account = None;
            Accounts::read(&folder.file(ACCOUNTS_FILE))?.set(folder, &self.settings.directory, key, None)?;
        }
        result
    }

    /// Continues an order of an earlier attempt, if there is one. Returns a bundle in PEM, or `None` if another order is needed.
    pub(crate) fn resume(
        &mut self,
        folder: &Folder,
        key: &AccountKey,
        request: &OrderRequest<'_>,
    ) -> Result<Option<Zeroizing<String>>, Error> {
        let unfinished = request.file.read(&self.settings.directory, request.names)?;
        let Some(unfinished) = unfinished else { return Ok(None) };
        let account = self.account(folder, key)?;
        let resumed = self.runtime.block_on(order::resume(&account, &self.http, &unfinished, request))?;
        if resumed.is_none() {
            request.file.clear();
        }
        Ok(resumed)
    }

    /// Asks for the renewal window of a certificate. Returns `None` if the authority gives no advice.
    pub(crate) fn renewal_window(&self, id: &RenewalId) -> Result<Option<RenewalWindow>, Error> {
        let Some(resource) = self.read_directory()?.renewal_info else { return Ok(None) };
        let url = renewal_info::url(&resource, id);
        let response = self.http.get(&url).map_err(|fault| fault.into_error(self.http.last()))?;
        let retry_after = self.http.last().retry_after;
        Ok(Some(RenewalWindow { window: renewal_info::parse(&response)?, retry_after }))
    }

    fn read_directory(&self) -> Result<Directory, Error> {
        let url = &self.settings.directory;
        let text = self.http.get(url).map_err(|fault| fault.into_error(self.http.last()))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::Senseless { why: format!("{url} is not an ACME directory ({error})") })
    }

    /// Returns our account. It is registered if the authority doesn't know it.
    fn account(&mut self, folder: &Folder, key: &AccountKey) -> Result<Account, Error> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let mut accounts = Accounts::read(&folder.file(ACCOUNTS_FILE))?;
        let url = match accounts.get(&self.settings.directory, key) {
            Some(url) => url.to_owned(),
            None => {
                let url = self.register(key)?;
                self.registered = Some(Instant::now());
                accounts.set(folder, &self.settings.directory, key, Some(&url))?;
                url
            }
        };

        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let pkcs8 = PrivatePkcs8KeyDer::from(key.pkcs8.as_slice());
        let account = builder.from_parts(url, pkcs8, self.settings.directory.clone());
        let account = self.runtime.block_on(account).map_err(|error| translate(error, self.http.last()))?;
        self.account = Some(account.clone());
        Ok(account)
    }

    /// Returns the records by which our account proves control of names.
    fn persistent_records(&self, account: &Account, names: &Names) -> Result<Vec<PersistentRecord>, Error> {
        let identities = self.read_directory()?.meta.caa_identities;
        let records = identities
            .first()
            .and_then(|issuer| PersistentRecord::for_names(names.as_slice(), issuer, account.id()));
        records.ok_or_else(|| Error::Senseless {
            why: format!("{} does not say by which domain DNS records name it", self.settings.directory),
        })
    }

    fn register(&self, key: &AccountKey) -> Result<String, Error> {
        let directory = self.read_directory()?;
        directory.meta.check_agreement(self.settings.agrees)?;
        registration::register(&self.http, &directory, key, &self.settings)
    }
}

impl Meta {
    fn check_agreement(&self, agrees: bool) -> Result<(), Error> {
        match &self.terms_of_service {
            Some(url) if !agrees => Err(Error::Terms { url: url.clone() }),
            _ => Ok(()),
        }
    }
}

/// Reads root certificates.
fn read_roots(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let roots = folder::read(path)?
        .ok_or_else(|| Error::folder("read", path, std::io::ErrorKind::NotFound.into()))?;
    if !http::has_roots(&roots) {
        return Err(Error::Roots { path: path.to_owned() });
    }
    Ok(roots)
}
