package chatserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"choices":[{"message":{"refusal":"x","tool_calls":[{"function":{"name":"a","arguments":{}}}]}}]}`))
	f.Add([]byte(`{"error":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, no := readWhole(b)
		if (a == nil) == (no == nil) || a != nil && len(a.Choices) == 0 || no != nil && (no.Err == nil || no.Fault == "") {
			t.Fatalf("%+v, %v", a, no)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\n\n"))
	f.Add([]byte(": c\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":3,\"function\":{\"arguments\":\"{\"}}]}}]}\rdata:x\r\r"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEvents(bytes.NewReader(b))
		var s stream
		for {
			data, err := e.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return
			}
			if !utf8.Valid(data) {
				t.Fatalf("%q", data)
			}
			_, done, no := s.add(data)
			if no != nil {
				return
			}
			if done {
				break
			}
		}
		if a, no := s.answer(); (a == nil) == (no == nil) {
			t.Fatalf("%+v, %v", a, no)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(400, "", []byte(`{"error":{"message":"This model's maximum context length is 5 tokens","code":"x"}}`))
	f.Add(500, "7", []byte(`{"detail":["a"]}`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		no := refused(status, http.Header{"Retry-After": {after}}, body, time.Now())
		if no.Fault == "" || no.Err == nil || no.After < 0 || no.After > 24*time.Hour || !utf8.ValidString(no.Error()) {
			t.Fatalf("%+v", no)
		}
		if left, ok := no.Room.Left(); ok && left < 0 {
			t.Fatal(left)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-3": 0, "2": 2 * time.Second, "0.5": time.Second / 2, "99999999999": 24 * time.Hour, "NaN": 0, "Inf": 24 * time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
		now.Add(1000 * time.Hour).Format(http.TimeFormat): 24 * time.Hour,
	} {
		if got := retryAfter(http.Header{"Retry-After": {header}}, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if got := retryAfter(http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, now); got != 1500*time.Millisecond {
		t.Error(got)
	}
}
