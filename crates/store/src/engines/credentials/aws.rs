//! Keys for S3, from the places in which the tools of AWS look: variables, web identity, shared files, containers, machines.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use cannery_base::date::parse_rfc3339;
use cannery_publish::limits::NAMED_FILE_BYTES_MAX;
use cannery_publish::read_named_text;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use ureq::Body;

use super::helper::{self, Output};
use super::{Credentials, Lease, home, variable};
use crate::engines::StoreSettings;
use crate::error::{StoreError, StoreErrorKind};
use crate::http::{
    Call, Http, encode_form, is_loopback, is_plain, parse_url, plain_credentials, read_all, unexpected,
};
use crate::limits::RESPONSE_BYTES_MAX;

/// The metadata service of EC2. It gives keys only with a token, which forwarded requests can't get (IMDSv2).
const METADATA: &str = "http://169.254.169.254";
const METADATA_TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const METADATA_TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");

/// The service for containers of ECS, and its hosts, which may be asked without TLS. The last two are those of EKS.
const CONTAINER: &str = "http://169.254.170.2";
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

const DEFAULT_REGION: &str = "us-east-1";

/// Returns the domain of the services in a region. Those in China belong to another partition.
pub(in crate::engines) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Returns the endpoint of a service that the user has configured for all tools of AWS, with the variable of the service first.
fn endpoint(name: &str) -> Option<String> {
    let is_ignored = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    variable(name).or_else(|| variable("AWS_ENDPOINT_URL")).filter(|_| !is_ignored)
}

/// Returns the endpoint of S3 that the user has configured for all tools of AWS.
pub(in crate::engines) fn s3_endpoint() -> Option<String> {
    endpoint("AWS_ENDPOINT_URL_S3")
}

/// Finds keys of AWS. `has_profile` is whether a profile has given some, now or before.
pub(super) fn find(settings: &StoreSettings, has_profile: &mut bool) -> Result<Lease, StoreError> {
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let given = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(access_key_id), Some(secret_access_key)) => {
            let token = variable("AWS_SESSION_TOKEN");
            Some(Keys { access_key_id, secret_access_key, token, expiration: None })
        }
        _ => None,
    };
    let (given, region) = match (given, region) {
        // Nothing depends on the files.
        (Some(keys), Some(region)) => return Ok(keys.lease(&region, false)),
        others => others,
    };

    // Before any service is asked: if the user names a profile, no other identity may stand in for it.
    let profile = Profile::read()?;
    let region = region.or_else(|| profile.get("region").cloned());
    let lease = |keys: Keys, may_change| keys.lease(region.as_deref().unwrap_or(DEFAULT_REGION), may_change);
    if let Some(keys) = given {
        return Ok(lease(keys, false));
    }
    if let (Some(file), Some(role)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")) {
        let session = variable("AWS_ROLE_SESSION_NAME");
        let identity = WebIdentity { file: &file, role: &role, session };
        return identity.exchange(settings, region.as_deref()).map(|keys| lease(keys, true));
    }
    if let Some(keys) = profile.keys(settings, region.as_deref())? {
        *has_profile = true;
        return Ok(lease(keys, true));
    }
    if *has_profile {
        // A file that is being written may seem to have none.
        let message =
            format!("the AWS profile `{}` has no keys any more, in {}", profile.name, profile.files());
        return Err(StoreError::new(StoreErrorKind::Local, message));
    }

    if let Some(keys) = ask_container()? {
        return Ok(lease(keys, true));
    }
    if let Some((keys, place)) = ask_machine(region.is_none())? {
        let region = region.or(place);
        return Ok(keys.lease(region.as_deref().unwrap_or(DEFAULT_REGION), true));
    }
    Err(StoreError::new(StoreErrorKind::Local, "there are no credentials for S3").hint(format!(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write them into ~/.aws/credentials as profile `{}`, or give this \
         machine or container a role",
        profile.name
    )))
}

