package process

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/valence-rl/valence/sdk/process"
)

// maxLine is the longest handshake, in bytes.
const maxLine = 16 << 10

// checkHandshake says in what the first line of a plugin's standard output is not
// the one that the protocol wants. go-plugin reads it again, and its certificate.
func checkHandshake(line string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 6 {
		return fmt.Errorf("%.80q on standard output is no handshake: is this a plugin?", strings.TrimSpace(line))
	}
	if f[0] != strconv.Itoa(goplugin.CoreProtocolVersion) {
		return fmt.Errorf("the plugin speaks version %.20q of go-plugin's handshake, this host %d", f[0], goplugin.CoreProtocolVersion)
	}
	if f[1] != strconv.Itoa(process.Version) {
		return fmt.Errorf("the plugin speaks version %.20q of the process protocol, this host %d", f[1], process.Version)
	}
	if f[2] != "unix" || f[4] != string(goplugin.ProtocolGRPC) {
		return fmt.Errorf("the plugin offers %.20q over %.20q, want %s over unix", f[4], f[2], goplugin.ProtocolGRPC)
	}
	if f[5] == "" {
		return errors.New("the plugin has no certificate")
	}
	return nil
}
