package cannery

import (
	"math"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	rangesMax = 8

	// space are the bytes that may surround the elements of a list.
	space = " \t\n\f\r"
)

// request holds the parts of a request that can change the response.
type request struct {
	method  string
	host    string // in lower case, without its port, or empty
	path    string // in normal form; "/" if pathErr is set
	pathErr error
	query   string
	subject string // the path as it was received, for error pages
	mount   string // the percent-encoded path that a wrapper has removed, without a final slash
	isMount bool   // the path is that of the mount, without a slash
	header  http.Header
	now     int64
}

func newRequest(r *http.Request, now time.Time) *request {
	req := &request{method: r.Method, host: hostName(r.Host), query: r.URL.RawQuery, header: r.Header, now: now.Unix()}
	raw := r.URL.RawPath
	if decoded, err := url.PathUnescape(raw); err != nil || decoded != r.URL.Path {
		// A wrapper has changed the path, or its default encoding is that of the client.
		raw = ""
	}
	received, target, encoded := receivedPath(r), r.URL.Path, raw
	if encoded == "" {
		encoded = r.URL.EscapedPath()
	}
	if prefix, ok := strings.CutSuffix(received, encoded); ok && prefix != "" {
		if !strings.HasPrefix(target, "/") && strings.HasSuffix(prefix, "/") {
			// http.StripPrefix has removed "/docs/", or a URL has no path.
			prefix, target = prefix[:len(prefix)-1], "/"+target
			if raw != "" {
				raw = "/" + raw
			}
		}
		if isMount(prefix) && (target == "" || target[0] == '/') {
			req.mount, req.isMount = prefix, target == ""
		}
	}
	switch {
	case target == "*":
		req.pathErr = errMalformedPath
	case strings.Contains(raw, "#"), strings.Contains(req.query, "#"):
		req.pathErr = errMalformedTarget
	case raw != "":
		req.path, req.pathErr = decodeTarget(raw)
	case target == "" && r.URL.Opaque == "":
		req.path = "/"
	case !strings.HasPrefix(target, "/"):
		req.pathErr = errMalformedTarget
	case strings.Contains(target, "\x00"):
		req.pathErr = errMalformedPath
	case len(r.URL.EscapedPath()) > pathBytesMax:
		req.pathErr = errLongPath
	default:
		req.path, req.pathErr = normalize(target)
	}
	if req.pathErr == errMalformedTarget || target == "*" {
		req.host = ""
	} else {
		req.subject = received
	}
	if req.pathErr != nil {
		req.path = "/"
	}
	return req
}

// isMount returns true if a percent-encoded prefix of a path can precede a location. It isn't empty, and begins with one slash:
// two would name a host.
func isMount(prefix string) bool {
	decoded, err := url.PathUnescape(prefix)
	isEncoded := !strings.ContainsFunc(prefix, func(c rune) bool { return c != '%' && (c >= 0x80 || !isPathByte(byte(c))) })
	return err == nil && isEncoded && len(decoded) > 1 && decoded[0] == '/' && path.Clean(decoded) == decoded
}

// receivedPath returns the path of a request as the client sent it.
func receivedPath(r *http.Request) string {
	target := r.RequestURI
	if target == "" {
		target = r.URL.EscapedPath()
	}
	if !strings.HasPrefix(target, "/") {
		_, rest, found := strings.Cut(target, "://")
		if !found {
			return ""
		}
		at := strings.IndexAny(rest, "/?")
		if at < 0 || rest[at] == '?' {
			return "/"
		}
		target = rest[at:]
	}
	path, _, _ := strings.Cut(target, "?")
	return path
}

// hostName returns the host of an authority in lower case, without its port and its final dot.
func hostName(authority string) string {
	host := authority
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return ""
		}
		host = host[:end+1]
	} else {
		host, _, _ = strings.Cut(host, ":")
	}
	host = strings.TrimSuffix(host, ".")
	if strings.Contains(host, "/") {
		return ""
	}
	return lower(host)
}

