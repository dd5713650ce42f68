package server_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// silentFrom opens connections from an address of this machine, on which nothing is said.
func silentFrom(t *testing.T, f *servertest.Federation, address string, n int) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	for range n {
		c, err := d.Dial("tcp", strings.TrimPrefix(f.URL, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
}

// callOnce calls as a member, on a new connection.
func callOnce(t *testing.T, f *servertest.Federation, config *tls.Config) {
	t.Helper()
	hc := f.HTTP(config)
	defer hc.CloseIdleConnections()
	hc.Timeout = 30 * time.Second // half of the time after which a stranger would make way
	answer, err := hc.Get(f.URL + prefix + "/clusters")
	if err != nil {
		t.Errorf("a member at another address: %v", err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a member at another address gets %d", answer.StatusCode)
	}
}

// However many connections one address opens, members at other addresses do not wait, even where
// strangers had all the time of the world.
func TestAFloodAtOneAddressKeepsNoOtherOut(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Connections: 60,
		Unidentified: 8, Waiting: 60, Introduction: time.Minute, Stall: 5 * time.Minute}})
	rome := f.Join("rome")
	config := rome.HTTP.Transport.(*http.Transport).TLSClientConfig
	rome.HTTP.CloseIdleConnections()
	for range 5 {
		silentFrom(t, f, "127.0.0.66", 30)
		callOnce(t, f, config)
	}
	var all sync.WaitGroup
	for range 20 { // more than have a place at a time: they wait for each other alone
		all.Go(func() { callOnce(t, f, config) })
	}
	all.Wait()
}

// A stranger may send what a handshake and the headers of a call take, not what fills memory.
func TestALongHandshakeEnds(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	c, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	certificate := f.Join("rome").HTTP.Transport.(*http.Transport).TLSClientConfig
	own, err := certificate.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		t.Fatal(err)
	}
	long := *own
	long.Leaf = nil
	for range 15 {
		long.Certificate = append(long.Certificate[:len(long.Certificate):len(long.Certificate)], make([]byte, 16_000))
	}
	// An attacker verifies nobody.
	peer := tls.Client(&cutOff{Conn: c, left: 200_000}, &tls.Config{InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &long, nil
		}})
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // half of the time for a handshake
	if err = peer.Handshake(); err == nil {
		_, err = peer.Read(make([]byte, 1))
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Error("a handshake of 200,000 bytes that does not end is kept")
	}
}

// cutOff sends only the first bytes of what is written.
type cutOff struct {
	net.Conn
	left int
}

func (c *cutOff) Write(data []byte) (int, error) {
	send := data[:min(c.left, len(data))]
	c.left -= len(send)
	if len(send) == 0 {
		return len(data), nil
	}
	_, err := c.Conn.Write(send)
	return len(data), err
}
