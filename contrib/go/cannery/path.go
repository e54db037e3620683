package cannery

import (
	"errors"
	"strings"
)

const (
	pathBytesMax     = 8192
	locationBytesMax = 8192
	capturesMax      = 16

	// expandedBytesMax bounds the path of a rewrite before it is normalized, and the templates of damaged archives.
	expandedBytesMax = 1 << 20
)

var (
	errMalformedTarget = errors.New("malformed target")
	errMalformedPath   = errors.New("malformed path")
	errLongPath        = errors.New("path too long")
)

// decodeTarget returns the normal form of the path of a request target. An encoded slash becomes the byte 0.
func decodeTarget(raw string) (string, error) {
	if raw == "" || raw[0] != '/' {
		return "", errMalformedPath
	}
	if len(raw) > pathBytesMax {
		return "", errLongPath
	}
	decoded := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || !isHex(raw[i+1]) || !isHex(raw[i+2]) {
				return "", errMalformedPath
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
			if c == 0 {
				return "", errMalformedPath
			}
			if c == '/' {
				c = 0
			}
		} else if c == 0 {
			return "", errMalformedPath
		}
		decoded = append(decoded, c)
	}
	return normalize(string(decoded))
}

// normalize resolves the empty segments and the dot segments of a path.
func normalize(path string) (string, error) {
	out := []byte{'/'}
	for rest, more := path, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch segment {
		case "", ".":
		case "..":
			out = out[:len(out)-1]
			for len(out) > 0 && out[len(out)-1] != '/' {
				out = out[:len(out)-1]
			}
			if len(out) == 0 {
				out = append(out, '/')
			}
		default:
			out = append(out, segment...)
			if more {
				out = append(out, '/')
			}
		}
	}
	if len(out) > pathBytesMax {
		return "", errLongPath
	}
	return string(out), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// isPathByte returns true for a byte that needs no escape in the path of a URL.
func isPathByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}

func escape(c byte) string {
	const digits = "0123456789ABCDEF"
	if c == 0 {
		c = '/'
	}
	return string([]byte{'%', digits[c>>4], digits[c&15]})
}

// percentEncode passes a path, percent-encoded for a URL, to put: runs of plain bytes, and escapes.
func percentEncode(path string, put func(run string, isPlain bool)) {
	for len(path) > 0 {
		n := 0
		for n < len(path) && isPathByte(path[n]) {
			n++
		}
		if n > 0 {
			put(path[:n], true)
		} else {
			put(escape(path[0]), false)
			n = 1
		}
		path = path[n:]
	}
}

// escapeQuery escapes the bytes of a query that aren't allowed in a URL, and keeps valid escapes.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := 0; i < len(query); i++ {
		c := query[i]
		isEscape := c == '%' && i+2 < len(query) && isHex(query[i+1]) && isHex(query[i+2])
		if isEscape || c == '?' || isPathByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(escape(c))
		}
	}
	return b.String()
}

// matchPattern matches a pattern against exactly path, which has no leading slash, and returns the captures.
func matchPattern(pattern []piece, path string) ([]string, bool) {
	// Most patterns don't match, so the captures are only copied for those that do.
	var captures [capturesMax]string
	n := 0
	rest := path
	for i, p := range pattern {
		switch p.kind {
		case literal:
			var ok bool
			if rest, ok = strings.CutPrefix(rest, p.text); !ok {
				return nil, false
			}
		case capture:
			end := strings.IndexByte(rest, '/')
			if end < 0 {
				end = len(rest)
			}
			if end == 0 || n == capturesMax {
				return nil, false
			}
			captures[n] = rest[:end]
			n++
			rest = rest[end:]
		case splat:
			// Only a literal can follow.
			run, ok := rest, i == len(pattern)-1
			if i == len(pattern)-2 && pattern[i+1].kind == literal {
				run, ok = strings.CutSuffix(rest, pattern[i+1].text)
			}
			if !ok || n == capturesMax {
				return nil, false
			}
			captures[n] = run
			return append([]string(nil), captures[:n+1]...), true
		}
	}
	if rest != "" {
		return nil, false
	}
	return append([]string(nil), captures[:n]...), true
}

// matches returns true if a pattern matches exactly path, which has no leading slash.
func matches(pattern []piece, path string) bool {
	_, ok := matchPattern(pattern, path)
	return ok
}

// matchRule matches a pattern against path, or against path without its final slash.
func matchRule(pattern []piece, path string) ([]string, bool) {
	if captures, ok := matchPattern(pattern, path); ok {
		return captures, true
	}
	if shorter, ok := strings.CutSuffix(path, "/"); ok {
		return matchPattern(pattern, shorter)
	}
	return nil, false
}

// captured returns the text of a piece of a template.
func (p piece) captured(captures []string) string {
	switch {
	case p.kind == literal:
		return p.text
	case p.number < len(captures):
		return captures[p.number]
	}
	return ""
}

// ruleLocation expands the target of a redirect.
func ruleLocation(redirect *pathRecord, captures []string, query string) string {
	var b strings.Builder
	// A target that starts as a path stays one: after a first "/", another slash would name a host.
	put := func(run string) {
		if b.Len() == 1 && b.String() == "/" {
			run = strings.TrimLeft(run, `/\`)
		}
		b.WriteString(run)
	}
	inQuery := false
	delimiters := strings.NewReplacer("&", "%26", "=", "%3D", "+", "%2B", ";", "%3B")
	for _, p := range redirect.template {
		if b.Len() > locationBytesMax {
			break // It is too long already, so it isn't sent.
		}
		if p.kind == literal {
			inQuery = inQuery || strings.Contains(p.text, "?")
			put(p.text)
			continue
		}
		percentEncode(p.captured(captures), func(run string, isPlain bool) {
			if isPlain && inQuery {
				run = delimiters.Replace(run)
			}
			put(run)
		})
	}
	if query != "" {
		if redirect.hasQuery {
			b.WriteByte('&')
		} else {
			b.WriteByte('?')
		}
		b.WriteString(escapeQuery(query))
	}
	if redirect.fragment != "" {
		b.WriteString("#" + redirect.fragment)
	}
	return b.String()
}

// slashLocation returns the location of a path with or without its final slash.
func slashLocation(path, query string) string {
	var b strings.Builder
	percentEncode(path, func(run string, _ bool) { b.WriteString(run) })
	if query != "" {
		b.WriteString("?" + escapeQuery(query))
	}
	return b.String()
}

// lower converts ASCII letters to lower case.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
