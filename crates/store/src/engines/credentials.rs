//! Credentials, as other programs of the same ecosystem find them: Docker's configuration and helpers, the variables of AWS.

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::Address;
use crate::error::{StoreError, StoreErrorKind};

/// The user name that stands for a refresh token in Docker's configuration.
const TOKEN_USER: &str = "<token>";

/// The key of Docker Hub in Docker's configuration.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// A proof of identity that a store accepts instead of an anonymous request.
#[derive(Clone, Default, PartialEq, Eq)]
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
    /// Finds the credentials for a store. This may run a credential helper of Docker.
    ///
    /// # Errors
    /// Returns [`StoreError`] if a configuration or a helper is broken. Without any, requests are anonymous.
    pub fn find(address: &Address) -> Result<Credentials, StoreError> {
        match address {
            Address::Folder(_) => Ok(Credentials::Anonymous),
            Address::Web(_) => {
                Ok(variable("CANNERY_STORE_TOKEN").map_or(Credentials::Anonymous, Credentials::Bearer))
            }
            Address::Oci { registry, .. } => of_docker(registry),
            Address::S3 { .. } => of_aws(),
        }
    }

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

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn home(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(variable("HOME")?).join(path))
}

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

fn of_docker(registry: &str) -> Result<Credentials, StoreError> {
    let files = [
        variable("REGISTRY_AUTH_FILE").map(PathBuf::from),
        variable("DOCKER_CONFIG").map(|folder| PathBuf::from(folder).join("config.json")),
        variable("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("containers/auth.json")),
        home(".docker/config.json"),
    ];
    for path in files.into_iter().flatten() {
        let Ok(text) = fs::read(&path) else { continue };
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
            return Ok(found);
        }
    }
    Ok(Credentials::Anonymous)
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
    let failed = |why: &dyn fmt::Display| {
        StoreError::new(StoreErrorKind::Local, format!("the credential helper `{program}` failed: {why}"))
            .hint("Docker's configuration names it; it must be on the search path")
    };
    // Its name is a part of the name of a program.
    if helper.is_empty() || !helper.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err(failed(&"its name has other characters than helpers have"));
    }
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that doesn't read it fails anyway.
        let _ = input.write_all(registry.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        return if text.contains("credentials not found") { Ok(None) } else { Err(failed(&output.status)) };
    }
    let answer: HelperAnswer = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(&"its answer isn't the JSON of helpers"))?;
    Ok(Some(match answer.username.as_str() {
        TOKEN_USER => Credentials::Refresh(answer.secret),
        _ => Credentials::Basic { user: answer.username, password: answer.secret },
    }))
}

/// Finds keys of AWS: in the environment, or else in the shared files.
fn of_aws() -> Result<Credentials, StoreError> {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let config =
        read_section("AWS_CONFIG_FILE", ".aws/config", &[format!("profile {profile}"), profile.clone()]);
    let region = variable("AWS_REGION")
        .or_else(|| variable("AWS_DEFAULT_REGION"))
        .or_else(|| config.get("region").cloned())
        .unwrap_or_else(|| "us-east-1".to_owned());
    if let (Some(key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        return Ok(Credentials::Aws { key, secret, token: variable("AWS_SESSION_TOKEN"), region });
    }
    let shared =
        read_section("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", std::slice::from_ref(&profile));
    for section in [shared, config] {
        if let (Some(key), Some(secret)) =
            (section.get("aws_access_key_id"), section.get("aws_secret_access_key"))
        {
            let token = section.get("aws_session_token").cloned();
            return Ok(Credentials::Aws { key: key.clone(), secret: secret.clone(), token, region });
        }
    }
    Err(StoreError::new(StoreErrorKind::Local, "there are no credentials for S3").hint(format!(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them into ~/.aws/credentials as profile `{profile}`"
    )))
}

/// Reads the pairs of a section in a file of AWS.
fn read_section(variable_name: &str, default: &str, names: &[String]) -> HashMap<String, String> {
    let path = variable(variable_name).map(PathBuf::from).or_else(|| home(default));
    let text = path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let mut is_inside = false;
    let mut pairs = HashMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_inside = names.iter().any(|wanted| wanted == name.trim());
        } else if let Some((key, value)) =
            line.split_once('=').filter(|_| is_inside && !line.starts_with('#'))
        {
            pairs.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    pairs
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

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", Credentials::Bearer("secret".into()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
