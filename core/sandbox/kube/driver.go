package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/patch"
	"github.com/valence-rl/valence/core/sandbox"
	"github.com/valence-rl/valence/core/sandbox/toolbox"
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk"
)

// Driver makes sandboxes as pods. It implements sandbox.Driver.
type Driver struct {
	options  Options
	defaults sandbox.Limits
	log      *slog.Logger
	clients  *clients
	session  *session
	pods     *pods
	creates  chan struct{} // a token for each pod being created
	deletes  chan struct{}
	silence  time.Duration      // how long streams may fail one after the other
	stop     context.CancelFunc // of everything in the background
	life     context.Context

	mu     sync.Mutex
	closed bool
	lost   bool // the session is gone
	boxes  map[*box]bool
	pools  map[kind]*pool
	nodes  map[string]*verdict
	alive  sync.WaitGroup // sandboxes and pods that are not deleted yet
}

var _ sandbox.Driver = (*Driver)(nil)

// New opens a session in the cluster and makes one sandbox, which shows that pods
// run and reach nothing. An error that somebody can mend is a diag.Diagnostic of
// KindSandbox. New blocks for seconds, and for as long as images are pulled.
func New(ctx context.Context, o Options) (*Driver, error) {
	d, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := d.probe(ctx); err != nil {
		d.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %s: %w", starting, d.clients.namespace, ctx.Err())
		}
		return nil, diag.Wrap(diag.KindSandbox, starting, d.clients.namespace, err)
	}
	return d, nil
}

const starting = "start sandboxes in the cluster"

// begin opens a session and watches it.
func begin(ctx context.Context, o Options) (*Driver, error) {
	if o.Creates <= 0 {
		o.Creates = 8
	}
	if o.CPUShare < 1 {
		o.CPUShare = 10
	}
	if o.Lease <= 0 {
		o.Lease = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Image == "" || o.Tools == "" {
		return nil, diag.Errorf(diag.KindConfig, starting, "", "an image for workspaces and one with the tools are needed")
	}
	if o.Defaults.Create <= 0 {
		o.Defaults.Create = 5 * time.Minute // images may have to be pulled
	}
	c, err := connect(o)
	if err != nil {
		return nil, &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S010", Summary: "there is no cluster to connect to",
			Hint: "name a kubeconfig, or run within the cluster", Detail: []string{err.Error()}}
	}
	first, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := openSession(first, c, o.Lease, o.Log)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %s: %w", starting, c.namespace, ctx.Err())
	}
	if err != nil {
		out := &diag.Diagnostic{Kind: diag.KindSandbox, Code: "S011", Summary: "no session can be opened in namespace " + c.namespace, Detail: []string{err.Error()}}
		if apierrors.IsForbidden(err) {
			out.Hint = "give the account the role of deploy/rbac.yaml"
		}
		if apierrors.IsNotFound(err) {
			out.Hint = "make the namespace: kubectl apply -f deploy/namespace.yaml"
		}
		return nil, out
	}
	d := &Driver{options: o, defaults: o.Defaults.Or(sandbox.DefaultLimits()), log: o.Log, clients: c, session: s, silence: time.Minute,
		creates: make(chan struct{}, o.Creates), deletes: make(chan struct{}, 4*o.Creates),
		boxes: map[*box]bool{}, pools: map[kind]*pool{}, nodes: map[string]*verdict{}}
	d.life, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	if d.pods, err = watchPods(d.life, c, s.name, o.Log); err != nil {
		d.Close()
		return nil, diag.Wrap(diag.KindSandbox, starting, c.namespace, err)
	}
	go s.keep(d.life, d.lose)
	return d, nil
}

// lose takes note that the session is gone, and with it every pod.
func (d *Driver) lose() {
	d.mu.Lock()
	d.lost = true
	boxes := slices.Collect(maps.Keys(d.boxes))
	d.mu.Unlock()
	d.log.Error("no sandbox can be made any more", "session", d.session.name, "cause", errLost)
	for _, b := range boxes {
		b.kill(errLost)
	}
}

// probe makes the first sandbox.
func (d *Driver) probe(ctx context.Context) error {
	b, err := d.Create(ctx, sandbox.Spec{Name: "probe"})
	if err != nil {
		return err
	}
	defer b.Close()
	r, err := b.Exec(ctx, sandbox.Command{Shell: "echo ready"})
	if err == nil && (r.ExitCode != 0 || string(r.Output) != "ready\n") {
		err = fmt.Errorf("a first command ended with code %d: %q", r.ExitCode, r.Output)
	}
	return err
}

// Isolation is what pods get here.
func (d *Driver) Isolation() sandbox.Isolation {
	i := sandbox.Isolation{Driver: "kube", Level: "pod", Limits: []string{"memory", "cpu", "output"}, Missing: []string{
		"pids: only the nodes' podPidsLimit bounds processes",
		"disk: a pod that writes more than its limit is evicted some seconds later, its writes do not fail",
		"kernel: the node's /sys and the command line of its kernel can be read",
		"interfaces: a pod has one beside its loopback, which must lead nowhere",
		"tool chain: the image's files can be changed, for this sandbox only",
	}}
	if d.options.CPUShare > 1 {
		i.Missing = append(i.Missing, "first process: many small processes over the memory limit can end their sandbox; cpu_share = 1 prevents it")
	}
	if d.options.RuntimeClass != "" {
		i.Level += "/" + d.options.RuntimeClass
	}
	return i
}

