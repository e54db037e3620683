// Loads each target with Go's HTTP client over persistent connections, in gzip, which the client decodes, in identity and
// in ranges, and compares the bytes with the file. Usage: load ADDRESS LIST.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

var compared int

func main() {
	address, list := os.Args[1], os.Args[2]
	lines, err := os.ReadFile(list)
	check(err)
	for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		target, path, _ := strings.Cut(line, "\t")
		content, err := os.ReadFile(path)
		check(err)
		url := "http://" + address + target
		_, body := send("GET", url, 200, nil)
		compare(target, body, content)
		response, body := send("GET", url, 200, map[string]string{"Accept-Encoding": "identity"})
		compare(target, body, content)
		tag := response.Header.Get("ETag")
		send("GET", url, 304, map[string]string{"Accept-Encoding": "identity", "If-None-Match": tag})
		send("GET", url, 304, map[string]string{
			"Accept-Encoding":   "identity",
			"If-Modified-Since": response.Header.Get("Last-Modified"),
		})
		head, _ := send("HEAD", url, 200, map[string]string{"Accept-Encoding": "identity"})
		if head.ContentLength != int64(len(content)) {
			panic(fmt.Sprintf("%s: HEAD states %d bytes", target, head.ContentLength))
		}
		if len(content) > 10 {
			_, body = send("GET", url, 206, map[string]string{
				"Accept-Encoding": "identity", "Range": "bytes=3-8", "If-Range": tag,
			})
			compare(target, body, content[3:9])
		}
	}
	fmt.Println("compared", compared)
}

func send(method, url string, status int, fields map[string]string) (*http.Response, []byte) {
	request, err := http.NewRequest(method, url, nil)
	check(err)
	for name, value := range fields {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	if response.StatusCode != status {
		panic(fmt.Sprintf("%s %s %v: %d instead of %d", method, url, fields, response.StatusCode, status))
	}
	return response, body
}

func compare(target string, body, content []byte) {
	if !bytes.Equal(body, content) {
		panic(fmt.Sprintf("%s: %d bytes that are not the file's %d", target, len(body), len(content)))
	}
	compared++
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
