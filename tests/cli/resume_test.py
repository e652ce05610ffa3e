#!/usr/bin/env python3
"""kill -9 at random moments: no line lost, none repeated, the output identical to an uninterrupted run.

    python3 resume_test.py PROGRAM [--kills 20] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from program import program_from_arguments


def make_input(path: Path) -> None:
    lines = []
    for i in range(14):
        line: dict = {"id": f"line-{i}", "messages": [{"role": "user", "content": f"{i} + 17 = ?"}], "max_tokens": 4 + i % 9}
        if i % 7 == 3:
            line["seed"] = i
        if i % 11 == 5:
            line["nonsense"] = True  # a bad line is a result, too
        lines.append(json.dumps(line))
    lines.insert(10, "{broken")
    lines.insert(12, "")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    program = program_from_arguments()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="deepinfer-resume-") as name:
        folder = Path(name)
        source, whole, output = folder / "in.jsonl", folder / "whole.jsonl", folder / "out.jsonl"
        make_input(source)
        command = ["batch", str(source), "--quiet", "-o"]
        begin = time.time()
        assert program.run(*command, str(whole)).returncode == 1, "bad lines give exit code 1"
        seconds = time.time() - begin
        expected = whole.read_bytes()
        landed = resumed = 0
        for kill in range(arguments.kills):
            output.unlink(missing_ok=True)
            Path(f"{output}.resume").unlink(missing_ok=True)
            # Every fourth kill hits a run that resumes another one.
            for hit in range(2 if kill % 4 == 3 else 1):
                process = program.start(*command, str(output))
                time.sleep(chance.uniform(0, seconds / (1 + hit)))
                process.kill()
                process.wait()
                process.stderr.close()
                kept = output.read_bytes() if output.exists() else b""
                assert expected.startswith(kept), f"kill {kill}: what is on disk is no beginning of the output"
                landed += 0 < len(kept) < len(expected)
                resumed += hit
            done = program.run(*command, str(output))
            assert done.returncode == 1, done.stderr
            assert output.read_bytes() == expected, f"kill {kill}: the output differs"
            print(f"kill {kill}: identical", flush=True)
        print(f"{arguments.kills} kills, {landed} of them in the middle of the output, {resumed} during a resume; {seconds:.1f} s a run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
