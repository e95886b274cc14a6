package sdk

import (
	"context"
	"errors"
	"strconv"

	"github.com/valence-rl/valence/sdk/wire"
)

// border is the Host of a plugin: it takes each request to the host as bytes and
// brings the answer's bytes, or the host's error, back.
type border func(ctx context.Context, method uint32, in []byte) ([]byte, error)

func (b border) Run(ctx context.Context, r *RunRequest) (*RunResponse, error) {
	res := new(RunResponse)
	return res, b.ask(ctx, wire.HostRun, r, res)
}

func (b border) Model(ctx context.Context, r *ModelRequest) (*ModelResponse, error) {
	res := new(ModelResponse)
	return res, b.ask(ctx, wire.HostModel, r, res)
}

func (b border) Ask(ctx context.Context, r *JudgeRequest) (*JudgeResponse, error) {
	res := new(JudgeResponse)
	return res, b.ask(ctx, wire.HostJudge, r, res)
}

func (b border) Log(ctx context.Context, level, text string) {
	b.ask(ctx, wire.HostLog, &wire.LogLine{Level: level, Text: text}, new(wire.Empty))
}

func (b border) ask(ctx context.Context, method uint32, req, res wire.Message) error {
	in, err := sized("request", wire.Marshal(req))
	if err != nil {
		return err
	}
	out, err := b(ctx, method, in)
	if err != nil {
		return err
	}
	return wire.Unmarshal(out, res)
}

// sized refuses a message that no border lets pass, so that its author learns of
// it as an error, whatever the transport would do.
func sized(what string, b []byte) ([]byte, error) {
	if len(b) > wire.MaxMessage {
		return nil, errors.New(what + " of " + strconv.Itoa(len(b)) + " bytes, " + strconv.Itoa(wire.MaxMessage) + " is the most")
	}
	return b, nil
}
