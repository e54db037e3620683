//! Turns the record of a path into an answer and applies header rules.

use cannery_archive::{
    Archive, Candidates, Corrupt, Key, KeyBuffer, Origin, Piece, Pieces, Record, Resource,
};

use crate::answer::location::{LOCATION_BYTES_MAX, Location};
use crate::answer::site_fields::{
    SiteFields, is_caching_field, is_representation_field, matches_host, restricts_caching,
};
use crate::answer::{Answer, Reason};
use crate::request::Request;
use crate::request::captures::{Captures, Runs};
use crate::request::range::Parts;
use crate::sites::{Place, Sites};
use crate::steps::deliver::{self, Delivery, HeadKind};
use crate::steps::failure::Failure;
use crate::steps::immutable::{has_immutable, is_data};
use crate::steps::resolve::{Found, Search};

/// `Cache-Control` that the archiver sets for files that may change.
const REVALIDATED: &[u8] = b"public, no-cache";
const REUSED_FOR_AN_HOUR: &[u8] = b"public, max-age=3600";

/// A request, and where in the archive to look for its response.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a, 'r> {
    pub(crate) archive: &'a Archive,
    pub(crate) place: Place<'a>,
    /// The request's query. Redirects keep it.
    pub(crate) query: Option<&'a [u8]>,
    pub(crate) request: &'r Request<'a>,
    /// The current time in seconds since 1970.
    pub(crate) now: u64,
}

/// Buffers that are not needed for every answer.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) rewritten: KeyBuffer,
    pub(crate) search: Search,
    pub(crate) parts: Parts,
}

/// Selects the header rules that apply, among those that match the requested path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// All of them. For the file at this path.
    All,
    /// Only rules for exactly this path, used for pages that a rule or a listing shows there.
    Exact,
    /// No rules. This is used for errors, redirects, and pages instead of a missing path. For example, `immutable` for `/assets/*`
    /// is meant for the files in this directory, and a `Content-Disposition` is meant for the download. The page's head already has
    /// the right fields.
    None,
}

/// The header rules that apply to fields about the content. For other fields, all rules for the requested path apply.
#[derive(Clone, Copy)]
pub(crate) struct ContentRules<'a> {
    /// For fields about caching.
    caching: Counting,
    /// For fields about the representation.
    representation: Counting,
    /// If a rule with captures shows a file, this is the file's path, whose rules will apply to the representation.
    own: Option<Key<'a>>,
    /// An error does not take over the caching of a file.
    is_success: bool,
}

impl<'a> ContentRules<'a> {
    /// For the file at the requested path.
    const OF_FILE: ContentRules<'static> =
        ContentRules { caching: Counting::All, representation: Counting::All, own: None, is_success: true };

    /// For a response without the path's content.
    pub(crate) const NONE: ContentRules<'static> = ContentRules {
        caching: Counting::None,
        representation: Counting::None,
        own: None,
        is_success: false,
    };

    fn of(answer: &Answer<'_>, own: Option<Key<'a>>) -> ContentRules<'a> {
        let representation = match answer.reason {
            Reason::Path(Origin::Rule | Origin::Generated) => Counting::Exact,
            Reason::Path(_) => Counting::All,
            _ => Counting::None,
        };

        let is_success = answer.status < 400;
        let caching = if is_success { representation } else { Counting::None };
        ContentRules { caching, representation, own, is_success }
    }

    /// Returns `true` if this field is set when a rule matches the requested path.
    fn includes(&self, pattern: Pieces<'_>, name: &[u8]) -> bool {
        let counting = if is_caching_field(name) {
            self.caching
        } else if is_representation_field(name) {
            self.representation
        } else {
            Counting::All
        };

        match counting {
            Counting::All => true,
            Counting::Exact => {
                let mut pieces = pattern;
                pieces.all(|piece| matches!(piece, Ok(Piece::Literal(_))))
            }
            Counting::None => false,
        }
    }
}

/// Searches for header rules and combines their fields.
#[derive(Default)]
pub(crate) struct HeaderRuleSearch {
    pub(crate) fields: Box<SiteFields>,
    /// Whether a rule for specific hosts has added a field.
    has_host_rule: bool,
    candidates: Candidates,
}

