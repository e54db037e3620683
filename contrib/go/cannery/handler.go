package cannery

import (
	"net/http"
	"sync/atomic"
)

// Handler serves an archive that can be replaced while requests are answered. Its methods may be called from several
// goroutines.
//
// No request fails because of a replacement: each is answered from the archive that is current when its answer begins, even
// if that archive is closed before the response ends.
type Handler struct {
	current atomic.Pointer[Archive]
}

// NewHandler returns a handler that serves an archive.
func NewHandler(a *Archive) *Handler {
	h := &Handler{}
	h.current.Store(a)
	return h
}

// Archive returns the archive that is served.
func (h *Handler) Archive() *Archive { return h.current.Load() }

// Swap serves another archive from now on, and returns the earlier one, which stays open.
func (h *Handler) Swap(next *Archive) (previous *Archive) { return h.current.Swap(next) }

// Replace serves another archive from now on, and closes the earlier one: its file is unmapped after the last response that
// uses it. The error is that of [Archive.Close].
func (h *Handler) Replace(next *Archive) error {
	previous := h.Swap(next)
	if previous == nil || previous == next {
		return nil
	}
	return previous.Close()
}

// ServeHTTP answers a request as [Archive.ServeHTTP] does. If the current archive is closed, the response is a 503.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := h.acquire(h.current.Load())
	if a == nil {
		unavailable(w)
		return
	}
	defer a.release()
	a.serve(w, r)
}

// acquire returns the current archive, which stays open until its release, or nil if it is closed. a is what the caller has
// loaded as the current archive.
func (h *Handler) acquire(a *Archive) *Archive {
	for a != nil && !a.acquire() {
		// It was replaced and closed after the caller loaded it, unless it is still the current one.
		next := h.current.Load()
		if next == a {
			return nil
		}
		a = next
	}
	return a
}
