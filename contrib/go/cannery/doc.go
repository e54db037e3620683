// Package cannery serves an archive of Cannery inside a Go program.
//
// An archive holds a whole site: content in several codings, response heads, redirects, error pages and header rules.
// [Open] maps it into memory, and [New] takes it from an embedded file. An [Archive] is an [http.Handler] that returns the same
// responses as cannery-server, a [Handler] is one whose archive can be replaced, and [Archive.FS] returns the files as an
// [fs.FS].
//
// The handler sends only the fields that the archive determines. It doesn't add the security fields that cannery-server
// sends by default; a wrapper can set them before it calls the handler, and the site can override them.
//
// Every number in the file is checked before it is used, so a damaged archive causes an error or a 500 and never a panic.
// The digest of the archive isn't compared. Use `cannery verify` for that.
//
// While an archive is open, its file must not be changed or truncated. Replace it by renaming another file over it, as
// cannery-archiver does.
package cannery
