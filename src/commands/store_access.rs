//! Access to stores of releases, for the commands that write them and for the one that follows them.

use std::path::Path;

use cannery_publish::limits::ROOTS_BYTES_MAX;
use cannery_publish::read_named_file;
use cannery_store::{Address, ImageReport, Login, Store, StoreError, StoreErrorKind, StoreSettings};

use crate::flags::follow::StoreFlags;
use crate::output::Failure;

/// Parses the address of a store. Returns `None` if it isn't one.
pub(super) fn parse(word: &str) -> Result<Option<Address>, Failure> {
    match Address::parse(word) {
        None => Ok(None),
        Some(Ok(address)) => Ok(Some(address)),
        Some(Err(error)) => Err(Failure::usage(error.message).hint_if(error.hint)),
    }
}

/// Opens a store with the credentials of this user. Callers should say [which store](Failure::about) a failure is about.
pub(super) fn open(address: &Address, flags: &StoreFlags) -> Result<Box<dyn Store>, Failure> {
    let settings = settings(flags)?;
    let login = Login::find(address, &settings).map_err(|error| explain(&error))?;
    open_with(address, &settings, login)
}

/// Opens a store. Callers should say [which one](Failure::about) a failure is about.
pub(super) fn open_with(
    address: &Address,
    settings: &StoreSettings,
    login: Login,
) -> Result<Box<dyn Store>, Failure> {
    address.open(settings, login).map_err(|error| explain(&error))
}

pub(super) fn settings(flags: &StoreFlags) -> Result<StoreSettings, Failure> {
    Ok(StoreSettings {
        roots: flags.store_roots.as_deref().map(read_roots).transpose()?,
        endpoint: flags.s3_endpoint.clone(),
        allows_plain_credentials: flags.store_plain_http,
    })
}

/// Pushes a container image with the credentials of this user. `layout` is a folder with the image.
pub(super) fn push_image(
    address: &Address,
    roots: Option<&Path>,
    layout: &Path,
) -> Result<ImageReport, Failure> {
    let settings = StoreSettings { roots: roots.map(read_roots).transpose()?, ..StoreSettings::default() };
    let login = Login::find(address, &settings).map_err(|error| failure(address, &error))?;
    address.push_image(&settings, login, layout).map_err(|error| image_failure(address, &error))
}

/// Explains what went wrong with a registry for images, to which credentials are never sent without TLS.
fn image_failure(address: &Address, error: &StoreError) -> Failure {
    match error.kind {
        StoreErrorKind::Plain => {
            Failure::failed(format!("{address}: {error}")).hint("use https, or unset the credentials")
        }
        _ => failure(address, error),
    }
}

fn read_roots(path: &Path) -> Result<Vec<u8>, Failure> {
    const HINT: &str = "name a file with certificates in PEM that this user may read";
    let pem = read_named_file(path, ROOTS_BYTES_MAX).map_err(|error| {
        Failure::input(format!("cannot read the root certificates in {}: {error}", path.display())).hint(HINT)
    })?;
    // Without any, each store would seem to have the wrong certificate.
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(Failure::input(format!("{} has no certificate in PEM", path.display())).hint(HINT));
    }
    Ok(pem)
}

/// Explains what went wrong with a store, and names it.
pub(super) fn failure(address: &Address, error: &StoreError) -> Failure {
    explain(error).about(address)
}

/// Explains what went wrong with a store that is named elsewhere.
pub(super) fn explain(error: &StoreError) -> Failure {
    let failure = match error.kind {
        StoreErrorKind::Write => Failure::output(error.to_string()),
        _ => Failure::failed(error.to_string()),
    };
    match (&error.hint, error.kind) {
        (Some(hint), _) => failure.hint(hint),
        (None, StoreErrorKind::Unreachable | StoreErrorKind::Cut) => {
            failure.hint("check the address, the network, and whether the server runs")
        }
        (None, StoreErrorKind::Plain) => failure.hint(
            "use https, or unset the credentials, or permit it with `--store-plain-http` in a network that you trust",
        ),
        (None, StoreErrorKind::Missing) => {
            failure.hint("push the release again: the store has lost a part of it")
        }
        (None, StoreErrorKind::Wrong) => failure.hint(
            "the store or a proxy before it is at fault: check that the address is that of a store, and read the server's log",
        ),
        (None, _) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_only_flags_that_the_command_has() {
        let address = parse("oci://registry.example/site").unwrap().unwrap();
        let error = || StoreError { kind: StoreErrorKind::Plain, message: "no TLS".into(), hint: None };
        let hint = |failure: Failure| match failure {
            Failure::Message { hint, .. } => hint.unwrap(),
            other => panic!("{other:?}"),
        };
        assert!(hint(failure(&address, &error())).contains("--store-plain-http"));
        let of_image = hint(image_failure(&address, &error()));
        assert!(of_image.contains("use https") && !of_image.contains("--"), "{of_image}");
    }
}
