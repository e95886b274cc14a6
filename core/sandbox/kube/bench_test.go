package kube

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/valence-rl/valence/core/sandbox"
)

// Of the real node: what one sandbox costs, and what one command does.

func BenchmarkCreate(b *testing.B) {
	for _, warm := range []int{0, 4} {
		b.Run(map[int]string{0: "cold", 4: "warm"}[warm], func(b *testing.B) {
			o := cluster(b)
			o.Warm = warm
			d := open(b, o)
			var last *box
			ready := func() bool {
				for _, p := range d.pools {
					p.mu.Lock()
					defer p.mu.Unlock()
					return len(p.ready) > 0
				}
				return false
			}
			for b.Loop() {
				b.StopTimer()
				if last != nil {
					last.Close()
				}
				for warm > 0 && !ready() {
					time.Sleep(10 * time.Millisecond)
				}
				b.StartTimer()
				last = create(b, d)
				works(b, last)
			}
		})
	}
}

func BenchmarkCommand(b *testing.B) {
	d := open(b, cluster(b))
	victim := create(b, d)
	stream := func(b *testing.B) {
		for b.Loop() {
			if r, err := victim.Exec(b.Context(), sandbox.Command{Args: []string{"true"}}); err != nil || r.ExitCode != 0 {
				b.Fatal(r.ExitCode, err)
			}
		}
	}
	b.Run("stream", stream)
	b.Run("exec each", func(b *testing.B) {
		for b.Loop() {
			plainExec(b, d, victim.object.Name, "true")
		}
	})
	b.Run("stream beside a hog", func(b *testing.B) {
		hog := create(b, d)
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			hog.Exec(ctx, sandbox.Command{Shell: "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; while :; do head -c 1000000 /dev/zero > fill; done", Timeout: time.Hour})
		}()
		stream(b)
		cancel()
		<-done
	})
}

// plainExec is a command as kubectl exec runs it.
func plainExec(b *testing.B, d *Driver, pod string, args ...string) {
	b.Helper()
	c := d.clients
	request := c.streamer.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: args, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewWebSocketExecutor(c.streams, "GET", request.URL().String())
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &out}); err != nil {
		b.Fatal(err, out.String())
	}
}

// BenchmarkScale makes many pods on kwok's fake nodes, waits until each is seen to
// run, and deletes them: all that the driver does for a sandbox, but for the stream
// to a tool server, which these pods do not have. VALENCE_BENCH_PODS is their number.
func BenchmarkScale(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("VALENCE_BENCH_PODS"))
	if err != nil {
		b.Skip("it needs kwok's nodes: run `make bench-kube`")
	}
	run := os.Getenv("VALENCE_TEST_CLUSTER")
	o := cluster(b)
	o.NodeSelector = map[string]string{"type": "kwok"}
	o.Tolerations = []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}}
	o.Creates = 8 * runtime.NumCPU()
	for b.Loop() {
		d, err := begin(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		before := cpus(b, run)
		var mu sync.Mutex
		var waits []time.Duration
		objects := make([]*corev1.Pod, 0, n)
		start := time.Now()
		var created time.Duration
		var all, creating sync.WaitGroup
		for range n {
			creating.Add(1)
			all.Go(func() {
				asked := time.Now()
				object, err := d.create(b.Context(), d.object(kindOf(o.Image, sandbox.DefaultLimits())))
				creating.Done()
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := d.pods.running(b.Context(), object.UID); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, time.Since(asked))
				objects = append(objects, object)
			})
		}
		creating.Wait()
		created = time.Since(start)
		all.Wait()
		ran := time.Since(start)
		if b.Failed() {
			b.FailNow()
		}
		runtime.GC()
		host, server := resident(b, "self"), resident(b, part(b, run, "apiserver"))
		start = time.Now()
		for _, object := range objects {
			d.remove(object)
		}
		d.alive.Wait()
		deleted := time.Since(start)
		after := cpus(b, run)
		d.pods.mu.Lock()
		kept := len(d.pods.known)
		d.pods.mu.Unlock()
		if err := d.Close(); err != nil {
			b.Error(err)
		}
		slices.Sort(waits)
		per := func(name string) float64 { return (after[name] - before[name]) * 1000 / float64(n) }
		b.ReportMetric(float64(n)/created.Seconds(), "creates/s")
		b.ReportMetric(ran.Seconds(), "s-until-all-run")
		b.ReportMetric(float64(n)/deleted.Seconds(), "deletes/s")
		b.ReportMetric(float64(host)/(1<<20), "MiB-host")
		b.ReportMetric(float64(server)/(1<<20), "MiB-apiserver")
		b.ReportMetric(per("host"), "ms-cpu-host/pod")
		b.ReportMetric(per("apiserver"), "ms-cpu-apiserver/pod")
		b.ReportMetric(per("etcd")+per("controllers")+per("scheduler"), "ms-cpu-rest/pod")
		b.ReportMetric(per("kwok"), "ms-cpu-kwok/pod")
		b.Logf("%d pods: asked to running: half within %v, all but a hundredth within %v; %d entries kept after their deletion",
			n, waits[n/2].Round(time.Millisecond), waits[n*99/100].Round(time.Millisecond), kept)
	}
}

// part is the number of a process of the cluster.
func part(b *testing.B, run, name string) string {
	b.Helper()
	pid, err := os.ReadFile(filepath.Join(run, name+".pid"))
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(pid))
}

// resident is a process's memory in bytes.
func resident(b *testing.B, pid string) int64 {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", pid, "statm"))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// cpus is the CPU time so far, in seconds, of this process and of the cluster's.
func cpus(b *testing.B, run string) map[string]float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	out := map[string]float64{"host": float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9}
	for _, name := range []string{"apiserver", "etcd", "controllers", "scheduler", "kwok"} {
		text, err := os.ReadFile(filepath.Join("/proc", part(b, run, name), "stat"))
		if err != nil {
			b.Fatal(err)
		}
		// Behind the name in brackets: state is field 3, user time 14, system time 15, in hundredths.
		_, rest, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(rest)
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		out[name] = (user + system) / 100
	}
	return out
}
