package registry

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/diag"
)

// A signature is ed25519 over the text "valence skill module v1\n", the module's
// digest ("sha256:" and 64 hexadecimal digits), and "\n". The first line keeps it from
// being taken for a signature of anything else.
func signed(digest string) []byte { return []byte("valence skill module v1\n" + digest + "\n") }

// PublicKey is a signer's key. Its text is "ed25519:" and the 32 bytes in base64.
type PublicKey struct{ key [ed25519.PublicKeySize]byte }

const algorithm = "ed25519:"

// ParsePublicKey reads the text of a public key.
func ParsePublicKey(text string) (k PublicKey, err error) {
	b, err := unarmour(text, ed25519.PublicKeySize)
	if err != nil {
		return k, err
	}
	copy(k.key[:], b)
	return k, nil
}

func (k PublicKey) String() string { return algorithm + base64.StdEncoding.EncodeToString(k.key[:]) }

// unarmour decodes "ed25519:" and n bytes in base64.
func unarmour(text string, n int) ([]byte, error) {
	body, ok := strings.CutPrefix(text, algorithm)
	b, err := base64.StdEncoding.Strict().DecodeString(body)
	if !ok || err != nil || len(b) != n {
		return nil, fmt.Errorf("want %q and %d bytes in base64", algorithm, n)
	}
	return b, nil
}

// Signer is someone whose modules may be used.
type Signer struct {
	Name string
	Key  PublicKey
}

// Signature is one signer's word on a module. Its text is the public key, a slash,
// and the 64 bytes as "ed25519:" and base64.
type Signature struct {
	Key   PublicKey
	bytes [ed25519.SignatureSize]byte
}

func (s Signature) String() string {
	return s.Key.String() + "/" + algorithm + base64.StdEncoding.EncodeToString(s.bytes[:])
}

// parseSignature reads a signature's text.
func parseSignature(text string) (s Signature, err error) {
	// A slash is a digit of base64: the second algorithm's name marks the place.
	i := strings.LastIndex(text, "/"+algorithm)
	if i < 0 {
		return s, errors.New("want a public key, a slash, and a signature")
	}
	if s.Key, err = ParsePublicKey(text[:i]); err != nil {
		return s, fmt.Errorf("public key: %w", err)
	}
	b, err := unarmour(text[i+1:], ed25519.SignatureSize)
	if err != nil {
		return s, fmt.Errorf("signature: %w", err)
	}
	copy(s.bytes[:], b)
	return s, nil
}

// holds tells whether the signature is of the module with a digest.
func (s Signature) holds(digest string) bool {
	return ed25519.Verify(s.Key.key[:], signed(digest), s.bytes[:])
}

// PrivateKey signs modules. It is kept as PKCS #8 in a PEM file.
type PrivateKey struct{ key ed25519.PrivateKey }

// GenerateKey makes a key from the system's randomness.
func GenerateKey() (PrivateKey, error) {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return PrivateKey{k}, err
}

// Public is the key that the signatures are checked with.
func (k PrivateKey) Public() (p PublicKey) {
	copy(p.key[:], k.key.Public().(ed25519.PublicKey))
	return p
}

// Sign signs the module with a digest. The same module gives the same signature.
func (k PrivateKey) Sign(digest string) Signature {
	s := Signature{Key: k.Public()}
	copy(s.bytes[:], ed25519.Sign(k.key, signed(digest)))
	return s
}

// Save writes the key to a file that only its owner can read, and that appears whole.
// A file that is already there is left alone, and the error is [os.ErrExist].
func (k PrivateKey) Save(path string) error {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // a rename would replace what is there
}

// ReadPrivateKey reads a key that [PrivateKey.Save], or any tool that writes PKCS #8,
// has written. Errors are diagnostics of kind plugin.
func ReadPrivateKey(path string) (k PrivateKey, err error) {
	fail := func(summary, hint string) error {
		return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P023", Summary: summary, Hint: hint}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return k, fail("the key "+quote(path)+" cannot be read: "+cause(err), "make one: valence plugin keygen FILE")
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return k, fail(quote(path)+" is not a private key in PEM", "make one: valence plugin keygen FILE")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return k, fail(quote(path)+" is not a private key in PKCS #8: "+err.Error(), "make one: valence plugin keygen FILE")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return k, fail(fmt.Sprintf("%q is a key of another kind: %T", path, parsed), "want ed25519; make one: valence plugin keygen FILE")
	}
	return PrivateKey{key}, nil
}

// check looks for a signature by one of the trusted, and gives that signer's name and
// the keys whose signatures hold. With nobody to trust, nothing is asked.
func check(ref, digest string, signatures []string, trust []Signer) (signer string, keys []PublicKey, err error) {
	fail := func(code, summary, hint string, detail ...string) error {
		return &diag.Diagnostic{Kind: diag.KindPlugin, Code: code, Summary: "plugin " + quote(ref) + " " + summary, Hint: hint,
			Detail: append(detail, "module "+digest)}
	}
	var strangers []string
	for _, text := range signatures {
		s, err := parseSignature(text)
		if err != nil {
			return "", nil, fail("P020", "has a signature that cannot be read: "+err.Error(), "ask its publisher to push it again")
		}
		i := slices.IndexFunc(trust, func(t Signer) bool { return t.Key == s.Key })
		if !s.holds(digest) {
			who := s.Key.String()
			if i >= 0 {
				who = trust[i].Name
			}
			return "", nil, fail("P020", "has a signature by "+who+" that does not hold: it is of another module", "do not use it; ask its publisher")
		}
		keys = append(keys, s.Key)
		if i < 0 {
			strangers = append(strangers, "signed by "+s.Key.String())
		} else if signer == "" {
			signer = trust[i].Name
		}
	}
	var names []string
	for _, t := range trust {
		names = append(names, t.Name)
	}
	switch {
	case len(trust) == 0 || signer != "":
		return signer, keys, nil
	case len(signatures) == 0:
		return "", nil, fail("P018", "is not signed, and this run trusts only "+strings.Join(names, ", "),
			"have it signed: valence plugin push --key FILE, or remove the [trust.…] sections")
	}
	return "", nil, fail("P019", "is signed by nobody whom this run trusts", "if you know whose key it is, trust it: [trust.NAME] key = …", append(strangers, "trusted: "+strings.Join(names, ", "))...)
}
