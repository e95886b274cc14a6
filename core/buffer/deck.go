package buffer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
)

// deck is one skill's tasks: a seeded shuffle an epoch, drawn without
// replacement, and in front of it what was returned.
type deck struct {
	name       string
	tasks      []string
	digest     string // of the keys in order
	seed       uint64
	curriculum Curriculum

	epoch    int
	cursor   int   // next place in order
	order    []int // of this epoch; nil until needed
	returned []returned
	ended    int64 // leases
	marks    map[int]mark
}

// returned is a task to draw again.
type returned struct {
	Task  int `json:"task"`
	Epoch int `json:"epoch"`
}

func newDeck(seed uint64, s Skill) *deck {
	h := sha256.New()
	for _, k := range s.Tasks {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(k)))
		h.Write(n[:])
		h.Write([]byte(k))
	}
	f := fnv.New64a()
	f.Write([]byte(s.Name))
	return &deck{
		name:       s.Name,
		tasks:      append([]string(nil), s.Tasks...),
		digest:     hex.EncodeToString(h.Sum(nil)[:16]),
		seed:       seed ^ f.Sum64(),
		curriculum: s.Curriculum,
		marks:      map[int]mark{},
	}
}

// draw takes the next task. Dispatch is left for the caller to set.
func (s *deck) draw() Draw {
	if len(s.returned) > 0 {
		r := s.returned[0]
		s.returned = s.returned[1:]
		return Draw{Skill: s.name, Task: r.Task, Key: s.tasks[r.Task], Epoch: r.Epoch}
	}
	if s.benched() == len(s.tasks) {
		s.release() // the skill keeps its share all the same
	}
	for {
		if t := s.turn(); !s.held(t) {
			return Draw{Skill: s.name, Task: t, Key: s.tasks[t], Epoch: s.epoch}
		}
	}
}

// turn advances by one place and gives the task there.
func (s *deck) turn() int {
	if s.cursor == len(s.tasks) {
		s.epoch++
		s.cursor = 0
		s.order = nil
	}
	if s.order == nil {
		s.order = shuffle(len(s.tasks), s.seed, s.epoch)
	}
	t := s.order[s.cursor]
	s.cursor++
	return t
}

// back puts a task in front.
func (s *deck) back(d Draw) {
	s.returned = append(s.returned, returned{Task: d.Task, Epoch: d.Epoch})
}

// shuffle is Fisher and Yates over splitmix64 (Steele, Lea and Flood 2014), written out
// so that an order never depends on a library's version.
func shuffle(n int, seed uint64, epoch int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	state := seed + uint64(epoch)*0xd1342543de82ef95
	for i := n - 1; i > 0; i-- {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		j := int(z % uint64(i+1)) // the bias is below n/2^64
		order[i], order[j] = order[j], order[i]
	}
	return order
}