impl<'a> Lookup<'a, '_> {
    /// Returns the answer for a record. Note that the fast path, for files at exactly this path, does not come here.
    #[inline(never)]
    pub(crate) fn answer(
        &self,
        found: Result<Found<'a>, Corrupt>,
        buffers: &'a mut Buffers,
        header_rules: &'a mut HeaderRuleSearch,
    ) -> Answer<'a> {
        let facts = self.archive.facts();

        let mut adds_rules = facts.header_rules;
        // Unless they are for specific hosts, header rules for the path are already included in the head of a file.
        if let Ok(Found::Record { record: Record::Resource(_), reason: Reason::Path(_), .. }) = found {
            adds_rules = facts.host_header_rules
                && self.place.host.is_some()
                && header_rules.find(self.archive, self.place, ContentRules::OF_FILE).is_ok()
                && header_rules.has_host_rule;
        }
        let head = if adds_rules { HeadKind::Plain } else { HeadKind::Complete };

        let mut own = None;
        let answer = match found {
            Ok(found) => self.follow(&found, buffers, head, &mut own),
            Err(corrupt) => Err(corrupt.into()),
        };
        self.finish_with_own(answer, own, header_rules, head)
    }

    /// Turns failures into error responses and takes the method into account.
    ///
    /// `head` is the kind of the answer's head, which is always plain for error responses.
    #[inline(never)]
    pub(crate) fn finish(
        &self,
        answer: Result<Answer<'a>, Failure>,
        header_rules: &'a mut HeaderRuleSearch,
        head: HeadKind,
    ) -> Answer<'a> {
        self.finish_with_own(answer, None, header_rules, head)
    }

    /// Like [`Lookup::finish`]. If a rule with captures shows a file, `own` is the file's path.
    // Answers are large, so inline this: each call would copy them.
    #[inline(always)]
    fn finish_with_own(
        &self,
        answer: Result<Answer<'a>, Failure>,
        own: Option<Key<'a>>,
        header_rules: &'a mut HeaderRuleSearch,
        head: HeadKind,
    ) -> Answer<'a> {
        let (own, head) = if answer.is_ok() { (own, head) } else { (None, HeadKind::Plain) };
        let mut answer = answer.unwrap_or_else(|failure| self.error_response(failure));

        let mut has_fields = false;
        if head == HeadKind::Plain && self.archive.facts().header_rules {
            match header_rules.find(self.archive, self.place, ContentRules::of(&answer, own)) {
                Ok(()) => has_fields = !header_rules.fields.is_empty(),
                // The author has added fields for protection. A response without them could be dangerous.
                Err(corrupt) => answer = self.error_response(corrupt.into()),
            }
        }

        if has_fields && header_rules.fields.replaces_content_type() {
            answer.set_part_type(header_rules.fields.media_type(self.archive.bytes()));
        }
        let is_cached_by_rule = has_fields && header_rules.fields.replaces_caching();
        if let Some(caching) = caching_elsewhere(&answer).filter(|_| !is_cached_by_rule) {
            if !has_fields {
                header_rules.fields.clear();
            }
            header_rules.fields.set_caching(caching);
            has_fields = true;
        }

        if has_fields {
            answer.site_fields = Some(&header_rules.fields);
        }

        answer.adapt_to(self.request.method);
        answer
    }

    /// Returns the error page for a failure. It mentions the requested path.
    #[inline]
    fn error_response(&self, failure: Failure) -> Answer<'a> {
        let mut answer = failure.answer_at(self.archive, self.place, &self.request.accept_encoding);
        answer.mention_path(self.request.target);
        answer
    }

    /// Returns the answer for a record. If a rule with captures shows a file, this also sets the file's path.
    #[inline]
    fn follow(
        &self,
        found: &Found<'a>,
        buffers: &'a mut Buffers,
        head: HeadKind,
        own: &mut Option<Key<'a>>,
    ) -> Result<Answer<'a>, Failure> {
        let Buffers { rewritten, search, parts } = buffers;
        let runs = &search.runs;

        match *found {
            Found::Record { record, matched, reason } => {
                let captures = matched.map_or(Captures::NONE, |path| Captures::new(path, runs));
                let delivery = Delivery { status: None, reason, head };
                match record {
                    Record::Resource(resource) => self.deliver(resource, delivery, parts),
                    Record::Redirect(redirect) => {
                        let location = Location::rule(redirect, captures, self.query);
                        redirect_to(redirect.status, location, reason)
                    }
                    Record::Rewrite(rewrite) => {
                        let Ok(key) = captures.expand(rewrite.path, rewritten)? else {
                            return Err(Failure::new(404, Reason::NotFound));
                        };
                        let lookup = Lookup { place: Place { key, ..self.place }, ..*self };
                        let delivery = Delivery { status: Some(rewrite.status), ..delivery };
                        *own = Some(key);
                        lookup.rewrite(delivery, parts)
                    }
                }
            }
            Found::Slash { key, change } => {
                redirect_to(308, Location::slash(key, change, self.query), Reason::Slash)
            }
            Found::MissingAsset => Err(Failure::new(404, Reason::MissingAsset)),
            Found::Nothing => Err(Failure::new(404, Reason::NotFound)),
        }
    }

    /// Answers with the file that a rewrite points to, which has to be an exact path, since rules should not be applied twice.
    #[inline(never)]
    fn rewrite(&self, delivery: Delivery, parts: &'a mut Parts) -> Result<Answer<'a>, Failure> {
        for site in Sites::new(self.archive, self.place.host) {
            match self.archive.path(site?, self.place.key)? {
                Some(Record::Resource(resource)) => return self.deliver(resource, delivery, parts),
                Some(Record::Redirect(redirect)) => {
                    let location = Location::rule(redirect, Captures::NONE, None);
                    return redirect_to(redirect.status, location, delivery.reason);
                }
                Some(Record::Rewrite(_)) => break,
                None => {}
            }
        }

        Err(Failure::new(404, Reason::NotFound))
    }

    /// Answers with a resource and takes the request's conditions into account.
    pub(crate) fn deliver(
        &self,
        resource: Resource<'a>,
        delivery: Delivery,
        parts: &'a mut Parts,
    ) -> Result<Answer<'a>, Failure> {
        let whole = deliver::choose(self.archive, resource, delivery, self.request)?;
        if whole.is_unconditional(self.request) {
            return Ok(whole.answer(self.request.method));
        }

        whole.answer_with_conditions(self.request, parts, self.now)
    }
}

