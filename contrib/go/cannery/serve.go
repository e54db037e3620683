package cannery

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

const allowedMethods = "GET, HEAD, OPTIONS"

// ServeHTTP answers a request as cannery-server does. Bodies are written from the archive, without a copy of their own.
//
// Behind [http.StripPrefix], redirects lead below its prefix, and the prefix itself is redirected to the same path with a
// slash. [http.ServeMux] redirects paths that aren't in normal form by itself, such as "/a//b", which cannery-server answers
// directly.
func (a *Archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.acquire() {
		unavailable(w)
		return
	}
	defer a.release()
	a.serve(w, r)
}

// serve answers a request while the archive is acquired.
func (a *Archive) serve(w http.ResponseWriter, r *http.Request) {
	a.respond(newRequest(r, time.Now())).write(w)
}

func unavailable(w http.ResponseWriter) {
	http.Error(w, "the archive is closed", http.StatusServiceUnavailable)
}

// form is the kind of a response, which determines its fields.
type form int

const (
	canned form = iota
	partial
	multipart
	unmodified
	redirect
	builtIn // errors and OPTIONS
)

// response is a response without the fields of the connection.
type response struct {
	form      form
	status    int
	head      *head // of the representation or the error page; nil for a built-in page
	etag      string
	modified  int64 // -1 if it isn't sent
	byteRange string
	location  string
	mediaType string // of a multipart response
	length    int64  // -1 if the status code has no content
	body      [][]byte
	rules     *ruleFields // nil if the head includes them
	// own is the path of a file that a rule with captures shows under another path.
	own string
	now int64
}

// failure is an error response.
type failure struct {
	status int
	length int64 // of the representation, for a 416; otherwise -1
}

func (f failure) Error() string { return fmt.Sprintf("status %d", f.status) }

func fail(status int) error { return failure{status, -1} }

// call is a request to an archive.
type call struct {
	*Archive
	*request
}

func (a *Archive) respond(r *request) *response {
	if !a.has(flagHosts) {
		r.host = ""
	}
	c := call{a, r}
	resp, addsRules, counts, err := c.answer()
	if err != nil {
		resp, addsRules, counts = c.errorResponse(err), true, countNone
	}
	content := contentRules{caching: counts, representation: counts, own: resp.own, isSuccess: resp.status < 400}
	if !content.isSuccess {
		content.caching = countNone
	}
	if addsRules && a.has(flagHeaderRules) {
		path := r.path
		if r.pathErr != nil {
			path = ""
		}
		if rules, err := a.headerRules(r.host, path, content); err == nil && !rules.isEmpty {
			resp.rules = rules
		}
	}
	if resp.own != "" && resp.head != nil && resp.status < 400 && resp.head.isImmutable() &&
		!(resp.rules != nil && resp.rules.replacesCaching) {
		if resp.rules == nil {
			resp.rules = &ruleFields{}
		}
		resp.rules.setCaching(resp.head.cachingElsewhere())
	}
	if r.method == http.MethodHead {
		resp.body = nil
	}
	resp.now = r.now
	return resp
}

