package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/valence-rl/valence/sdk/wire"
)

// programs are those that were built for the tests.
var programs struct {
	sync.Mutex
	dir string
}

// build compiles a program, once, and gives its path.
func build(t testing.TB, from string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	program := filepath.Join(programs.dir, filepath.Base(from))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if out, err := exec.Command("go", "build", "-o", program, from).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func TestMain(m *testing.M) {
	if os.Getenv(asHost) != "" {
		beHost()
	}
	var err error
	if programs.dir, err = os.MkdirTemp("", "process-test-"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(programs.dir)
	os.Exit(code)
}

// asHost is set in a copy of the test's program that holds a plugin and is killed.
const asHost = "PROCESS_TEST_HOST"

func beHost() {
	p, err := Open(context.Background(), Config{Command: []string{os.Getenv(asHost)}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out, err := p.Call(context.Background(), wire.MethodEvaluate, []byte("number"), refuse)
	fmt.Println(string(out), p.current.program.dir, err)
	go p.Call(context.Background(), wire.MethodEvaluate, []byte("sleep"), refuse)
	select {}
}

func refuse(context.Context, uint32, []byte) ([]byte, error) { return nil, errors.New("refused") }