/// Keys as services and programs print them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    access_key_id: String,
    secret_access_key: String,
    #[serde(alias = "SessionToken")]
    token: Option<String>,
    expiration: Option<String>,
}

impl Keys {
    fn lease(self, region: &str, may_change: bool) -> Lease {
        let credentials = Credentials::Aws {
            key: self.access_key_id,
            secret: self.secret_access_key,
            token: self.token.filter(|token| !token.is_empty()),
            region: region.to_owned(),
        };
        let expires = self.expiration.as_deref().and_then(parse_expiration);
        Lease { credentials, expires, may_change, unread: None }
    }

    fn parse(json: &[u8], source: &str) -> Result<Keys, StoreError> {
        // The error may quote a secret.
        serde_json::from_slice(json)
            .map_err(|_| StoreError::wrong(format!("{source} returns no keys for S3")))
    }
}

/// Parses a date with any fraction of a second, in UTC. Without it, keys are replaced when the store refuses them.
fn parse_expiration(text: &str) -> Option<u64> {
    let (second, rest) = text.split_at_checked("2026-01-01T00:00:00".len())?;
    let zone = rest.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    matches!(zone, "Z" | "+00:00").then(|| parse_rfc3339(format!("{second}Z").as_bytes()))?
}

/// A token of another identity provider, such as Kubernetes, that the security token service takes for a role.
struct WebIdentity<'a> {
    file: &'a str,
    role: &'a str,
    session: Option<String>,
}

impl WebIdentity<'_> {
    /// Exchanges the token for keys.
    fn exchange(&self, settings: &StoreSettings, region: Option<&str>) -> Result<Keys, StoreError> {
        let token = read_named_text(Path::new(self.file), NAMED_FILE_BYTES_MAX).map_err(|error| {
            let message = format!("cannot read the web identity token in {}: {error}", self.file);
            StoreError::new(StoreErrorKind::Local, message)
        })?;
        let own = endpoint("AWS_ENDPOINT_URL_STS");
        let url = own.clone().unwrap_or_else(|| {
            let region = region.unwrap_or(DEFAULT_REGION);
            format!("https://sts.{region}.{}/", domain(region))
        });
        if is_plain(&url) && !settings.allows_plain_credentials {
            return Err(plain_credentials(&url));
        }
        // The certificate of an own service is from the authority of the own store.
        let roots = settings.roots.as_deref().filter(|_| own.is_some());

        let session = self.session.clone().unwrap_or_else(|| format!("cannery-{}", process::id()));
        let form = encode_form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", self.role),
            ("RoleSessionName", &session),
            ("WebIdentityToken", token.trim()),
        ]);
        let call = Call::new(Method::POST, &url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")?
            .header(ACCEPT, "text/xml")?
            .content(form.as_bytes());
        let response = Http::new(roots, settings.allows_plain_credentials).send(&call)?;

        let status = response.status();
        let text = read_all(response, RESPONSE_BYTES_MAX, &url)?;
        let text = String::from_utf8_lossy(&text);
        let element = |name| element(&text, name).map(str::to_owned);
        if !status.is_success() {
            let kind =
                if status.is_server_error() { StoreErrorKind::Failing } else { StoreErrorKind::Denied };
            let why =
                [element("Code"), element("Message")].into_iter().flatten().collect::<Vec<_>>().join(": ");
            let message = format!("{url} gives no keys for the role {}: {status} {why}", self.role);
            return Err(StoreError::new(kind, message.trim_end())
                .hint("check AWS_ROLE_ARN, and whether the role trusts the issuer of the token"));
        }
        match (element("AccessKeyId"), element("SecretAccessKey")) {
            (Some(access_key_id), Some(secret_access_key)) => Ok(Keys {
                access_key_id,
                secret_access_key,
                token: element("SessionToken"),
                expiration: element("Expiration"),
            }),
            _ => Err(StoreError::wrong(format!("{url} returns no keys for S3"))),
        }
    }
}

