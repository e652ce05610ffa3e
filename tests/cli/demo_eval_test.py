#!/usr/bin/env python3
"""Answers the demo model's evaluation prompts in two prefill modes and has them judged.

    python3 demo_eval_test.py PROGRAM TOOLS/demo-eval EVAL_DIR [--extent sample|full]

`sample` takes two prompts of every task but the two with prompts of 1800 tokens. Fails when a task has more than one prompt whose
verdict differs from the reference's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from program import program_from_arguments

MODES = ("full", "bounded_replay")


def main() -> int:
    program = program_from_arguments()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=Path)
    parser.add_argument("eval", type=Path)
    parser.add_argument("--extent", choices=("sample", "full"), default="sample")
    arguments = parser.parse_args()
    choice: list[str] = []
    if arguments.extent == "sample":
        tasks = [path.stem for path in sorted(arguments.eval.glob("*.jsonl")) if path.stem not in ("answers", "transcripts")]
        choice = ["--limit", "2", "--tasks", *[task for task in tasks if not task.endswith("_1800")]]
    with tempfile.TemporaryDirectory(prefix="deepinfer-eval-") as name:
        judged: list[str] = []
        for mode in MODES:
            source, output = Path(name) / f"{mode}.in.jsonl", Path(name) / f"{mode}.jsonl"
            with open(source, "wb") as file:
                subprocess.run([sys.executable, str(arguments.tools / "to_batch.py"), str(arguments.eval), "--prefill", mode, *choice],
                               stdout=file, check=True)
            # Not program.run, whose time limit is for short commands.
            process = program.start("batch", str(source), "-o", str(output), "--quiet", stderr=None)
            if (code := process.wait()) != 0:
                print(f"batch in mode {mode}: exit code {code}")
                return 1
            answered, wanted = (len(path.read_bytes().splitlines()) for path in (output, source))
            if answered != wanted or not wanted:
                print(f"batch in mode {mode}: {answered} results for {wanted} lines")
                return 1
            judged += [f"--{mode.replace('_', '-')}", str(output)]
        judge = [sys.executable, str(arguments.tools / "judge.py"), str(arguments.eval), *judged]
        return subprocess.run([*judge, "--max-differences", "1", "--verbose"]).returncode


if __name__ == "__main__":
    sys.exit(main())
