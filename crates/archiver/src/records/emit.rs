//! Writes path and scope records.
//!
//! At this point, all bodies are part of the archive, and all routes have been decided.

use cannery_archive::{
    Coding, HeaderEffect, Key, KeyBuffer, NewHeaderRule, NewRecord, NewRepresentation, NewRule, NewScope,
    Origin, Piece, WriteError, Writer,
};
use cannery_site::{is_asset, suffix};
use cannery_wire::response_head::override_bit;

use crate::contents::content::Contents;
use crate::ground::progress::Progress;
use crate::records::render::{Heads, Look, RulePath, caching, is_unfit_for_preview, title_case};
use crate::releases::carryover::{CarriedForm, Carryover, WITHDRAWN_STATUS};
use crate::routes::stand_ins::{StandIns, has_lifetime};
use crate::routes::{HostId, Routes, Scope, Target, site_index};
use crate::rulefiles::headers::{HeaderField, HeaderRule, MergedFields, is_single_valued};
use crate::rulefiles::pattern::{Pattern, PatternPiece};
use crate::rulefiles::redirects::{Action, RedirectRule, Template, TemplatePiece};
use crate::settings::options::{LastModified, Options};
use crate::sources::source::{SourceId, Sources};

/// Writes all routes.
pub(crate) struct Emission<'a> {
    options: &'a Options,
    sources: &'a Sources,
    contents: &'a Contents,
    routes: &'a Routes,
    stand_ins: &'a StandIns,
    heads: Heads<'a>,
}

/// Header rules for each site.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) headers: &'a [Vec<HeaderRule>],
    pub(crate) stand_ins: &'a StandIns,
}

/// Numbers for the report.
#[derive(Debug, Default)]
pub(crate) struct Emitted {
    pub(crate) aliases: u64,
    pub(crate) redirects: u64,
    pub(crate) heads: u64,
}

/// Response head for withdrawn paths.
const WITHDRAWN: Look<'static> = Look {
    status: WITHDRAWN_STATUS,
    media_type: "text/plain",
    charset: true,
    coding: Coding::Identity,
    negotiable: false,
    varies_by_intent: false,
    cache_control: Some("no-store"),
};

static NO_FIELDS: MergedFields = MergedFields { fields: Vec::new(), removed: Vec::new() };

/// Returns upper bounds for the bytes and records of paths, scopes and hidden files.
pub(crate) fn bound(routes: &Routes, sources: &Sources, options: &Options) -> (u64, u64) {
    // Per path: record header, host and key, then representations; all with 64-bit numbers.
    let representations = options.encoders.len() as u64 + 1;
    let path_bytes = routes.paths.keys().map(|(host, key)| {
        let host_bytes = routes.host_name(*host).map_or(0, |name| name.len() + 2);
        (16 + host_bytes + key.len() + 5) as u64 + representations * (17 + 24)
    });
    // A rule may be in the scopes of several hosts.
    let in_scopes = routes.scopes.values().flat_map(|scope| &scope.rules);
    let in_scopes = in_scopes.map(|ordinal| &routes.rules[*ordinal as usize]);
    let rule_bytes = routes.rules.iter().chain(in_scopes).map(|rule| rule_bytes(rule) + representations * 41);
    let hidden_bytes = routes.hidden.iter().map(|id| sources.path(*id).len() as u64 + 40);
    let bytes = path_bytes.chain(rule_bytes).chain(hidden_bytes).sum();
    (bytes, (routes.paths.len() + routes.scopes.len() + routes.hidden.len()) as u64)
}

/// Returns an upper bound for the bytes of a rule.
fn rule_bytes(rule: &RedirectRule) -> u64 {
    let literals = |template: &Template| -> usize {
        let literal = |piece: &TemplatePiece| match piece {
            TemplatePiece::Literal(bytes) => bytes.len() + 3,
            TemplatePiece::Capture(_) => 2,
        };
        template.pieces.iter().map(literal).sum()
    };

    let target = match &rule.action {
        Action::Redirect { target, query, fragment, .. } => {
            literals(target)
                + query.as_ref().map_or(0, |query| literals(query) + 4)
                + fragment.as_ref().map_or(0, String::len)
        }
        Action::Rewrite { path, .. } => literals(path),
    };

    let pattern = rule.source.pieces.iter().map(|piece| match piece {
        PatternPiece::Literal(bytes) => bytes.len() + 3,
        PatternPiece::Placeholder | PatternPiece::Splat => 2,
    });

    (target + pattern.sum::<usize>() + 64) as u64
}

