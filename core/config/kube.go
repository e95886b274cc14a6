package config

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a cluster accepts as names and labels.
var (
	labelPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	namePattern  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	keyPattern   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	valuePattern = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
)

const (
	longestName   = 253
	namesOfThings = "lower-case letters, digits, dash and dot; a letter or digit at both ends"
)

// kube looks at [sandbox.kube]: what the cluster would refuse much later.
func (d *decoder) kube(c *Config) {
	const section = "sandbox.kube"
	k := c.Sandbox.Kube
	clustered := c.Sandbox.Driver == "kube"
	for _, image := range []struct{ section, key, value string }{{"sandbox", "image", c.Sandbox.Image}, {section, "tools", k.Tools}} {
		switch p := image.section + "." + image.key; {
		case image.value == "" && clustered:
			d.report(d.valueOf("sandbox.driver"), "C010", fmt.Sprintf("driver \"kube\" needs the key %q of [%s]", image.key, image.section), fmt.Sprintf("add %s = …", image.key))
		case strings.ContainsAny(image.value, " \t\n") && (clustered || image.key == "tools"), clustered && onDisk(image.value):
			d.report(d.valueOf(p), "C012", fmt.Sprintf("%s %q is no image of a registry", p, image.value), "want e.g. registry.example/team/image:tag")
		}
	}
	if n := k.Namespace; n != "" && !labelPattern.MatchString(n) {
		d.report(d.valueOf(section+".namespace"), "C012", fmt.Sprintf("%s.namespace %q is no name of a namespace", section, n), "lower-case letters, digits and dash; at most 63")
	}
	if n := k.RuntimeClass; n != "" && !clusterName(n) {
		d.report(d.valueOf(section+".runtime_class"), "C012", fmt.Sprintf("%s.runtime_class %q is no name in a cluster", section, n), namesOfThings)
	}
	d.eachText(section+".pull_secrets", func(at span, s string) {
		if !clusterName(s) {
			d.report(at, "C012", fmt.Sprintf("%s.pull_secrets: %q is no name in a cluster", section, s), namesOfThings)
		}
	})
	d.eachText(section+".reach", func(at span, s string) {
		network, address, _ := strings.Cut(s, "/")
		host, port, err := net.SplitHostPort(address)
		if _, e := strconv.ParseUint(port, 10, 16); network != "tcp" || err != nil || e != nil || host == "" {
			d.report(at, "C012", fmt.Sprintf("%s.reach: %q is no address", section, s), "want tcp/HOST:PORT")
		}
	})
	for _, key := range slices.Sorted(maps.Keys(k.NodeSelector)) {
		value := k.NodeSelector[key]
		if !keyPattern.MatchString(key) || !valuePattern.MatchString(value) {
			d.report(d.keyOf(section+".node_selector."+key), "C012", fmt.Sprintf("%q = %q is no label of a node", key, value), `want e.g. "kubernetes.io/arch" = "amd64"`)
		}
	}
}

// onDisk tells whether an image is a file or folder of this machine.
func onDisk(image string) bool {
	return slices.ContainsFunc([]string{"tar:", "oci:", "dir:"}, func(p string) bool { return strings.HasPrefix(image, p) })
}

func clusterName(s string) bool { return len(s) <= longestName && namePattern.MatchString(s) }

// eachText calls f for each text of a list, with its place.
func (d *decoder) eachText(path string, f func(at span, s string)) {
	n := d.nodes[path]
	if n == nil {
		return
	}
	for _, item := range n.items {
		if item.kind == kindString {
			f(item.val, item.text)
		}
	}
}
