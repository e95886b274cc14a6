package image

import (
	"slices"
	"strconv"
	"testing"
)

func digitsOf(n int) string { return strconv.Itoa(n) }

const somePasswd = "# users\nroot:x:0:0:root:/root:/bin/sh\n\nbroken\nann:x:1000:1001:Ann:/home/ann:/bin/sh\nann:x:5:5:::\n" +
	"bob:x:-1:1::/:\nhuge:x:4294967296:1::/:\n7:x:8:9::/seven:\nnowhere:x:11:12:::\n"

const someGroup = "root:x:0:\nann:x:1001:\nwheel:x:10:bob,ann\nstaff:x:5:ann\nstaff2:x:5:ann\nbroken:x:\nempty:x:77:\n"

func TestResolveUser(t *testing.T) {
	for user, want := range map[string]User{
		"":           {Name: "root", Home: "/root"},
		"0":          {Name: "root", Home: "/root"},
		"ann":        {Name: "ann", UID: 1000, GID: 1001, Groups: []int{5, 10}, Home: "/home/ann"},
		"1000":       {Name: "ann", UID: 1000, GID: 1001, Groups: []int{5, 10}, Home: "/home/ann"},
		"ann:":       {Name: "ann", UID: 1000, GID: 1001, Groups: []int{5, 10}, Home: "/home/ann"},
		"ann:wheel":  {Name: "ann", UID: 1000, GID: 10, Home: "/home/ann"},
		"ann:4711":   {Name: "ann", UID: 1000, GID: 4711, Home: "/home/ann"},
		"4711":       {UID: 4711, Home: "/"},
		"4711:empty": {UID: 4711, GID: 77, Home: "/"},
		":wheel":     {Name: "root", GID: 10, Home: "/root"},
		"7":          {Name: "7", UID: 8, GID: 9, Home: "/seven"},
		"nowhere":    {Name: "nowhere", UID: 11, GID: 12, Home: "/"},
	} {
		got, err := resolveUser(user, somePasswd, someGroup)
		if err != nil || got.Name != want.Name || got.UID != want.UID || got.GID != want.GID || got.Home != want.Home || !slices.Equal(got.Groups, want.Groups) {
			t.Errorf("%q: %+v, %v, want %+v", user, got, err, want)
		}
	}
	for _, user := range []string{"eve", "bob", "huge", "-1", "+5", "4294967296", "ann:eve", "ann:-1", "ann:10:11", " ann"} {
		if got, err := resolveUser(user, somePasswd, someGroup); reasonOf(err) != Malformed {
			t.Errorf("%q: %+v, %v", user, got, err)
		}
	}
}

// Whatever the files hold, ids are what the kernel takes, and a number always leads somewhere.
func FuzzPasswd(f *testing.F) {
	for _, user := range []string{"", "ann", "1000:10", "7", ":", "a:b:c"} {
		f.Add(user, somePasswd, someGroup)
	}
	f.Fuzz(func(t *testing.T, user, passwd, group string) {
		u, err := resolveUser(user, passwd, group)
		if err != nil {
			if reasonOf(err) != Malformed {
				t.Fatalf("%v", err)
			}
			if _, isNumber := parseID(user); isNumber {
				t.Fatalf("a number: %v", err)
			}
			return
		}
		for _, id := range append([]int{u.UID, u.GID}, u.Groups...) {
			if id < 0 || id > 1<<31-1 {
				t.Fatalf("%+v", u)
			}
		}
		if u.Home == "" || !slices.IsSorted(u.Groups) || len(slices.Compact(slices.Clone(u.Groups))) != len(u.Groups) {
			t.Fatalf("%+v", u)
		}
	})
}
