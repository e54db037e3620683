//! Keeps the certificates of a folder valid: does what their schedules say, one after the other.

mod managed;

use std::cell::Cell;
use std::convert::Infallible;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use cannery_transport::{Certificates, Source};
use zeroize::Zeroizing;

use crate::acme::{AccountKey, Authority, AuthoritySettings, KeyKind, OrderRequest};
use crate::certificate::Certificate;
use crate::challenge::{Challenges, DnsProof, Method, Records, SelfCheck};
use crate::clock::{Clock, Now};
use crate::error::{Caller, Error};
use crate::event::Event;
use crate::folder::{BundleReaders, Folder};
use crate::limits::REISSUE_INTERVAL;
use crate::names::Names;
use crate::random;
use crate::schedule::{Fulfilled, LastError, Step};
use managed::Managed;
pub(crate) use managed::{STATE_SUFFIX, read_certificate};

/// The process looks at its certificates and at the clock at least this often: the clock may be set, and a file removed.
const NAP: Duration = Duration::from_secs(30);

/// The process looks for requests of the operator, who waits for a reaction, at this interval.
const REQUEST_INTERVAL: Duration = Duration::from_secs(3);

/// Settings of an [`Issuer`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder for certificates, states and the account key.
    pub folder: PathBuf,
    /// The names of each certificate.
    pub certificates: Vec<Names>,
    /// The authority.
    pub authority: AuthoritySettings,
    /// The kind of the certificates' keys. Each certificate gets a new key.
    pub key: KeyKind,
    /// A profile of the authority, such as `shortlived`.
    pub profile: Option<String>,
    /// Whether and how DNS records prove control of names.
    pub dns: DnsProof,
    /// How names are checked before the authority checks them.
    pub self_check: SelfCheck,
    /// The users that may read the bundles.
    pub readers: BundleReaders,
    /// The program whose flags hints should name.
    pub caller: Caller,
}

/// Obtains certificates and renews them. While it exists, no other process can do so in the same folder.
pub struct Issuer {
    folder: Folder,
    key: AccountKey,
    authority: Authority,
    challenges: Challenges,
    certificates: Vec<Managed>,
    key_kind: KeyKind,
    profile: Option<String>,
    caller: Caller,
    clock: Clock,
}

impl Issuer {
    /// Opens the folder. Nothing is sent.
    ///
    /// # Errors
    /// Returns an error if the folder can't be used, or if another process uses it.
    pub fn open(settings: Settings) -> Result<Issuer, Error> {
        let folder = Folder::open(&settings.folder, settings.readers)?;
        let key = AccountKey::load_or_generate(&folder)?;
        key.publish_thumbprint(&folder)?;
        let authority = Authority::new(settings.authority)?;
        let certificates = settings.certificates.into_iter().map(Managed::new).collect();
        let challenges = Challenges { dns: settings.dns, self_check: settings.self_check };
        Ok(Issuer {
            folder,
            key,
            authority,
            challenges,
            certificates,
            key_kind: settings.key,
            profile: settings.profile,
            caller: settings.caller,
            clock: Clock::start(),
        })
    }