/// A source to be sent in a response.
struct Delivery<'p> {
    /// The site for which it is sent.
    host: HostId,
    id: SourceId,
    status: u16,
    /// Path whose header rules are merged into the heads, or `None` if the rules will be applied by the
    /// server.
    path: Option<RulePath<'p>>,
    origin: Origin,
}

impl Delivery<'_> {
    /// A page that will be sent for paths that are not known at build time.
    fn without_path(host: HostId, id: SourceId, status: u16) -> Delivery<'static> {
        Delivery { host, id, status, path: None, origin: Origin::Alias }
    }

    /// Returns `true` for fallback pages, error pages, and pages shown by a rule.
    fn is_stand_in(&self) -> bool {
        self.path.is_none() || self.origin == Origin::Rule
    }
}

impl<'a> Emission<'a> {
    pub(crate) fn new(
        options: &'a Options,
        sources: &'a Sources,
        contents: &'a Contents,
        routes: &'a Routes,
        Rules { headers, stand_ins }: Rules<'a>,
    ) -> Emission<'a> {
        let heads = Heads::new(options, headers);
        Emission { options, sources, contents, routes, stand_ins, heads }
    }

    /// Writes all records except bodies and the manifest.
    pub(crate) fn run(
        mut self,
        writer: &mut Writer,
        carried: &Carryover,
        progress: &dyn Progress,
    ) -> Result<Emitted, WriteError> {
        self.number_lines(carried);

        let mut emitted = Emitted::default();
        let mut buffer = KeyBuffer::new();
        for ((host, key), route) in &self.routes.paths {
            let path = self.rule_path(*host, key, route.origin);
            let record = match &route.target {
                Target::Source { id, status } => {
                    let origin = route.origin;
                    let delivery =
                        Delivery { host: *host, id: *id, status: *status, path: Some(path), origin };
                    self.resource(writer, &delivery)?
                }
                Target::Rule(place) => {
                    emitted.redirects += 1;
                    let rule = &self.routes.rules[*place as usize];
                    self.redirect(writer, *host, Some(path), rule)?
                }
            };
            emitted.aliases += u64::from(route.origin == Origin::Alias);
            // The key was made from this very path, so it must be valid.
            let Ok(key) = Key::from_file(&key[1..], &mut buffer) else { continue };
            writer.path(self.routes.host_name(*host), key, &record)?;
            progress.advance(1);
        }
        self.carried(writer, carried)?;

        for ((host, folder), scope) in &self.routes.scopes {
            let scope = self.scope(writer, *host, folder, scope)?;
            let Ok(key) = Key::from_file(&folder[1..], &mut buffer) else { continue };
            writer.scope(self.routes.host_name(*host), key, &scope)?;
        }

        if !self.options.exclude_file_listing {
            for id in &self.routes.hidden {
                let (content, _) = self.contents.source_content(*id);
                let identity = content.forms.iter().find(|form| form.coding == Coding::Identity);
                // This should always be present, because control files are stored uncompressed regardless of the
                // enabled encoders.
                if let Some(form) = identity {
                    writer.source(self.sources.path(*id), form.body)?;
                }
            }
        }
        emitted.heads = self.heads.count();
        Ok(emitted)
    }

    /// Counts the uses of each header line.
    ///
    /// This must be done before the first head is written.
    fn number_lines(&mut self, carried: &Carryover) {
        let routes = self.routes;
        for ((host, key), route) in &routes.paths {
            let path = Some(self.rule_path(*host, key, route.origin));
            match &route.target {
                Target::Source { id, status } => {
                    self.note(&Delivery {
                        host: *host,
                        id: *id,
                        status: *status,
                        path,
                        origin: route.origin,
                    });
                }
                Target::Rule(place) => self.note_rule(*host, path, &routes.rules[*place as usize]),
            }
        }

        // Carried paths keep their original heads.
        for form in carried.paths.iter().flat_map(|path| &path.forms) {
            self.heads.note_head(form.head.clone());
        }
        if carried.withdrawn_body.is_some() {
            self.heads.note(WITHDRAWN, None, &NO_FIELDS);
        }
        for (host, key) in &carried.withdrawn {
            if let Some(id) = routes.nearest_error_page(*host, key, WITHDRAWN_STATUS) {
                self.note(&self.withdrawn_page(id, *host, key));
            }
        }

        // Pages that are not bound to a path.
        for ((host, _), scope) in &routes.scopes {
            for (_, id) in &scope.fallbacks {
                self.note(&Delivery::without_path(*host, *id, 200));
            }
            for (status, id) in &scope.error_pages {
                self.note(&Delivery::without_path(*host, *id, *status));
            }
            for ordinal in &scope.rules {
                self.note_rule(*host, None, &routes.rules[*ordinal as usize]);
            }
        }

        self.heads.number();
    }

    fn note_rule(&mut self, host: HostId, path: Option<RulePath<'_>>, rule: &RedirectRule) {
        if let Action::Rewrite { status, path: target } = &rule.action
            && let Some(id) = self.constant_source(host, target, *status)
        {
            self.note(&Delivery { host, id, status: *status, path, origin: Origin::Rule });
        }
    }

    fn note(&mut self, delivery: &Delivery<'_>) {
        let (look, own) = (self.look(delivery), self.own_fields(delivery));
        for form in &self.contents.source_content(delivery.id).0.forms {
            self.heads.note(Look { coding: form.coding, ..look }, delivery.path, own);
        }
    }

    /// Returns the site's own error page for a withdrawn path.
    fn withdrawn_page<'p>(&self, id: SourceId, host: HostId, path: &'p [u8]) -> Delivery<'p>
    where
        'a: 'p,
    {
        let path = self.rule_path(host, path, Origin::Rule);
        Delivery { host, id, status: WITHDRAWN_STATUS, path: Some(path), origin: Origin::Rule }
    }

    fn rule_path<'p>(&self, host: HostId, path: &'p [u8], origin: Origin) -> RulePath<'p>
    where
        'a: 'p,
    {
        let routes: &'a Routes = self.routes;
        // Listings are not files, and they change with every file in their folder. Therefore rules that describe a file should
        // not apply to them, just like they do not apply to rewritten paths.
        let is_rewritten = matches!(origin, Origin::Rule | Origin::Generated);
        RulePath { site: site_index(host), host: routes.host_name(host), path, is_rewritten }
    }

    /// If a page is sent in place of another path, we also need the header fields of its own file.
    fn own_fields(&self, delivery: &Delivery<'_>) -> &'a MergedFields {
        let own = delivery.is_stand_in().then(|| self.stand_ins.representation(delivery.host, delivery.id));
        own.flatten().unwrap_or(&NO_FIELDS)
    }

    /// Returns everything that determines a source's heads, except for the coding.
    fn look(&self, delivery: &Delivery<'_>) -> Look<'a> {
        let Delivery { host, id, status, .. } = *delivery;
        let (content, known) = self.contents.source_content(id);
        let source_path = self.sources.type_path(id);
        let media_type = self.options.media_types.of(source_path);

        let cache_control = if delivery.is_stand_in() {
            self.stand_ins.caching(self.options, (host, id), source_path, media_type, status)
        } else {
            caching(self.options, source_path, media_type, known.fingerprinted, status)
        };
        // Whether this page is sent depends on the request's intent (see `cannery_site::Intent`).
        let is_chosen_page = delivery.path.is_none() && !is_asset(suffix(source_path));
        Look {
            status,
            media_type: media_type.text,
            charset: media_type.charset && known.utf8,
            coding: Coding::Identity,
            negotiable: content.forms.iter().any(|form| form.coding != Coding::Identity),
            varies_by_intent: is_chosen_page && cache_control.is_some_and(has_lifetime),
            cache_control,
        }
    }

    /// Writes paths carried from earlier releases with their original heads, and withdrawn paths.
    fn carried(&mut self, writer: &mut Writer, carried: &Carryover) -> Result<(), WriteError> {
        let mut buffer = KeyBuffer::new();
        // Withdrawn paths get the site's error page, or a built-in one.
        if let Some(form) = &carried.withdrawn_body {
            let head = self.heads.of(writer, WITHDRAWN, None, &NO_FIELDS)?;
            let page = NewRepresentation { coding: form.coding, etag: form.etag, body: form.body, head };
            for (host, key) in &carried.withdrawn {
                let record = match self.routes.nearest_error_page(*host, key, WITHDRAWN_STATUS) {
                    Some(id) => self.resource(writer, &self.withdrawn_page(id, *host, key))?,
                    None => NewRecord::Resource {
                        status: WITHDRAWN_STATUS,
                        origin: Origin::Rule,
                        modified: None,
                        representations: vec![page],
                    },
                };
                let name = key.strip_prefix(b"/").unwrap_or(key);
                let Ok(key) = Key::from_file(name, &mut buffer) else { continue };
                writer.path(self.routes.host_name(*host), key, &record)?;
            }
        }

        for path in &carried.paths {
            let mut representations = Vec::with_capacity(path.forms.len());
            for CarriedForm { form, head, plain } in &path.forms {
                representations.push(NewRepresentation {
                    coding: form.coding,
                    etag: form.etag,
                    body: form.body,
                    head: self.heads.write_carried(writer, head, plain)?,
                });
            }
            let record = NewRecord::Resource {
                status: 200,
                origin: Origin::Carried,
                modified: path.modified,
                representations,
            };

            // Keys can only be invalid in a forged archive. It is fine to drop such a path, as no request
            // can reach it.
            let name = path.key.strip_prefix(b"/").unwrap_or(&path.key);
            let Ok(key) = Key::from_file(name, &mut buffer) else { continue };
            writer.path(self.routes.host_name(path.host), key, &record)?;
        }
        Ok(())
    }

    /// Writes the heads of a source's representations and returns the record for it.
    fn resource(
        &mut self,
        writer: &mut Writer,
        delivery: &Delivery<'_>,
    ) -> Result<NewRecord<'a>, WriteError> {
        let Delivery { id, status, path, origin, .. } = *delivery;
        let (content, _) = self.contents.source_content(id);
        let (look, own) = (self.look(delivery), self.own_fields(delivery));

        let mut representations = Vec::with_capacity(content.forms.len());
        for form in &content.forms {
            let head = self.heads.of(writer, Look { coding: form.coding, ..look }, path, own)?;
            representations.push(NewRepresentation {
                coding: form.coding,
                etag: form.etag,
                body: form.body,
                head,
            });
        }

        let modified = match self.options.last_modified {
            LastModified::None => None,
            LastModified::Files => self.sources.modified(id),
            LastModified::At(seconds) => Some(seconds),
        };
        Ok(NewRecord::Resource { status, origin, modified, representations })
    }

    /// Returns the record of everything that applies to a folder and below.
    fn scope(
        &mut self,
        writer: &mut Writer,
        host: HostId,
        folder: &'a [u8],
        scope: &'a Scope,
    ) -> Result<NewScope<'a>, WriteError> {
        let is_root = *folder == *b"/";
        let own_site = is_root && self.routes.has_site(host);
        let mut new = NewScope { own_site, ..NewScope::default() };

        for (suffix, id) in &scope.fallbacks {
            let page = self.resource(writer, &Delivery::without_path(host, *id, 200))?;
            new.fallbacks.push((suffix, page));
        }
        for (status, id) in &scope.error_pages {
            let page = self.resource(writer, &Delivery::without_path(host, *id, *status))?;
            new.error_pages.push((*status, page));
        }

        for ordinal in &scope.rules {
            let rule = &self.routes.rules[*ordinal as usize];
            let record = self.redirect(writer, host, None, rule)?;
            new.rules.push(NewRule {
                ordinal: *ordinal,
                force: rule.force,
                pages_only: rule.pages_only,
                pattern: pattern(&rule.source, folder.len()),
                record,
            });
        }

        // Hosts without a site of their own use the header rules of the default site.
        if is_root && (host.is_none() || own_site) {
            let rules = (0..).zip(self.heads.rules(site_index(host)));
            new.header_rules =
                rules.map(|(ordinal, rule)| header_rule(ordinal, rule, self.options.preview)).collect();
        }
        Ok(new)
    }

    /// Returns the record for a rule's response.
    fn redirect(
        &mut self,
        writer: &mut Writer,
        host: HostId,
        path: Option<RulePath<'_>>,
        rule: &'a RedirectRule,
    ) -> Result<NewRecord<'a>, WriteError> {
        match &rule.action {
            Action::Redirect { status, target, query, fragment } => {
                let mut target = pieces(target);
                if let Some(query) = query {
                    target.push(Piece::Literal(b"?"));
                    target.extend(pieces(query));
                }
                let fragment = fragment.as_deref().unwrap_or_default().as_bytes();
                Ok(NewRecord::Redirect { status: *status, has_query: query.is_some(), fragment, target })
            }
            Action::Rewrite { status, path: target } => match self.constant_source(host, target, *status) {
                Some(id) => {
                    self.resource(writer, &Delivery { host, id, status: *status, path, origin: Origin::Rule })
                }
                None => Ok(NewRecord::Rewrite { status: *status, path: pieces(target) }),
            },
        }
    }

    /// Returns the source that a rewrite without captures leads to.
    fn constant_source(&self, host: HostId, path: &Template, status: u16) -> Option<SourceId> {
        let source = self.routes.source_at(host, &path.constant()?);
        source.or_else(|| self.routes.status_texts.get(&status).copied())
    }
}

