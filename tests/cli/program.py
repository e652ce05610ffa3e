"""Runs the program under test; shared by the scripts of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


class Program:
    def __init__(self, path: str) -> None:
        self.path = str(Path(path).resolve())
        # What a person's shell may hold must not change results.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("DEEPINFER_") or k == "DEEPINFER_MODEL"}

    @property
    def model(self) -> str:
        """The model that runs without MODEL use, as a path."""
        if "DEEPINFER_MODEL" in self.environment:
            return self.environment["DEEPINFER_MODEL"]
        return str(Path(self.path).parent.parent / "data" / "demo-model")

    def run(self, *arguments: str, stdin: str | bytes = b"", **options) -> subprocess.CompletedProcess:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return subprocess.run([self.path, *arguments], input=data, capture_output=True, timeout=600, env=self.environment, **options)

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([self.path, *arguments], env=self.environment, **options)

    def json(self, *arguments: str, **options) -> dict:
        done = self.run(*arguments, "--json", **options)
        return json.loads(done.stdout)


def program_from_arguments() -> Program:
    """Takes the program's path out of the command line, so that unittest sees the rest."""
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM")
    return Program(sys.argv.pop(1))
