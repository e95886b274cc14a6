package simd

import "golang.org/x/sys/cpu"

func detect() Level {
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return Portable
	case !cpu.X86.HasAVX512F:
		return AVX2
	}
	return AVX512
}