/// Returns the text of the first XML element of this name. Texts of keys have nothing that XML escapes.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.trim())
}

/// Runs the command of a profile, as the tools of AWS do.
fn run_process(command: &str) -> Result<Keys, StoreError> {
    let failed = |why: &str| {
        let message = format!("the `credential_process` of the AWS profile failed: {why}");
        StoreError::new(StoreErrorKind::Local, message).hint("run that command by hand")
    };
    let Output { status, text } =
        helper::run(Command::new("sh").arg("-c").arg(command), "").map_err(|why| failed(&why))?;
    status.map_err(|status| failed(&status))?;
    Keys::parse(&text, "the `credential_process` of the AWS profile")
}

/// Asks the service that gives keys to this container, if there is one.
fn ask_container() -> Result<Option<Keys>, StoreError> {
    let url = match (
        variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ) {
        (Some(path), _) => format!("{CONTAINER}{path}"),
        (None, Some(url)) => url,
        (None, None) => return Ok(None),
    };
    let host = parse_url(&url)?.host().unwrap_or_default().to_owned();
    if is_plain(&url) && !CONTAINER_HOSTS.contains(&host.as_str()) && !is_loopback(&host) {
        return Err(plain_credentials(&url));
    }

    let mut call = Call::new(Method::GET, &url);
    let token = match variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(path) => Some(read_named_text(Path::new(&path), NAMED_FILE_BYTES_MAX).map_err(|error| {
            StoreError::new(StoreErrorKind::Local, format!("cannot read the token in {path}: {error}"))
        })?),
        None => variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        call = call.header(AUTHORIZATION, token.trim())?;
    }
    let keys = read_machine(Http::for_machine().send(&call)?, &url)?;
    Keys::parse(&keys, &url).map(Some)
}

/// Asks the metadata service of the machine, if there is one, for keys, and for the region.
fn ask_machine(wants_region: bool) -> Result<Option<(Keys, Option<String>)>, StoreError> {
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| METADATA.to_owned());
    let endpoint = endpoint.trim_end_matches('/');
    let http = Http::for_machine();
    // Most machines have no such service, or another one at its address.
    let call =
        Call::new(Method::PUT, format!("{endpoint}/latest/api/token")).header(METADATA_TOKEN_TTL, "300")?;
    let Ok(response) = http.send(&call.content(b"")) else { return Ok(None) };
    if response.status() != StatusCode::OK {
        return Ok(None);
    }
    let token = read_machine(response, endpoint)?;
    let token = String::from_utf8_lossy(&token);

    let get = |path: &str| {
        let call = Call::new(Method::GET, format!("{endpoint}/latest/meta-data/{path}"));
        http.send(&call.header(METADATA_TOKEN, token.trim())?)
    };
    let roles = "iam/security-credentials/";
    let response = get(roles)?;
    if response.status() == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    let role = read_machine(response, endpoint)?;
    let role = String::from_utf8_lossy(&role);
    let Some(role) = role.lines().next().map(str::trim).filter(|role| !role.is_empty()) else {
        return Ok(None);
    };
    let keys = Keys::parse(&read_machine(get(&format!("{roles}{role}"))?, endpoint)?, endpoint)?;

    let region = match wants_region {
        true => Some(read_machine(get("placement/region")?, endpoint)?),
        false => None,
    };
    Ok(Some((keys, region.and_then(|region| Some(String::from_utf8(region).ok()?.trim().to_owned())))))
}

/// Reads a response of a service for this machine.
fn read_machine(response: Response<Body>, url: &str) -> Result<Vec<u8>, StoreError> {
    if response.status() != StatusCode::OK {
        return Err(unexpected(response, url));
    }
    read_all(response, RESPONSE_BYTES_MAX, url)
}

/// A profile in the two files of AWS.
struct Profile {
    name: String,
    shared: File,
    config: File,
}

