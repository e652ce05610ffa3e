#!/usr/bin/env python3
"""The scripts beside the program: python3 tools_test.py TOOLS_DIR DEMO_EVAL_DIR"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS, EVAL = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
PACKAGES = {"torch", "numpy", "triton", "regex"}


def run(script: str, *arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(TOOLS / script), *map(str, arguments)], capture_output=True, timeout=300, text=True)


class DemoModel(unittest.TestCase):
    def test_imports_resolve(self) -> None:
        folder = TOOLS / "demo-model"
        files = list(folder.glob("*.py")) + list((folder / "reference").glob("*.py"))
        known = {path.stem for path in files} | set(sys.stdlib_module_names) | PACKAGES
        for path in files:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                for name in names:
                    self.assertIn(name.split(".")[0], known, f"{path.name} imports {name}")


class DemoEval(unittest.TestCase):
    def test_lines_are_batch_lines(self) -> None:
        lines = [json.loads(line) for line in run("demo-eval/to_batch.py", EVAL, "--prefill", "bounded_replay", "--limit", 2).stdout.splitlines()]
        self.assertEqual(len(lines), 2 * 16)
        for line in lines:
            self.assertEqual(set(line), {"id", "prompt", "special", "temperature", "max_tokens", "prefill"})
        transcripts = run("demo-eval/to_batch.py", EVAL, "--transcripts").stdout.splitlines()
        self.assertEqual(len(transcripts), 40)

    def judge(self, change) -> tuple[int, str]:
        """Judges the reference's own transcripts after `change` of the list of results."""
        with open(EVAL / "transcripts.jsonl", encoding="utf-8") as file:
            results = [{"id": t["id"], "output_ids": t["output_ids"]} for t in map(json.loads, file)]
        change(results)
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(result) + "\n" for result in results))
            file.flush()
            done = run("demo-eval/judge.py", EVAL, "--transcripts", file.name)
        return done.returncode, done.stdout

    def test_judge_sees_a_difference(self) -> None:
        code, text = self.judge(lambda results: None)
        self.assertEqual(code, 0, text)
        self.assertIn("40 of 40 equal", text)

        def spoil(results: list[dict]) -> None:
            results[3]["output_ids"][1] = 7

        code, text = self.judge(spoil)
        self.assertEqual(code, 1)
        self.assertIn("39 of 40 equal", text)


if __name__ == "__main__":
    unittest.main()
