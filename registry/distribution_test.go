package registry

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// distribution starts the reference implementation of a registry, where this machine
// has it, and gives its host and the folder of its blobs.
func distribution(t *testing.T) (host, blobs string) {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skipf("not tested against distribution's registry, which this machine does not have (apt install docker-registry): %v", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	write(t, config, "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: "+dir+"/data\nhttp:\n  addr: 127.0.0.1:0\n")
	cmd := exec.Command(program, "serve", config)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
	})
	listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	said := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go func() { // what it says later would fill the pipe
				for lines.Scan() {
				}
			}()
			return m[1], filepath.Join(dir, "data", "docker", "registry", "v2", "blobs", "sha256")
		}
		said += lines.Text() + "\n"
	}
	t.Fatalf("%s ended:\n%s", program, said)
	return "", ""
}

// TestDistribution goes through push, pull, pin and refusal with a registry that
// others run.
func TestDistribution(t *testing.T) {
	host, blobs := distribution(t)
	l := new(log)
	k := key(t)
	h := &house{host: host}
	o := h.options(t, l)
	p := pushed(t, tiny(t, "0.1.0"), "", &k, o)
	o.Trust = []Signer{{"acme", k.Public()}}
	for _, ref := range []string{"tiny@0.1.0", "oci://" + host + "/acme/tiny:0.1.0", "oci://" + host + "/acme/tiny@" + p.Artifact} {
		o.Cache = t.TempDir()
		if m := resolve(t, ref, o); m.Digest != p.Module.Digest || m.Signer != "acme" {
			t.Errorf("%s: %+v", ref, m)
		}
	}
	_, err := Resolve(t.Context(), "tiny@0.2.0", o)
	wants(t, err, "P012", "is not in its registry")
	_, err = Push(t.Context(), tiny(t, "0.2.0"), "oci://"+host+"/acme/tiny:0.1.0", &k, false, o)
	wants(t, err, "P025")

	// A bit of the module changes on the registry's disk.
	hex := p.Module.Digest[len("sha256:"):]
	flip(t, filepath.Join(blobs, hex[:2], hex, "data"))
	o.Cache = t.TempDir()
	_, err = Resolve(t.Context(), "tiny@0.1.0", o)
	wants(t, err, "P021", "has been changed in the registry")
	err = filepath.WalkDir(filepath.Join(o.Cache, "sha256"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("the cache took %s", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
