package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/registry"
)

// house is a registry on loopback whose answers can be spoilt.
type house struct {
	http.Handler
	spoilt atomic.Bool
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.spoilt.Load() || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
		h.Handler.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	h.Handler.ServeHTTP(rec, r)
	b := bytes.Clone(rec.Body.Bytes())
	b[len(b)/2] ^= 1
	w.WriteHeader(rec.Code)
	w.Write(b)
}

// running is what a script has of registries.
type running struct {
	*house
	*httptest.Server
}

// serveRegistry serves an OCI registry at $REGISTRY: registry start|stop|spoil|mend.
// A spoilt one sends every blob with one bit changed.
func serveRegistry(ts *testscript.TestScript, neg bool, args []string) {
	at := ts.Value("registry").(*running)
	switch {
	case neg || len(args) != 1:
		ts.Fatalf("usage: registry start|stop|spoil|mend")
	case args[0] == "start":
		at.house = &house{Handler: ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))}
		at.Server = httptest.NewServer(at.house)
		ts.Defer(at.Server.Close)
		ts.Setenv("REGISTRY", strings.TrimPrefix(at.URL, "http://"))
	case args[0] == "stop":
		at.Server.Close()
	default:
		at.spoilt.Store(args[0] == "spoil")
	}
}

// pushImage puts a container image of two small layers into the registry: image REF.
func pushImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: image REF")
	}
	i, err := imagetest.Make(v1.Config{WorkingDir: "/work", Env: []string{"A=1"}},
		[]imagetest.Entry{imagetest.Folder("work"), imagetest.File("work/a", "one\n")}, []imagetest.Entry{imagetest.Gone("work/a"), imagetest.File("work/b", "two\n")})
	ts.Check(err)
	r, err := name.ParseReference(args[0])
	ts.Check(err)
	ts.Check(remote.Write(r, i))
}

// pushTestbed pushes the image of a small repository, with what stands for its runner of
// tests, under the names that data sets have for it: testbed SOURCE REF….
func pushTestbed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: testbed SOURCE REF…")
	}
	programs, err := imagetest.Programs("bash", "sh", "cat", "grep", "mkdir", "cp", "rm", "ls")
	ts.Check(err)
	runner := "#!/bin/sh\nif grep -q 'y = 2' /testbed/shop.py; then echo 'PASSED tests/test_shop.py::test_y'; echo 'PASSED tests/test_shop.py::test_x'; exit 0; fi\n" +
		"echo 'FAILED tests/test_shop.py::test_y - assert 3 == 2'\necho 'PASSED tests/test_shop.py::test_x'\nexit 1\n"
	i, err := imagetest.Make(v1.Config{WorkingDir: "/testbed", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}, append([]imagetest.Entry{
		imagetest.Folder("etc"), imagetest.File("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"), imagetest.Folder("root"), imagetest.Folder("tmp").Allow(0o1777),
		imagetest.File("opt/miniconda3/bin/activate", ""), imagetest.File("usr/local/bin/pytest", runner).Allow(0o755),
		imagetest.Folder("testbed"), imagetest.File("testbed/shop.py", ts.ReadFile(args[0])), imagetest.File("testbed/tests/test_shop.py", "1\n"),
	}, programs...))
	ts.Check(err)
	for _, ref := range args[1:] {
		r, err := name.ParseReference(ref)
		ts.Check(err)
		ts.Check(remote.Write(r, i))
	}
}

// writeModule writes the least module of a plugin: module FILE NAME VERSION.
func writeModule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: module FILE NAME VERSION")
	}
	manifest := "name = " + strconv.Quote(args[1]) + "\nversion = " + strconv.Quote(args[2]) + "\nabi = 1\nroles = [\"build\", \"evaluate\"]\n"
	code := registry.WithSection([]byte("\x00asm\x01\x00\x00\x00"), registry.ManifestSection, []byte(manifest))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), code, 0o644))
}

// writeKey writes the private key that belongs to a word: key FILE WORD.
func writeKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: key FILE WORD")
	}
	seed := sha256.Sum256([]byte(args[1]))
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// flipBit changes one bit in the middle of a file.
func flipBit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: flip FILE")
	}
	b := []byte(ts.ReadFile(args[0]))
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}
