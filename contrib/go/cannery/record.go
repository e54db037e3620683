package cannery

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Kinds of path records.
const (
	kindResource      = 1
	kindRedirect      = 2
	kindRewrite       = 3
	kindDatedResource = 4
)

// Content codings.
const (
	identity = 0
	gzipped  = 1
	codings  = 4
)

// Origins of resources.
const (
	originFile      = 0
	originGenerated = 2
	originRule      = 3
	originCarried   = 4
	originsMax      = 4
)

// Kinds of scope entries.
const (
	entryFallback   = 1
	entryErrorPage  = 2
	entryRule       = 3
	entryHeaderRule = 4
)

// Kinds of pieces.
const (
	literal = 0
	capture = 1
	splat   = 2
)

// pathRecord is a resource, a redirect or a rewrite.
type pathRecord struct {
	kind            byte // kindResource also for dated resources
	status          int
	origin          byte
	modified        uint64
	hasModified     bool
	representations []representation
	hasQuery        bool
	fragment        string
	template        []piece
}

type representation struct {
	coding   byte
	etag     string
	position uint64
	length   uint64
	head     uint64
}

// piece is a part of a pattern or a template.
type piece struct {
	kind   byte
	text   string
	number int
}

func decodePath(d decoder) (*pathRecord, error) {
	p := &pathRecord{kind: d.u8()}
	switch p.kind {
	case kindResource, kindDatedResource:
		p.origin = d.u8()
		p.status = int(d.u16())
		count := int(d.u8())
		if p.kind == kindDatedResource {
			p.kind = kindResource
			p.modified, p.hasModified = d.u64(), true
		}
		for i := 0; i < count && !d.bad; i++ {
			r := representation{coding: d.u8(), etag: string(d.take(16))}
			r.position, r.length, r.head = d.quantity(), d.quantity(), d.quantity()
			if r.coding >= codings {
				return nil, corrupt("a coding")
			}
			p.representations = append(p.representations, r)
		}
		if p.origin > originsMax {
			return nil, corrupt("an origin")
		}
	case kindRedirect:
		p.hasQuery = d.u8()&1 != 0
		p.status = int(d.u16())
		p.fragment = string(d.take(uint64(d.u16())))
		p.template = decodePieces(&d)
		if p.status < 300 || p.status > 399 {
			return nil, corrupt("the status code of a redirect")
		}
	case kindRewrite:
		p.status = int(d.u16())
		p.template = decodePieces(&d)
	default:
		return nil, corrupt("a path record")
	}
	// net/http panics for other status codes.
	if d.bad || p.status < 200 || p.status > 599 {
		return nil, corrupt("a path record")
	}
	return p, nil
}

// decodePieces decodes the rest of d.
func decodePieces(d *decoder) []piece {
	var pieces []piece
	for len(d.data) > 0 {
		p := piece{kind: d.u8()}
		switch p.kind {
		case literal:
			p.text = string(d.take(uint64(d.u16())))
		case capture, splat:
			p.number = int(d.u8())
		default:
			d.bad = true
			return nil
		}
		pieces = append(pieces, p)
	}
	return pieces
}

// head is a response head. Its lines are in three runs.
type head struct {
	ordinal        string
	status         int
	sendsETag      bool
	overrides      byte
	contentType    []field
	representation []field
	resource       []field
}

type field struct{ name, value string }

// isImmutable returns true for a file that clients keep without asking again.
func (h *head) isImmutable() bool {
	for _, line := range h.resource {
		for _, directive := range strings.Split(line.value, ",") {
			if strings.EqualFold(line.name, "Cache-Control") && strings.EqualFold(strings.TrimSpace(directive), "immutable") {
				return true
			}
		}
	}
	return false
}

// cachingElsewhere returns the Cache-Control of an immutable file under another path, which isn't fingerprinted.
func (h *head) cachingElsewhere() string {
	for _, line := range h.contentType {
		essence, _, _ := strings.Cut(line.value, ";")
		essence = strings.ToLower(strings.TrimSpace(essence))
		if strings.HasSuffix(essence, "json") || strings.HasSuffix(essence, "application/xml") {
			return "public, no-cache"
		}
	}
	return "public, max-age=3600"
}

