//! Authorization for a registry: challenges, and the tokens that they ask for.

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;

use super::read_short;
use crate::engines::credentials::Credentials;
use crate::error::StoreError;
use crate::http::{Call, Http, encode_form, is_same_host, parse_url};

/// Where a token comes from.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Returns the value of `Authorization` that answers the challenges, or `None` if the credentials answer none of them.
pub(super) fn authorize(
    http: &Http,
    registry: &str,
    challenges: &[&str],
    scope: &str,
    credentials: &Credentials,
) -> Result<Option<String>, StoreError> {
    for challenge in challenges {
        if let Some(parameters) = strip_scheme(challenge, "bearer") {
            if let Credentials::Bearer(_) = credentials {
                return Ok(credentials.authorization());
            }
            let challenge = Challenge::parse(parameters).ok_or_else(|| {
                StoreError::wrong(format!("{registry} asks for a token, but not where from"))
            })?;
            return challenge.fetch(http, registry, scope, credentials).map(Some);
        }
        if strip_scheme(challenge, "basic").is_some() {
            return Ok(credentials.authorization());
        }
    }
    Ok(None)
}

fn strip_scheme<'a>(challenge: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = challenge.split_at_checked(scheme.len())?;
    (start.eq_ignore_ascii_case(scheme) && !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric()))
        .then_some(rest)
}

impl Challenge {
    /// Parses `realm="…",service="…",scope="…"`.
    fn parse(parameters: &str) -> Option<Challenge> {
        let mut challenge = Challenge { realm: String::new(), service: None, scope: None };
        let mut rest = parameters;
        while let Some((name, after)) = rest.split_once('=') {
            let name = name.trim_matches([' ', ',', '\t']);
            // Values of scopes contain commas, so quotes count.
            let (value, after) = match after.strip_prefix('"') {
                Some(after) => after.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match name.to_ascii_lowercase().as_str() {
                "realm" => value.clone_into(&mut challenge.realm),
                "service" => challenge.service = Some(value.to_owned()),
                "scope" => challenge.scope = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        (!challenge.realm.is_empty()).then_some(challenge)
    }

    fn fetch(
        &self,
        http: &Http,
        registry: &str,
        scope: &str,
        credentials: &Credentials,
    ) -> Result<String, StoreError> {
        let realm = parse_url(&self.realm)?;
        // Passwords are sent there, so it needs TLS, unless it is the registry on this machine.
        if realm.scheme_str() != Some("https") && !is_same_host(&realm, &parse_url(registry)?) {
            return Err(StoreError::wrong(format!(
                "{registry} asks for a token from an address without TLS, {realm}"
            )));
        }
        let scope = self.scope.as_deref().unwrap_or(scope);
        let mut pairs = vec![("scope", scope)];
        pairs.extend(self.service.as_deref().map(|service| ("service", service)));

        let response = if let Credentials::Refresh(token) = credentials {
            pairs.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "cannery"),
                ("refresh_token", token),
            ]);
            let form = encode_form(&pairs);
            let call = Call::new(Method::POST, self.realm.clone())
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")?
                .content(form.as_bytes());
            http.send(&call)?
        } else {
            let separator = if self.realm.contains('?') { '&' } else { '?' };
            let mut call =
                Call::new(Method::GET, format!("{}{separator}{}", self.realm, encode_form(&pairs)));
            if let Some(value) = credentials.authorization() {
                call = call.header(AUTHORIZATION, &value)?;
            }
            http.send(&call)?
        };
        let bytes = read_short(response, &self.realm)?;
        let token: Option<Token> = serde_json::from_slice(&bytes).ok();
        let token =
            token.and_then(|token| token.token.or(token.access_token)).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| StoreError::wrong(format!("{} returns no token", self.realm)))?;
        Ok(format!("Bearer {token}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed() {
        let challenge = Challenge::parse(
            r#" realm="https://auth.example/token",service="reg",scope="repository:a:pull,push""#,
        );
        let challenge = challenge.unwrap();
        assert_eq!(challenge.realm, "https://auth.example/token");
        assert_eq!(challenge.scope.as_deref(), Some("repository:a:pull,push"));
        assert_eq!(Challenge::parse("realm=x, error=y").unwrap().realm, "x");
        for wrong in ["", "realm", "realm=\"x", "service=\"x\""] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
        assert!(
            strip_scheme("Bearer realm=x", "bearer").is_some() && strip_scheme("Bearerx", "bearer").is_none()
        );
    }
}
