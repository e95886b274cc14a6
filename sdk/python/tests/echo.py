"""Reads messages and writes them again. A frame is a line with a name and a length, and as many bytes."""

import sys

from valence import proto, wire


def main():
    while head := sys.stdin.buffer.readline():
        name, length = head.decode().split()
        message = proto.unmarshal(sys.stdin.buffer.read(int(length)), getattr(wire, name))
        b = proto.marshal(message)
        sys.stdout.buffer.write(b"%s %d\n" % (name.encode(), len(b)) + b)


if __name__ == "__main__":
    main()
