package image

import "encoding/json"

// note is what is known of a layer beyond its files. Paths are bytes, which JSON's
// strings cannot all hold, and so are kept as base64.
type note struct {
	Entries int64 // in its archive
	Bytes   int64 // of its files
	Disk    int64 // that it takes

	Devices    int64 // left out
	Attributes int64 // left out
	Strangers  int64 // owners out of range

	Opaque    bool      // nothing of lower layers is there
	Implied   []rawPath `json:",omitempty"` // folders that have no entry
	Emptied   []rawPath `json:",omitempty"` // of these, those that stay and lose what lower layers have in them
	Whiteouts []rawPath `json:",omitempty"`
	Links     []link    `json:",omitempty"` // hard links to what this layer does not have
}

// link is a hard link to a file of a lower layer.
type link struct{ Path, Target rawPath }

type rawPath string

// MarshalJSON writes base64.
func (p rawPath) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

// UnmarshalJSON reads base64.
func (p *rawPath) UnmarshalJSON(b []byte) error {
	var raw []byte
	err := json.Unmarshal(b, &raw)
	*p = rawPath(raw)
	return err
}