// lines returns all field lines of the head.
func (h *head) lines() []field {
	lines := append([]field(nil), h.contentType...)
	return append(append(lines, h.representation...), h.resource...)
}

// head returns the head at a position that a representation holds.
func (a *Archive) head(position uint64) (*head, error) {
	key, data, err := a.record(position)
	if err != nil {
		return nil, err
	}
	if len(key) != 5 || key[0] != 'H' {
		return nil, corrupt("the position of a head")
	}
	d := decoder{data: data, width: a.width}
	h := &head{ordinal: string(key[1:]), status: int(d.u16())}
	flags := d.u8()
	h.sendsETag = flags&1 != 0
	h.overrides = d.u8()
	var sizes [4]uint64
	for i := range sizes {
		sizes[i] = uint64(d.u16())
	}
	d.take(sizes[0])
	ok := flags&^1 == 0
	for i, run := range []*[]field{&h.contentType, &h.representation, &h.resource} {
		var valid bool
		*run, valid = parseLines(d.take(sizes[i+1]))
		ok = ok && valid
	}
	if d.bad || !ok {
		return nil, corrupt("a head")
	}
	return h, nil
}

// plainHead returns the head at a position without the fields of header rules.
func (a *Archive) plainHead(position uint64) (*head, error) {
	h, err := a.head(position)
	if err != nil {
		return nil, err
	}
	data, err := a.find("h" + h.ordinal)
	if err != nil || data == nil {
		return h, err
	}
	d := decoder{data: data, width: a.width}
	plain := d.quantity()
	if d.bad {
		return nil, corrupt("a plain head record")
	}
	return a.head(plain)
}

// parseLines splits a run into its field lines. It returns false if a line is malformed.
func parseLines(run []byte) ([]field, bool) {
	var lines []field
	for len(run) > 0 {
		line, rest, found := bytes.Cut(run, []byte("\r\n"))
		name, value, hasColon := strings.Cut(string(line), ": ")
		if !found || !hasColon || name == "" || strings.ContainsAny(string(line), "\r\n\x00") {
			return nil, false
		}
		lines = append(lines, field{name, value})
		run = rest
	}
	return lines, true
}

// scope holds the pages and rules that apply to all paths in a directory. It doesn't refer to the data of the archive.
type scope struct {
	ownSite bool
	pages   []page
	rules   ruleTable[rule]
	headers ruleTable[headerRule]

	// A corrupt entry only matters to requests that need entries of its kind.
	pagesErr, rulesErr, headersErr error
}

// page is a fallback page or an error page.
type page struct {
	kind   byte
	suffix string // of a fallback page
	status int    // of an error page
	record *pathRecord
}

// rule is a rule of _redirects with a pattern.
type rule struct {
	ordinal   uint32
	force     bool
	pagesOnly bool
	pattern   []piece
	record    *pathRecord
}

// headerRule is a rule of _headers. An empty host stands for all hosts.
type headerRule struct {
	ordinal uint32
	host    string
	pattern []piece
	changes []change
}

// change is the effect of a header rule on one field.
type change struct {
	field
	effect   byte
	override byte
}

// scope returns the scope of a directory on a site, or nil if it has none. Scopes are decoded once.
func (a *Archive) scope(site site, directory string) (*scope, error) {
	key := site.prefix() + directory + "/"
	a.scopesMu.RLock()
	s := a.scopes[key]
	a.scopesMu.RUnlock()
	if s != nil {
		return s, nil
	}
	data, err := a.find(key)
	if err != nil || data == nil {
		return nil, err
	}

	// Other requests wait, instead of decoding the same rules at the same time.
	a.scopesMu.Lock()
	defer a.scopesMu.Unlock()
	if s := a.scopes[key]; s != nil {
		return s, nil
	}
	if s, err = decodeScope(decoder{data: data, width: a.width}); err != nil {
		return nil, err
	}
	a.scopes[strings.Clone(key)] = s
	return s, nil
}

