package wire

// ABI is the version of the contract that this package speaks: skill_v1.
const ABI = 1

// Module is the name under which a WASM guest imports the host's functions.
const Module = "skill_v1"

// MaxMessage is the largest request, answer or host call, in bytes.
const MaxMessage = 64 << 20

// Methods of a plugin, numbers in WASM and names over gRPC.
const (
	MethodDescribe uint32 = 1 // DescribeRequest → Description
	MethodBuild    uint32 = 2 // BuildRequest → BuildResponse
	MethodEvaluate uint32 = 3 // EvaluateRequest → Verdict
	MethodJudge    uint32 = 4 // JudgeRequest → JudgeResponse
)

// Methods of the host, one for each capability.
const (
	HostRun   uint32 = 1 // capability "sandbox": RunRequest → RunResponse
	HostModel uint32 = 2 // capability "model": ModelRequest → ModelResponse
	HostJudge uint32 = 3 // capability "judge": JudgeRequest → JudgeResponse
	HostLog   uint32 = 4 // capability "log": LogLine → Empty
)

// Capability names the capability that a host method needs; "" if there is no such method.
func Capability(method uint32) string {
	switch method {
	case HostRun:
		return "sandbox"
	case HostModel:
		return "model"
	case HostJudge:
		return "judge"
	case HostLog:
		return "log"
	}
	return ""
}
