package grade

// Hash mixes a seed and texts into 64 bits, the same on every machine: FNV-1a over
// the texts, each ended by a zero byte, then the finaliser of SplitMix64.
func Hash(seed uint64, texts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range texts {
		for i := 0; i < len(t); i++ {
			h = (h ^ uint64(t[i])) * 1099511628211
		}
		h *= 1099511628211
	}
	return mix(h ^ mix(seed))
}

func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Order gives the numbers 0 to n-1 in an order that seed and text decide.
func Order(n int, seed uint64, text string) []int {
	order := make([]int, n)
	state := Hash(seed, text)
	for i := range order {
		state += 0x9e3779b97f4a7c15
		j := int(mix(state) % uint64(i+1))
		order[i], order[j] = order[j], i
	}
	return order
}
