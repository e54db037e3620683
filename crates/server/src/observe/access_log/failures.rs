//! A short line for a terminal: status, method, target, and the page that links there.
//!
//! What a peer sent is escaped as in the combined format, so that it cannot control the terminal.

use super::combined::put_escaped;
use super::encode::put_number;
use super::line::Line;

/// `404 GET /missing.css  (from http://127.0.0.1:8080/)`.
pub(super) fn spell(out: &mut Vec<u8>, line: &Line<'_>) {
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