/// A file with profiles.
struct File {
    /// Its path in messages.
    path: String,
    /// The settings of the profile, if the file has it.
    section: Option<HashMap<String, String>>,
}

impl Profile {
    /// Reads the profile that the user names. Without a name, there need be none.
    fn read() -> Result<Profile, StoreError> {
        let named = variable("AWS_PROFILE");
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let shared = File::read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", |header| header == name)?;
        let config = File::read("AWS_CONFIG_FILE", ".aws/config", |header| profile_name(header) == name)?;
        let profile = Profile { name, shared, config };
        if named.is_some() && profile.shared.section.is_none() && profile.config.section.is_none() {
            let message = format!("there is no AWS profile `{}` in {}", profile.name, profile.files());
            return Err(StoreError::new(StoreErrorKind::Local, message)
                .hint("correct AWS_PROFILE, or unset it to take the keys of another place"));
        }
        Ok(profile)
    }

    fn files(&self) -> String {
        format!("{} or {}", self.shared.path, self.config.path)
    }

    /// Returns a setting. That in the file of credentials counts if both have it.
    fn get(&self, key: &str) -> Option<&String> {
        self.shared.get(key).or_else(|| self.config.get(key))
    }

    /// Returns the keys of the profile, if it has any. A role comes first, as in the tools of AWS: the keys beside it only serve to take it.
    fn keys(&self, settings: &StoreSettings, region: Option<&str>) -> Result<Option<Keys>, StoreError> {
        match (self.get("role_arn"), self.get("web_identity_token_file")) {
            (Some(role), Some(file)) => {
                let identity = WebIdentity { file, role, session: self.get("role_session_name").cloned() };
                return identity.exchange(settings, region).map(Some);
            }
            (None, None) => {}
            _ => return Err(self.unknown_role()),
        }
        let command = self.get("credential_process");
        let mut keys = [&self.shared, &self.config]
            .into_iter()
            .filter_map(|file| file.section.as_ref())
            .flat_map(HashMap::keys);
        if command.is_none() && keys.any(|key| key.starts_with("sso_")) {
            return Err(self.unknown_role());
        }
        if let Some(keys) = self.shared.keys(&self.name)? {
            return Ok(Some(keys));
        }
        match command {
            Some(command) => run_process(command).map(Some),
            None => self.config.keys(&self.name),
        }
    }

    fn unknown_role(&self) -> StoreError {
        let message =
            format!("the AWS profile `{}` takes a role in a way that Cannery doesn't know", self.name);
        let instead = "credential_process = aws configure export-credentials --format process --profile";
        StoreError::new(StoreErrorKind::Local, message)
            .hint(format!("name another profile in AWS_PROFILE, with `{instead} {}`", self.name))
    }
}

impl File {
    /// Reads the section whose header is selected. A missing file has none.
    fn read(
        variable_name: &str,
        default: &str,
        is_selected: impl Fn(&str) -> bool,
    ) -> Result<File, StoreError> {
        let named = variable(variable_name).map(PathBuf::from);
        let is_named = named.is_some();
        let Some(path) = named.or_else(|| home(default)) else {
            return Ok(File { path: format!("~/{default}"), section: None });
        };
        let shown = path.display().to_string();
        let text = match read_named_text(&path, NAMED_FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if is_missing(&error) => String::new(),
            // It stands for no file.
            Err(_) if path == Path::new("/dev/null") => String::new(),
            // The home may be that of another user.
            Err(_) if !is_named && path.symlink_metadata().is_err() => String::new(),
            Err(error) => {
                let message = format!("cannot read the AWS profiles in {shown}: {error}");
                return Err(StoreError::new(StoreErrorKind::Local, message)
                    .hint(format!("correct the file, or name another one in {variable_name}")));
            }
        };
        Ok(File { path: shown, section: parse_section(&text, is_selected) })
    }

    fn get(&self, key: &str) -> Option<&String> {
        self.section.as_ref()?.get(key)
    }

