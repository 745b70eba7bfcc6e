package nodes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// writeCertificate writes a certificate for one name alone, which signs itself, and its key.
func writeCertificate(t *testing.T, name string, roots *x509.CertPool) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &own.PublicKey, own)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(kind string, der []byte) string {
		path := filepath.Join(dir, kind)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(parsed)
	return write("CERTIFICATE", der), write("PRIVATE KEY", pkcs8)
}

// announce lets each server of a cluster speak TLS too, and announce its TLS port and a name, for
// which its certificate is.
func announce(t *testing.T, c *lockpipetest.Cluster) (names []string, roots *x509.CertPool) {
	t.Helper()
	reserved := lockpipetest.StartRealT(t, c.Servers().Len())
	roots = x509.NewCertPool()
	for i := range c.Servers().Len() {
		require.NoError(t, reserved.Kill(i)) // its port stays ours
		_, port, _ := strings.Cut(kit.Address(reserved, i), ":")
		name := fmt.Sprintf("s%d.example", i)
		cert, key := writeCertificate(t, name, roots)
		if _, err := c.Servers().Do(i, "CONFIG", "SET", "cluster-announce-hostname", name); err != nil {
			t.Skipf("this server announces no names: %v", err)
		}
		kit.Do(t, c.Servers(), i, "CONFIG", "SET", "tls-port", port, "tls-cert-file", cert,
			"tls-key-file", key, "tls-ca-cert-file", cert, "tls-auth-clients", "no")
		kit.Do(t, c.Servers(), i, "CONFIG", "SET", "cluster-announce-port", port)
		names = append(names, name+":"+port)
	}
	return names, roots
}

// The goal: with TLS the name that a server announces counts: each certificate is for one alone,
// and addresses are not dialled. A server that can't be reached under its name is said to be
// announced by the cluster, by the node and by Inspect.
func TestCluster_TLSChecksTheAnnouncedNames_InRealTime(t *testing.T) {
	servertest.RealTime(t)
	c := lockpipetest.StartCluster(t)
	names, roots := announce(t, c)
	cfg := kit.Config([]string{"rediss://" + names[3] + "?cluster&addr=" + names[1]}, nil)
	cfg.TLS = &tls.Config{RootCAs: roots}
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		name, port, _ := strings.Cut(addr, ":")
		if !strings.HasSuffix(name, ".example") || name == "gone.example" {
			return nil, errors.New("there is no way to " + addr)
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	for i := range names { // until all know the names of all
		kit.Eventually(t, func() bool {
			view, err := c.Servers().Do(i, "CLUSTER", "NODES")
			return err == nil && strings.Count(fmt.Sprint(view), ".example") == len(names)
		}, "server %d does not know all names", i)
	}
	client, err := lockpipe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { kit.CloseSoon(client) })
	l, err := kit.Connected(t, client).TryAcquire(t.Context(), "key")
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	require.Equal(t, "slot-2730@"+names[0], client.Nodes()[0].Addr)

	kit.Do(t, c.Servers(), 0, "CONFIG", "SET", "cluster-announce-hostname", "gone.example")
	says := "the cluster announces gone.example:" + strings.Split(names[0], ":")[1] +
		" as the owner of slot 2730"
	kit.Eventually(t, func() bool {
		err := client.Nodes()[0].Err
		return err != nil && strings.Contains(err.Error(), says)
	}, "the node does not say what the cluster announces")
	require.Equal(t, 2, upNodes(client))
	all, err := client.Inspect(t.Context())
	require.NoError(t, err)
	finds(t, all, "slot-2730@"+names[3], lockpipe.SeverityError, says)
}
