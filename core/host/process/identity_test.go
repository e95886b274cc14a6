package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

// TestIdentity holds the curve, which TLS libraries of other languages depend on,
// and that each process gets a host of its own.
func TestIdentity(t *testing.T) {
	config, text, err := identity()
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(text)
	if block == nil || len(rest) != 0 || block.Type != "CERTIFICATE" {
		t.Fatalf("%s", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T", c.PublicKey)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: serverName, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Error(err)
		}
	}
	other, _, err := identity()
	if err != nil || config.Certificates[0].PrivateKey.(*ecdsa.PrivateKey).Equal(other.Certificates[0].PrivateKey.(*ecdsa.PrivateKey)) {
		t.Errorf("two hosts have one key (%v)", err)
	}
}
