//! Finds the response to a request in an archive, in the same way for all protocols and for `explain`.
//!
//! [`Site::answer`] is a pure function that cannot fail. It does not do I/O or allocate, and it does not know the protocol.
//!
//! This crate is internal to Cannery, so its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// The rooms, from the outermost to the innermost. Modules may only import from modules further down.

// An open archive, and what can answer in place of its current release.
mod earlier;
mod https;
mod site;

// From the record of a path to an answer.
mod lookup;

// The steps: we start with the path's record, followed by representation, conditions, range, and finally the response.
mod steps;

// Output: an answer, including the parts that are encoded while they are sent.
mod answer;

// Input: a request, its target, and what it asks for.
mod request;

// The sites to search for a host.
mod sites;

pub use answer::error_page::{ErrorPage, PLAIN_HTTP};
pub use answer::location::{LOCATION_BYTES_MAX, Location};
pub use answer::multipart::{Multipart, MultipartPiece};
pub use answer::site_fields::{
    SITE_FIELDS_MAX, SiteFields, SiteLine, is_caching_field, is_representation_field, is_short_lived,
};
pub use answer::{Answer, Body, ContentRange, Fields, Page, Reason};
pub use https::https_redirect;
pub use request::captures::CAPTURES_MAX;
pub use request::conditional::Validators;
pub use request::intent::Intent;
pub use request::range::RANGES_MAX;
pub use request::target::Target;
pub use request::{Conditions, Full, Method, Request, Single, Values};
pub use site::{Scratch, Site, VirtualHosts};
pub use sites::Sites;
pub use steps::asset::{FILE_SUFFIXES, TEXT_SUFFIXES, is_asset, suffix};
pub use steps::immutable::is_immutable;
pub use steps::negotiate::Weights;
