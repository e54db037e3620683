package cannery

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS returns the published files of the default site under the names of their paths, including generated listings.
//
// Other names of a file, redirects, rewrites and the sites of hosts aren't included. A file without an identity
// representation is decoded from gzip; one with neither can't be opened. The file system implements [fs.ReadFileFS],
// [fs.StatFS] and [fs.ReadDirFS]. Open files implement [io.Seeker] and [io.ReaderAt], and keep the archive mapped until
// they are closed.
func (a *Archive) FS() fs.FS { return archiveFS{a} }

type archiveFS struct{ a *Archive }

// node is a file or a directory. It implements fs.FileInfo and fs.DirEntry.
type node struct {
	name     string
	isDir    bool
	children []*node // sorted by name
	size     int64
	modified time.Time
	content  representation
	readable bool
}

func (n *node) Name() string               { return n.name }
func (n *node) Size() int64                { return n.size }
func (n *node) ModTime() time.Time         { return n.modified }
func (n *node) IsDir() bool                { return n.isDir }
func (n *node) Sys() any                   { return nil }
func (n *node) Type() fs.FileMode          { return n.Mode().Type() }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }
func (n *node) String() string             { return fs.FormatFileInfo(n) }

func (n *node) Mode() fs.FileMode {
	if n.isDir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// nodes returns the tree of files by their paths. It is built from all records at the first call.
func (a *Archive) nodes() (map[string]*node, error) {
	a.treeOnce.Do(func() {
		a.tree = map[string]*node{".": {name: ".", isDir: true}}
		if a.treeErr = a.buildTree(); a.treeErr != nil {
			return
		}
		for _, n := range a.tree {
			slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.name, b.name) })
		}
	})
	return a.tree, a.treeErr
}

func (a *Archive) buildTree() error {
	position := uint64(tables * 2 * a.width)
	end := uint64(len(a.data))
	header := decoder{data: a.data, width: a.width}
	for i := 0; i < tables; i++ {
		start := header.quantity()
		header.quantity()
		end = min(end, start)
	}
	var files []*node
	for position < end {
		key, data, err := a.record(position)
		if err != nil {
			return err
		}
		position += uint64(2*a.width + len(key) + len(data))
		name, isPath := strings.CutPrefix(string(key), "/")
		if !isPath || !fs.ValidPath(name) || name == "." || strings.Contains(name, "\x00") {
			continue
		}
		record, err := decodePath(decoder{data: data, width: a.width})
		if err != nil {
			return err
		}
		isFile := record.origin == originFile || record.origin == originGenerated || record.origin == originCarried
		if record.kind != kindResource || !isFile {
			continue
		}
		n := &node{name: name}
		if err := a.setContent(n, record); err != nil {
			return err
		}
		files = append(files, n)
		a.directory(path.Dir(name))
	}
	for _, n := range files {
		full := n.name
		// A file that was carried over can have the name of a newer directory.
		if _, exists := a.tree[full]; !exists {
			n.name = path.Base(full)
			a.tree[full] = n
			parent := a.tree[path.Dir(full)]
			parent.children = append(parent.children, n)
		}
	}
	return nil
}

// directory returns the node of a directory, and adds it to the tree if necessary.
func (a *Archive) directory(name string) *node {
	n, exists := a.tree[name]
	if !exists {
		n = &node{name: path.Base(name), isDir: true}
		a.tree[name] = n
		parent := a.directory(path.Dir(name))
		parent.children = append(parent.children, n)
	}
	return n
}

// setContent selects the representation that is read: identity, or else gzip.
func (a *Archive) setContent(n *node, record *pathRecord) error {
	if record.hasModified {
		n.modified = time.Unix(int64(min(record.modified, 1<<40)), 0).UTC()
	}
	for _, r := range record.representations {
		body, err := a.slice(r.position, r.length)
		if err != nil {
			return err
		}
		switch {
		case r.coding == identity:
			n.content, n.size, n.readable = r, int64(r.length), true
			return nil
		case r.coding == gzipped && len(body) >= 4:
			n.content, n.size, n.readable = r, int64(binary.LittleEndian.Uint32(body[len(body)-4:])), true
		}
	}
	return nil
}

// read returns the content of a file, which may be a part of the mapping.
func (a *Archive) read(n *node) ([]byte, error) {
	if !n.readable {
		return nil, errors.New("the archive has neither an identity nor a gzip representation")
	}
	body, err := a.slice(n.content.position, n.content.length)
	if err != nil || n.content.coding == identity {
		return body, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(reader, n.size+1))
	if err == nil && int64(len(content)) != n.size {
		err = corrupt("the length of a gzip representation")
	}
	return content, err
}

// find acquires the archive and returns a node. The caller releases the archive unless there is an error.
func (f archiveFS) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if !f.a.acquire() {
		return nil, &fs.PathError{Op: op, Path: name, Err: ErrClosed}
	}
	tree, err := f.a.nodes()
	if err == nil {
		if n, ok := tree[name]; ok {
			return n, nil
		}
		err = fs.ErrNotExist
	}
	f.a.release()
	return nil, &fs.PathError{Op: op, Path: name, Err: err}
}

func (f archiveFS) Open(name string) (fs.File, error) {
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.isDir {
		f.a.release()
		return &openDir{n: n, rest: n.children}, nil
	}
	content, err := f.a.read(n)
	if err != nil {
		f.a.release()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &openFile{Reader: bytes.NewReader(content), n: n, a: f.a}, nil
}

func (f archiveFS) Stat(name string) (fs.FileInfo, error) {
	n, err := f.find("stat", name)
	if err != nil {
		return nil, err
	}
	f.a.release()
	return n, nil
}

func (f archiveFS) ReadFile(name string) ([]byte, error) {
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	defer f.a.release()
	if n.isDir {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	content, err := f.a.read(n)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return bytes.Clone(content), nil
}

func (f archiveFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	f.a.release()
	if !n.isDir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	return entries(n.children), nil
}

func entries(nodes []*node) []fs.DirEntry {
	list := make([]fs.DirEntry, len(nodes))
	for i, n := range nodes {
		list[i] = n
	}
	return list
}

// openFile is an open file. Close replaces its reader by one without content, so that the mapping isn't used any more.
type openFile struct {
	*bytes.Reader
	n      *node
	a      *Archive
	closed bool
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.n, nil }

func (f *openFile) Read(b []byte) (int, error) {
	if f.closed {
		return 0, &fs.PathError{Op: "read", Path: f.n.name, Err: fs.ErrClosed}
	}
	return f.Reader.Read(b)
}

func (f *openFile) Close() error {
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.n.name, Err: fs.ErrClosed}
	}
	f.closed = true
	f.Reader = bytes.NewReader(nil)
	f.a.release()
	return nil
}

// openDir is an open directory.
type openDir struct {
	n    *node
	rest []*node
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.n, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.n.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	count := len(d.rest)
	if n > 0 {
		if count == 0 {
			return nil, io.EOF
		}
		count = min(count, n)
	}
	list := entries(d.rest[:count])
	d.rest = d.rest[count:]
	return list, nil
}