    /// Returns the keys in the section. One without the other is a mistake, or a file that is being written.
    fn keys(&self, profile: &str) -> Result<Option<Keys>, StoreError> {
        match (self.get("aws_access_key_id"), self.get("aws_secret_access_key")) {
            (Some(key), Some(secret)) => {
                let token = self.get("aws_session_token").cloned();
                let (access_key_id, secret_access_key) = (key.clone(), secret.clone());
                Ok(Some(Keys { access_key_id, secret_access_key, token, expiration: None }))
            }
            (None, None) => Ok(None),
            _ => {
                let message =
                    format!("the AWS profile `{profile}` in {} has only half of its keys", self.path);
                Err(StoreError::new(StoreErrorKind::Local, message)
                    .hint("it needs `aws_access_key_id` and `aws_secret_access_key`"))
            }
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the profile that a header in the file of configuration means: `default`, `profile NAME` or `profile "NAME"`.
fn profile_name(header: &str) -> &str {
    let Some(name) = header.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t'])) else {
        return header;
    };
    let name = name.trim();
    let unquote = |quote| name.strip_prefix(quote)?.strip_suffix(quote);
    unquote('"').or_else(|| unquote('\'')).unwrap_or(name)
}

/// Parses the pairs of the section whose header is selected.
fn parse_section(text: &str, is_selected: impl Fn(&str) -> bool) -> Option<HashMap<String, String>> {
    let mut pairs = None;
    let mut is_inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some((header, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            is_inside = is_selected(header.trim());
            if is_inside {
                pairs.get_or_insert_with(HashMap::new);
            }
        } else if let (Some(pairs), Some((key, value))) =
            (pairs.as_mut().filter(|_| is_inside), line.split_once('='))
        {
            pairs.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_are_parsed() {
        let seconds = Some(1_767_225_600);
        for text in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00+00:00"] {
            assert_eq!(parse_expiration(text), seconds, "{text}");
        }
        for text in ["", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+02:00", "soon"] {
            assert_eq!(parse_expiration(text), None, "{text}");
        }
    }

    #[test]
    fn sections_of_profiles_are_found() {
        let text = "; [a]\n[default]\nkey=1\n[profile a] # a comment\nKEY = 2\n[profile \"a b\"]\nkey = 3\n\
                    [profile\t'c d']\nkey = 4=4\n# key = 5\n[profiles]\nkey = 6\n[profile empty]";
        let value = |name: &str| {
            Some(parse_section(text, |header| profile_name(header) == name)?.get("key").cloned())
        };
        for (name, number) in [("default", "1"), ("a", "2"), ("a b", "3"), ("c d", "4=4"), ("profiles", "6")]
        {
            assert_eq!(value(name), Some(Some(number.to_owned())), "{name}");
        }
        assert_eq!((value("empty"), value("b"), value("\"a b\"")), (Some(None), None, None));
    }

    #[test]
    fn elements_are_found() {
        let xml = "<A><Credentials><AccessKeyId>\n k </AccessKeyId></Credentials></A>";
        assert_eq!(element(xml, "AccessKeyId"), Some("k"));
        assert_eq!((element(xml, "SessionToken"), element("<A>", "A")), (None, None));
    }

    #[test]
    fn keys_of_services_and_programs_are_parsed() {
        let service = br#"{"Code": "Success", "AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t"}"#;
        let program = br#"{"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t"}"#;
        for json in [&service[..], program] {
            let lease = Keys::parse(json, "").unwrap().lease("r", true);
            let Credentials::Aws { key, secret, token, region } = lease.credentials else { panic!() };
            assert_eq!(
                (key.as_str(), secret.as_str(), token.as_deref(), region.as_str()),
                ("k", "s", Some("t"), "r")
            );
        }
        // Not all answers with 200 have keys.
        assert!(
            Keys::parse(br#"{"Code": "Failed"}"#, "it").is_err_and(|error| error.message.contains("no keys"))
        );
    }
}
