package chatservertest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Overflows are the ways in which servers say that a conversation is too long for the
// model, with what they say of the sizes.
var Overflows = []struct {
	Name          string
	Deed          Deed
	Limit, Prompt int
}{
	{"OpenAI", Status(400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 202868 tokens (202767 in the messages, 101 in the functions). Please reduce the length of the messages or functions.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), 128000, 202868},
	{"OpenAI, responses", Status(400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`), 0, 0},
	{"vLLM, bare", Status(400, `{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}`), 16384, 112946},
	{"vLLM, nested", Status(400, `{"error":{"message":"This model's maximum context length is 2048 tokens. However, your request has 2100 input tokens. Please reduce the length of the input messages. (parameter=input_tokens, value=2100)","type":"BadRequestError","param":"input_tokens","code":400}}`), 2048, 2100},
	{"vLLM, bound too large", Status(400, `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 512 tokens and your request has 501 input tokens (512 > 512 - 501). None","type":"BadRequestError","param":null,"code":400}}`), 512, 501},
	{"SGLang, input", Status(400, `{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}`), 40960, 61709},
	{"SGLang, total", Status(400, `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4090 tokens from the input messages and 910 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.","type":"BadRequestError","code":400}`), 4096, 4090},
	{"SGLang, 59862", Status(400, `{"error":{"message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate."}}`), 59862, 160062},
	{"llama.cpp", Status(400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`), 8192, 14429},
	{"llama.cpp, older", Status(500, `{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}`), 256, 1407},
	{"llama.cpp, with status 200", JSON(`{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`), 8192, 14429},
	{"llama.cpp, in a stream", Streams(`{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`), 0, 0},
	{"llama-cpp-python", Status(400, `{"error":{"message":"This model's maximum context length is 512 tokens. However, you requested 516 tokens (516 in the messages, 0 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`), 512, 516},
	{"llama-cpp-python, plain", Status(500, `{"detail":"Requested tokens (2285) exceed context window of 2048"}`), 2048, 2285},
	{"transformers serve", Streams("{\"error\": \"Input length of input_ids is 600, but `max_length` is set to 512. This can lead to unexpected behavior.\"}"), 512, 600},
	{"TGI", Status(422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`\",\"error_type\":\"validation\"}"), 4096, 4000},
	{"Anthropic's", Status(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), 200000, 210000},
	{"Gemini's", Status(400, `{"error":{"code":400,"message":"The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`), 1048576, 1048600},
}

// Misdeed is a way in which a server fails to answer, or answers oddly.
type Misdeed struct {
	Name  string
	Deed  Deed
	Fault string // that a client must see; "" where there is an answer in it after all
}

// Misdeeds are what servers in the wild were seen or feared to do.
func Misdeeds() []Misdeed {
	const event = "text/event-stream"
	call := func(fragments ...string) Deed {
		var es []string
		for _, f := range fragments {
			es = append(es, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}`, f))
		}
		return Streams(append(es, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, Done)...)
	}
	message := func(m string) Deed {
		return JSON(`{"choices":[{"index":0,"message":` + m + `,"finish_reason":"stop"}]}`)
	}
	return []Misdeed{
		{"429", Status(429, `{"error":{"message":"Rate limit reached"}}`), "busy"},
		{"429 for 3 s", Status(429, "slow down", "Retry-After", "3"), "busy"},
		{"429 for 1.5 s, in milliseconds", Status(429, "", "retry-after-ms", "1500"), "busy"},
		{"429 for ever", Status(429, "", "Retry-After", "999999999999"), "busy"},
		{"408", Status(408, ""), "slow"},
		{"500", Status(500, `{"error":{"message":"CUDA error: an illegal memory access was encountered"}}`), "broken"},
		{"502 in HTML", Status(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "Content-Type", "text/html"), "broken"},
		{"503 for 2 s", Status(503, "loading the model", "Retry-After", "2"), "broken"},
		{"529", Status(529, "overloaded"), "broken"},
		{"hangs", Hangs, "slow"},
		{"hangs after the header", Then(Streams(), Hangs), "slow"},
		{"hangs after a piece", Then(Streams(Piece("one ")), Hangs), "slow"},
		{"comments for ever", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, ": still here\n\n") }, "slow"},
		{"pieces for ever", func(w http.ResponseWriter, r *http.Request) { trickle(w, r, "data: "+Piece("x")+"\n\n") }, "slow"},
		{"cut at once", Cuts, "cut"},
		{"cut body", Then(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
		}, JSON(`{"choices":[{"mess`), Cuts), "cut"},
		{"cut stream", Then(Streams(Piece("one "), Piece("two ")), Cuts), "cut"},
		{"cut inside a line", Then(Raw(event, `data: {"choices":[{"index":0,"del`), Cuts), "cut"},
		{"stream without an end", Streams(Piece("one ")), "cut"},
		{"stream that says done too early", Streams(Piece("one "), Done), "cut"},
		{"stream of nothing", Streams(Done), "garbled"},
		{"empty stream", Streams(), "garbled"},
		{"error inside a stream", Streams(Piece("one "), `{"error":{"message":"engine died","type":"server_error"}}`), "broken"},
		{"error inside a stream, as text", Streams(Piece("one "), `{"error": "CUDA out of memory"}`), "broken"},
		{"error inside a stream, not escaped", Streams(Piece("one "), `{"error": "bad "quotes""}`), "garbled"},
		{"abort", Streams(Piece("one "), `{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`), "broken"},
		{"malformed event", Streams(Piece("one "), `{"choices":[{`, Stop), "garbled"},
		{"event of another kind", Streams(`[1,2]`, Stop), "garbled"},
		{"HTML as a stream", Raw(event, "<html>\n\n<body>"), "garbled"},
		{"half UTF-8 in a stream", Raw(event, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xc3\"}}]}\n\ndata: "+Stop+"\n\n"), "garbled"},
		{"half UTF-8", JSON("{\"choices\":[{\"index\":0,\"message\":{\"content\":\"caf\xc3\"},\"finish_reason\":\"stop\"}]}"), "garbled"},
		{"huge body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"choices":[{"message":{"content":"`)
			flood(w)
		}, "garbled"},
		{"huge line", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", event)
			io.WriteString(w, "data: ")
			flood(w)
		}, "garbled"},
		{"nothing", JSON(""), "garbled"},
		{"null", JSON("null"), "garbled"},
		{"a list", JSON("[]"), "garbled"},
		{"HTML with 200", Raw("text/html", "<html>please log in</html>"), "garbled"},
		{"no choices", JSON(`{"choices":[]}`), "garbled"},
		{"null for choices", JSON(`{"choices":null}`), "garbled"},
		{"an error with 200", JSON(`{"error":{"message":"overloaded"}}`), "broken"},
		{"choice without a number", JSON(`{"choices":[{"index":"zero","message":{"content":"x"}}]}`), "garbled"},
		{"choice of another number", JSON(`{"choices":[{"index":7,"message":{"content":"x"}}]}`), "garbled"},
		{"negative choice", JSON(`{"choices":[{"index":-1,"message":{"content":"x"}}]}`), "garbled"},
		{"a list for a message", message(`["yes"]`), "garbled"},
		{"a number for text", message(`{"content":5}`), "garbled"},
		{"an object for calls", message(`{"content":"x","tool_calls":{}}`), "garbled"},
		{"a number for arguments", message(`{"tool_calls":[{"function":{"name":"bash","arguments":7}}]}`), "garbled"},
		{"negative tokens", JSON(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-5,"completion_tokens":1}}`), "garbled"},
		{"text for tokens", JSON(`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":"many"}}`), "garbled"},
		{"an answer of no tokens", JSON(`{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`), "garbled"},
		{"ids that do not fit", JSON(`{"prompt_token_ids":[1],"choices":[{"message":{"content":"x"},"token_ids":[1,2],"logprobs":{"content":[{"logprob":-1}]}}]}`), "garbled"},
		{"deep nesting", JSON(`{"choices":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`), "garbled"},
		{"two hundred calls", call(strings.TrimSuffix(strings.Repeat(`{"id":"","function":{"name":"bash","arguments":"{}"}},`, 200), ",")), "garbled"},
		{"sent elsewhere", Status(302, "", "Location", "http://elsewhere/v1/chat/completions"), "refused"},
		{"401", Status(401, `{"error":{"message":"Incorrect API key provided"}}`), "denied"},
		{"403", Status(403, ""), "denied"},
		{"404", Status(404, `{"error":{"message":"The model does not exist"}}`), "missing"},
		{"400", Status(400, `{"error":{"message":"temperature must be 1"}}`), "refused"},

		{"answer in parts", message(`{"content":[{"type":"text","text":"fi"},{"type":"text","text":"ne"}]}`), ""},
		{"stream without the last word", Streams(Piece("fine"), Stop), ""},
		{"stream in one piece, asked or not", Says("fine"), ""},
		{"CR LF and comments", Raw(event, ": hello\r\n\r\nevent: message\r\nid: 7\r\ndata: "+Piece("fine")+"\r\n\r\ndata: "+Stop+"\r\n\r\n"), ""},
		{"an event over two lines", Raw(event, "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"fine\"}}]}\n\ndata: "+Stop+"\n\n"), ""},
		{"no last line break", Raw(event, "data: "+Piece("fine")+"\n\ndata: "+Stop), ""},
		{"calls out of order", call(
			`{"index":1,"id":"b","function":{"name":"bash","arguments":"{\"command\":"}}`,
			`{"index":0,"id":"a","function":{"name":"bash","arguments":""}}`,
			`{"index":1,"function":{"arguments":"\"ls\"}"}}`,
			`{"index":0,"function":{"arguments":"{\"command\":\"pwd\"}"}}`), ""},
		{"fragments without an index", call(
			`{"id":"a","function":{"name":"bash","arguments":"{\"command\":"}}`,
			`{"function":{"arguments":"\"ls\"}"}}`), ""},
		{"name in every fragment", call(
			`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"command\":"}}`,
			`{"index":0,"id":"a","function":{"name":"bash","arguments":"\"ls\"}"}}`), ""},
		{"an object for arguments", message(`{"content":null,"tool_calls":[{"id":"a","function":{"name":"bash","arguments":{"command":"ls"}}}]}`), ""},
		{"arguments cut short", message(`{"content":null,"tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{\"command\":\"l"}}]}`), ""},
		{"an unknown tool", Calls("python", `{"code":"1"}`), ""},
		{"a call without a name", Calls("", `{}`), ""},
		{"a list for a command", Calls("bash", `{"command":["ls","-l"]}`), ""},
		{"nothing but blanks", message(`{"content":"  \n"}`), ""},
		{"null for text", message(`{"content":null}`), ""},
		{"reasoning only", message(`{"content":"","reasoning_content":"hm"}`), ""},
		{"a refusal", message(`{"content":null,"refusal":"I will not"}`), ""},
		{"too long an answer", JSON(`{"choices":[{"index":0,"message":{"content":"on and on"},"finish_reason":"length"}],"usage":{"prompt_tokens":100,"completion_tokens":10}}`), ""},
	}
}

// trickle sends the same a second apart until the client goes.
func trickle(w http.ResponseWriter, r *http.Request, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for r.Context().Err() == nil {
		io.WriteString(w, s)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
	}
}

// flood writes more than any client should take.
func flood(w io.Writer) {
	b := []byte(strings.Repeat("x", 1<<20))
	for range 64 {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}
