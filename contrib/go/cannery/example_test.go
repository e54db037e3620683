package cannery_test

import (
	"io/fs"
	"log"
	"net/http"

	"github.com/cannery/cannery/contrib/go/cannery"
)

// A program serves a site from an archive, next to its own endpoints.
func Example() {
	site, err := cannery.Open("site.cdb")
	if err != nil {
		log.Fatal(err)
	}
	defer site.Close()

	api := http.NotFoundHandler() // the handler of the program
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		site.ServeHTTP(w, r)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", handler))
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
