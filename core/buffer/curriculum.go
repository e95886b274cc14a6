package buffer

import "fmt"

// Curriculum holds tasks back that teach nothing at the moment: those whose last
// Window groups all failed entirely or all passed entirely (ALGORITHMS 2). The
// zero value is off, which is the default.
type Curriculum struct {
	Window   int // groups in a row; 0: off
	Cooldown int // groups of the skill that end before the task is admitted again; at least 1
}

func (c Curriculum) validate() error {
	switch {
	case c.Window < 0:
		return fmt.Errorf("curriculum window %d is negative", c.Window)
	case c.Window > 0 && c.Cooldown < 1:
		return fmt.Errorf("curriculum cooldown %d is below 1", c.Cooldown)
	}
	return nil
}

// mark is what the curriculum knows of one task.
type mark struct {
	Streak int   `json:"streak,omitempty"` // n groups in a row at 1, or −n at 0
	Until  int64 `json:"until,omitempty"`  // held back until so many leases of the skill have ended
}

func (s *deck) observe(task int, rate float64) {
	if s.curriculum.Window == 0 {
		return
	}
	m := s.marks[task]
	if !s.held(task) {
		m.Until = 0
	}
	switch {
	case rate >= 1:
		m.Streak = max(m.Streak, 0) + 1
	case rate <= 0:
		m.Streak = min(m.Streak, 0) - 1
	default:
		m.Streak = 0
	}
	if m.Streak >= s.curriculum.Window || -m.Streak >= s.curriculum.Window {
		m = mark{Until: s.ended + 1 + int64(s.curriculum.Cooldown)}
	}
	if m == (mark{}) {
		delete(s.marks, task)
		return
	}
	s.marks[task] = m
}

func (s *deck) held(task int) bool { return s.marks[task].Until > s.ended }

// release admits the task that would be admitted first, the lowest among equals.
func (s *deck) release() {
	first := 0
	for t := range s.tasks {
		if s.marks[t].Until < s.marks[first].Until {
			first = t
		}
	}
	delete(s.marks, first)
}

func (s *deck) benched() int {
	n := 0
	for t := range s.marks {
		if s.held(t) {
			n++
		}
	}
	return n
}