func decodeScope(d decoder) (*scope, error) {
	flags := d.u8()
	pagesBytes, indexesBytes := d.u32(), d.u32()
	s := &scope{ownSite: flags&1 != 0}
	pages := d.part(uint64(pagesBytes))
	// The indexes only make the search for a rule faster.
	d.take(uint64(indexesBytes))
	if d.bad || flags&^1 != 0 {
		return nil, corrupt("a scope record")
	}

	s.pagesErr = eachEntry(pages, func(kind byte, d decoder) error {
		page, err := decodePage(kind, d)
		if err == nil {
			s.pages = append(s.pages, page)
		}
		return err
	})

	var rules []rule
	var headers []headerRule
	err := eachEntry(d, func(kind byte, d decoder) error {
		switch kind {
		case entryRule:
			r, err := decodeRule(d)
			rules, s.rulesErr = append(rules, r), cmp.Or(s.rulesErr, err)
		case entryHeaderRule:
			r, err := decodeHeaderRule(d)
			headers, s.headersErr = append(headers, r), cmp.Or(s.headersErr, err)
		default:
			return corrupt("an entry of a scope")
		}
		return nil
	})
	s.rulesErr, s.headersErr = cmp.Or(s.rulesErr, err), cmp.Or(s.headersErr, err)

	slices.SortStableFunc(rules, func(a, b rule) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortStableFunc(headers, func(a, b headerRule) int { return cmp.Compare(a.ordinal, b.ordinal) })
	s.rules = newRuleTable(rules, func(r *rule) []piece { return r.pattern })
	s.headers = newRuleTable(headers, func(r *headerRule) []piece { return r.pattern })
	return s, nil
}

// eachEntry calls visit for the content of each entry.
func eachEntry(entries decoder, visit func(kind byte, content decoder) error) error {
	for len(entries.data) > 0 {
		kind := entries.u8()
		content := entries.part(uint64(entries.u32()))
		if content.bad {
			return corrupt("an entry of a scope")
		}
		if err := visit(kind, content); err != nil {
			return err
		}
	}
	return nil
}

func decodePage(kind byte, d decoder) (p page, err error) {
	p.kind = kind
	switch kind {
	case entryFallback:
		p.suffix = string(d.take(uint64(d.u8())))
	case entryErrorPage:
		p.status = int(d.u16())
	default:
		return p, corrupt("an entry of a scope")
	}
	p.record, err = decodePath(d)
	return p, err
}

func decodeRule(d decoder) (r rule, err error) {
	r.ordinal = d.u32()
	flags := d.u8()
	r.force, r.pagesOnly = flags&1 != 0, flags&2 != 0
	r.pattern = decodePattern(&d)
	r.record, err = decodePath(d)
	return r, err
}

func decodeHeaderRule(d decoder) (r headerRule, err error) {
	r.ordinal = d.u32()
	r.host = lower(string(d.take(uint64(d.u8()))))
	r.pattern = decodePattern(&d)
	for len(d.data) > 0 {
		c := change{effect: d.u8(), override: d.u8()}
		nameBytes, valueBytes := d.u8(), d.u16()
		c.name = string(d.take(uint64(nameBytes)))
		c.value = string(d.take(uint64(valueBytes)))
		if d.bad || c.effect > effectLine || c.name == "" || strings.ContainsAny(c.name+c.value, "\r\n\x00") {
			return r, corrupt("a header rule")
		}
		r.changes = append(r.changes, c)
	}
	if d.bad {
		return r, corrupt("a header rule")
	}
	return r, nil
}

func decodePattern(d *decoder) []piece {
	pattern := d.part(uint64(d.u16()))
	pieces := decodePieces(&pattern)
	d.bad = d.bad || pattern.bad
	return pieces
}
