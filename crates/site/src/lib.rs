//! Finds the response to a request in an archive, in the same way for all protocols and for `explain`.
//!
//! [`Site::answer`] is a pure function that cannot fail. It does not do I/O or allocate, and it does not know the protocol.
//!
//! This crate is internal to Cannery, so its interface may change in any release. Programs should use the crate `cannery` instead.

#![forbid(unsafe_code)]

// Input: a request and its target.
mod intent;
mod request;
mod target;

// Output: an answer, including the parts that are encoded while they are sent.
mod answer;
mod error_page;
mod location;
mod multipart;
mod site_fields;

// From a request to an answer.
mod lookup;
mod site;

// The steps: we start with the host's site and the path's record, followed by representation, conditions, range, and finally the
// response.
mod asset;
mod captures;
mod conditional;
mod deliver;
mod immutable;
mod negotiate;
mod range;
mod resolve;
mod sites;

// Errors, and answers that are not from the current release.
mod custom_page;
mod earlier;
mod failure;
mod https;

pub use answer::{Answer, Body, ContentRange, Fields, Page, Reason};
pub use asset::{FILE_SUFFIXES, TEXT_SUFFIXES, is_asset, suffix};
pub use captures::CAPTURES_MAX;
pub use conditional::Validators;
pub use error_page::{ErrorPage, PLAIN_HTTP};
pub use https::https_redirect;
pub use immutable::is_immutable;
pub use intent::Intent;
pub use location::{LOCATION_BYTES_MAX, Location};
pub use multipart::{Multipart, MultipartPiece};
pub use negotiate::Weights;
pub use range::RANGES_MAX;
pub use request::{Conditions, Full, Method, Request, Single, Values};
pub use site::{Scratch, Site, VirtualHosts};
pub use site_fields::{
    SITE_FIELDS_MAX, SiteFields, SiteLine, is_caching_field, is_representation_field, is_short_lived,
};
pub use sites::Sites;
pub use target::Target;
