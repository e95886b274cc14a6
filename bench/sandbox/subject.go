package main

import "os"

// subject is one way to have sandboxes.
type subject interface {
	do(order) (report, error)
	// memory is what it and the trees of the processes named take, in KiB.
	memory(roots []int) (int, error)
	close() error
}

// kind is a subject that may not be there.
type kind struct {
	name   string
	limits bool
	open   func(*place) (subject, error)
}

// kinds lists the subjects; ratios are to the first.
func kinds() []kind {
	var out []kind
	for _, l := range levels() {
		out = append(out, kind{"Valence, " + l.name, l.limits, func(p *place) (subject, error) { return startWorker(p, l) }})
	}
	if os.Geteuid() == 0 {
		out = append(out, kind{"Valence, writes on disk", true, func(p *place) (subject, error) { return startWorker(p, level{dir: "disk", limits: true, onDisk: true}) }})
	}
	return append(out,
		kind{"bwrap", false, openBwrap}, kind{"runc", true, openRunc},
		kind{"podman", true, openPodman}, kind{"Docker", true, openDocker})
}

// peer is a subject that this process drives itself.
type peer struct{ crew }

func (p *peer) memory(roots []int) (int, error) { return trees(roots) }

func (p *peer) close() error { return p.maker.close() }
