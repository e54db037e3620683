//! Handles `Content-Encoding` in `_headers`, which says that files are already compressed.

use std::collections::BTreeMap;
use std::sync::Arc;

use cannery_archive::{Coding, Digest, Origin};

use crate::codings::bounded::DecodeError;
use crate::codings::coders::decode;
use crate::ground::diagnostic::{Diagnostic, Severity};
use crate::properties::precompressed::{self, DECODED_BYTES_MAX, Precompressed, coding_of};
use crate::routes::{Routes, Target, site_index};
use crate::rulefiles::headers::{CONTENT_ENCODING, HeaderField, HeaderRule};
use crate::settings::error::Error;
use crate::sources::source::{Source, SourceId, Sources};

/// Decodes each file that is compressed according to a rule. This is how we learn its length. Also removes
/// `Content-Encoding` from the rules.
///
/// # Errors
///
/// Returns an error if a file cannot be read. If it can be read but not decoded, this will be a
/// diagnostic instead.
pub(crate) fn find(
    routes: &mut Routes,
    sources: &mut Sources,
    rules: &mut [Vec<HeaderRule>],
) -> Result<(), Error> {
    let mut found: BTreeMap<SourceId, (Coding, Arc<str>, u32)> = BTreeMap::new();
    let mentions = |rule: &&HeaderRule| rule.fields.iter().any(|field| field.name() == CONTENT_ENCODING);

    for ((host, path), route) in &routes.paths {
        let Target::Source { id, .. } = route.target else { continue };
        let host_name = routes.host_name(*host);
        let of_site = rules.get(site_index(*host)).map_or(&[][..], Vec::as_slice);
        let mut applicable = of_site.iter().filter(mentions).filter(|rule| rule.matches(host_name, path));
        if route.origin != Origin::File {
            continue;
        }
        // The last rule wins.
        if let Some(rule) = applicable.next_back()
            && let Some(HeaderField::Set { value, .. }) =
                rule.fields.iter().rev().find(|field| field.name() == CONTENT_ENCODING)
            && let Some(coding) = coding_of(value)
        {
            found.insert(id, (coding, Arc::clone(&rule.file), rule.line));
        }
    }

    // Each file may take hundreds of megabytes, so we should only decode one of them at a time.
    for (id, (coding, file, line)) in found {
        let reason = match examine(sources, id, coding)? {
            Examined::Decoded(precompressed) => {
                sources.precompressed.insert(id, precompressed);
                continue;
            }
            // The next attempt will leave this file out.
            Examined::SetAside => continue,
            Examined::Refused(DecodeError::Damaged) => format!("is not compressed with {}", coding.name()),
            Examined::Refused(DecodeError::OutOfMemory) => "decodes to more than fits into memory".to_owned(),
            Examined::Refused(DecodeError::TooLong) => {
                format!("decodes to more than {} MiB", DECODED_BYTES_MAX >> 20)
            }
        };
        let message = format!(
            "`Content-Encoding` applies to {}, which {reason}; limit the rule to compressed files, or publish the file \
             uncompressed",
            String::from_utf8_lossy(sources.path(id))
        );
        routes.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: file.to_string(),
            line: Some(line),
            code: "bad-content-encoding",
            message,
        });
    }

    for site in rules {
        for rule in &mut *site {
            rule.fields.retain(|field| field.name() != CONTENT_ENCODING);
        }
        site.retain(|rule| !rule.fields.is_empty());
    }
    Ok(())
}

/// Outcome for a file that a rule says is compressed.
pub(crate) enum Examined {
    Decoded(Precompressed),
    /// It cannot be read, and the folder is being edited.
    SetAside,
    Refused(DecodeError),
}

/// Decodes a file to learn its length, unless the last build did.
pub(crate) fn examine(sources: &Sources, id: SourceId, coding: Coding) -> Result<Examined, Error> {
    if let (Source::File(file), Some(earlier)) = (sources.of(id), &sources.earlier)
        && let Some(known) = earlier.unchanged_decoded(&file.path, &file.stamp, coding)
    {
        return Ok(Examined::Decoded(Precompressed { coding, length: known.stamp.version.size }));
    }
    let mut coded = Vec::new();
    match sources.read(id, &mut coded) {
        Ok(_) => {}
        Err(error) if sources.set_aside(id, &error) => return Ok(Examined::SetAside),
        Err(error) => return Err(error),
    }
    // While the file is still being written, use the decoded version of the last build.
    let known = sources.earlier.as_ref().and_then(|earlier| earlier.known(sources.path(id)));
    let is_decoded = known.is_some_and(|known| {
        precompressed::is_of_decoded(&known.stamp) && known.facts.digest == Digest::of(&coded)
    });
    let coding = if is_decoded { Coding::Identity } else { coding };
    Ok(match decode(coding, &coded, DECODED_BYTES_MAX) {
        Ok(content) => Examined::Decoded(Precompressed { coding, length: content.len() as u64 }),
        Err(error) => Examined::Refused(error),
    })
}
