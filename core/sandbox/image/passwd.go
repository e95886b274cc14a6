package image

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// resolveUser finds who the USER of an image is: a name or a number, and after a colon
// a group, as a name or a number. Names are looked up in the texts of /etc/passwd and
// /etc/group. A number need not be there, its group is then 0; "" is 0.
func resolveUser(user, passwd, group string) (User, error) {
	who, team, hasTeam := strings.Cut(user, ":")
	who = cmp.Or(who, "0")
	u := User{Home: "/"}
	number, isNumber := parseID(who)
	known := false
	for f := range colons(passwd, 7) {
		uid, okUID := parseID(f[2])
		gid, okGID := parseID(f[3])
		if !okUID || !okGID || f[0] == "" || (f[0] != who && (!isNumber || uid != number)) {
			continue
		}
		u = User{Name: f[0], UID: uid, GID: gid, Home: cmp.Or(f[5], "/")}
		known = true
		break
	}
	switch {
	case known:
	case isNumber:
		u.UID = number
	default:
		return User{}, refuse(Malformed, "its user %q is not in its /etc/passwd", who)
	}
	if hasTeam && team != "" {
		gid, isNumber := parseID(team)
		known := false
		for f := range colons(group, 4) {
			if id, ok := parseID(f[2]); ok && f[0] == team {
				gid, known = id, true
				break
			}
		}
		if !known && !isNumber {
			return User{}, refuse(Malformed, "its group %q is not in its /etc/group", team)
		}
		u.GID = gid
		return u, nil // who names a group gets no others
	}
	for f := range colons(group, 4) {
		id, ok := parseID(f[2])
		if ok && u.Name != "" && id != u.GID && slices.Contains(strings.Split(f[3], ","), u.Name) && !slices.Contains(u.Groups, id) {
			u.Groups = append(u.Groups, id)
		}
	}
	slices.Sort(u.Groups)
	return u, nil
}

// colons gives the lines that have n fields or more.
func colons(text string, n int) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if f := strings.Split(line, ":"); len(f) >= n && !strings.HasPrefix(line, "#") && !yield(f) {
				return
			}
		}
	}
}

// parseID reads what can be a user or a group.
func parseID(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil && strings.Trim(s, "0123456789") == ""
}
