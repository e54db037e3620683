package cannery

import (
	"net/http"
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
func (a *Archive) resolve(host, path string, use pageUse) (*found, error) {
	sites, err := a.sites(host)
	if err != nil {
		return nil, err
	}
	file := filePath(path)
	wanted := suffix(file)
	isRefused := refusesPages(file, wanted, use)
	steps := []func(site) (*found, error){
		func(site site) (*found, error) { return a.exact(site, path) },
		func(site site) (*found, error) { return a.otherSlash(site, path) },
		func(site site) (*found, error) {
			return a.firstRule(site, path, func(r *rule) bool { return !r.force && !(isRefused && r.pagesOnly) })
		},
		func(site site) (*found, error) { return a.fallback(site, path, wanted, isRefused) },
		func(site site) (*found, error) {
			if !isRefused {
				return nil, nil
			}
			f, err := a.firstRule(site, path, func(r *rule) bool { return !r.force && r.pagesOnly })
			if f != nil {
				f = &found{refused: true}
			}
			return f, err
		},
	}
	// Each step covers all sites, so a file of the default site wins over the pattern of a rule for one host.
	for _, step := range steps {
		for _, site := range sites {
			f, err := step(site)
			if f != nil || err != nil {
				return f, err
			}
		}
	}
	return nil, nil
}

// exact finds a rule with precedence over files, or the record of the path itself.
func (a *Archive) exact(site site, path string) (*found, error) {
	if a.has(flagForcedRules) {
		f, err := a.firstRule(site, path, func(r *rule) bool { return r.force })
		if f != nil || err != nil {
			return f, err
		}
	}
	record, err := a.pathRecord(site, path)
	if record == nil || err != nil {
		return nil, err
	}
	return &found{record: record, isPath: true}, nil
}

// otherSlash finds the path with or without a slash at its end.
func (a *Archive) otherSlash(site site, path string) (*found, error) {
	if !a.has(flagSlashRedirects) || path == "/" {
		return nil, nil
	}
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
	return nil, nil
}

// firstRule returns the record of the first rule that is accepted and matches.
func (a *Archive) firstRule(site site, path string, accepts func(*rule) bool) (*found, error) {
	root, err := a.scope(site, "/")
	if err != nil || root == nil {
		return nil, err
	}
	if root.rulesErr != nil {
		return nil, root.rulesErr
	}
	var f *found
	root.rules.each(path[1:], func(r *rule) bool {
		if accepts(r) {
			if captures, ok := matchRule(r.pattern, path[1:]); ok {
				f = &found{record: r.record, captures: captures}
			}
		}
		return f == nil
	})
	return f, nil
}

// fallback returns the nearest fallback page. For a missing asset, no page applies, and an asset only
// if it has the same suffix.
func (a *Archive) fallback(site site, path, wanted string, refusesPages bool) (*found, error) {
	var page *pathRecord
	refused := false
	err := a.eachScope(site, path, func(s *scope) error {
		best := -1
		for i := range s.pages {
			candidate := &s.pages[i]
			if candidate.kind != entryFallback {
				continue
			}
			isSame, isPage := lower(candidate.suffix) == lower(wanted), !isAsset(candidate.suffix)
			if refusesPages && (isPage || !isSame && isAsset(wanted)) {
				refused = true
				continue
			}
			rank := 0
			if isSame {
				rank += 2
			}
			if isPage {
				rank++
			}
			if rank > best {
				best, page = rank, candidate.record
			}
		}
		return s.pagesErr
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
			for i := range s.pages {
				candidate := &s.pages[i]
				if candidate.kind == entryErrorPage && candidate.status == status && candidate.record.kind == kindResource {
					page = candidate.record
				}
			}
			return s.pagesErr
		})
		if page != nil || err != nil {
			return page, err
		}
	}
	return nil, nil
}

// filePath returns the path of the file that a client means: without a slash or white space at its end, and without the
// parameters of its last segment.
func filePath(path string) string {
	path = strings.TrimRight(path, "/ \t\n\f\r")
	name := strings.LastIndexByte(path, '/') + 1
	if end := strings.IndexAny(path[name:], ";?#&"); end >= 0 {
		return path[:name+end]
	}
	return path
}

// suffix returns the suffix of the name at the end of a path, without its dot.
func suffix(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 && len(name)-dot <= 257 {
		return name[dot+1:]
	}
	return ""
}

