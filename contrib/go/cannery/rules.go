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
	if root.headersErr != nil {
		return nil, root.headersErr
	}
	// First, because rules for exactly the requested path take precedence.
	if content.own != "" {
		root.headers.each(content.own[1:], func(rule *headerRule) bool {
			if matchesHost(rule.host, host) && matches(rule.pattern, content.own[1:]) {
				rules.add(rule, func(c *change) bool {
					return isRepresentationField(c.name) || content.isSuccess && restrictsCaching(c)
				})
			}
			return true
		})
	}
	root.headers.each(strings.TrimPrefix(path, "/"), func(rule *headerRule) bool {
		isMatch := len(rule.pattern) == 1 && rule.pattern[0].kind == splat
		if path != "" {
			isMatch = matches(rule.pattern, path[1:])
		}
		if isMatch && matchesHost(rule.host, host) {
			rules.hasHostRule = rules.hasHostRule || rule.host != ""
			isExact := !slices.ContainsFunc(rule.pattern, func(p piece) bool { return p.kind != literal })
			rules.add(rule, func(c *change) bool { return content.includes(isExact, c.name) })
		}
		return true
	})
	return rules, nil
}

// add applies those changes of a rule that are included, after all earlier rules.
func (r *ruleFields) add(rule *headerRule, includes func(*change) bool) {
	for i := range rule.changes {
		c := &rule.changes[i]
		if !includes(c) {
			continue
		}
		r.isEmpty = false
		r.replacesContentType = r.replacesContentType || c.name == "Content-Type"
		r.replacesCaching = r.replacesCaching || c.name == "Cache-Control"
		var first *ruleLine
		for i := range r.lines {
			line := &r.lines[i]
			if line.name == c.name && !line.removed {
				if c.effect == effectRemove {
					line.removed = true
				} else if first == nil {
					first = line
				}
			}
		}
		if c.effect == effectRemove {
			r.removed |= c.override
			r.set &^= c.override
			continue
		}
		r.removed &^= c.override
		// Several content security policies apply together.
		if c.name != "Content-Security-Policy" {
			r.set |= c.override
		}
		switch {
		case first != nil && c.effect == effectReplace:
			first.value = c.value
		case first != nil && c.effect == effectJoin:
			first.value += ", " + c.value
		default:
			r.lines = append(r.lines, ruleLine{field: c.field})
		}
	}
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
func restrictsCaching(c *change) bool {
	switch lower(c.name) {
	case "expires", "pragma", "x-accel-expires":
		return false
	}
	return c.effect != effectRemove && isCachingField(c.name) && isShortLived(c.value)
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

// matchesHost returns true if the host of a rule matches that of a request. Both are in lower case.
func matchesHost(rule, host string) bool {
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
