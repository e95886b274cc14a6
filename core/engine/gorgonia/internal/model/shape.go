// Package model is the Qwen3 decoder as plain functions over []float32: its sizes,
// the layout of its weights, and each layer's forward and backward computation.
// Training (package graph) and sampling (package decode) call the same functions
// row by row, so that both see the same bits.
package model

import "github.com/valence-rl/valence/core/engine/gorgonia/internal/simd"

// Page is the number of positions in one page of keys and values.
const Page = simd.TileCols

// Shape gives a model's sizes. Heads is a multiple of KVHeads, HeadDim is even.
type Shape struct {
	Vocab, Hidden, Layers, Heads, KVHeads, HeadDim, Intermediate, MaxContext int

	Theta float64 // of the rotary embedding
	Eps   float64 // of every RMSNorm
}

// Q is the width of all query heads, KV that of all key (or value) heads, QKV the
// width of queries, keys and values side by side.
func (s Shape) Q() int   { return s.Heads * s.HeadDim }
func (s Shape) KV() int  { return s.KVHeads * s.HeadDim }
func (s Shape) QKV() int { return s.Q() + 2*s.KV() }

// valueStride is the length of a row of a page of values: HeadDim in whole panels.
func (s Shape) valueStride() int { return (s.HeadDim + Page - 1) / Page * Page }

// pageLen is the number of float32 in a page of one key head's keys and values.
func (s Shape) pageLen() int { return Page * (s.HeadDim + s.valueStride()) }