// fileSuffixes are suffixes of files that pages load and people download, sorted. No page answers for a missing one.
var fileSuffixes = strings.Fields(`
	3gp 3mf 7z aab aac aif aifc aiff amr apk apng appcache appimage arrow asc ass asx atom avi avif avifs avro azw3 b3dm
	basis bcmap bin blat bmp br bz bz2 cab cbor cbz cer cr2 crl crt crx crx3 csv cue cur dae dat data db dbf dcm dds deb der
	djvu dll dmg dng doc docm docx dotx drc dtd dwg dxf dylib emf eml eot eps epub exe exr f4v fb2 fbx feather fgb flac
	flatpak flv fnt gcode geojson geojsonl gguf gif glb glsl gltf gml gpg gpkg gpx gz h5 har hdf5 hdr heic heics heif i3dm
	icns ico ics img ipa iso jar jfif jp2 jpe jpeg jpg jsonld jxl jxr kml kmz ktx ktx2 laz lottie lrc lz lz4 lzma m2ts m3u
	m3u8 m4a m4b m4s m4v mathml mbtiles md5 mdb mem mid midi minisig mka mks mkv mobi mobileconfig mov mp2 mp3 mp4 mpd mpeg
	mpg mpga msgpack msi msix mts mvt n3 ndjson nii npy npz nq nt nupkg obj odg odp ods odt oga ogg ogv ogx onnx opml opus
	orc otf ova owl p12 p7s pagefind parquet pb pbf pck pdb pdf pem pf_fragment pf_index pf_meta pfb pfx pkg pkl pkpass
	plist pls ply pmtiles png pnts pps ppsx ppt pptm pptx prj ps psd pvr qcow2 rar rdf rds riv rpm rss rtf safetensors sbv
	sha1 sha256 sha512 shp shx sig skel spx sqlite sqlite3 srt ssa step stl stp svg svgz swf symbols tar tbz2 terrain tflite
	tga tgz tif tiff topojson torrent traineddata tsv ttc ttf ttl ttml txz tzst unityweb usd usdc usdz vcard vcf vhd vtt
	wasm wav weba webarchive webm webmanifest webp wgsl whl wma wmf wmv woff woff2 wsdl xls xlsm xlsx xltx xml xpi xsd xspf
	xz zip zst zstd
`)

// textSuffixes are the same for text, unless the client asks for a page.
var textSuffixes = strings.Fields(`
	adoc bib c cc cjs conf cpp css diff ftl go h hpp ini ipynb java js json json5 jsonl jsx kt less lua map markdown md mdx
	mjs patch properties proto py rb rs rst sass scss sh sql svelte swift tex text toml ts tsx txt vue xsl xslt yaml yml zig
`)

func isIn(suffixes []string, suffix string) bool {
	_, found := slices.BinarySearch(suffixes, lower(suffix))
	return found
}

func isAsset(suffix string) bool { return isIn(fileSuffixes, suffix) || isIn(textSuffixes, suffix) }

// refusesPages returns true if no page may answer for a missing path.
func refusesPages(path, suffix string, use pageUse) bool {
	switch {
	case strings.HasPrefix(path, "/.well-known/"), path == "/.well-known", path == "/apple-app-site-association",
		path == "/robots.txt", path == "/sitemap.xml", isIn(fileSuffixes, suffix):
		return true
	case use == pageUnknown:
		return isIn(textSuffixes, suffix)
	}
	return use == pageUseless
}

// pageUse tells whether a client has a use for a page.
type pageUse int

const (
	pageUnknown pageUse = iota
	pageWanted
	pageUseless
)

// pageUseOf returns what Sec-Fetch-Dest and Accept tell.
func pageUseOf(header http.Header) pageUse {
	destination := ""
	if lines := header.Values("Sec-Fetch-Dest"); len(lines) > 0 {
		destination = strings.Trim(lines[len(lines)-1], space)
	}
	switch destination {
	case "document", "iframe", "frame", "fencedframe":
		return pageWanted
	case "", "empty", "embed", "object":
	default:
		return pageUseless
	}
	var elements []string
	for _, line := range header.Values("Accept") {
		for _, element := range strings.Split(lower(line), ",") {
			if element = strings.Trim(element, space); element != "" {
				elements = append(elements, element)
			}
		}
	}
	switch {
	case len(elements) == 0:
		return pageUnknown
	case accepts(elements[0], "text/html", "application/xhtml+xml"):
		return pageWanted
	}
	for _, element := range elements {
		if accepts(element, "text/html", "application/xhtml+xml", "*/*", "text/*", "application/*") {
			return pageUnknown
		}
	}
	return pageUseless
}

// accepts returns true if an element of Accept names one of these media types, and its weight isn't 0.
func accepts(element string, mediaTypes ...string) bool {
	parts := strings.Split(element, ";")
	for _, part := range parts[1:] {
		if weight, ok := strings.CutPrefix(strings.Trim(part, space), "q="); ok && weight != "" && strings.Trim(weight, "0.") == "" {
			return false
		}
	}
	return slices.Contains(mediaTypes, strings.Trim(parts[0], space))
}
