"""Stands where a service stands, in tests of starting and stopping; flags say what it does."""

import argparse
import os
import signal
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--die-with-parent-fd", type=int)
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--stubborn", action="store_true")
    given = parser.parse_args()
    if given.fail:
        sys.stderr.write("the disk is on fire\n")
        sys.exit(3)
    if given.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.port_file:
        partial = given.port_file.with_suffix(".part")
        partial.write_text("127.0.0.1:1\n")
        partial.rename(given.port_file)
    if given.die_with_parent_fd is None:
        signal.pause()
    os.read(given.die_with_parent_fd, 1)


if __name__ == "__main__":
    main()
