// Loads each target with Go's HTTP/2 client on one connection, many at a time, in identity and in gzip, which the client
// decodes, and compares the bytes with the file. Usage: http2 ORIGIN LIST.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

const atATime = 50

func main() {
	origin, list := os.Args[1], os.Args[2]
	// The server signed its own certificate.
	client := http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	lines, err := os.ReadFile(list)
	check(err)
	targets := strings.Split(strings.TrimSpace(string(lines)), "\n")
	// The first request opens the connection that all others share.
	target, path, _ := strings.Cut(targets[0], "\t")
	load(&client, origin, target, path, "identity")
	var all sync.WaitGroup
	places := make(chan struct{}, atATime)
	for _, line := range targets {
		target, path, _ := strings.Cut(line, "\t")
		for _, coding := range []string{"", "identity"} {
			coding := coding
			all.Add(1)
			places <- struct{}{}
			go func() {
				load(&client, origin, target, path, coding)
				<-places
				all.Done()
			}()
		}
	}
	all.Wait()
	fmt.Println("compared", 2*len(targets))
}

func load(client *http.Client, origin, target, path, coding string) {
	request, err := http.NewRequest("GET", origin+target, nil)
	check(err)
	if coding != "" {
		request.Header.Set("Accept-Encoding", coding)
	}
	response, err := client.Do(request)
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	content, err := os.ReadFile(path)
	check(err)
	if response.StatusCode != 200 || response.ProtoMajor != 2 {
		panic(fmt.Sprintf("%s: %s %s", target, response.Proto, response.Status))
	}
	if !bytes.Equal(body, content) {
		panic(fmt.Sprintf("%s: %d bytes that are not the file's %d", target, len(body), len(content)))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
