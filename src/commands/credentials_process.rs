//! A process that finds credentials for `cannery follow`, whose sandbox neither starts programs nor reads files of other programs.
//!
//! Passwords of registries and keys of S3 expire, while a follower runs for months. So this process is started before the sandbox is
//! entered, and looks again at each request: it reads the files, runs the credential helper, or asks the service. An attacker who
//! controls the process in the sandbox can only choose when that happens.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_store::{Address, Finder, Lease, Login, StoreError, StoreErrorKind, StoreSettings};

use super::orphans::Orphans;
use super::store_access;
use crate::flags::follow::Follow;
use crate::output::Failure;

/// A token of Kubernetes has about a kilobyte. Responses are from a process of ours, so this is only a bound for mistakes.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

/// The other end of the process, which exits once this is dropped.
struct CredentialsProcess {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

/// Finds the credentials for a store, and whether it is possible to replace them later. The flag is set if the process that does so has
/// ended.
pub(super) fn login(flags: &Follow, address: &Address) -> Result<(Login, Arc<AtomicBool>), Failure> {
    let has_ended = Arc::new(AtomicBool::new(false));
    if matches!(address, Address::Folder(_) | Address::Web(_)) {
        // At most a variable, which stays.
        let settings = StoreSettings::default();
        let login =
            Login::find(address, &settings).map_err(|error| store_access::failure(address, &error))?;
        return Ok((login, has_ended));
    }

    let failed = |error: io::Error| {
        Failure::failed(format!("cannot start the process that finds credentials: {error}"))
    };
    let mut process = CredentialsProcess::start(flags).map_err(failed)?;
    let found = process.ask().map_err(failed)?;
    let lease = found.map_err(|error| store_access::failure(address, &error))?;
    if !lease.may_change {
        process.end().map_err(failed)?;
        return Ok((Login::new(lease, None), has_ended));
    }
    let ended = Arc::clone(&has_ended);
    let source = move || {
        process.ask().unwrap_or_else(|error| {
            ended.store(true, Ordering::Relaxed);
            let message = format!("the process that finds credentials has ended: {error}");
            Err(StoreError { kind: StoreErrorKind::Local, message, hint: None })
        })
    };
    Ok((Login::new(lease, Some(Box::new(source))), has_ended))
}

impl CredentialsProcess {
    fn start(flags: &Follow) -> io::Result<CredentialsProcess> {
        // Each value is in the argument of its flag, because it may begin with a hyphen.
        let joined = |flag: &str, value: OsString| {
            let mut argument = OsString::from(flag);
            argument.push(value);
            argument
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["follow", "--credentials-for-follow"]);
        command.arg(joined("--into=", flags.into.clone().into()));
        let connection = &flags.connection;
        command.args(connection.store_roots.clone().map(|path| joined("--store-roots=", path.into())));
        command.args(connection.s3_endpoint.clone().map(|url| joined("--s3-endpoint=", url.into())));
        command.args(connection.store_plain_http.then_some("--store-plain-http"));
        command.arg("--").arg(&flags.store);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;

        let pipes = child.stdin.take().zip(child.stdout.take());
        let (requests, responses) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(CredentialsProcess { child, requests, responses: BufReader::new(responses) })
    }

    fn ask(&mut self) -> io::Result<Result<Lease, StoreError>> {
        self.requests.write_all(b"\n")?;
        let mut line = String::new();
        if self.responses.by_ref().take(RESPONSE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Ends the process, while that is possible: the sandbox doesn't allow to wait for it.
    fn end(self) -> io::Result<()> {
        let CredentialsProcess { mut child, requests, .. } = self;
        drop(requests);
        child.wait().map(drop)
    }
}

/// Finds credentials at each request, until the other process has ended.
pub(super) fn serve(address: &Address, settings: &StoreSettings) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot pass credentials on: {error}"));
    let mut finder = Finder::new(address.clone(), settings.clone());
    let mut orphans = Orphans::adopt().map_err(failed)?;
    let (mut requests, mut responses) = (io::stdin().lock(), io::stdout().lock());
    let mut request = String::new();
    loop {
        orphans.collect_until_readable(&requests).map_err(failed)?;
        request.clear();
        if requests.read_line(&mut request).map_err(failed)? == 0 {
            return Ok(());
        }
        let mut line = serde_json::to_vec(&finder.find()).map_err(io::Error::from).map_err(failed)?;
        line.push(b'\n');
        responses.write_all(&line).and_then(|()| responses.flush()).map_err(failed)?;
    }
}
