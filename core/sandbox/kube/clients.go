package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// clients are apart, so that neither watches nor streams wait behind writes on one
// connection. None limits its own rate, by default 5 requests a second: what the
// driver creates is bounded by Options.Creates.
type clients struct {
	writes, watches *kubernetes.Clientset
	streams         *rest.Config
	streamer        *kubernetes.Clientset // makes the addresses of streams
	namespace       string
}

// quiet silences the client library, which logs to standard error, for the whole
// process. What matters comes back as errors as well.
var quiet = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })

func connect(o Options) (*clients, error) {
	quiet()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	c := &clients{namespace: o.Namespace}
	if c.namespace == "" {
		if c.namespace, _, err = loader.Namespace(); err != nil {
			return nil, err
		}
	}
	fresh := func() *rest.Config {
		out := rest.CopyConfig(config)
		out.QPS, out.UserAgent = -1, "valence"
		// Pods in JSON cost both ends more CPU time.
		out.ContentType, out.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
		return out
	}
	writes := fresh()
	writes.Timeout = 30 * time.Second
	if c.writes, err = kubernetes.NewForConfig(writes); err != nil {
		return nil, err
	}
	if c.watches, err = kubernetes.NewForConfig(fresh()); err != nil {
		return nil, err
	}
	c.streams = fresh()
	c.streamer, err = kubernetes.NewForConfig(c.streams)
	return c, err
}

// passing tells whether an error of the API may be gone a moment later.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		// The connection failed; the context's end is seen by retry.
		return true
	}
	code := status.Status().Code
	return code == 429 || code >= 500
}

// retry calls f until it succeeds, fails for good, or ctx ends, with growing and
// random pauses, or as long ones as the server asks for.
func retry(ctx context.Context, f func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := f()
		if err == nil || !passing(err) {
			return err
		}
		wait := pause/2 + rand.N(pause)
		if s, ok := apierrors.SuggestsClientDelay(err); ok {
			wait = max(wait, time.Duration(s)*time.Second)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (the last attempt: %w)", context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}
