// Package atif holds the Agent Trajectory Interchange Format, version 1.7, in
// which trajectories are stored.
package atif

// SchemaVersion is written into every trajectory.
const SchemaVersion = "ATIF-v1.7"

// Trajectory is one agent's conversation about one task.
type Trajectory struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id,omitempty"`
	TrajectoryID  string         `json:"trajectory_id,omitempty"`
	Agent         Agent          `json:"agent"`
	Steps         []Step         `json:"steps"`
	Notes         string         `json:"notes,omitempty"`
	FinalMetrics  *FinalMetrics  `json:"final_metrics,omitempty"`
	Extra         map[string]any `json:"extra,omitempty"`
}

// Agent names who acted.
type Agent struct {
	Name            string           `json:"name"`
	Version         string           `json:"version"`
	ModelName       string           `json:"model_name,omitempty"`
	ToolDefinitions []map[string]any `json:"tool_definitions,omitempty"`
	Extra           map[string]any   `json:"extra,omitempty"`
}

// Step is one message; ids count from 1. ToolCalls, Observation and Metrics
// appear only where Source is "agent".
type Step struct {
	StepID      int            `json:"step_id"`
	Source      string         `json:"source"` // system, user, agent
	Message     string         `json:"message"`
	Timestamp   string         `json:"timestamp,omitempty"`
	ModelName   string         `json:"model_name,omitempty"`
	Reasoning   string         `json:"reasoning_content,omitempty"` // agent only
	ToolCalls   []ToolCall     `json:"tool_calls,omitempty"`
	Observation *Observation   `json:"observation,omitempty"`
	Metrics     *Metrics       `json:"metrics,omitempty"`
	Extra       map[string]any `json:"extra,omitempty"`
}

// ToolCall is one request for a tool.
type ToolCall struct {
	ID        string         `json:"tool_call_id"`
	Function  string         `json:"function_name"`
	Arguments map[string]any `json:"arguments"`
}

// Observation answers a step's tool calls.
type Observation struct {
	Results []ObservationResult `json:"results"`
}

// ObservationResult answers one call.
type ObservationResult struct {
	SourceCallID string `json:"source_call_id,omitempty"`
	Content      string `json:"content"`
}

// Metrics are a step's tokens: how many, as a server counts them or as the ids say, and
// the ids the policy saw and sampled, never re-tokenised text.
type Metrics struct {
	PromptTokens       int            `json:"prompt_tokens"`
	CompletionTokens   int            `json:"completion_tokens"`
	CachedTokens       int            `json:"cached_tokens,omitempty"`
	CostUSD            float64        `json:"cost_usd,omitempty"`
	PromptTokenIDs     []int          `json:"prompt_token_ids,omitempty"`
	CompletionTokenIDs []int          `json:"completion_token_ids,omitempty"`
	Logprobs           []float32      `json:"logprobs,omitempty"`
	Extra              map[string]any `json:"extra,omitempty"`
}

// AddedTokens in Extra["prompt_token_ids"] of a step's metrics says that its
// PromptTokenIDs are those that came after the turn before, and not the whole prompt.
const AddedTokens = "added since the last turn"

// FinalMetrics sums a trajectory up.
type FinalMetrics struct {
	TotalPromptTokens     int            `json:"total_prompt_tokens"`
	TotalCompletionTokens int            `json:"total_completion_tokens"`
	TotalCachedTokens     int            `json:"total_cached_tokens,omitempty"`
	TotalCostUSD          float64        `json:"total_cost_usd,omitempty"`
	TotalSteps            int            `json:"total_steps"`
	Extra                 map[string]any `json:"extra,omitempty"`
}
