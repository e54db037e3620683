//! Errors of `instant-acme` and problem documents of the authority, as errors for operators.

use instant_acme::Problem;

use super::http::{HttpFault, LastResponse};
use crate::error::{Error, Evidence};

/// Prefix of the types in RFC 8555 §6.7.
const TYPES: &str = "urn:ietf:params:acme:error:";

/// Translates an error of a request.
pub(super) fn translate(error: instant_acme::Error, last: LastResponse) -> Error {
    match error {
        instant_acme::Error::Api(problem) => refused(&problem, last),
        instant_acme::Error::Other(other) => match other.downcast::<HttpFault>() {
            Ok(fault) => fault.into_error(last),
            Err(other) => Error::Senseless { why: other.to_string() },
        },
        instant_acme::Error::Json(error) => {
            Error::Senseless { why: format!("{} is not the JSON of RFC 8555 ({error})", last.url) }
        }
        instant_acme::Error::Crypto | instant_acme::Error::KeyRejected => {
            Error::Crypto { why: error.to_string() }
        }
        other => Error::Senseless { why: other.to_string() },
    }
}

/// Translates a problem document (RFC 7807).
pub(super) fn refused(problem: &Problem, last: LastResponse) -> Error {
    let status = problem.status.unwrap_or_default();
    let kind = problem.r#type.as_deref().unwrap_or("about:blank");
    let kind = kind.strip_prefix(TYPES).unwrap_or(kind).to_owned();
    let mut detail = problem.detail.clone().unwrap_or_default();
    for part in &problem.subproblems {
        let name =
            part.identifier.as_ref().map(|name| name.authorized(false).to_string()).unwrap_or_default();
        let what = part.detail.as_deref().unwrap_or_default();
        detail.push_str(&format!("; {name}: {what}"));
    }
    let detail = one_line(&detail);
    let LastResponse { url, retry_after } = last;
    if status >= 500 || kind == "serverInternal" {
        return Error::Failing { url, status: status.max(500), detail: Some(detail), retry_after };
    }
    Error::Refused { kind, detail, retry_after, evidence: Evidence::Response }
}

/// Texts of an authority may contain line breaks, and more than an operator wants to read.
fn one_line(text: &str) -> String {
    const LETTERS_MAX: usize = 600;
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LETTERS_MAX).collect()
}
