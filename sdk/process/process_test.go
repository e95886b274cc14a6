package process

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestMethods holds numbers and names to those of skill.proto.
func TestMethods(t *testing.T) {
	text, err := os.ReadFile("../wire/skill.proto")
	if err != nil {
		t.Fatal(err)
	}
	for service, methods := range map[string][]Method{SkillService: SkillMethods(), HostService: HostMethods()} {
		body := regexp.MustCompile(`(?s)service ` + strings.TrimPrefix(service, "skill.v1.") + ` \{(.*?)\n\}`).FindStringSubmatch(string(text))
		if body == nil {
			t.Fatalf("no service %s", service)
		}
		found := regexp.MustCompile(`rpc (\w+)\(.*// (\d+)`).FindAllStringSubmatch(body[1], -1)
		if len(found) != len(methods) {
			t.Fatalf("%s: %d methods, want %d", service, len(methods), len(found))
		}
		for i, f := range found {
			if m := methods[i]; m.Name != f[1] || strconv.Itoa(int(m.Number)) != f[2] {
				t.Errorf("%s: %+v, want %s %s", service, m, f[1], f[2])
			}
		}
	}
}

// TestCodec: bytes go as they are, messages of protobuf as ever.
func TestCodec(t *testing.T) {
	in := []byte("any bytes \xff")
	data, err := Codec{}.Marshal(&in)
	if err != nil || string(data.Materialize()) != string(in) {
		t.Fatalf("%q, %v", data, err)
	}
	var out []byte
	if err := (Codec{}).Unmarshal(data, &out); err != nil || string(out) != string(in) {
		t.Errorf("%q, %v", out, err)
	}
	in[0] = 'A'
	if out[0] != 'a' {
		t.Error("the receiver's bytes are the sender's")
	}
	if data, err = (Codec{}).Marshal(wrapperspb.String("x")); err != nil {
		t.Fatal(err)
	}
	var s wrapperspb.StringValue
	if err := (Codec{}).Unmarshal(data, &s); err != nil || s.Value != "x" {
		t.Errorf("%v, %v", &s, err)
	}
	if _, err := (Codec{}).Marshal("neither"); err == nil {
		t.Error("takes a string")
	}
}

func TestError(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain", "plain"},
		{"", ""},
		{"bad \xff byte", "bad \uFFFD byte"},
		{strings.Repeat("é", MaxError), strings.Repeat("é", MaxError/2)},
	} {
		s := status.Convert(Error(errors.New(c.text)))
		if s.Code() != codes.Unknown || s.Message() != c.want || !utf8.ValidString(s.Message()) {
			t.Errorf("%.20q: %s %.40q", c.text, s.Code(), s.Message())
		}
	}
	if s := status.Convert(Error(context.DeadlineExceeded)); s.Code() != codes.Unknown {
		t.Errorf("an author's error is passed off as gRPC's: %s", s.Code())
	}
}

// TestHostIsNamed: without a usable name of the host's server nothing is asked.
func TestHostIsNamed(t *testing.T) {
	for _, ids := range [][]string{nil, {"x"}, {"-1"}, {"4294967296"}} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{MetaHost: ids})
		s := &server{hosts: map[uint32]*host{}}
		out, err := s.asker(ctx)(ctx, 1, nil)
		if err == nil || !strings.Contains(err.Error(), "reach the host: ") || out != nil {
			t.Errorf("%q: %q, %v", ids, out, err)
		}
	}
}

// TestHostIsMet: the first call opens the connection, whether it asks or not, since
// go-plugin forgets the address. What failed is tried again.
func TestHostIsMet(t *testing.T) {
	met, failed := make(chan uint32), errors.New("not yet")
	s := &server{
		hosts:   map[uint32]*host{},
		handler: func(context.Context, Ask, uint32, []byte) ([]byte, error) { return nil, nil },
		dial: func(id uint32) (*grpc.ClientConn, error) {
			met <- id
			return nil, failed
		},
	}
	s.printed.Do(func() {}) // the test keeps its standard files
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(MetaHost, "7"))
	for range 2 { // the second one finds it met
		if _, err := s.serve(ctx, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if id := <-met; id != 7 {
		t.Errorf("met %d, want 7", id)
	}
	asked := make(chan error)
	go func() {
		_, err := s.asker(ctx)(ctx, 1, nil)
		asked <- err
	}()
	<-met
	if err := <-asked; !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}

func TestWanted(t *testing.T) {
	for value, want := range map[string]bool{"": false, CookieValue: true, "skill.v2": false} {
		t.Setenv(CookieKey, value)
		if Wanted() != want {
			t.Errorf("cookie %q: wanted %v", value, !want)
		}
	}
}
