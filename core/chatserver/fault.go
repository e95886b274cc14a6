package chatserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Fault says what kept an attempt from an answer.
type Fault string

// The faults. Those of the server are tried again.
const (
	Busy    Fault = "busy"     // 429: the server wants less
	Broken  Fault = "broken"   // 5xx, or an error inside a stream
	Slow    Fault = "slow"     // no answer in time, or no time was left to ask for one
	Cut     Fault = "cut"      // no connection, or it ended before the answer did
	Garbled Fault = "garbled"  // the answer is no chat completion
	Denied  Fault = "denied"   // 401, 403: the key
	Missing Fault = "missing"  // 404: the address or the model
	Refused Fault = "refused"  // any other 4xx: the request
	TooLong Fault = "too_long" // the conversation does not fit the model's context
	Yours   Fault = "yours"    // the question cannot be sent
	Ended   Fault = "ended"    // the asker's time was up while an answer came, without any failure
)

// passing says whether another attempt may help.
func (f Fault) passing() bool {
	switch f {
	case Busy, Broken, Slow, Cut, Garbled:
		return true
	}
	return false
}

// Error is a question without an answer. It never holds the key.
type Error struct {
	Fault    Fault
	Status   int           // of HTTP; 0 without one
	URL      string        // asked last; "" if none was
	After    time.Duration // that the server wants to be left alone
	Attempts int
	Room     Room // of TooLong
	Err      error
}

func (e *Error) Error() string {
	s := e.Err.Error()
	if e.URL != "" {
		s = e.URL + ": " + s
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Room is what a server says of a context that is too small; 0 where it does not say.
type Room struct {
	Limit  int // tokens of the context
	Prompt int // tokens of the conversation
}

// Left is how many tokens an answer could still have; ok is false if the server does
// not say.
func (r Room) Left() (n int, ok bool) {
	if r.Limit == 0 || r.Prompt == 0 {
		return 0, false
	}
	return max(0, r.Limit-r.Prompt), true
}

// refused makes an Error of an answer with a status other than 200.
func refused(status int, header http.Header, body []byte, now time.Time) *Error {
	e := &Error{Status: status, After: retryAfter(header, now)}
	e.Err = statusError{status, clip(body)}
	switch {
	case status == http.StatusTooManyRequests:
		e.Fault = Busy
	case status == http.StatusRequestTimeout:
		e.Fault = Slow
	case status >= 500:
		e.Fault = Broken
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Fault = Denied
	case status == http.StatusNotFound:
		e.Fault = Missing
	default:
		e.Fault = Refused
	}
	// Servers say it with 400, 413, 422 and 500.
	if e.Fault == Refused || e.Fault == Broken {
		if room, ok := overflow(body); ok {
			e.Fault, e.Room = TooLong, room
		}
	}
	return e
}

type statusError struct {
	status int
	body   string
}

func (e statusError) Error() string {
	s := "answers " + strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.body != "" {
		s += ": " + e.body
	}
	return s
}

// clip is the beginning of a body for an error.
func clip(b []byte) string {
	const most = 200
	b = bytes.TrimSpace(b)
	if len(b) > most {
		b = b[:most]
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// overflow tells whether an error's body says that the context is too small, and what
// it says of the sizes. There is no agreed form: OpenAI has a code, llama.cpp a type
// with two fields, everybody else a sentence.
func overflow(body []byte) (Room, bool) {
	var got struct {
		wireError
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	text := string(body)
	e := wireError{}
	if json.Unmarshal(body, &got) == nil {
		e = got.wireError
		for _, nested := range []json.RawMessage{got.Error, got.Detail} {
			var n wireError
			var s string
			switch {
			case json.Unmarshal(nested, &n) == nil:
				e = n
			case json.Unmarshal(nested, &s) == nil:
				e.Message = s
			}
		}
		if e.Message != "" {
			text = e.Message
		}
	}
	said := overflowSaid.MatchString(text)
	code := strings.Trim(string(e.Code), `"`)
	if !said && code != "context_length_exceeded" && e.Type != "exceed_context_size_error" {
		return Room{}, false
	}
	r := Room{Limit: e.Limit, Prompt: e.Prompt}
	if r.Limit == 0 {
		r.Limit = number(overflowLimit, text)
	}
	if r.Prompt == 0 {
		r.Prompt = number(overflowPrompt, text)
	}
	return r, true
}

// wireError is what the field error of a refusal, or the refusal itself, may have.
type wireError struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
	Limit   int             `json:"n_ctx"`
	Prompt  int             `json:"n_prompt_tokens"`
}

var (
	overflowSaid = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`maximum context length`,
		`context length exceeded`,
		`exceeds? (the |its )?(model's |available |maximum |configured )*(context|sequence|input) ?(length|size|window)`,
		`longer than the (model's )?(maximum )?(context|model|allowed|sequence)`,
		`exceeds? context window`,
		`exceeds the maximum (number of tokens|allowed length)`,
		`prompt is too long`,
		`input is too long`,
		`max(_completion)?_tokens'? .{0,40}is too large: \d+\. This model`,
		`inputs. tokens \+ .max_new_tokens. must be`,
		`length of input_ids is \d+, but .max_length. is set to`,
		`context size has been exceeded`,
		`context (is|was) full`,
	}, "|"))
	overflowLimit = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`maximum context length (?:is|of) (\d+)`,
		`context length \((\d+)`,
		`context window of (\d+)`,
		`(?:maximum )?allowed (?:length|number of tokens)? ?\((\d+)`,
		`tokens > (\d+) maximum`,
		`must be <= (\d+)`,
		`max_length. is set to (\d+)`,
	}, "|"))
	overflowPrompt = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\((\d+) in the messages`,
		`has (?:at least )?(\d+) input tokens`,
		`: (\d+) tokens from the input`,
		`input \((\d+) tokens\)`,
		`input length \((\d+)`,
		`requested tokens \((\d+)\)`,
		`too long: (\d+) tokens`,
		`resulted in (\d+) tokens`,
		`input token count \((\d+)\)`,
		`given: (\d+) .inputs`,
		`input_ids is (\d+), but`,
	}, "|"))
)

// number is what the first group that matches says; 0 if none does.
func number(re *regexp.Regexp, s string) int {
	m := re.FindStringSubmatch(s)
	for _, g := range m[min(1, len(m)):] {
		if g != "" {
			n, err := strconv.Atoi(g)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// retryAfter reads how long a server wants to be left alone: retry-after-ms, or
// Retry-After in seconds or as a date. Anything else is 0; a day is the most.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms >= 0 {
		return time.Duration(min(ms, most.Seconds()*1000) * float64(time.Millisecond))
	}
	header := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(header, 64); err == nil && s >= 0 {
		return time.Duration(min(s, most.Seconds()) * float64(time.Second))
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(most, max(0, t.Sub(now)))
	}
	return 0
}
