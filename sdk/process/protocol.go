// Package process serves a skill as a process of its own, over hashicorp/go-plugin:
// gRPC on a private Unix socket with mutual TLS. It carries bytes and knows nothing
// of what they mean; an author calls sdk.Main and never imports it.
//
// What follows is the whole protocol, for hosts and for SDKs in other languages.
//
// # Start
//
// The host starts the program in an empty folder of its own, with standard input
// at its end and with an environment of these variables alone:
//
//	PATH, HOME, LANG           as the host has them
//	TMPDIR                     the folder; it is removed with the process
//	VALENCE_PLUGIN=skill.v1    the cookie: without it the program explains itself and exits with status 2
//	VALENCE_LIFELINE=N         number of an open file descriptor, see Life
//	PLUGIN_PROTOCOL_VERSIONS   versions of this protocol that the host speaks, with commas: 1
//	PLUGIN_CLIENT_CERT         the host's certificate, PEM; its key is on the curve P-256, which every TLS library knows
//	PLUGIN_UNIX_SOCKET_DIR     where the program makes its socket: the same folder
//	PLUGIN_MIN_PORT, PLUGIN_MAX_PORT   of no use with Unix sockets
//
// The program listens on a Unix socket in that folder, with a certificate that it
// has made for this run (subject alternative name localhost, for servers and
// clients) and that demands the host's as the client's. Then it prints one line on
// standard output, the first that it prints at all, within a minute:
//
//	1|1|unix|SOCKET|grpc|CERTIFICATE
//
// that is: version of go-plugin's handshake, version of this protocol, network,
// path, "grpc", its certificate as base64 of the DER form without padding. What
// is printed later, on standard output or standard error, is kept by the host and
// shown with a failure. It should be standard error for both, so that it stays in
// order.
//
// # Services of the plugin
//
//	/grpc.health.v1.Health/Check            SERVING for the service "plugin"
//	/plugin.GRPCBroker/StartStream          see Services of the host
//	/plugin.GRPCController/Shutdown         end the program; an orderly end, which this host never asks for
//	/plugin.GRPCStdio/StreamStdio           a stream without messages, which stays open
//	/skill.v1.Skill/{Describe,Build,Evaluate,Judge}
//
// The last are those of sdk/wire/skill.proto, unary, with the messages' protobuf
// bytes. A message has 64 MiB ([wire.MaxMessage]) at most, either way. Many calls
// come at the same time; each has a deadline (grpc-timeout) and may be cancelled.
// Nothing that a call leaves behind in the process may show in a later one.
//
// # Services of the host
//
// Each call brings metadata:
//
//	valence-host    number, the broker's id of the host's server; the same in each call of a process
//	valence-call    text, the id of this call
//
// The program asks its broker for the server's address by the id (a message of
// StartStream, which comes before the first call and is kept until it is wanted)
// and opens one connection to it, with its own certificate as the client's and the
// host's as the only one that it trusts, for the name localhost. There it calls
//
//	/skill.v1.Host/{Run,Model,Ask,Log}
//
// with the same valence-call as metadata, by which the host finds what this call
// may use. A host call may be made from any thread while its call is under way;
// afterwards, and under an id that never was, it is refused. The host ends it when
// the call's deadline passes.
//
// # Errors
//
// Either way an error is a gRPC status without an answer:
//
//	UNKNOWN            of the author, or of the host's service: the message is its text, whole up to 16 KiB
//	INVALID_ARGUMENT   the protocol was broken, such as by a host call under an id that is not under way
//	UNIMPLEMENTED      no such method
//	any other          gRPC's own; the host takes UNAVAILABLE for the end of the process
//
// A panic (an exception that is not meant for the host) is caught: its text begins
// with "panic: " and its stack goes to standard error before the status is sent. An
// error's text is a header of HTTP/2, three bytes for each that is not plain ASCII:
// implementations with a bound for headers raise it to 64 KiB.
//
// # Life
//
// One process serves calls until the host has no more use for it, which it shows
// by a kill at any moment. A call that is late is abandoned and its process gets no
// further calls. The descriptor VALENCE_LIFELINE reads nothing and ends with the
// host: then the program removes PLUGIN_UNIX_SOCKET_DIR and exits at once,
// whatever it is doing. It is not passed on to children.
//
// # Versions
//
// The version of this protocol changes when a program that speaks it could not be
// served any more. New metadata and new variables may appear; both sides ignore
// those that they do not know.
package process

import (
	goplugin "github.com/hashicorp/go-plugin"

	"github.com/valence-rl/valence/sdk/wire"
)

// Names of the protocol.
const (
	CookieKey   = "VALENCE_PLUGIN"
	CookieValue = "skill.v1"
	Lifeline    = "VALENCE_LIFELINE"
	MetaHost    = "valence-host"
	MetaCall    = "valence-call"

	// Plugin is the one plugin that a process serves, as go-plugin names it.
	Plugin = "skill"
)

// Version of the protocol.
const Version = 1

// MaxError is how much of an error's text is kept, in bytes.
const MaxError = 16 << 10

// Handshake gives what both sides of go-plugin must agree on.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: Version, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

// The two services by their full names.
const (
	SkillService = "skill.v1.Skill"
	HostService  = "skill.v1.Host"
)

// Method is one method of a service: its number in package wire and its name.
type Method struct {
	Number uint32
	Name   string
}

// SkillMethods are the methods of SkillService.
func SkillMethods() []Method {
	return []Method{
		{wire.MethodDescribe, "Describe"},
		{wire.MethodBuild, "Build"},
		{wire.MethodEvaluate, "Evaluate"},
		{wire.MethodJudge, "Judge"},
	}
}

// HostMethods are the methods of HostService.
func HostMethods() []Method {
	return []Method{
		{wire.HostRun, "Run"},
		{wire.HostModel, "Model"},
		{wire.HostJudge, "Ask"},
		{wire.HostLog, "Log"},
	}
}
