package cannery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestReplaceServesTheNextArchive(t *testing.T) {
	first, second := newArchiveOf(t, helloSite("first")), newArchiveOf(t, helloSite("second"))
	handler := NewHandler(first)
	if got := bodyOf(get(handler, "/")); got != "first" {
		t.Errorf("%q", got)
	}
	if previous := handler.Swap(second); previous != first || handler.Archive() != second {
		t.Error("the archives aren't swapped")
	}
	if got := bodyOf(get(handler, "/")) + bodyOf(get(first, "/")); got != "secondfirst" {
		t.Errorf("%q", got)
	}
	if err := handler.Replace(second); err != nil {
		t.Error(err)
	}
	if got := bodyOf(get(handler, "/")); got != "second" {
		t.Errorf("replacing an archive by itself: %q", got)
	}
	if err := handler.Replace(first); err != nil || second.data != nil || first.data == nil {
		t.Errorf("the replaced archive isn't closed: %v", err)
	}
	first.Close()
	for _, handler := range []http.Handler{handler, &Handler{}, NewHandler(nil)} {
		if response := get(handler, "/"); response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status %d", response.StatusCode)
		}
	}
}

// TestRequestWithAClosedArchiveUsesTheNextOne replaces an archive after a request has loaded it and before the request acquires
// it.
func TestRequestWithAClosedArchiveUsesTheNextOne(t *testing.T) {
	first, second := newArchiveOf(t, helloSite("first")), newArchiveOf(t, helloSite("second"))
	handler := NewHandler(first)
	loaded := handler.current.Load()
	if err := handler.Replace(second); err != nil {
		t.Fatal(err)
	}
	if got := handler.acquire(loaded); got != second {
		t.Errorf("%p is used instead of %p", got, second)
	}
}

// stallingWriter is a response writer that waits in the first Write.
type stallingWriter struct {
	*httptest.ResponseRecorder
	started, goOn chan struct{}
}

func (w *stallingWriter) Write(b []byte) (int, error) {
	close(w.started)
	<-w.goOn
	return w.ResponseRecorder.Write(b)
}

func TestReplacedArchiveStaysMappedUntilTheLastResponse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.cdb")
	content := strings.Repeat("first ", 10000)
	if err := os.WriteFile(file, helloSite(content), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	handler := NewHandler(first)

	w := &stallingWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		close(done)
	}()
	<-w.started
	if err := handler.Replace(newArchiveOf(t, helloSite("second"))); err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(get(handler, "/")); got != "second" {
		t.Errorf("%q", got)
	}
	close(w.goOn)
	<-done
	if w.Body.String() != content {
		t.Error("the response has changed")
	}
	if first.data != nil {
		t.Error("the archive is still mapped")
	}
}

// TestNoRequestFailsDuringReplacements replaces archives as fast as possible while clients send requests.
func TestNoRequestFailsDuringReplacements(t *testing.T) {
	dir := t.TempDir()
	open := func(n int) *Archive {
		file := filepath.Join(dir, fmt.Sprint(n%2))
		archive, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		return archive
	}
	for n := range 2 {
		data := helloSite(strings.Repeat(fmt.Sprint(n), 5000))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	handler := NewHandler(open(0))
	var stop atomic.Bool
	var clients sync.WaitGroup
	for range 4 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for !stop.Load() {
				response := get(handler, "/")
				body := bodyOf(response)
				if response.StatusCode != 200 || len(body) != 5000 || strings.Trim(body, body[:1]) != "" {
					t.Errorf("status %d, %.20q", response.StatusCode, body)
					return
				}
			}
		}()
	}
	for n := range 500 {
		if err := handler.Replace(open(n + 1)); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	clients.Wait()
	if err := handler.Archive().Close(); err != nil {
		t.Error(err)
	}
}
