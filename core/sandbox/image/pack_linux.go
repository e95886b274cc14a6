package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// packed is a folder as an archive: the same one for the same folder.
func packed(ctx context.Context, dir string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		err := pack(ctx, dir, out)
		w.CloseWithError(errors.Join(err, out.Close()))
	}()
	return r
}

func pack(ctx context.Context, dir string, out *tar.Writer) error {
	var top unix.Stat_t
	if err := unix.Lstat(dir, &top); err != nil {
		return &os.PathError{Op: "look at", Path: dir, Err: err}
	}
	twins := map[uint64]string{}
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return &os.PathError{Op: "look at", Path: name, Err: err}
		}
		h := &tar.Header{
			Name: rel, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
			Format: tar.FormatPAX,
		}
		skip := error(nil)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			h.Typeflag, h.Name = tar.TypeDir, rel+"/"
			if st.Dev != top.Dev {
				skip = fs.SkipDir // the mount point is kept
			}
		case unix.S_IFREG:
			h.Typeflag, h.Size = tar.TypeReg, st.Size
		case unix.S_IFLNK:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(name); err != nil {
				return err
			}
		case unix.S_IFIFO:
			h.Typeflag = tar.TypeFifo
		case unix.S_IFCHR, unix.S_IFBLK:
			h.Typeflag = tar.TypeChar // left out and counted when it is unpacked
		default:
			return nil
		}
		if first, again := twins[st.Ino]; again && h.Typeflag != tar.TypeDir {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else if st.Nlink > 1 && h.Typeflag != tar.TypeDir {
			twins[st.Ino] = rel
		}
		x, err := extended(unix.AT_FDCWD, name)
		if err != nil {
			return err
		}
		for key, value := range x {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+key] = value
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Typeflag == tar.TypeReg {
			if err := send(out, name, st.Size); err != nil {
				return err
			}
		}
		return skip
	})
}

// send writes a file of size bytes; one that changes meanwhile fails.
func send(out *tar.Writer, name string, size int64) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := io.Copy(out, io.LimitReader(f, size)); err != nil {
		return err
	} else if n != size {
		return &os.PathError{Op: "read", Path: name, Err: io.ErrUnexpectedEOF}
	}
	return nil
}
