package journal

// ServerUse is what a policy behind a server took. Turns and tokens are those that have
// an answer; attempts without one are in Faults.
type ServerUse struct {
	Turns            int            `json:"turns"`             // that the server answered
	Attempts         int            `json:"attempts"`          // at those turns
	PromptTokens     int64          `json:"prompt_tokens"`     // read, as the server says
	CachedTokens     int64          `json:"cached_tokens"`     // of those, known to it from before
	CompletionTokens int64          `json:"completion_tokens"` // written
	Cost             float64        `json:"cost"`              // in US dollars, at the prices of [server]
	Seconds          float64        `json:"seconds"`           // from question to answer, waiting and further attempts included, all turns together
	Faults           map[string]int `json:"faults,omitempty"`  // of an evaluation: failed attempts at turns, by fault
}

// Add counts v, which may be nil, into u.
func (u *ServerUse) Add(v *ServerUse) {
	if v == nil {
		return
	}
	u.Turns += v.Turns
	u.Attempts += v.Attempts
	u.PromptTokens += v.PromptTokens
	u.CachedTokens += v.CachedTokens
	u.CompletionTokens += v.CompletionTokens
	u.Cost += v.Cost
	u.Seconds += v.Seconds
	for f, n := range v.Faults {
		if u.Faults == nil {
			u.Faults = map[string]int{}
		}
		u.Faults[f] += n
	}
}