// single returns the value of a field that must have one line. Repeated fields are ignored.
func (r *request) single(name string) (string, bool) {
	values := r.header[name]
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// weights returns the weight of each coding by Accept-Encoding: 0 if it isn't acceptable, 1 if it isn't listed but
// acceptable, otherwise twice the weight in thousandths.
func weights(lines []string) [codings]int {
	if len(lines) == 0 {
		return [codings]int{2000, 1, 1, 1}
	}
	numbers := map[string]int{"identity": 0, "gzip": 1, "x-gzip": 1, "br": 2, "zstd": 3}
	weights := [codings]int{-1, -1, -1, -1}
	others := -1
	for _, element := range strings.Split(strings.Join(lines, ","), ",") {
		name, weight, ok := parseElement(element)
		if !ok {
			continue
		}
		slot := &others
		if name != "*" {
			number, known := numbers[lower(name)]
			if !known {
				continue
			}
			slot = &weights[number]
		}
		if *slot < 0 {
			*slot = weight
		}
	}
	for coding := range weights {
		if weights[coding] < 0 {
			weights[coding] = others
		}
		if weights[coding] < 0 {
			weights[coding] = 0
			if coding == identity {
				weights[coding] = 1
			}
		}
	}
	return weights
}

func parseElement(element string) (name string, weight int, ok bool) {
	parts := strings.Split(element, ";")
	name = strings.Trim(parts[0], space)
	weight = 2000
	for _, parameter := range parts[1:] {
		parameter = strings.Trim(parameter, space)
		if len(parameter) < 2 || parameter[0]|0x20 != 'q' || parameter[1] != '=' {
			return "", 0, false
		}
		if weight, ok = parseWeight(parameter[2:]); !ok {
			return "", 0, false
		}
	}
	return name, weight, name != ""
}

var weightPattern = regexp.MustCompile(`^(?:(0)(?:\.([0-9]{0,3}))?|1(?:\.0{0,3})?)$`)

func parseWeight(value string) (int, bool) {
	match := weightPattern.FindStringSubmatch(value)
	switch {
	case match == nil:
		return 0, false
	case match[1] == "":
		return 2000, true
	}
	thousandths, err := strconv.Atoi((match[2] + "000")[:3])
	return 2 * thousandths, err == nil
}

// choose returns the representation that the client prefers, or nil.
func (r *request) choose(representations []representation) *representation {
	weights := weights(r.header["Accept-Encoding"])
	var best, plain *representation
	bestWeight := 0
	for i := range representations {
		representation := &representations[i]
		if representation.coding == identity {
			plain = representation
		}
		if weight := weights[representation.coding]; weight > bestWeight {
			best, bestWeight = representation, weight
		}
	}
	if best == nil {
		// RFC 9110, section 12.5.3, allows this.
		return plain
	}
	return best
}

// validators are the values of ETag and Last-Modified.
type validators struct {
	etag        string // empty if it isn't sent
	modified    int64
	hasModified bool
}

type verdict int

const (
	send verdict = iota
	notModified
	preconditionFailed
)

// evaluate evaluates the conditions of RFC 9110, section 13.2.2.
func (r *request) evaluate(v validators) verdict {
	if lines := r.header["If-Match"]; len(lines) > 0 {
		if !anyTag(lines, func(weak bool, tag string) bool { return !weak && v.etag != "" && tag == v.etag }) {
			return preconditionFailed
		}
	} else if date, ok := r.date("If-Unmodified-Since"); ok && v.hasModified && v.modified > date {
		return preconditionFailed
	}
	if lines := r.header["If-None-Match"]; len(lines) > 0 {
		if anyTag(lines, func(_ bool, tag string) bool { return v.etag != "" && tag == v.etag }) {
			return notModified
		}
	} else if date, ok := r.date("If-Modified-Since"); ok && v.hasModified && v.modified <= date {
		return notModified
	}
	return send
}

// rangeApplies evaluates If-Range.
func (r *request) rangeApplies(v validators) bool {
	if len(r.header["If-Range"]) == 0 {
		return true
	}
	value, ok := r.single("If-Range")
	if !ok {
		return false
	}
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		return v.etag != "" && value[1:len(value)-1] == v.etag
	}
	date, ok := parseDate(value, r.now)
	// A date is a strong validator only if the resource can't change again within that second.
	return ok && v.hasModified && v.modified < r.now && date == v.modified
}

func (r *request) date(name string) (int64, bool) {
	value, ok := r.single(name)
	if !ok {
		return 0, false
	}
	return parseDate(value, r.now)
}

// anyTag returns true if a line is "*" or an entity tag matches. A list ends at its first syntax error.
func anyTag(lines []string, matches func(weak bool, tag string) bool) bool {
	for _, rest := range lines {
		if strings.Trim(rest, space) == "*" {
			return true
		}
		for {
			var weak, found bool
			rest = strings.TrimLeft(rest, " \t,")
			rest, weak = strings.CutPrefix(rest, "W/")
			if rest, found = strings.CutPrefix(rest, `"`); !found {
				break
			}
			var tag string
			if tag, rest, found = strings.Cut(rest, `"`); !found {
				break
			}
			if matches(weak, tag) {
				return true
			}
		}
	}
	return false
}

