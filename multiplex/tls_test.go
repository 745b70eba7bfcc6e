package multiplex

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := a.template(func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	return key
}

// template is for 127.0.0.1, for servers and for clients, unless change says so.
func (a *authority) template(change func(*x509.Certificate)) *x509.Certificate {
	a.t.Helper()
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(a.t, err)
	c := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "lockpipe test " + number.String()},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if change != nil {
		change(c)
	}
	return c
}

// issue returns a certificate and its key, in PEM.
func (a *authority) issue(change func(*x509.Certificate)) (cert, key []byte) {
	a.t.Helper()
	own := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, a.template(change), a.cert, &own.PublicKey,
		a.key)
	require.NoError(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(a.t, err)
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", pkcs8)
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// client is the TLS of a client that trusts the authority and has a certificate of its own.
func (a *authority) client(change func(*x509.Certificate)) *tls.Config {
	a.t.Helper()
	c := a.trust()
	pair, err := tls.X509KeyPair(a.issue(change))
	require.NoError(a.t, err)
	c.Certificates = []tls.Certificate{pair}
	return c
}

// trust is the TLS of a client without a certificate.
func (a *authority) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots}
}

// secure is a redis-server that speaks TLS alone on its port, and none on its socket.
type secure struct {
	*lasting
	address string
}

// startSecure starts a server that asks clients for a certificate of the authority.
func startSecure(t *testing.T, a *authority, change func(*x509.Certificate)) *secure {
	t.Helper()
	reserved := servertest.Start(t, 1)
	require.NoError(t, reserved.Kill(0)) // its port stays ours
	address := strings.TrimPrefix(reserved.URLs()[0], "redis://")
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	cert, key := a.issue(change)
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	s := startLasting(t, "--bind", "127.0.0.1", "--tls-port", port, "--tls-cert-file",
		file("cert", cert), "--tls-key-file", file("key", key),
		"--tls-ca-cert-file", file("ca", encoded("CERTIFICATE", a.cert.Raw)))
	return &secure{s, address}
}

// withTLS is a client's configuration for nodes with these URLs.
func withTLS(t *testing.T, c *tls.Config, urls ...string) func(*Config) {
	return func(cfg *Config) { cfg.Nodes = endpoints(t, urls, c) }
}

// The goal: with rediss:// and without a scheme locks are taken over TLS, with the client's
// certificate where the server wants one, and the server tells of changes and of a flush; a socket
// of the same client has no TLS.
func TestTLS_LocksAreTakenOverIt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := startSecure(t, a, nil)
	for name, url := range map[string]string{
		"rediss":    "rediss://" + s.address,
		"no scheme": s.address, "socket": s.url()[0],
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, nil, withTLS(t, a.client(nil), url))
			up(t, m)
			_, overTLS := m.nodes[0].Link.Current().Conn.(*tls.Conn)
			require.Equal(t, name != "socket", overTLS)
			c := claim(name, "t")
			require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
			require.NoError(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute),
				time.Second, 1), t.Context()))
			o := watching(m, name)
			is := o.subscribe(t, 0)
			require.True(t, is.Known && !is.Silent)
			require.NoError(t, wait(m.Release(c, 1), t.Context()))
			o.await(t)
			require.False(t, o.isActive())
		})
	}
}

// The goal: an inspection sees for how long the certificates of the server and the client last.
func TestTLS_AnInspectionReadsTheCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	lasts := func(d time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(d) }
	}
	s := startSecure(t, a, lasts(20*time.Hour))
	for url, lasting := range map[string]float64{
		"rediss://" + s.address: 1, "unix://" + s.socket(): 0,
	} {
		m := start(t, nil, withTLS(t, a.client(lasts(200*time.Hour)), url))
		all, err := inspector(t, m).Ask(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 20*lasting, all[0].ServerCertificate.Hours(), 1)
		require.InDelta(t, 200*lasting, all[0].ClientCertificate.Hours(), 1)
	}
}

