package wasm

import (
	"errors"

	"github.com/tetratelabs/wazero/api"

	"github.com/valence-rl/valence/core/host/transport"
)

// image is a guest frozen after its start: all that makes up its state. An
// instance made from it goes on as the one it was taken from would have.
type image struct {
	memory  *snapshot
	size    uint32 // of the memory, in bytes
	globals []uint64
	printed transport.Printed
	clock   clock
	random  random
}

// freeze takes an image of an instance that has started and served nothing.
func (i *instance) freeze() (*image, error) {
	if i.memory.mapped == nil {
		return nil, errors.New("the system reserves no address space")
	}
	img := &image{size: i.guest.Memory().Size(), printed: i.printed.Clone(), clock: i.clock, random: i.random}
	for _, g := range i.globals {
		img.globals = append(img.globals, g.Get())
	}
	// The last one is the count. What the start left of it would run out in each call.
	img.globals[len(img.globals)-1] = budget
	if img.size == 0 {
		return nil, errors.New("its memory is empty")
	}
	var err error
	img.memory, err = take(i.memory.mapped[:img.size])
	return img, err
}

// thaw puts an instance of the same module, whose memory holds what the image's
// does, into the state of the image.
func (i *instance) thaw(img *image) error {
	memory := i.guest.Memory()
	if more := img.size - memory.Size(); more > 0 {
		if _, ok := memory.Grow(more / page); !ok {
			return errors.New("its memory does not grow to the image's size")
		}
	}
	for n, g := range i.globals {
		g.Set(img.globals[n])
	}
	i.printed, i.clock, i.random = img.printed.Clone(), img.clock, img.random
	return nil
}

// reset lets an instance that has served a call forget it. It tells whether it
// can serve another one.
func (i *instance) reset() bool {
	img := i.of.image.Load()
	if img == nil || i.memory.image == nil || i.guest.Memory().Size() != img.size || i.memory.refused {
		return false // what is larger stays larger
	}
	if img.memory.restore(i.memory.mapped) != nil {
		return false
	}
	i.out, i.result, i.failed, i.lastly = nil, nil, nil, false
	return i.thaw(img) == nil
}

// changing finds the guest's globals that can change.
func (i *instance) changing(names []string) {
	for _, n := range names {
		if g, ok := i.guest.ExportedGlobal(n).(api.MutableGlobal); ok {
			i.globals = append(i.globals, g)
		}
	}
}