const (
	days     = `(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat)`
	longDays = `(?:Sunday|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday)`
	months   = "JanFebMarAprMayJunJulAugSepOctNovDec"
	clock    = `(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)`
)

// The three formats of RFC 9110, section 5.6.7. http.ParseTime is more lenient, and reads years of two digits differently.
var datePatterns = []*regexp.Regexp{
	regexp.MustCompile(`^` + days + `, (?P<d>\d\d) (?P<m>[A-Z][a-z]{2}) (?P<y>\d{4}) ` + clock + ` GMT$`),
	regexp.MustCompile(`^` + longDays + `, (?P<d>\d\d)-(?P<m>[A-Z][a-z]{2})-(?P<y>\d\d) ` + clock + ` GMT$`),
	regexp.MustCompile(`^` + days + ` (?P<m>[A-Z][a-z]{2}) (?P<d>[ \d]\d) ` + clock + ` (?P<y>\d{4})$`),
}

func parseDate(value string, now int64) (int64, bool) {
	for _, pattern := range datePatterns {
		match := pattern.FindStringSubmatch(value)
		if match == nil {
			continue
		}
		part := func(name string) string { return match[pattern.SubexpIndex(name)] }
		number := func(name string) int {
			n, _ := strconv.Atoi(strings.TrimLeft(part(name), " ")) // all digits
			return n
		}
		month := strings.Index(months, part("m"))
		year, day := number("y"), number("d")
		if len(part("y")) == 2 {
			this := time.Unix(now, 0).UTC().Year()
			if year += this - this%100; year > this+50 {
				year -= 100
			}
		}
		hour, minute, second := number("H"), number("M"), min(number("S"), 59)
		if month < 0 || month%3 != 0 || hour > 23 || minute > 59 || number("S") > 60 || year < 1970 {
			return 0, false
		}
		date := time.Date(year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC)
		return date.Unix(), day > 0 && date.Day() == day
	}
	return 0, false
}

// extent is a range of a representation.
type extent struct{ start, end uint64 }

// parseRange parses Range for a representation of size bytes. It returns no parts if the field is ignored, and false if no
// range is satisfiable.
func parseRange(value string, size uint64) (parts []extent, satisfiable bool) {
	unit, set, found := strings.Cut(value, "=")
	if !found || lower(unit) != "bytes" || size == 0 && strings.HasPrefix(set, "-") {
		return nil, true
	}
	isEmpty, isOverflow := true, false
	for _, element := range strings.Split(set, ",") {
		element = strings.Trim(element, space)
		if element == "" {
			continue
		}
		isEmpty = false
		first, last, found := strings.Cut(element, "-")
		from, hasFrom := parseNumber(first)
		to, hasTo := parseNumber(last)
		var part extent
		switch {
		case found && first == "" && hasTo:
			part = extent{size - min(to, size), size}
		case found && hasFrom && last == "":
			part = extent{from, size}
		case found && hasFrom && hasTo && from <= to:
			part = extent{from, min(to, size-min(size, 1)) + min(size, 1)}
		default:
			return nil, true
		}
		if part.start < part.end && !addPart(&parts, part) {
			isOverflow = true
		}
	}
	if isEmpty || isOverflow {
		return nil, true
	}
	return parts, len(parts) > 0
}

// addPart adds a part, merged with those that it overlaps or adjoins, at the position of the first of them.
func addPart(parts *[]extent, part extent) bool {
	index := len(*parts)
	for i := len(*parts) - 1; i >= 0; i-- {
		other := (*parts)[i]
		if part.start <= other.end && other.start <= part.end {
			part = extent{min(part.start, other.start), max(part.end, other.end)}
			if index < len(*parts) {
				*parts = slices.Delete(*parts, index, index+1)
			}
			index = i
		}
	}
	if index < len(*parts) {
		(*parts)[index] = part
		return true
	}
	if len(*parts) == rangesMax {
		return false
	}
	*parts = append(*parts, part)
	return true
}

// parseNumber parses a decimal number, which saturates.
func parseNumber(digits string) (uint64, bool) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		number = math.MaxUint64
	}
	return number, true
}
