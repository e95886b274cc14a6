package run

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/valence-rl/valence/core/config"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/journal"
	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/sandbox/image"
	"github.com/valence-rl/valence/core/sandbox/image/imagetest"
	"github.com/valence-rl/valence/core/sandbox/local"
	"github.com/valence-rl/valence/sdk"
)

// A configured image that cannot be had ends the run at its beginning.
func TestConfiguredImageEndsTheRun(t *testing.T) {
	var opened []string
	cfg := &config.Config{Skills: []config.Skill{{Name: "editing"}}, Sandbox: config.Sandbox{Image: "dir:./absent", Images: config.Images{Store: t.TempDir()}, CPUs: 1}}
	_, err := Open(t.Context(), cfg, Options{Observe: func(e Event) { opened = append(opened, e.Text) }})
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != "S004" || len(opened) != 1 {
		t.Errorf("got %v after opening %q", err, opened)
	}
}

// An image that cannot be had, for whatever reason, costs its episodes and gives none of
// them a score; the others are none the worse for it.
func TestImageFaultIsNoScore(t *testing.T) {
	broken := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodGet:
				next.ServeHTTP(w, r)
			case strings.Contains(r.URL.Path, "/secret/"):
				w.WriteHeader(http.StatusUnauthorized)
			case strings.Contains(r.URL.Path, "/down/"):
				w.WriteHeader(http.StatusBadGateway)
			case strings.Contains(r.URL.Path, "/garbled/blobs/"):
				w.Write([]byte("other bytes"))
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
	host := imagetest.Serve(t, broken)
	for repository, entry := range map[string]imagetest.Entry{"garbled": imagetest.File("a", "a\n"), "evil": imagetest.File("../a", "a\n")} {
		imagetest.Push(t, host+"/"+repository+":1", imagetest.Image(t, v1.Config{}, imagetest.Layer(t, entry)))
	}
	store := t.TempDir()
	d, err := local.New(local.Options{Dir: t.TempDir(), Images: func() (*image.Store, error) {
		return image.Open(store, image.Options{Form: local.Form(), Pause: time.Nanosecond})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	k := skillOn(t, d, "repro")
	for _, c := range []struct{ name, ref, outcome, code string }{
		{"missing", host + "/none:1", "data", "S004"},
		{"unauthorised", host + "/secret:1", "sandbox", "S005"},
		{"down", host + "/down:1", "sandbox", "S006"},
		{"garbled", host + "/garbled:1", "sandbox", "S007"},
		{"evil", host + "/evil:1", "data", "S008"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken, whole := task(t, k, clamp, 1), task(t, k, lookup, 1)
			broken.Workspace.Image = c.ref
			k.Binding().Eval["eval"] = []*sdk.Task{broken, whole}
			p := policy.NewScripted("scripted", func(*sdk.Task, uint64) []policy.Turn {
				return []policy.Turn{create("reproduce.py", "from names import lookup\nassert lookup('z') == ''\n"), say("")}
			})
			ev, episodes, err := setup(d, 1, nil, k).Measure(t.Context(), p, "eval", 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			e, got := episodes[0], ev.Skills[0]
			if e.Outcome != c.outcome || e.Score != 0 || e.Plugins != nil || e.Reason != "" || !strings.Contains(e.Error, c.code) || !strings.Contains(e.Error, c.ref) {
				t.Errorf("outcome %q: %s", e.Outcome, e.Error)
			}
			if got.Excluded != 1 || len(got.Scores[0]) != 0 {
				t.Errorf("an excluded episode must leave no score: %+v", got)
			}
			if episodes[1].Outcome != journal.Scored || len(got.Scores[1]) != 1 || got.Scores[1][0] != 1 {
				t.Errorf("the other task: %v: %s", got.Scores[1], episodes[1].Error)
			}
		})
	}
}

// Whole episodes, the evaluators' runs with them, are played on an image.
func TestEpisodeOnImage(t *testing.T) {
	interpreter, err := local.Python()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := imagetest.Programs("bash", "sh", "cat", "ls", "env", "rm", "mkdir", interpreter)
	if err != nil {
		t.Fatal(err)
	}
	library, err := imagetest.Python(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	if name := filepath.Base(interpreter); name != "python3" {
		library = append(library, imagetest.Link("usr/bin/python3", name))
	}
	ref := imagetest.Save(t, imagetest.Image(t, v1.Config{WorkingDir: "/testbed", User: "1000:1000"}, imagetest.Layer(t, programs...),
		imagetest.Layer(t, append(library, imagetest.Folder("testbed"))...)))
	store := t.TempDir()
	d, err := local.New(local.Options{Dir: t.TempDir(), Defaults: limits, ImageFolders: []string{os.TempDir()}, Images: func() (*image.Store, error) {
		return image.Open(store, image.Options{Form: local.Form()})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	k := skillOn(t, d, "repro")
	on := task(t, k, lookup, 1)
	on.Workspace.Image, on.Workspace.Dir = ref, ""
	k.Binding().Eval["eval"] = []*sdk.Task{on}
	p := policy.NewScripted("scripted", func(*sdk.Task, uint64) []policy.Turn {
		return []policy.Turn{bash("pwd > where"), create("reproduce.py", "from names import lookup\nassert lookup('z') == ''\n"), say("")}
	})
	ev, episodes, err := setup(d, 0, nil, k).Measure(t.Context(), p, "eval", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if e := episodes[0]; e.Outcome != journal.Scored || len(ev.Skills[0].Scores[0]) != 1 || ev.Skills[0].Scores[0][0] != 1 {
		t.Errorf("outcome %q, scores %v: %s %s", e.Outcome, ev.Skills[0].Scores, e.Error, e.Reason)
	}
}
