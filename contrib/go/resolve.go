package cannery

import (
	"slices"
	"strings"
)

// site is a site of an archive: a host, a wildcard with a leading dot, or empty for the default site.
type site string

// prefix returns the part of a key before the path.
func (s site) prefix() string {
	switch {
	case s == "":
		return ""
	case s[0] == '.':
		return "//*" + string(s)
	}
	return "//" + string(s)
}

// pathRecord returns the record of a path on a site, or nil if it has none.
func (a *Archive) pathRecord(site site, path string) (*pathRecord, error) {
	if strings.Contains(path, "//") {
		return nil, nil
	}
	data, err := a.find(site.prefix() + path)
	if err != nil || data == nil {
		return nil, err
	}
	return decodePath(decoder{data: data, width: a.width})
}

// sites returns the sites that are searched for a host: its own, those of wildcards, and the default site. A complete
// site ends the search.
func (a *Archive) sites(host string) ([]site, error) {
	if host == "" || host[0] == '.' {
		return []site{""}, nil
	}
	var sites []site
	for next := host; next != ""; next = a.wildcardAfter(next) {
		root, err := a.scope(site(next), "/")
		if err != nil {
			return nil, err
		}
		if root != nil {
			sites = append(sites, site(next))
			if root.ownSite {
				return sites, nil
			}
		}
	}
	return append(sites, ""), nil
}

// wildcardAfter returns the longest suffix of a host that can be a wildcard of the archive, or an empty string.
func (a *Archive) wildcardAfter(host string) string {
	if len(host) > 253 {
		return ""
	}
	next := ""
	for i, labels := len(host)-1, 0; i > 0 && labels < a.wildcardLabelsMax; i-- {
		if host[i] == '.' {
			next = host[i:]
			labels++
		}
	}
	return next
}

// eachScope calls visit for the scopes of the directories that contain a path, from the root down.
func (a *Archive) eachScope(site site, path string, visit func(*scope) error) error {
	for i, depth := 0, 0; i < len(path) && depth <= a.scopeDepthMax; i++ {
		if path[i] != '/' {
			continue
		}
		depth++
		s, err := a.scope(site, path[:i+1])
		if err != nil {
			return err
		}
		if s != nil {
			if err := visit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// found is the result of resolving a path.
type found struct {
	record   *pathRecord
	captures []string
	isPath   bool   // the path itself has the record
	slash    string // the path to redirect to, with or without a final slash
	refused  bool   // a missing asset, which ends the search
}

// resolve finds the record of a path: exact path, slash redirect, rules, fallback pages. It returns nil if there is none.
func (a *Archive) resolve(host, path string) (*found, error) {
	sites, err := a.sites(host)
	if err != nil {
		return nil, err
	}
	for _, site := range sites {
		f, err := a.resolveOn(site, path)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, nil
}

func (a *Archive) resolveOn(site site, path string) (*found, error) {
	if a.has(flagForcedRules) {
		f, err := a.firstRule(site, path, func(e *entry) bool { return e.force })
		if f != nil || err != nil {
			return f, err
		}
	}
	record, err := a.pathRecord(site, path)
	if err != nil {
		return nil, err
	}
	if record != nil {
		return &found{record: record, isPath: true}, nil
	}
	if a.has(flagSlashRedirects) && path != "/" {
		other, hasSlash := strings.CutSuffix(path, "/")
		if !hasSlash {
			other = path + "/"
		}
		record, err := a.pathRecord(site, other)
		switch {
		case err != nil:
			return nil, err
		case record != nil && record.kind == kindRedirect:
			// The target of the redirect, which saves the client a step.
			return &found{record: record, isPath: true}, nil
		case record != nil:
			return &found{slash: other}, nil
		}
	}

	wanted := suffix(path)
	isAsset := isAsset(wanted)
	f, err := a.firstRule(site, path, func(e *entry) bool { return !e.force && !(isAsset && e.pagesOnly) })
	if f != nil || err != nil {
		return f, err
	}
	f, err = a.fallback(site, path, wanted, isAsset)
	if f != nil || err != nil || !isAsset {
		return f, err
	}
	if f, err = a.firstRule(site, path, func(e *entry) bool { return !e.force && e.pagesOnly }); f != nil {
		f = &found{refused: true}
	}
	return f, err
}

// firstRule returns the record of the first rule that is accepted and matches.
func (a *Archive) firstRule(site site, path string, accepts func(*entry) bool) (*found, error) {
	root, err := a.scope(site, "/")
	if err != nil || root == nil {
		return nil, err
	}
	var f *found
	err = eachEntry(root.rules, func(e *entry) bool {
		if e.kind == entryRule && accepts(e) {
			if captures, ok := matchRule(e.pattern, path[1:]); ok {
				f = &found{record: e.record, captures: captures}
			}
		}
		return f == nil
	})
	return f, err
}

// fallback returns the nearest fallback page. For a missing asset, only a page with the same suffix applies.
func (a *Archive) fallback(site site, path, wanted string, isWantedAsset bool) (*found, error) {
	var page *pathRecord
	refused := false
	err := a.eachScope(site, path, func(s *scope) error {
		best := -1
		return eachEntry(s.pages, func(e *entry) bool {
			if e.kind != entryFallback {
				return true
			}
			rank := 0
			if lower(e.suffix) == lower(wanted) {
				rank += 2
			} else if isWantedAsset {
				refused = true
				return true
			}
			if !isAsset(e.suffix) {
				rank++
			}
			if rank > best {
				best, page = rank, e.record
			}
			return true
		})
	})
	switch {
	case err != nil:
		return nil, err
	case page != nil:
		return &found{record: page}, nil
	case refused:
		return &found{refused: true}, nil
	}
	return nil, nil
}

// errorPage returns the error page for a status code that is nearest to a path, or nil.
func (a *Archive) errorPage(host, path string, status int) (*pathRecord, error) {
	sites, err := a.sites(host)
	if err != nil {
		return nil, err
	}
	for _, site := range sites {
		var page *pathRecord
		err := a.eachScope(site, path, func(s *scope) error {
			return eachEntry(s.pages, func(e *entry) bool {
				if e.kind == entryErrorPage && e.status == status && e.record.kind == kindResource {
					page = e.record
				}
				return true
			})
		})
		if page != nil || err != nil {
			return page, err
		}
	}
	return nil, nil
}

// suffix returns the suffix of the name at the end of a path, without its dot.
func suffix(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 && len(name)-dot <= 257 {
		return name[dot+1:]
	}
	return ""
}

// assets are suffixes of files that pages load, sorted. Fallback pages don't apply to them.
var assets = strings.Fields("aac apng avif avifs bmp cjs css cur eot flac gif glb gltf ico jfif jpeg jpg js jxl m4a m4v map " +
	"mjs mov mp3 mp4 mvt oga ogg ogv opus otf pbf png svg ttf wasm webm webp woff woff2")

func isAsset(suffix string) bool {
	_, found := slices.BinarySearch(assets, lower(suffix))
	return found
}
