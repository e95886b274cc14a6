// Command tokenize answers for the Go side of the tokenizer's interoperability
// check: it loads a policy folder and reads JSON lines from stdin, each
// {"text": …} or {"messages": […], "generate": bool}, and writes {"ids": […],
// "text": …} for each, text being the ids decoded. With -save it writes the
// tokenizer, as loaded, to another folder instead.
//
//	tokenize DIR < requests.jsonl
//	tokenize -save OUT DIR
//	tokenize -train OUT -size N < texts.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/valence-rl/valence/core/policy"
	"github.com/valence-rl/valence/core/policy/bpe"
	"github.com/valence-rl/valence/core/policy/chat"
)

func main() {
	save := flag.String("save", "", "write the loaded tokenizer to this folder")
	train := flag.String("train", "", "learn a tokenizer from the texts on stdin and write it to this folder")
	size := flag.Int("size", 512, "tokens of a tokenizer that is learnt")
	flag.Parse()
	var err error
	switch {
	case *train != "":
		err = learn(*train, *size, os.Stdin)
	case flag.NArg() != 1:
		err = errors.New("usage: tokenize [-save OUT] DIR, or tokenize -train OUT [-size N]")
	case *save != "":
		err = copyTo(flag.Arg(0), *save)
	default:
		err = answer(flag.Arg(0), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tokenize:", err)
		os.Exit(1)
	}
}

func learn(dir string, size int, in io.Reader) error {
	var texts []string
	for d := json.NewDecoder(in); ; {
		var r request
		if err := d.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		texts = append(texts, r.Text)
	}
	t, err := chat.Train(slices.Values(texts), size, 0)
	if err != nil {
		return err
	}
	return t.Save(dir)
}

func copyTo(from, to string) error {
	t, err := bpe.Load(from)
	if err != nil {
		return err
	}
	return t.Save(to)
}

type request struct {
	Text     string    `json:"text"`
	Messages []message `json:"messages"`
	Generate bool      `json:"generate"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Calls   []struct {
		Function struct {
			Name      string            `json:"name"`
			Arguments map[string]string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func answer(dir string, in io.Reader, out io.Writer) error {
	t, err := bpe.Load(dir)
	if err != nil {
		return err
	}
	b, err := chat.New(t)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	e := json.NewEncoder(w)
	for d := json.NewDecoder(in); ; {
		var r request
		if err := d.Decode(&r); err == io.EOF {
			return w.Flush()
		} else if err != nil {
			return err
		}
		ids := t.Encode(r.Text)
		if r.Messages != nil {
			if ids, err = render(b, r); err != nil {
				return err
			}
		}
		if err := e.Encode(map[string]any{"ids": ids, "text": strings.ToValidUTF8(t.Decode(ids), "\uFFFD")}); err != nil {
			return err
		}
	}
}

// render gives the ids of a conversation: an optional system message, a user's, and
// then the assistant's turns and the tools' answers by turns.
func render(b *chat.Brief, r request) ([]int, error) {
	m, system := r.Messages, ""
	if len(m) > 0 && m[0].Role == "system" {
		system, m = m[0].Content, m[1:]
	}
	if len(m) == 0 || m[0].Role != "user" {
		return nil, errors.New("want a user's message")
	}
	ids := b.Start(system, m[0].Content)
	for i, x := range m[1:] {
		switch want := []string{"assistant", "tool"}[i%2]; {
		case x.Role != want:
			return nil, fmt.Errorf("message %d: role %q, want %q", i+1, x.Role, want)
		case x.Role == "tool":
			ids = append(ids, b.Observe(x.Content)...)
		default:
			t := policy.Turn{Text: x.Content}
			if len(x.Calls) > 0 {
				t.Call = &policy.Call{Tool: x.Calls[0].Function.Name, Arguments: x.Calls[0].Function.Arguments}
			}
			if err := b.Check(t); err != nil {
				return nil, err
			}
			ids = append(ids, b.Reply(t)...)
		}
	}
	// Start and Observe end with the marker that asks for a turn.
	if last := m[len(m)-1].Role; (last != "assistant") != r.Generate {
		return nil, errors.New("generate must be set if and only if the last message is not the assistant's")
	}
	return ids, nil
}
