package cannery

import (
	"slices"
	"strconv"
	"strings"
)

// Effects of the fields of header rules.
const (
	effectRemove  = 0
	effectJoin    = 1
	effectReplace = 2
	effectLine    = 3
)

// ruleFields are the fields that header rules add to a response.
type ruleFields struct {
	lines               []ruleLine
	set, removed        byte // as the overrides of a head
	replacesContentType bool
	replacesCaching     bool
	hasHostRule         bool // a rule that is restricted to a host matches
	isEmpty             bool
}

type ruleLine struct {
	field
	removed bool
}

// headerRules returns the fields that header rules add for a path, or for malformed requests if it is empty.
func (a *Archive) headerRules(host, path string, content contentRules) (*ruleFields, error) {
	sites, err := a.sites(host)
	if err != nil {
		return nil, err
	}
	rules := &ruleFields{isEmpty: true}
	root, err := a.scope(sites[len(sites)-1], "/")
	if err != nil || root == nil {
		return rules, err
	}
	valid := true
	// First, because rules for exactly the requested path take precedence.
	if content.own != "" {
		err = eachEntry(root.rules, func(e *entry) bool {
			if e.kind == entryHeaderRule && matchesHost(e.host, host) {
				if _, matches := matchPattern(e.pattern, content.own[1:]); matches {
					valid = rules.add(e.fields, func(f field, effect byte) bool {
						return isRepresentationField(f.name) || content.isSuccess && restrictsCaching(f, effect)
					})
				}
			}
			return valid
		})
	}
	if err == nil && valid {
		err = eachEntry(root.rules, func(e *entry) bool {
			if e.kind != entryHeaderRule || !matchesHost(e.host, host) {
				return true
			}
			matches := len(e.pattern) == 1 && e.pattern[0].kind == splat
			if path != "" {
				_, matches = matchPattern(e.pattern, path[1:])
			}
			if matches {
				rules.hasHostRule = rules.hasHostRule || e.host != ""
				isExact := !slices.ContainsFunc(e.pattern, func(p piece) bool { return p.kind != literal })
				valid = rules.add(e.fields, func(f field, _ byte) bool { return content.includes(isExact, f.name) })
			}
			return valid
		})
	}
	if err == nil && !valid {
		err = corrupt("a header rule")
	}
	return rules, err
}

// add applies those fields of a rule that are included, after all earlier rules. It returns false if they are malformed.
func (r *ruleFields) add(d decoder, includes func(f field, effect byte) bool) bool {
	for len(d.data) > 0 {
		effect, override := d.u8(), d.u8()
		nameBytes, valueBytes := d.u8(), d.u16()
		f := field{name: string(d.take(uint64(nameBytes)))}
		f.value = string(d.take(uint64(valueBytes)))
		if d.bad || effect > effectLine || f.name == "" || strings.ContainsAny(f.name+f.value, "\r\n\x00") {
			return false
		}
		if !includes(f, effect) {
			continue
		}
		r.isEmpty = false
		r.replacesContentType = r.replacesContentType || f.name == "Content-Type"
		r.replacesCaching = r.replacesCaching || f.name == "Cache-Control"
		var first *ruleLine
		for i := range r.lines {
			line := &r.lines[i]
			if line.name == f.name && !line.removed {
				if effect == effectRemove {
					line.removed = true
				} else if first == nil {
					first = line
				}
			}
		}
		if effect == effectRemove {
			r.removed |= override
			r.set &^= override
			continue
		}
		r.removed &^= override
		// Several content security policies apply together.
		if f.name != "Content-Security-Policy" {
			r.set |= override
		}
		switch {
		case first != nil && effect == effectReplace:
			first.value = f.value
		case first != nil && effect == effectJoin:
			first.value += ", " + f.value
		default:
			r.lines = append(r.lines, ruleLine{field: f})
		}
	}
	return true
}

