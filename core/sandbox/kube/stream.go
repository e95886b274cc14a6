package kube

import (
	"context"
	"io"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/valence-rl/valence/core/sandbox/kube/inside"
)

// stream is an exec into a pod as a connection.
type stream struct {
	io.Reader
	io.Writer
	cancel context.CancelFunc
}

// Close ends the exec, and with it every Read and Write.
func (s *stream) Close() error {
	s.cancel()
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text string
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 1000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text += string(b)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.text)
}

// open attaches to the tool server of a pod, without waiting for it to answer.
// Where the exec ends, Read's error says why.
func (c *clients) open(ctx context.Context, pod string) (*stream, error) {
	request := c.streamer.CoreV1().RESTClient().Post().Resource("pods").Namespace(c.namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: []string{inside.Program, inside.Attach},
			Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	socket, err := remotecommand.NewWebSocketExecutor(c.streams, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.streams, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	go func() {
		defer cancel()
		var said tail
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: &said})
		if err == nil {
			err = io.EOF
		}
		if text := said.String(); text != "" {
			err = &spoken{text: text, err: err}
		}
		stdin.CloseWithError(err)
		stdout.CloseWithError(err)
	}()
	// A stream that is stuck does not notice its context's end in a read of the pipe.
	context.AfterFunc(ctx, func() {
		stdin.CloseWithError(io.ErrClosedPipe)
		stdout.CloseWithError(io.ErrClosedPipe)
	})
	return &stream{Reader: out, Writer: in, cancel: cancel}, nil
}

// spoken is an error with what the program said on stderr.
type spoken struct {
	text string
	err  error
}

func (e *spoken) Error() string { return e.err.Error() + ": " + e.text }
func (e *spoken) Unwrap() error { return e.err }
