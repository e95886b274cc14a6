package image

import "testing"

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"layers":[]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:1","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"os":"linux","rootfs":{"diff_ids":["sha256:1"]},"config":{"WorkingDir":"../../etc"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := readManifest(raw); err == nil {
			for _, l := range m.Layers {
				if !digestForm.MatchString(l.Digest.String()) || l.Size < 0 {
					t.Fatalf("%+v", l)
				}
			}
			if d, err := m.pick(); err == nil && !digestForm.MatchString(d.Digest.String()) {
				t.Fatalf("%+v", d)
			}
		}
		if c, err := readConfig(raw); err == nil {
			if dir := c.workingDir(); dir == "" || dir[0] != '/' {
				t.Fatalf("%q", dir)
			}
		}
	})
}