    /// Returns the thumbprint of the account key, which the server needs to know.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        self.key.thumbprint()
    }

    /// Keeps the certificates valid until the process ends. It can be killed at any time.
    ///
    /// A certificate whose files can't be used has to wait, and doesn't keep the others from being renewed. Nothing is ordered while a
    /// state can't be written: without it, a crash loop could place too many orders.
    ///
    /// # Errors
    /// Returns an error if the terms of the authority aren't agreed to.
    pub fn run(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<Infallible, Error> {
        self.remove_records();
        loop {
            let wait = self.pass(on_event)?;
            self.sleep(wait.min(NAP));
        }
    }

    /// Sleeps for this long, or until the operator requests a renewal.
    fn sleep(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while !self.take_requests() {
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return,
                left => thread::sleep(left.min(REQUEST_INTERVAL)),
            }
        }
    }

    fn take_requests(&mut self) -> bool {
        let mut is_requested = false;
        for managed in &mut self.certificates {
            is_requested |= managed.take_request(&self.folder);
        }
        is_requested
    }

    /// Does what is due now, and returns whether each certificate is valid and not due.
    ///
    /// # Errors
    /// Same as for [`Issuer::run`].
    pub fn run_once(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<bool, Error> {
        self.remove_records();
        self.pass(on_event)?;
        Ok(self.certificates.iter().all(Managed::is_good))
    }

    /// Removes DNS records that an earlier process has left. The next order tries it again.
    fn remove_records(&self) {
        if let Some(hook) = self.challenges.hook() {
            let _ = Records::open(hook, &self.folder);
        }
    }

    /// Does all steps that are due. Returns the time until the next one.
    fn pass(&mut self, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<Duration, Error> {
        let mut wait = Duration::MAX;
        for position in 0..self.certificates.len() {
            let managed = &mut self.certificates[position];
            let looked = managed.look(&self.folder, self.authority.directory(), self.clock.now().wall);
            managed.take_request(&self.folder);
            let time = match looked.and_then(|()| self.serve(position, on_event)) {
                Ok(time) => {
                    self.certificates[position].fault = None;
                    time
                }
                // Time does not change this.
                Err(error @ Error::Terms { .. }) => return Err(error),
                Err(error) => {
                    self.report_fault(position, &error, on_event);
                    NAP
                }
            };
            wait = wait.min(time);
        }
        Ok(wait)
    }

    /// Reports that the files of a certificate can't be used, unless that was reported already.
    fn report_fault(&mut self, position: usize, error: &Error, on_event: &mut dyn FnMut(&Event<'_>)) {
        let managed = &mut self.certificates[position];
        let fault = error.to_string();
        if managed.fault.as_ref() == Some(&fault) {
            return;
        }
        managed.fault = Some(fault);
        let hint = error.hint_for(self.caller);
        let next_at = self.clock.now().wall + NAP;
        on_event(&Event::Failed { certificate: &managed.stem, error, hint: hint.as_deref(), next_at });
    }

    /// Does the steps of one certificate until it has to wait.
    fn serve(&mut self, position: usize, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<Duration, Error> {
        if let Some(bundle) = self.certificates[position].unwritten.take() {
            self.deliver(position, bundle, on_event)?;
        }
        loop {
            let managed = &mut self.certificates[position];
            let step = managed.schedule.next(self.clock.now());
            match step {
                Step::Wait(time) => {
                    managed.save(&self.folder)?;
                    managed.announce(on_event);
                    return Ok(time);
                }
                Step::AskForAdvice => self.ask_for_advice(position, on_event)?,
                Step::Order => self.order(position, on_event)?,
            }
        }
    }

    fn ask_for_advice(&mut self, position: usize, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<(), Error> {
        let managed = &mut self.certificates[position];
        let answer = match managed.renewal_id() {
            Some(id) => self.authority.renewal_window(id),
            None => Ok(None),
        };
        let now = self.clock.now();
        let chance = random::fraction()?;
        match answer {
            Ok(Some(answer)) => managed.schedule.take_advice(now, answer.window, answer.retry_after, chance),
            Ok(None) => managed.schedule.miss_advice(now, None, chance),
            Err(error) => {
                managed.schedule.miss_advice(now, error.retry_after(), chance);
                on_event(&Event::NoAdvice { certificate: &managed.stem, error: &error });
            }
        }
        managed.save(&self.folder)
    }

    fn order(&mut self, position: usize, on_event: &mut dyn FnMut(&Event<'_>)) -> Result<(), Error> {
        let managed = &mut self.certificates[position];
        let chance = random::fraction()?;
        managed.schedule.begin_order(self.clock.now(), chance);
        // If we are killed from here on, the next process waits as after a failure.
        managed.save(&self.folder).inspect_err(|_| managed.schedule.cancel_order())?;

        let replaces = managed.schedule.names_replaced();
        on_event(&Event::Ordering { certificate: &managed.stem, replaces });
        let is_lost = Cell::new(false);
        match self.obtain(position, replaces, &is_lost, on_event) {
            Ok(bundle) => {
                let delivered = self.deliver(position, bundle, on_event);
                if let Err(error) = &delivered
                    && self.certificates[position].unwritten.is_some()
                {
                    self.record_unwritten(position, error)?;
                }
                delivered
            }
            Err(error) => self.fail(position, error, is_lost.get(), on_event),
        }
    }

    /// Puts an issued bundle into the folder. If it can't be written, that is tried again later.
    fn deliver(
        &mut self,
        position: usize,
        bundle: Zeroizing<String>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let published = self.publish(position, &bundle);
        let managed = &mut self.certificates[position];
        let now = self.clock.now();
        let result = published.and_then(|certificate| match managed.take(certificate, now) {
            Fulfilled::Good => Ok(()),
            Fulfilled::DueAlready => Err(Error::Clock),
        });
        if !matches!(result, Err(Error::Folder { .. })) {
            managed.order_file(&self.folder).clear();
        }
        match result {
            Ok(()) => {
                managed.save(&self.folder)?;
                managed.announce_issued(&self.folder, on_event);
                Ok(())
            }
            Err(error @ Error::Folder { .. }) => {
                managed.unwritten = Some(bundle);
                Err(error)
            }
            Err(error) => self.fail(position, error, true, on_event),
        }
    }

    /// Records that a certificate was issued and couldn't be written. If the process ends, the next one continues the order.
    fn record_unwritten(&mut self, position: usize, error: &Error) -> Result<(), Error> {
        let chance = random::fraction()?;
        let now = self.clock.now();
        let last_error = self.last_error(error, now);
        let managed = &mut self.certificates[position];
        managed.schedule.fail_order(now, last_error, None, chance);
        // There may be no room for it, either.
        let _ = managed.save(&self.folder);
        Ok(())
    }

    fn last_error(&self, error: &Error, now: Now) -> LastError {
        LastError {
            at: now.wall,
            kind: error.kind().to_owned(),
            message: error.to_string(),
            hint: error.hint_for(self.caller),
        }
    }

    /// Records why there is no new certificate. `is_issued` if the authority may have issued one that is lost.
    fn fail(
        &mut self,
        position: usize,
        error: Error,
        is_issued: bool,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(), Error> {
        let chance = random::fraction()?;
        let now = self.clock.now();
        let last_error = self.last_error(&error, now);
        let hint = last_error.hint.clone();
        let managed = &mut self.certificates[position];
        if error.is_before_order() {
            managed.schedule.miss_order(now, last_error, chance);
        } else {
            let retry_after = if is_issued { Some(REISSUE_INTERVAL) } else { error.retry_after() };
            managed.schedule.fail_order(now, last_error, retry_after, chance);
        }
        managed.save(&self.folder)?;
        let next_at = managed.schedule.journal().renews_at.unwrap_or(now.wall);
        let hint = hint.as_deref();
        on_event(&Event::Failed { certificate: &managed.stem, error: &error, hint, next_at });
        if matches!(error, Error::Terms { .. }) {
            // Time does not change this.
            return Err(error);
        }
        Ok(())
    }

    /// Checks the names and orders a certificate. Returns a bundle.
    ///
    /// `is_lost` is set if the authority may have issued one that is lost.
    fn obtain(
        &mut self,
        position: usize,
        replaces: bool,
        is_lost: &Cell<bool>,
        on_event: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Zeroizing<String>, Error> {
        // Before the names are checked: the operator should learn of both in any case, and this takes one word.
        self.authority.check_terms(&self.folder, &self.key)?;
        let managed = &self.certificates[position];
        let request = OrderRequest {
            names: &managed.names,
            key: self.key_kind,
            profile: self.profile.as_deref(),
            replaces: managed.renewal_id().filter(|_| replaces),
            challenges: &self.challenges,
            file: managed.order_file(&self.folder),
            is_lost,
        };
        // Its names are proven already.
        if let Some(bundle) = self.authority.resume(&self.folder, &self.key, &request)? {
            if managed.is_news(&bundle, self.clock.now().wall) {
                return Ok(bundle);
            }
            request.file.clear();
        }

        let overrules_check = managed.schedule.overrules_check(self.clock.now());
        for name in managed.names.as_slice() {
            if !matches!(self.challenges.method(name), Method::Http) {
                continue;
            }
            match self.challenges.self_check.run(name, self.key.thumbprint()) {
                Err(error @ Error::Check { .. }) if overrules_check => {
                    let hint = error.hint_for(self.caller);
                    let hint = hint.as_deref();
                    on_event(&Event::CheckFailed { certificate: &managed.stem, error: &error, hint });
                }
                checked => checked?,
            }
        }
        let ordered = self.authority.order(&self.folder, &self.key, &request);
        if replaces && ordered.as_ref().is_err_and(is_about_replacement) {
            self.certificates[position].schedule.stop_naming_replaced();
        }
        ordered
    }

    /// Puts an issued certificate into the folder.
    fn publish(&mut self, position: usize, bundle: &str) -> Result<Certificate, Error> {
        let managed = &mut self.certificates[position];
        let unusable = |why: &str| Error::Unusable { why: why.to_owned() };
        let certificate = Certificate::from_pem(bundle.as_bytes());
        let certificate = certificate.ok_or_else(|| unusable("it is not an X.509 certificate in PEM"))?;
        if !managed.names.are(&certificate.names) {
            return Err(unusable("it is for other names than those that we have ordered"));
        }
        if certificate.is_self_signed {
            return Err(unusable("it is signed with its own key"));
        }
        // The server will load the bundle in the same way.
        let unpublished = self.folder.write_bundle(&managed.bundle_file(), bundle.as_bytes())?;
        let source = Source::new(unpublished.current_path());
        Certificates::load(&[source], SystemTime::now()).map_err(|error| unusable(&error.to_string()))?;
        // If we are killed before or after the rename, the next process must know which certificate is there, and from whom.
        managed.schedule.record_pending(&certificate.fingerprint);
        managed.save(&self.folder)?;
        unpublished.publish()?;
        Ok(certificate)
    }
}

/// Whether the authority may accept the order without the certificate that it replaces.
fn is_about_replacement(error: &Error) -> bool {
    match error {
        Error::Refused { kind, .. } => {
            matches!(kind.as_str(), "alreadyReplaced" | "malformed" | "unauthorized" | "conflict")
        }
        // The authority has ignored the member `replaces`, or gave no renewal information this time.
        Error::Senseless { .. } => true,
        _ => false,
    }
}