// answer returns a response, true if header rules add fields to it, and those among them that set fields about its content.
func (c call) answer() (resp *response, addsRules bool, counts counting, err error) {
	switch c.method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		if c.pathErr == errMalformedTarget {
			return nil, false, countNone, fail(http.StatusBadRequest)
		}
		return &response{form: builtIn, status: http.StatusNoContent, modified: -1, length: -1}, true, countNone, nil
	// The other methods of the IANA registry (RFC 9110 §16.1.1).
	case "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT",
		"COPY", "DELETE", "LABEL", "LINK", "LOCK", "MERGE",
		"MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
		"ORDERPATCH", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT",
		"QUERY", "REBIND", "REPORT", "SEARCH", "TRACE", "UNBIND",
		"UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL":
		return nil, false, countNone, fail(http.StatusMethodNotAllowed)
	default:
		return nil, false, countNone, fail(http.StatusNotImplemented)
	}
	if c.isMount {
		// Otherwise, relative links of the front page wouldn't work.
		resp, err = c.redirectTo(http.StatusPermanentRedirect, slashLocation("/", c.query))
		return resp, false, countNone, err
	}
	switch c.pathErr {
	case nil:
	case errLongPath:
		return nil, false, countNone, fail(http.StatusRequestURITooLong)
	default:
		return nil, false, countNone, fail(http.StatusBadRequest)
	}

	f, err := c.resolve(c.host, c.path, pageUseOf(c.header))
	if err != nil {
		return nil, false, countNone, err
	}
	if f == nil || f.refused {
		return nil, false, countNone, fail(http.StatusNotFound)
	}
	if f.slash != "" {
		resp, err = c.redirectTo(http.StatusPermanentRedirect, slashLocation(f.slash, c.query))
		return resp, true, countNone, err
	}

	addsRules = c.has(flagHeaderRules)
	if f.isPath {
		counts = countExact
		if f.record.kind == kindResource && f.record.origin != originRule && f.record.origin != originGenerated {
			counts = countAll
		}
	}
	switch f.record.kind {
	case kindRedirect:
		resp, err = c.redirectTo(f.record.status, ruleLocation(f.record, f.captures, c.query))
	case kindRewrite:
		resp, err = c.rewrite(f, addsRules)
	default:
		if f.isPath && addsRules {
			// The head of a file includes the rules for its path, except those that are restricted to a host.
			addsRules = false
			if c.has(flagHostHeaderRules) && c.host != "" {
				if rules, err := c.headerRules(c.host, c.path, contentRules{caching: countAll, representation: countAll}); err == nil {
					addsRules = rules.hasHostRule
				}
			}
		}
		resp, err = c.deliver(f.record, 0, addsRules)
	}
	return resp, addsRules, counts, err
}

// rewrite answers from another path of the same site. Rules don't apply again.
func (c call) rewrite(f *found, plain bool) (*response, error) {
	var expanded strings.Builder
	for _, p := range f.record.template {
		if text := p.captured(f.captures); expanded.Len()+len(text) <= expandedBytesMax {
			expanded.WriteString(text)
		} else {
			return nil, fail(http.StatusNotFound)
		}
	}
	path, err := normalize(expanded.String())
	if err != nil {
		return nil, fail(http.StatusNotFound)
	}
	sites, err := c.sites(c.host)
	if err != nil {
		return nil, err
	}
	for _, site := range sites {
		record, err := c.pathRecord(site, path)
		switch {
		case err != nil:
			return nil, err
		case record == nil:
			continue
		case record.kind == kindResource:
			resp, err := c.deliver(record, f.record.status, plain)
			if err == nil {
				resp.own = path
			}
			return resp, err
		case record.kind == kindRedirect:
			return c.redirectTo(record.status, ruleLocation(record, nil, ""))
		}
		break
	}
	return nil, fail(http.StatusNotFound)
}

// redirectTo answers with a redirect. A location that is a path leads below the mount.
func (c call) redirectTo(status int, location string) (*response, error) {
	if len(location) > locationBytesMax {
		return nil, fail(http.StatusRequestURITooLong)
	}
	if strings.HasPrefix(location, "/") && !strings.HasPrefix(location, "//") {
		location = c.mount + location
	}
	return &response{form: redirect, status: status, location: location, modified: -1}, nil
}

