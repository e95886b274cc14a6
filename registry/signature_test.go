package registry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func key(t testing.TB) PrivateKey {
	t.Helper()
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSignature(t *testing.T) {
	k, d := key(t), Digest([]byte("module"))
	s, err := parseSignature(k.Sign(d).String())
	if err != nil || s != k.Sign(d) || s.Key != k.Public() {
		t.Fatalf("%+v, %v", s, err)
	}
	if !s.holds(d) {
		t.Error("a signature does not hold")
	}
	if s.holds(Digest([]byte("Module"))) {
		t.Error("a signature holds for another module")
	}
	s.Key = key(t).Public()
	if s.holds(d) {
		t.Error("a signature holds by another key")
	}
	if again := k.Sign(d); k.Sign(d) != again {
		t.Error("the same module has two signatures")
	}
}

func TestKeyFile(t *testing.T) {
	k, path := key(t), filepath.Join(t.TempDir(), "key.pem")
	if err := k.Save(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	back, err := ReadPrivateKey(path)
	if err != nil || back.Public() != k.Public() {
		t.Errorf("%v", err)
	}
	if err := key(t).Save(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key is overwritten: %v", err)
	}
	p, err := ParsePublicKey(k.Public().String())
	if err != nil || p != k.Public() {
		t.Errorf("%v, %v", p, err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	dir := t.TempDir()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"text":  {"secret", "is not a private key in PEM"},
		"type":  {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "is not a private key in PEM"},
		"bytes": {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is not a private key in PKCS #8"},
		"ecdsa": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "is a key of another kind: *ecdsa.PrivateKey"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			write(t, path, c.text)
			_, err := ReadPrivateKey(path)
			wants(t, err, "P023", c.want, "valence plugin keygen FILE")
		})
	}
	_, err = ReadPrivateKey(filepath.Join(dir, "none"))
	wants(t, err, "P023", "cannot be read: no such file or directory")

	good := key(t).Public().String()
	for _, bad := range []string{"", "ed25519:", strings.TrimPrefix(good, algorithm), "rsa" + good[7:], good[:len(good)-4], good + "AAAA", algorithm + base64.RawStdEncoding.EncodeToString(make([]byte, 32))} {
		if _, err := ParsePublicKey(bad); err == nil {
			t.Errorf("%q is taken for a key", bad)
		}
	}
}

func TestCheck(t *testing.T) {
	d, other := Digest([]byte("module")), Digest([]byte("other"))
	acme, stranger := key(t), key(t)
	trust := []Signer{{"acme", acme.Public()}, {"zeta", key(t).Public()}}
	by := func(k PrivateKey, digest string) string { return k.Sign(digest).String() }
	for _, c := range []struct {
		name       string
		signatures []string
		trust      []Signer
		signer     string
		keys       int
		words      []string
	}{
		{"nobody is asked", nil, nil, "", 0, nil},
		{"nobody is asked, signed", []string{by(acme, d)}, nil, "", 1, nil},
		{"trusted", []string{by(acme, d)}, trust, "acme", 1, nil},
		{"one of two is trusted", []string{by(stranger, d), by(acme, d)}, trust, "acme", 2, nil},
		{"unsigned", nil, trust, "", 0, []string{"P018", `plugin "r" is not signed, and this run trusts only acme, zeta`, "valence plugin push --key", "module " + d}},
		{"stranger", []string{by(stranger, d)}, trust, "", 0, []string{"P019", "signed by nobody whom this run trusts", "signed by " + stranger.Public().String(), "trusted: acme, zeta"}},
		{"of another module", []string{by(acme, other)}, trust, "", 0, []string{"P020", "a signature by acme that does not hold"}},
		{"of another module, nobody is asked", []string{by(acme, other)}, nil, "", 0, []string{"P020", "a signature by " + acme.Public().String() + " that does not hold"}},
		{"garbage", []string{"x"}, trust, "", 0, []string{"P020", "cannot be read"}},
		{"half a signature", []string{by(acme, d)[:100]}, trust, "", 0, []string{"P020", "cannot be read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			signer, keys, err := check("r", d, c.signatures, c.trust)
			if c.words != nil {
				wants(t, err, c.words...)
			} else if err != nil {
				t.Error(err)
			}
			if signer != c.signer || len(keys) != c.keys {
				t.Errorf("signer %q, %d keys", signer, len(keys))
			}
		})
	}
}

func FuzzParseSignature(f *testing.F) {
	k, err := GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.Sign(Digest(nil)).String())
	f.Add("ed25519:/ed25519:")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseSignature(text); err == nil && s.String() != text {
			t.Errorf("%q reads as %q", text, s)
		}
	})
}
