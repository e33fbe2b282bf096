"""Runs only the embedded cloud's command, like `merkatd embedded`."""

from __future__ import annotations

import argparse
import sys

from merkatd.commands.programs.embedded_command import add_arguments, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
