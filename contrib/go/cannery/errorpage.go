package cannery

import "strings"

const subjectBytesMax = 300

// errorTexts are the titles and texts of the built-in error pages.
var errorTexts = map[int][2]string{
	400: {"Bad request", "The request cannot be understood."},
	404: {"Not found", "There is nothing at this address."},
	405: {"Method not allowed", "This address can only be read."},
	406: {"Not acceptable", "This is held only in a content coding that the request does not accept."},
	412: {"Precondition failed", "What is at this address is not the version that the request is about."},
	414: {"Address too long", "The address is longer than this server reads."},
	416: {"Range not satisfiable", "There is nothing in the requested range."},
	500: {"Internal error", "The server cannot read its own files."},
	501: {"Not implemented", "The server does not know this method."},
}

// errorText returns the built-in page for a status code, with the requested path if it isn't empty.
func errorText(status int, subject string) string {
	text, ok := errorTexts[status]
	if !ok {
		return ""
	}
	var b strings.Builder
	code := string([]byte{'0' + byte(status/100), '0' + byte(status/10%10), '0' + byte(status%10)})
	b.WriteString("<!doctype html><html lang=en><meta charset=utf-8>" +
		`<meta name=viewport content="width=device-width"><meta name=color-scheme content="light dark">` +
		"<title>" + code + " " + text[0] + "</title>" +
		"<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:30em;margin:20vh auto;padding:0 1em}" +
		"h1{font-size:1.4em;margin:0}h1 small{font-weight:400;margin-right:.4em}code{overflow-wrap:anywhere}</style>" +
		"<main><h1><small>" + code + "</small>" + text[0] + "</h1><p>" + text[1] + "</p>")
	if subject != "" {
		b.WriteString("<p><code>")
		for i := 0; i < min(len(subject), subjectBytesMax); i++ {
			b.WriteString(escapeHTML(subject[i]))
		}
		if len(subject) > subjectBytesMax {
			b.WriteString("…")
		}
		b.WriteString("</code></p>")
		if subject != "/" && status < 500 && status != 400 {
			b.WriteString(`<p><a href="/">Go to the start page</a></p>`)
		}
	}
	b.WriteString("</main></html>\n")
	return b.String()
}

// escapeHTML escapes a byte of a request. Bytes outside printable ASCII are replaced.
func escapeHTML(c byte) string {
	switch {
	case c == '&':
		return "&amp;"
	case c == '<':
		return "&lt;"
	case c == '>':
		return "&gt;"
	case c == '"':
		return "&quot;"
	case c == '\'':
		return "&#39;"
	case ' ' <= c && c <= '~':
		return string(rune(c))
	}
	return "\ufffd"
}
