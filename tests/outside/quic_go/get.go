package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// Prints the body of a URL, requested over HTTP/3 and nothing else. The server's certificate must be valid: SSL_CERT_FILE names the
// roots.
func get(url string) error {
	transport := &http3.Transport{}
	defer transport.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", url, response.Proto, response.Status)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