// The goal: a server that restarts is found again over TLS, and the restart guard and the notice of
// a flush work there as anywhere.
func TestTLS_TheGuardWorksOverIt(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := startSecure(t, a, nil)
	secure := withTLS(t, a.client(nil), "rediss://"+s.address)
	guarded, free := start(t, nil, secure), start(t, nil, func(c *Config) {
		secure(c)
		c.Guard = guard.Off
	})
	up(t, guarded)
	up(t, free)
	s.kill()
	becomes(t, guarded, 0, link.Down, "refused")
	becomes(t, free, 0, link.Down, "refused")
	s.start()
	becomes(t, guarded, 0, link.Quarantined, whyRestarted)
	up(t, free)
	require.NoError(t, wait(free.Acquire(claim("k", "t"), time.Minute, 1), t.Context()))

	admitted, err := s.do("INFO", "server")
	require.NoError(t, err)
	_, err = s.do("SET", ids.AdmittedKey, resp.ParseInfo(admitted.Text)["run_id"])
	require.NoError(t, err)
	up(t, guarded)
	_, err = s.do("FLUSHALL")
	require.NoError(t, err)
	becomes(t, guarded, 0, link.Quarantined, whyFlushed)
}

// The goal: a server whose certificate is not good, or to which ours is not, is down with the
// reason, and nothing is executed there; it is up where the very same thing is right.
func TestTLS_ThatIsNotGoodIsNoVote(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	elsewhere := func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = nil,
			[]string{"elsewhere.example"}
	}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-24 * time.Hour) }
	named := a.client(nil)
	named.ServerName = "elsewhere.example"
	stranger := newAuthority(t)
	foreign := stranger.client(nil)
	foreign.RootCAs = a.trust().RootCAs
	for name, test := range map[string]struct {
		server    func(*x509.Certificate)
		url       string // of the server's address
		tls       *tls.Config
		says      string // "": it is up
		inClear   bool
		parameter string
	}{
		"right": {url: "rediss://", tls: a.client(nil)},
		"another authority": {
			url: "rediss://", tls: stranger.client(nil),
			says: "certificate signed by unknown authority",
		},
		"the system's authorities": {url: "rediss://", says: "certificate"},
		"another name": {
			server: elsewhere, url: "rediss://", tls: a.client(nil),
			says: "127.0.0.1",
		},
		"another name that is given": {server: elsewhere, url: "rediss://", tls: named},
		"a name that is not its own": {url: "rediss://", tls: named, says: "elsewhere.example"},
		"unchecked": {
			server: elsewhere, url: "rediss://", tls: a.client(nil),
			parameter: "?skip_verify=true",
		},
		"expired": {
			server: expired, url: "rediss://", tls: a.client(nil),
			says: "expired",
		},
		"no certificate of ours": {
			url: "rediss://", tls: a.trust(),
			says: "certificate required",
		},
		"ours is expired": {
			url: "rediss://", tls: a.client(expired),
			says: "expired certificate",
		},
		"ours is of another authority": {
			url: "rediss://", tls: foreign,
			says: "unknown certificate authority",
		},
		"no TLS":            {url: "redis://", says: "without TLS"},
		"no TLS, no scheme": {says: "without TLS"},
		"a server without TLS": {
			url: "rediss://", tls: a.client(nil), inClear: true,
			says: "did not answer the TLS handshake",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSecure(t, a, test.server)
			if test.inClear {
				s.kill()
				_, port, _ := net.SplitHostPort(s.address)
				s.args = []string{"--bind", "127.0.0.1", "--port", port}
				s.start()
			}
			m := start(t, nil, withTLS(t, test.tls, test.url+s.address+test.parameter))
			got := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
			if test.says == "" {
				up(t, m)
				return
			}
			require.ErrorIs(t, got, ErrNoQuorum)
			becomes(t, m, 0, link.Down, test.says) // at a later try where this machine was slow
			stats, err := s.do("INFO", "commandstats")
			require.NoError(t, err)
			require.NotContains(t, stats.Text, "cmdstat_set")
		})
	}
}