impl HeaderRuleSearch {
    /// Finds all fields that header rules add. Without a path, only rules for all paths apply.
    ///
    /// Several sites can be searched for a host. We use the rules of the last one.
    pub(crate) fn find(
        &mut self,
        archive: &Archive,
        place: Place<'_>,
        content_rules: ContentRules<'_>,
    ) -> Result<(), Corrupt> {
        let HeaderRuleSearch { fields, has_host_rule, candidates } = self;
        fields.clear();
        *has_host_rule = false;

        let mut site = None;
        for next in Sites::new(archive, place.host) {
            site = next?;
        }
        let Some(root) = archive.root(site)? else { return Ok(()) };

        // Header rules do not use the captures.
        let mut runs = Runs::default();

        // Start with the file's rules, since rules for exactly the requested path should override them.
        if let Some(own) = content_rules.own {
            let path = &own.bytes()[1..];
            root.header_rules(Some(path), candidates, |rule| {
                if runs.match_exactly(rule.pattern, path)? && matches_host(rule.host, place.host) {
                    for field in rule.fields {
                        let field = field?;
                        let is_own = is_representation_field(field.name)
                            || content_rules.is_success && restricts_caching(&field);
                        if is_own {
                            fields.add(archive.bytes(), &field);
                        }
                    }
                }
                Ok(())
            })?;
        }

        let path = place.is_path.then(|| &place.key.bytes()[1..]);
        root.header_rules(path, candidates, |rule| {
            let is_match = match path {
                Some(path) => runs.match_exactly(rule.pattern, path)?,
                None => {
                    let mut pieces = rule.pattern;
                    matches!((pieces.next(), pieces.next()), (Some(Ok(Piece::Splat(_))), None))
                }
            };
            if is_match && matches_host(rule.host, place.host) {
                *has_host_rule |= !rule.host.is_empty();
                for field in rule.fields {
                    let field = field?;
                    if content_rules.includes(rule.pattern, field.name) {
                        fields.add(archive.bytes(), &field);
                    }
                }
            }
            Ok(())
        })
    }
}

/// Returns a different `Cache-Control` if a rule with captures shows an immutable file at another path. Only the file's own path is
/// fingerprinted; tomorrow, the rule may well point to a different file.
fn caching_elsewhere(answer: &Answer<'_>) -> Option<&'static [u8]> {
    let head = match answer.reason {
        Reason::Rule(_) if answer.status < 400 => answer.head()?,
        _ => return None,
    };

    has_immutable(&head).then(|| if is_data(&head) { REVALIDATED } else { REUSED_FOR_AN_HOUR })
}

/// Returns a redirect, or a failure if its `Location` is too long to send.
fn redirect_to(status: u16, location: Location<'_>, reason: Reason) -> Result<Answer<'_>, Failure> {
    if location.length() > LOCATION_BYTES_MAX {
        return Err(Failure::new(414, Reason::LongLocation));
    }
    Ok(Answer::redirect(status, location, reason))
}
