package decontaminate

import (
	"net/url"
	"regexp"
	"strings"
)

// scp is the address that git takes in the place of ssh://: user@host:path.
var scp = regexp.MustCompile(`^(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):([^/\\].*)$`)

// mirror is how SWE-smith names its copies: swesmith/owner__name.commit.
var mirror = regexp.MustCompile(`^swesmith/([\w.-]+?)__([\w.-]+?)(?:\.[0-9a-f]{7,40})?$`)

// Repository gives one name to all ways to write a repository's address:
// "github.com/owner/name". It knows addresses of every scheme, user@host:path,
// owner/name, which is of github.com, and the names of mirrors, swesmith/owner__name.commit.
// The case of letters does not matter, nor do .git, a port, a user, "www." and what
// follows the repository in the address of a page. "" is none; a text that is no
// address is its own name.
func Repository(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	s = strings.TrimPrefix(s, "git+")
	if s == "" {
		return ""
	}
	host, path := "github.com", s
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if m := scp.FindStringSubmatch(s); m != nil {
		host, path = m[1], m[2]
	} else if strings.HasPrefix(s, "file:") || strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.Contains(s, `\`) {
		return strings.TrimSuffix(strings.TrimRight(strings.TrimPrefix(s, "file://"), "/"), ".git")
	} else if first, rest, ok := strings.Cut(s, "/"); ok && strings.Contains(first, ".") && strings.Contains(rest, "/") {
		host, path = first, rest // github.com/owner/name
	} else if m := mirror.FindStringSubmatch(s); m != nil {
		path = m[1] + "/" + m[2]
	}
	host = strings.TrimPrefix(host, "www.")
	if host == "ssh.github.com" || host == "api.github.com" || host == "raw.githubusercontent.com" || host == "codeload.github.com" {
		path = strings.TrimPrefix(strings.Trim(path, "/"), "repos/")
		host = "github.com"
	}
	path, _, _ = strings.Cut(strings.Trim(path, "/"), "/-/") // pages of gitlab
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	if (host == "github.com" || host == "bitbucket.org" || host == "codeberg.org") && len(parts) > 2 {
		parts = parts[:2]
	}
	if len(parts) == 0 {
		return host
	}
	last := len(parts) - 1
	parts[last] = strings.TrimSuffix(parts[last], ".git")
	if len(parts) == 1 {
		return parts[0] // a name without an owner
	}
	return host + "/" + strings.Join(parts, "/")
}

// name is the last part of a repository's name.
func name(repository string) string { return repository[strings.LastIndexByte(repository, '/')+1:] }

var hexadecimal = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// commitOf is a commit's id in lower case, or "" for what is none: fewer than 7 digits
// stand for too many commits.
func commitOf(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if !hexadecimal.MatchString(s) {
		return ""
	}
	return s
}