// deliver answers with a resource. status is that of a rewrite, or 0. plain omits the fields of header rules.
func (c call) deliver(resource *pathRecord, status int, plain bool) (*response, error) {
	chosen := c.choose(resource.representations)
	if chosen == nil {
		return nil, fail(http.StatusNotAcceptable)
	}
	if status == 0 || status == http.StatusOK {
		status = resource.status
	}
	readHead := c.head
	if plain {
		readHead = c.plainHead
	}
	h, err := readHead(chosen.head)
	if err != nil {
		return nil, err
	}
	body, err := c.slice(chosen.position, chosen.length)
	if err != nil {
		return nil, err
	}
	resp := &response{
		status: status, head: h, modified: -1, length: int64(chosen.length), body: [][]byte{body},
	}
	if status != http.StatusOK {
		// Conditions and ranges don't apply, so there are no validators either.
		return resp, nil
	}

	v := validators{}
	if h.sendsETag {
		v.etag = chosen.etag
		resp.etag = chosen.etag
	}
	if resource.hasModified {
		v.modified, v.hasModified = int64(min(resource.modified, 1<<40)), true
		resp.modified = v.modified
	}
	switch c.evaluate(v) {
	case notModified:
		resp.form, resp.status, resp.length, resp.body = unmodified, http.StatusNotModified, -1, nil
		return resp, nil
	case preconditionFailed:
		return nil, fail(http.StatusPreconditionFailed)
	}
	value, ok := c.single("Range")
	if !ok || c.method != http.MethodGet || !c.rangeApplies(v) {
		return resp, nil
	}
	parts, satisfiable := parseRange(value, chosen.length)
	switch {
	case !satisfiable:
		return nil, failure{http.StatusRequestedRangeNotSatisfiable, int64(chosen.length)}
	case len(parts) == 1:
		part := parts[0]
		resp.form, resp.status = partial, http.StatusPartialContent
		resp.byteRange = contentRange(part, chosen.length)
		resp.length = int64(part.end - part.start)
		resp.body = [][]byte{body[part.start:part.end]}
	case len(parts) > 1:
		resp.partition(parts, body, chosen.etag)
	}
	return resp, nil
}

// partition turns the response into a multipart one, unless that would be no shorter.
func (r *response) partition(parts []extent, body []byte, etag string) {
	delimiter := "\r\n--cannery_" + etag
	var pieces [][]byte
	for _, part := range parts {
		var b strings.Builder
		b.WriteString(delimiter + "\r\n")
		for _, f := range append(append([]field(nil), r.head.contentType...), r.head.representation...) {
			b.WriteString(f.name + ": " + f.value + "\r\n")
		}
		b.WriteString("Content-Range: " + contentRange(part, uint64(len(body))) + "\r\n\r\n")
		pieces = append(pieces, []byte(b.String()), body[part.start:part.end])
	}
	pieces = append(pieces, []byte(delimiter+"--\r\n"))
	length := int64(0)
	for _, piece := range pieces {
		length += int64(len(piece))
	}
	if length < int64(len(body)) {
		r.form, r.status, r.length, r.body = multipart, http.StatusPartialContent, length, pieces
		r.mediaType = "multipart/byteranges; boundary=cannery_" + etag
	}
}

func contentRange(part extent, size uint64) string {
	return fmt.Sprintf("bytes %d-%d/%d", part.start, part.end-1, size)
}

// errorResponse returns the response for an error, with the nearest error page or the built-in one.
func (c call) errorResponse(err error) *response {
	f := failure{http.StatusInternalServerError, -1}
	errors.As(err, &f)
	resp := &response{form: builtIn, status: f.status, modified: -1}
	if f.length >= 0 {
		resp.byteRange = "bytes */" + strconv.FormatInt(f.length, 10)
	}
	// A corrupt page doesn't change the error: the built-in page replaces it.
	if page, err := c.errorPage(c.host, c.path, f.status); err == nil && page != nil {
		if chosen := c.choose(page.representations); chosen != nil {
			h, headErr := c.head(chosen.head)
			body, bodyErr := c.slice(chosen.position, chosen.length)
			if headErr == nil && bodyErr == nil {
				resp.head, resp.body, resp.length = h, [][]byte{body}, int64(len(body))
				return resp
			}
		}
	}
	text := errorText(f.status, c.subject)
	resp.body, resp.length = [][]byte{[]byte(text)}, int64(len(text))
	return resp
}