/// Converts a `_headers` rule to a record.
fn header_rule(ordinal: u32, rule: &HeaderRule, preview: bool) -> NewHeaderRule<'_> {
    let is_unfit = |name: &str| preview && is_unfit_for_preview(name);

    // Values with references have already been expanded for each known path.
    let is_constant = |field: &&HeaderField| !is_unfit(field.name()) && !rule.is_reference(field);
    let fields = rule.fields.iter().filter(is_constant).filter_map(|field| {
        let (effect, value) = match field {
            HeaderField::Remove { .. } => (HeaderEffect::Remove, Vec::new()),
            HeaderField::Set { name, value } if name == "vary" => {
                // The server adds `Accept-Encoding` itself where needed.
                let names = value.split(',').map(str::trim);
                let names: Vec<&str> =
                    names.filter(|name| !name.eq_ignore_ascii_case("accept-encoding")).collect();
                (HeaderEffect::Join, names.join(", ").into_bytes())
            }
            HeaderField::Set { name, value } => {
                let effect = match name.as_str() {
                    "set-cookie" => HeaderEffect::Line,
                    name if is_single_valued(name) => HeaderEffect::Replace,
                    _ => HeaderEffect::Join,
                };
                (effect, value.clone().into_bytes())
            }
        };

        let has_no_effect = value.is_empty() && effect != HeaderEffect::Remove;
        let name = title_case(field.name()).into_bytes();
        (!has_no_effect).then(|| (effect, override_bit(field.name()), name, value))
    });

    let host = rule.host.as_deref().unwrap_or_default().as_bytes();
    NewHeaderRule { ordinal, host, pattern: pattern(&rule.pattern, 1), fields: fields.collect() }
}

/// Converts a pattern to pieces, without the folder of its scope.
fn pattern(pattern: &Pattern, covered: usize) -> Vec<Piece<'_>> {
    let mut captures = 0;
    let mut capture = |piece: fn(u8) -> Piece<'static>| {
        captures += 1;
        piece(captures - 1)
    };
    let pieces = pattern.pieces.iter().enumerate().map(|(place, piece)| match piece {
        PatternPiece::Literal(literal) if place == 0 => {
            Piece::Literal(&literal[covered.min(literal.len())..])
        }
        PatternPiece::Literal(literal) => Piece::Literal(literal),
        PatternPiece::Placeholder => capture(Piece::Capture),
        PatternPiece::Splat => capture(Piece::Splat),
    });
    pieces.filter(|piece| *piece != Piece::Literal(b"")).collect()
}

fn pieces(template: &Template) -> Vec<Piece<'_>> {
    let pieces = template.pieces.iter().map(|piece| match piece {
        TemplatePiece::Literal(literal) => Piece::Literal(literal),
        TemplatePiece::Capture(number) => Piece::Capture(*number),
    });
    pieces.collect()
}
