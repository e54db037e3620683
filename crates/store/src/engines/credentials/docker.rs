//! Credentials in Docker's configuration, and those of the helpers that it names.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::read_named_file;
use serde::Deserialize;

use super::helper::{self, Output};
use super::{Credentials, home, variable};
use crate::error::{StoreError, StoreErrorKind};

/// The user name that stands for a refresh token in Docker's configuration.
const TOKEN_USER: &str = "<token>";

/// The key of Docker Hub in Docker's configuration.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Docker's `config.json`, or `auth.json` of Podman.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: HashMap<String, DockerAuth>,
    creds_store: Option<String>,
    cred_helpers: HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerAuth {
    auth: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Finds the credentials for a registry. Also returns why a configuration can't be read, if there is one: many registries need no
/// credentials, so this matters only if they are refused.
pub(super) fn find(registry: &str) -> Result<(Credentials, Option<String>), StoreError> {
    let mut unread = None;
    let files = [
        variable("REGISTRY_AUTH_FILE").map(PathBuf::from),
        variable("DOCKER_CONFIG").map(|folder| PathBuf::from(folder).join("config.json")),
        variable("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("containers/auth.json")),
        home(".docker/config.json"),
    ];
    for path in files.into_iter().flatten() {
        let text = match read_named_file(&path, NAMED_FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    unread.get_or_insert_with(|| format!("{}: {error}", path.display()));
                }
                continue;
            }
        };
        let config: DockerConfig = serde_json::from_slice(&text).map_err(|error| {
            // The error may quote a secret, so only its place is shown.
            let place = format!("line {}, column {}", error.line(), error.column());
            StoreError::new(
                StoreErrorKind::Local,
                format!("{} isn't a configuration of Docker: {place}", path.display()),
            )
            .hint(format!("correct it, or remove it and run `docker login {registry}`"))
        })?;
        let found = config.credentials(registry)?;
        if found != Credentials::Anonymous {
            return Ok((found, None));
        }
    }
    Ok((Credentials::Anonymous, unread))
}

impl DockerConfig {
    fn credentials(&self, registry: &str) -> Result<Credentials, StoreError> {
        let mut names =
            vec![registry.to_owned(), format!("https://{registry}"), format!("https://{registry}/v1/")];
        if registry == "docker.io" {
            names.insert(0, DOCKER_HUB.to_owned());
        }
        let helper = names.iter().find_map(|name| self.cred_helpers.get(name)).or(self.creds_store.as_ref());
        if let Some(helper) = helper {
            for name in &names {
                if let Some(found) = ask_helper(helper, name)? {
                    return Ok(found);
                }
            }
        }
        let Some(auth) = names.iter().find_map(|name| self.auths.get(name)) else {
            return Ok(Credentials::Anonymous);
        };
        if let Some(token) = auth.registrytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Credentials::Bearer(token.clone()));
        }
        if let Some(token) = auth.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Credentials::Refresh(token.clone()));
        }
        let Some(auth) = auth.auth.as_ref().filter(|auth| !auth.is_empty()) else {
            return Ok(Credentials::Anonymous);
        };
        let decoded =
            BASE64_STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let (user, password) = decoded.as_ref().and_then(|text| text.split_once(':')).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Local,
                format!("the credentials for {registry} in Docker's configuration are malformed"),
            )
            .hint(format!("run `docker login {registry}` again"))
        })?;
        Ok(Credentials::Basic { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() })
    }
}

/// Runs a credential helper. Returns `None` if it has no credentials for the registry.
fn ask_helper(helper: &str, registry: &str) -> Result<Option<Credentials>, StoreError> {
    let program = format!("docker-credential-{helper}");
    let failed = |why: &str| {
        StoreError::new(StoreErrorKind::Local, format!("the credential helper `{program}` failed: {why}"))
            .hint("Docker's configuration names it; it must be on the search path")
    };
    // Its name is a part of the name of a program.
    if helper.is_empty() || !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err(failed("its name has other characters than helpers have"));
    }
    let Output { status, text } =
        helper::run(Command::new(&program).arg("get"), registry).map_err(|why| failed(&why))?;
    if let Err(status) = status {
        let is_unknown = String::from_utf8_lossy(&text).contains("credentials not found");
        return if is_unknown { Ok(None) } else { Err(failed(&status)) };
    }
    let answer: HelperAnswer =
        serde_json::from_slice(&text).map_err(|_| failed("its answer isn't the JSON of helpers"))?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Credentials::Refresh(answer.secret),
        _ => Credentials::Basic { user: answer.username, password: answer.secret },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> DockerConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn dockers_configuration_is_understood() {
        let basic =
            |user: &str, password: &str| Credentials::Basic { user: user.into(), password: password.into() };
        let of = |text: &str, registry: &str| config(text).credentials(registry).unwrap();
        // `u:p:q`
        let text = r#"{"auths": {"r.example:5000": {"auth": "dTpwOnE="}, "https://index.docker.io/v1/": {"auth": "YTpi"}}}"#;
        assert_eq!(of(text, "r.example:5000"), basic("u", "p:q"));
        assert_eq!(of(text, "docker.io"), basic("a", "b"));
        assert_eq!(of(text, "r.example"), Credentials::Anonymous);
        let text = r#"{"auths": {"r": {"auth": "YTpi", "identitytoken": "t"}}}"#;
        assert_eq!(of(text, "r"), Credentials::Refresh("t".into()));
        assert!(config(r#"{"auths": {"r": {"auth": "?"}}}"#).credentials("r").is_err());
        assert!(config(r#"{"credsStore": "../x"}"#).credentials("r").is_err());
        assert_eq!(of(r#"{"unknown": 1}"#, "r"), Credentials::Anonymous);
    }
}