// fields returns the fields of the response, and the set of fields of the server that the site sets or removes.
func (r *response) fields() (fields []field, overrides byte) {
	add := func(name, value string) { fields = append(fields, field{name, value}) }
	addLines := func(lines []field) {
		for _, line := range lines {
			isCaching := line.name == "Cache-Control"
			if r.rules != nil {
				if line.name == "Content-Type" && r.rules.replacesContentType {
					continue
				}
				if isCaching && r.rules.replacesCaching {
					continue
				}
			}
			// The page of an error can have the head of another status code.
			isRestated := r.form == canned && r.head.status != r.status
			if r.rules != nil {
				isRestated = r.head.status < 400
			}
			if isCaching && r.status >= 400 && isRestated {
				line.value = "no-store"
			}
			fields = append(fields, line)
		}
	}

	hasContent := true
	if r.head != nil {
		overrides = r.head.overrides
	}
	switch r.form {
	case canned, partial:
		addLines(r.head.lines())
	case multipart:
		add("Content-Type", r.mediaType)
		addLines(r.head.resource)
	case unmodified:
		addLines(r.head.resource)
	case redirect:
		add("Location", r.location)
		if r.status == http.StatusMovedPermanently || r.status == http.StatusPermanentRedirect {
			add("Cache-Control", "public, max-age=3600")
		} else {
			add("Cache-Control", "no-cache")
		}
		hasContent = false
	case builtIn:
		switch r.status {
		case http.StatusNoContent:
			add("Allow", allowedMethods)
			add("Accept-Ranges", "bytes")
		case http.StatusMethodNotAllowed, http.StatusNotImplemented:
			add("Allow", allowedMethods)
		case http.StatusNotAcceptable, http.StatusRequestedRangeNotSatisfiable:
			if r.head == nil || !variesByEncoding(r.head.resource) {
				add("Vary", "Accept-Encoding")
			}
		}
		if r.head != nil {
			addLines(r.head.lines())
		} else {
			hasContent = false
			if r.status != http.StatusNoContent {
				add("Content-Type", "text/html; charset=utf-8")
				add("Cache-Control", "no-store")
			}
		}
	}
	if r.etag != "" {
		add("ETag", `"`+r.etag+`"`)
	}
	if r.modified >= 0 {
		add("Last-Modified", time.Unix(min(r.modified, r.now), 0).UTC().Format(http.TimeFormat))
	}
	if r.byteRange != "" {
		add("Content-Range", r.byteRange)
	}
	if r.rules != nil {
		overrides = r.rules.set | r.rules.removed
		for _, line := range r.rules.fields(hasContent) {
			if r.form != multipart || line.name != "Content-Type" {
				fields = append(fields, line)
			}
		}
	}
	if r.length >= 0 {
		add("Content-Length", strconv.FormatInt(r.length, 10))
	}
	return fields, overrides
}

func variesByEncoding(lines []field) bool {
	for _, line := range lines {
		if line.name == "Vary" && strings.HasPrefix(line.value, "Accept-Encoding") {
			return true
		}
	}
	return false
}

// overridable are the fields of the bits of overrides.
var overridable = [...]string{
	"Referrer-Policy", "X-Content-Type-Options", "X-Xss-Protection", "X-Frame-Options", "Strict-Transport-Security",
	"Content-Security-Policy",
}

// write sends the response. Its fields replace those that the caller has set, except for lists that both extend.
func (r *response) write(w http.ResponseWriter) {
	fields, overrides := r.fields()
	header := w.Header()
	for bit, name := range overridable {
		if overrides&(1<<bit) != 0 {
			header.Del(name)
		}
	}
	for _, f := range fields {
		switch name := textproto.CanonicalMIMEHeaderKey(f.name); name {
		case "Vary", "Set-Cookie", "Link", "Content-Security-Policy":
		default:
			delete(header, name)
		}
	}
	for _, f := range fields {
		header.Add(f.name, f.value)
	}
	_, hasType := header["Content-Type"]
	// net/http guesses a missing media type from the content, unless the header has been sent before the content. Where that
	// isn't possible, an entry without a value prevents it.
	isGuessed := !hasType && len(r.body) > 0 && header.Get("Content-Encoding") == ""
	if isGuessed && !canFlush(w) {
		header["Content-Type"] = nil
		isGuessed = false
	}
	w.WriteHeader(r.status)
	if isGuessed {
		http.NewResponseController(w).Flush()
	}
	for _, piece := range r.body {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// canFlush returns true if [http.ResponseController] can flush w.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}
