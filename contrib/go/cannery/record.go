package cannery

import (
	"bytes"
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

// scope holds the pages and rules that apply to all paths in a directory.
type scope struct {
	ownSite bool
	pages   decoder
	rules   decoder
}

// entry is an entry of a scope.
type entry struct {
	kind      byte
	suffix    string      // of a fallback page
	status    int         // of an error page
	force     bool        // of a rule
	pagesOnly bool        // of a rule
	pattern   []piece     // of a rule or a header rule
	record    *pathRecord // of a page or a rule
	host      string      // of a header rule
	fields    decoder     // of a header rule
}

// scope returns the scope of a directory on a site, or nil if it has none.
func (a *Archive) scope(site site, directory string) (*scope, error) {
	data, err := a.find(site.prefix() + directory + "/")
	if err != nil || data == nil {
		return nil, err
	}
	d := decoder{data: data, width: a.width}
	flags := d.u8()
	pagesBytes, indexesBytes := d.u32(), d.u32()
	s := &scope{ownSite: flags&1 != 0, pages: d.part(uint64(pagesBytes))}
	d.take(uint64(indexesBytes))
	s.rules = d
	if d.bad || flags&^1 != 0 {
		return nil, corrupt("a scope record")
	}
	return s, nil
}

// eachEntry calls visit for each entry until it returns false.
func eachEntry(entries decoder, visit func(*entry) bool) error {
	for len(entries.data) > 0 {
		kind := entries.u8()
		d := entries.part(uint64(entries.u32()))
		e := &entry{kind: kind}
		hasRecord := true
		switch kind {
		case entryFallback:
			e.suffix = string(d.take(uint64(d.u8())))
		case entryErrorPage:
			e.status = int(d.u16())
		case entryRule:
			d.u32()
			flags := d.u8()
			e.force, e.pagesOnly = flags&1 != 0, flags&2 != 0
			e.pattern = decodePattern(&d)
		case entryHeaderRule:
			d.u32()
			e.host = string(d.take(uint64(d.u8())))
			e.pattern = decodePattern(&d)
			hasRecord = false
			e.fields = d
		default:
			return corrupt("an entry of a scope")
		}
		if d.bad {
			return corrupt("an entry of a scope")
		}
		if hasRecord {
			var err error
			if e.record, err = decodePath(d); err != nil {
				return err
			}
		}
		if !visit(e) {
			return nil
		}
	}
	return nil
}

func decodePattern(d *decoder) []piece {
	pattern := d.part(uint64(d.u16()))
	pieces := decodePieces(&pattern)
	d.bad = d.bad || pattern.bad
	return pieces
}
