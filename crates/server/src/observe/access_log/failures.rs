//! Terminal format: status, method, target and referring page of each failed request.
//!
//! Data from the peer is escaped as in the combined format, so that it cannot control the terminal.

use super::combined::put_escaped;
use super::encode::put_number;
use super::line::Line;

/// Appends `404 GET /missing.css  (from http://127.0.0.1:8080/)`.
pub(super) fn encode(out: &mut Vec<u8>, line: &Line<'_>) {
    put_number(out, line.status.into());
    match line.request {
        Some(request) => {
            out.push(b' ');
            out.extend_from_slice(request.method);
            out.push(b' ');
            put_escaped(out, request.target);
            if let Some(referer) = line.referer {
                out.extend_from_slice(b"  (from ");
                put_escaped(out, referer);
                out.push(b')');
            }
        }
        None => out.extend_from_slice(b" (not a valid request)"),
    }
    out.push(b'\n');
}
