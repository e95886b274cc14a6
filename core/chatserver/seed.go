package chatserver

// Seed folds a seed into what every server takes: 31 bits, and not 0.
func Seed(s uint64) uint64 { return max(1, (s^s>>32)&(1<<31-1)) }
