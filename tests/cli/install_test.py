#!/usr/bin/env python3
"""What cmake --install puts under a prefix: python3 install_test.py CMAKE BUILD_FOLDER"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD = sys.argv.pop(1), sys.argv.pop(1)
FILES = (
    "bin/deepinfer",
    "share/man/man1/deepinfer.1",
    "share/bash-completion/completions/deepinfer",
    "share/zsh/site-functions/_deepinfer",
    "share/fish/vendor_completions.d/deepinfer.fish",
    "share/doc/deepinfer/LICENSE",
    "share/doc/deepinfer/README.md",
    "share/deepinfer/demo-model/config.json",
    "share/deepinfer/demo-model/LICENSE",
)


class Install(unittest.TestCase):
    def test_an_installed_program_is_complete(self) -> None:
        with tempfile.TemporaryDirectory(prefix="deepinfer-install-") as name:
            prefix = Path(name).resolve()
            done = subprocess.run([CMAKE, "--install", BUILD, "--prefix", str(prefix)], capture_output=True, timeout=300, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in FILES:
                self.assertGreater((prefix / path).stat().st_size, 0, path)
            self.assertIn("Apache License", (prefix / "share/deepinfer/demo-model/LICENSE").read_text())
            environment = {key: value for key, value in os.environ.items() if not key.startswith("DEEPINFER_")}

            def run(*arguments: str) -> subprocess.CompletedProcess:
                return subprocess.run([prefix / "bin/deepinfer", *arguments], capture_output=True, timeout=300, env=environment, cwd="/")

            done = run("inspect")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(str(prefix / "share/deepinfer/demo-model").encode(), done.stdout)
            done = run("generate", "What is 17 + 25?", "--max-tokens", "8")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(str(prefix).encode(), done.stderr)


if __name__ == "__main__":
    unittest.main()
