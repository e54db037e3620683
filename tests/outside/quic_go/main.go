// A client of HTTP/3 over quic-go: runs one case after the other against a server, and prints a line for each.
//
// Usage: quic_go HOST:PORT LARGE. The server serves the file LARGE at /large.bin, and accepts early data. Or: quic_go get URL, which
// prints the body of a URL.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// The site that the cases use.
type site struct {
	address string
	large   []byte
}

// A client with one connection. Its sessions are those of the TLS configuration.
type client struct {
	transport  *http3.Transport
	connection *quic.Conn
}

// Returns a client that stores sessions in cache.
func (site *site) client(cache tls.ClientSessionCache) *client {
	created := &client{}
	created.transport = &http3.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: cache,
		},
		Dial: func(ctx context.Context, address string, config *tls.Config, settings *quic.Config) (*quic.Conn, error) {
			connection, err := quic.DialAddrEarly(ctx, address, config, settings)
			created.connection = connection
			return connection, err
		},
	}
	return created
}

func (client *client) close() {
	client.transport.Close()
}

// Sends a request, and compares status and content.
func (site *site) load(client *client, method string, path string, status int, content []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+site.address+path, nil)
	if err != nil {
		return err
	}
	response, err := client.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != status || response.ProtoMajor != 3 {
		return fmt.Errorf("%s %s: %s %s", method, path, response.Proto, response.Status)
	}
	if content != nil && !bytes.Equal(body, content) {
		return fmt.Errorf("%s %s: %d bytes of other content", method, path, len(body))
	}
	return nil
}

func requestsShareAConnection(site *site) error {
	client := site.client(nil)
	defer client.close()
	// More than the server allows at once.
	var group sync.WaitGroup
	errors := make(chan error, 300)
	for range 300 {
		group.Go(func() { errors <- site.load(client, http.MethodGet, "/index.html", 200, nil) })
	}
	group.Wait()
	close(errors)
	for err := range errors {
		if err != nil {
			return err
		}
	}
	return site.load(client, http.MethodGet, "/nothing", 404, nil)
}

// quic-go updates its keys after 100 packets, so that most of this transfer is in the second key phase.
func largeContentIsComplete(site *site) error {
	client := site.client(nil)
	defer client.close()
	return site.load(client, http.MethodGet, "/large.bin", 200, site.large)
}

// Loads a page, and waits until a session has arrived.
func (site *site) storeSession(cache tls.ClientSessionCache) error {
	client := site.client(cache)
	defer client.close()
	if err := site.load(client, http.MethodGet, "/index.html", 200, nil); err != nil {
		return err
	}
	return site.load(client, http.MethodGet, "/large.bin", 200, site.large)
}

func sessionIsResumed(site *site) error {
	cache := tls.NewLRUClientSessionCache(10)
	if err := site.storeSession(cache); err != nil {
		return err
	}
	client := site.client(cache)
	defer client.close()
	if err := site.load(client, http.MethodPost, "/index.html", 405, nil); err != nil {
		return err
	}
	state := client.connection.ConnectionState()
	if !state.TLS.DidResume {
		return fmt.Errorf("a full handshake")
	}
	return nil
}

func requestsAreEarlyData(site *site) error {
	cache := tls.NewLRUClientSessionCache(10)
	if err := site.storeSession(cache); err != nil {
		return err
	}
	client := site.client(cache)
	defer client.close()
	if err := site.load(client, http3.MethodGet0RTT, "/index.html", 200, nil); err != nil {
		return err
	}
	if err := site.load(client, http3.MethodHead0RTT, "/index.html", 200, nil); err != nil {
		return err
	}
	<-client.connection.HandshakeComplete()
	if !client.connection.ConnectionState().Used0RTT {
		return fmt.Errorf("early data was refused")
	}
	return nil
}

func main() {
	if os.Args[1] == "get" {
		if err := get(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	large, err := os.ReadFile(os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	served := &site{address: os.Args[1], large: large}
	cases := []struct {
		name string
		run  func(*site) error
	}{
		{"requests_share_a_connection", requestsShareAConnection},
		{"large_content_is_complete", largeContentIsComplete},
		{"session_is_resumed", sessionIsResumed},
		{"requests_are_early_data", requestsAreEarlyData},
	}
	failed := false
	for _, one := range cases {
		start := time.Now()
		if err := one.run(served); err != nil {
			failed = true
			fmt.Printf("FAILED %s: %v\n", one.name, err)
			continue
		}
		fmt.Printf("passed %s %.1f s\n", one.name, time.Since(start).Seconds())
	}
	if failed {
		os.Exit(1)
	}
}
