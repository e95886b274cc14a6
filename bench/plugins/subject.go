package main

import "time"

// subject is one way to run plugins.
type subject struct {
	name string
	open func(guests) (plugin, error)
	// isolated tells that no call can see what an earlier one left.
	isolated bool
	// embedded tells that the plugin computes in the host's own threads.
	embedded bool
	// works tells that the plugin knows the tasks of package work.
	works bool
}

var subjects = []subject{
	{"valence, wasm, set back", openWasm, true, true, true},
	{"valence, process", func(g guests) (plugin, error) { return openProcess(g.native) }, false, false, true},
	{"valence, process in Python", openPython, false, false, false},
	{"knqyf263/go-plugin", openKnq, false, true, true},
	{"extism", openExtism, false, true, true},
	{"hashicorp/go-plugin", func(g guests) (plugin, error) { return openHashicorp(g.hashicorp, false) }, false, false, true},
	{"hashicorp/go-plugin, AutoMTLS", func(g guests) (plugin, error) { return openHashicorp(g.hashicorp, true) }, false, false, true},
}

// plugin is a plugin that can be called.
type plugin interface {
	// call puts q to the plugin as a busy host would.
	call(q question) error
	// another gives a plugin of the same kind to be called beside this one: an
	// instance or a process of its own, unless the kind takes calls at once.
	another() (plugin, error)
	close()
}

// waiting is a plugin that can ask the host.
type waiting interface {
	// wait puts q, a task of kind Hold, to the plugin and returns as soon as it waits
	// for the host's answer, which release gives.
	wait(q question) (release func() error, err error)
}

// fresh is how long one call to an instance or process takes that is made for it and
// freed after it.
func fresh(p plugin, q, hold question) (time.Duration, error) {
	if m, ok := p.(module); ok {
		return m.fresh(hold)
	}
	begin := time.Now()
	n, err := p.another()
	if err != nil {
		return 0, err
	}
	err = n.call(q)
	n.close()
	return time.Since(begin), err
}

// keep makes an instance or process that has served once and lives until it is
// released.
func keep(p plugin, q, hold question) (release func() error, err error) {
	if m, ok := p.(module); ok {
		return m.wait(hold)
	}
	n, err := p.another()
	if err != nil {
		return nil, err
	}
	if err := n.call(q); err != nil {
		n.close()
		return nil, err
	}
	return func() error { n.close(); return nil }, nil
}