// Create makes a sandbox; see sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	const op = "create sandbox"
	w := &spec.Workspace
	dir, err := workDir(w.Dir)
	if err == nil {
		err = sandbox.CheckEnv(w.Env, spec.Env)
	}
	if err == nil {
		err = patch.CheckTree(files(w))
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, op, spec.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", op, spec.Name, err)
	}
	limits := spec.Limits.Or(d.defaults)
	image := w.Image
	if image == "" {
		image = d.options.Image
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, diag.Errorf(diag.KindSandbox, op, spec.Name, "the driver is closed")
	}
	if d.lost {
		d.mu.Unlock()
		return nil, diag.Errorf(diag.KindSandbox, op, spec.Name, "%w", errLost)
	}
	d.alive.Add(1)
	d.mu.Unlock()
	defer d.alive.Done()

	late := fmt.Errorf("it was not ready within %s", limits.Create)
	within, cancel := context.WithTimeoutCause(ctx, limits.Create, late)
	defer cancel()
	stop := context.AfterFunc(d.life, cancel)
	defer stop()
	var b *box
	for attempt := 1; ; attempt++ {
		b = &box{driver: d, Box: toolbox.Box{Name: spec.Name, Dir: dir, Limits: limits, Client: toolserver.NewClient(true)}}
		b.Kill = func(reason string) { b.kill(errors.New(reason)) }
		err = b.start(within, image, w, sandbox.MergeEnv(w.Env, spec.Env))
		// A sandbox that nobody has used can be made again.
		if err == nil || attempt == attempts || within.Err() != nil || !errors.Is(err, errTaken) {
			break
		}
		d.log.Debug("a sandbox is made again", "sandbox", spec.Name, "cause", err)
	}
	if err != nil {
		if e := ctx.Err(); e != nil {
			return nil, fmt.Errorf("%s: %s: %w", op, spec.Name, e)
		}
		kind := diag.KindSandbox
		if diag.KindOf(err) == diag.KindData {
			kind = diag.KindData
		}
		return nil, diag.Errorf(kind, op, spec.Name, "%s", sentence(err))
	}
	return b, nil
}

// attempts is how many pods are made for a sandbox while the cluster takes them.
const attempts = 3

// sentence is an error as text: the deadline of a Create is not the caller's, whom
// an error that is context.DeadlineExceeded would mislead.
func sentence(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// files are those of a workspace, without version control.
func files(w *sdk.Workspace) []sdk.File {
	return slices.DeleteFunc(slices.Clone(w.Files), func(f sdk.File) bool { return slices.Contains(strings.Split(f.Path, "/"), ".git") })
}

// workDir checks where the workspace is to appear; "" leaves it to the image.
func workDir(dir string) (string, error) {
	if dir != "" && (!path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || strings.ContainsRune(dir, 0)) {
		return "", fmt.Errorf("the workspace's directory %q is not a clean absolute path below /", dir)
	}
	return dir, nil
}

// create makes a pod. An attempt whose answer was lost is found by its name.
func (d *Driver) create(ctx context.Context, object *corev1.Pod) (*corev1.Pod, error) {
	select {
	case d.creates <- struct{}{}:
		defer func() { <-d.creates }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too many others are being created", context.Cause(ctx))
	}
	pods := d.clients.writes.CoreV1().Pods(d.clients.namespace)
	var made *corev1.Pod
	err := retry(ctx, func() error {
		var err error
		made, err = pods.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = pods.Get(ctx, object.Name, metav1.GetOptions{})
		}
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
			// Others may give something back.
			return apierrors.NewTooManyRequests(err.Error(), 1)
		}
		return err
	})
	if err != nil {
		// It may exist all the same.
		d.remove(object)
		return nil, err
	}
	slim(made)
	return made, nil
}

// remove deletes a pod, in the background. Close waits for it.
func (d *Driver) remove(object *corev1.Pod) {
	d.alive.Go(func() {
		d.deletes <- struct{}{}
		defer func() { <-d.deletes }()
		if object.UID != "" {
			defer d.pods.forget(object.UID)
		}
		none := int64(0)
		options := metav1.DeleteOptions{GracePeriodSeconds: &none}
		if object.UID != "" { // of a create that failed nothing but the name is known
			options.Preconditions = metav1.NewUIDPreconditions(string(object.UID))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.life), time.Minute)
		defer cancel()
		err := retry(ctx, func() error {
			err := d.clients.writes.CoreV1().Pods(d.clients.namespace).Delete(ctx, object.Name, options)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Conflict: it is another one
				return nil
			}
			return err
		})
		if err != nil {
			d.log.Warn("a pod could not be deleted; it goes with its session", "pod", object.Name, "cause", err)
		}
	})
}

// Close ends every sandbox, waits until their pods are deleted, and deletes the
// session. It is idempotent.
func (d *Driver) Close() error {
	d.mu.Lock()
	again := d.closed
	d.closed = true
	boxes := slices.Collect(maps.Keys(d.boxes))
	pools := d.pools
	d.pools = map[kind]*pool{}
	d.mu.Unlock()
	if again {
		d.alive.Wait()
		return nil
	}
	d.stop()
	for _, b := range boxes {
		b.Close()
	}
	for _, p := range pools {
		p.close()
	}
	d.alive.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return diag.Wrap(diag.KindSandbox, "close the cluster's session", d.session.name, d.session.close(ctx))
}
