package served

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/chatserver"
	"github.com/valence-rl/valence/core/policy"
)

// arguments lists what each tool takes; those that str_replace's commands take are in
// policy.StrReplaceArguments.
var arguments = map[string][]string{
	policy.ToolBash:       {"command"},
	policy.ToolStrReplace: {"command", "path", "file_text", "old_str", "new_str", "insert_line"},
}

// asked is a call with its arguments read; nil if they cannot be.
type asked struct {
	chatserver.Call
	arguments map[string]string
	object    bool // the arguments are a JSON object
}

// whole says whether all calls can be sent back as calls.
func whole(calls []asked) bool {
	return !slices.ContainsFunc(calls, func(c asked) bool { return !c.object || c.Name == "" })
}

// readCalls reads what the model asked for. An error tells the model what to mend.
func readCalls(calls []chatserver.Call) ([]asked, error) {
	var out []asked
	var first error
	for _, c := range calls {
		a := asked{Call: c}
		var err error
		a.arguments, a.object, err = readCall(&a.Call)
		if err != nil && first == nil {
			first = err
		}
		out = append(out, a)
	}
	if len(out) > 1 {
		return out, fmt.Errorf("%d tool calls at once, and none was carried out; make one call, and the next after its answer", len(out))
	}
	return out, first
}

// readCall reads one call; arguments that are missing become {}.
func readCall(c *chatserver.Call) (args map[string]string, object bool, err error) {
	if strings.TrimSpace(c.Arguments) == "" {
		c.Arguments = "{}"
	}
	dec := json.NewDecoder(strings.NewReader(c.Arguments))
	dec.UseNumber()
	var raw any
	err = dec.Decode(&raw)
	if err == nil && dec.More() {
		err = fmt.Errorf("something follows it")
	}
	fields, object := raw.(map[string]any)
	object = object && err == nil
	known, ok := arguments[c.Name]
	switch {
	case !ok:
		return nil, object, fmt.Errorf("no tool %q; there are %s and %s", short(c.Name), policy.ToolBash, policy.ToolStrReplace)
	case err != nil:
		return nil, object, fmt.Errorf("the arguments of %s are no JSON object: %v", c.Name, err)
	case !object:
		return nil, object, fmt.Errorf("the arguments of %s are %s; want a JSON object", c.Name, kind(raw))
	}
	args = map[string]string{}
	for _, name := range sorted(fields) {
		v := fields[name]
		if !slices.Contains(known, name) {
			return nil, true, fmt.Errorf("%s has no argument %q; it has %s", c.Name, short(name), strings.Join(known, ", "))
		}
		switch x := v.(type) {
		case nil: // as if it were not there
		case string:
			args[name] = x
		case json.Number:
			if name != "insert_line" {
				return nil, true, fmt.Errorf("argument %s of %s is a number; want text", name, c.Name)
			}
			args[name] = x.String()
		default:
			return nil, true, fmt.Errorf("argument %s of %s is %s; want text", name, c.Name, kind(v))
		}
	}
	need := []string{"command"}
	if c.Name == policy.ToolStrReplace {
		more, ok := policy.StrReplaceArguments[args["command"]]
		if _, there := args["command"]; there && !ok {
			return nil, true, fmt.Errorf("unknown command %q of str_replace; want view, create, replace or insert", short(args["command"]))
		}
		need = append(append(need, "path"), more...)
	}
	for _, name := range need {
		if _, ok := args[name]; !ok {
			what := c.Name
			if name != "command" && name != "path" {
				what = args["command"]
			}
			return nil, true, fmt.Errorf("argument %s of %s is missing", name, what)
		}
	}
	return args, true, nil
}

func sorted(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kind is what a person would call a value of JSON.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	}
	return "an object"
}

func short(s string) string {
	const most = 40
	if len(s) > most {
		return string(bytes.ToValidUTF8([]byte(s[:most]), nil)) + "…"
	}
	return s
}