// setCaching replaces the Cache-Control of the head.
func (r *ruleFields) setCaching(value string) {
	r.isEmpty, r.replacesCaching = false, true
	r.lines = append(r.lines, ruleLine{field: field{"Cache-Control", value}})
}

// fields returns the lines of a response. One without content of the site has no fields about content.
func (r *ruleFields) fields(hasContent bool) []field {
	var lines []field
	for _, line := range r.lines {
		isAboutContent := line.name == "Cache-Control" || line.name == "Expires" || isRepresentationField(line.name)
		if !line.removed && (hasContent || !isAboutContent) {
			lines = append(lines, line.field)
		}
	}
	return lines
}

// isCachingField returns true for a field that says how long a response may be reused.
func isCachingField(name string) bool {
	switch name = lower(name); name {
	case "cache-control", "edge-control", "expires", "pragma", "surrogate-control", "x-accel-expires":
		return true
	}
	return strings.HasSuffix(name, "-cache-control")
}

// isRepresentationField returns true for a field that describes the content that is sent (RFC 9110 §8).
func isRepresentationField(name string) bool {
	switch name = lower(name); name {
	case "digest", "repr-digest", "sourcemap", "unencoded-digest", "x-sourcemap":
		return true
	}
	return strings.HasPrefix(name, "content-") && !strings.HasPrefix(name, "content-security-")
}

// isShortLived returns true if a Cache-Control value lets no cache reuse a response for more than an hour.
func isShortLived(value string) bool {
	for _, directive := range strings.Split(lower(value), ",") {
		name, seconds, hasValue := strings.Cut(directive, "=")
		name, seconds = strings.Trim(name, space), strings.Trim(seconds, space)
		if !hasValue {
			if name == "immutable" {
				return false
			}
			continue
		}
		switch name {
		case "max-age", "s-maxage", "stale-while-revalidate":
			if len(seconds) >= 2 && seconds[0] == '"' && seconds[len(seconds)-1] == '"' {
				seconds = seconds[1 : len(seconds)-1]
			}
			if lifetime, err := strconv.ParseUint(seconds, 10, 64); err != nil || lifetime > 3600 {
				return false
			}
		}
	}
	return true
}

// restrictsCaching returns true for a field of a rule for a file that also says how the file is cached under another path: one
// with the syntax of Cache-Control that lets no cache keep it for long.
func restrictsCaching(f field, effect byte) bool {
	switch lower(f.name) {
	case "expires", "pragma", "x-accel-expires":
		return false
	}
	return effect != effectRemove && isCachingField(f.name) && isShortLived(f.value)
}

// counting tells which of the header rules for the requested path count.
type counting int

const (
	countNone  counting = iota
	countExact          // those for exactly the path
	countAll
)

// contentRules are the header rules that set the fields about the content that is sent. All rules for the requested path set
// the other fields.
type contentRules struct {
	caching, representation counting
	// own is the path of the file that a rule with captures shows. All rules for it describe the representation.
	own       string
	isSuccess bool
}

// includes returns true if a rule that matches the requested path sets a field.
func (c contentRules) includes(isExact bool, name string) bool {
	counts := countAll
	if isCachingField(name) {
		counts = c.caching
	} else if isRepresentationField(name) {
		counts = c.representation
	}
	return counts == countAll || counts == countExact && isExact
}

// matchesHost returns true if the host of a rule matches that of a request, which is in lower case.
func matchesHost(rule, host string) bool {
	rule = lower(rule)
	if rule == "" || host == "" {
		return rule == ""
	}
	if name, ok := strings.CutPrefix(rule, "*"); ok {
		return len(host) > len(name) && strings.HasSuffix(host, name)
	}
	if strings.HasPrefix(rule, "[") {
		return rule == host
	}
	wanted, labels := strings.Split(rule, "."), strings.Split(host, ".")
	if len(wanted) != len(labels) {
		return false
	}
	for i := range wanted {
		if wanted[i] != labels[i] && !(strings.HasPrefix(wanted[i], ":") && labels[i] != "") {
			return false
		}
	}
	return true
}
