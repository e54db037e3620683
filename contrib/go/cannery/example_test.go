package cannery_test

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"syscall"

	"github.com/cannery/cannery/contrib/go/cannery"
)

// A program serves a site from an archive, next to its own endpoints.
func Example() {
	site, err := cannery.Open("site.cdb")
	if err != nil {
		log.Fatal(err)
	}
	defer site.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/time", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "now") })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff") // the site can still override it
		site.ServeHTTP(w, r)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", mux))
}

//go:embed testdata/hello.cdb
var embedded []byte

// The archive is a part of the program.
func ExampleNew() {
	site, err := cannery.New(embedded)
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(site)
	defer server.Close()

	response, err := http.Get(server.URL + "/hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s", response.Status, body)
	// Output: 200 OK Hello!
}

//go:embed testdata/hello.cdb
var files embed.FS

// The archive is a file of an [embed.FS].
func ExampleOpenFS() {
	site, err := cannery.OpenFS(files, "testdata/hello.cdb")
	if err != nil {
		log.Fatal(err)
	}
	content, err := fs.ReadFile(site.FS(), "docs/index.html")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", content)
	// Output: <!doctype html><title>Documentation</title>
}

// A program serves the archive that follows it in its own file. `cannery bundle site.cdb -o app --server program` makes this
// file, and `cannery bundle --replace new.cdb app` replaces its site.
func ExampleOpen_bundle() {
	path, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	site, err := cannery.Open(path)
	if errors.Is(err, cannery.ErrNotArchive) {
		log.Fatal("this program has no site: use `cannery bundle`")
	} else if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", site))
}

// A program opens the archive again when it gets SIGHUP. No request fails meanwhile.
func ExampleHandler() {
	site, err := cannery.Open("site.cdb")
	if err != nil {
		log.Fatal(err)
	}
	handler := cannery.NewHandler(site)

	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			next, err := cannery.Open("site.cdb")
			if err != nil {
				log.Print(err) // the earlier archive stays
				continue
			}
			if err := handler.Replace(next); err != nil {
				log.Print(err)
			}
		}
	}()
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", handler))
}

// The site is below a path. Redirects lead below this path too: /docs is redirected to /docs/.
func ExampleArchive_ServeHTTP_mount() {
	site, err := cannery.New(embedded)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/site/", http.StripPrefix("/site", site))

	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, httptest.NewRequest("GET", "/site/docs", nil))
	fmt.Println(recorder.Code, recorder.Header().Get("Location"))
	// Output: 308 /site/docs/
}

// The files of a site can be read like those of an [embed.FS].
func ExampleArchive_FS() {
	site, err := cannery.Open("site.cdb")
	if err != nil {
		log.Fatal(err)
	}
	defer site.Close()
	template, err := fs.ReadFile(site.FS(), "mail/welcome.txt")
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%d bytes", len(template))
}
