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


TOOL = {"type": "function", "function": {"name": "set_alarm", "description": "Set an alarm", "parameters": {
    "type": "object", "properties": {"hour": {"type": "integer"}, "minute": {"type": "integer"}}, "required": ["hour", "minute"]}}}


def make_input(path: Path) -> None:
    lines = []
    for i in range(24):
        line: dict = {"id": f"line-{i}", "messages": [{"role": "user", "content": f"{i} + 17 = ?"}], "max_tokens": 4 + i % 9}
        if i % 5 == 2:
            url, body = [("/v1/chat/completions", {"messages": line["messages"], "max_tokens": line["max_tokens"], "tools": [TOOL]}),
                         ("/v1/responses", {"input": "Set an alarm for 10:11.", "max_output_tokens": line["max_tokens"]}),
                         ("/v1/messages", {"messages": line["messages"], "max_tokens": -1}),
                         ("/v1/completions", {"prompt": "17 +", "max_tokens": line["max_tokens"]})][i // 5 % 4]
            line = {"custom_id": f"line-{i}", "method": "POST", "url": url, "body": dict(body, model="deepseek-flash")}
        elif i % 5 == 4:
            line["tools"] = [dict(TOOL)]
        elif i % 7 == 3:
            line["seed"] = i
        if i % 11 == 5:
            line["nonsense"] = True  # a bad line is a result, too
        lines.append(json.dumps(line))
    lines.insert(10, "{broken")
    lines.insert(12, "")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def kill_inside(program, command: list[str], output: Path, expected: bytes, chance: random.Random, seconds: float) -> None:
    """Starts or resumes a run and kills it at a random moment after it added its first line and before its last."""
    before = output.read_bytes() if output.exists() else b""
    for _ in range(100):
        process = program.start(*command, str(output))
        while process.poll() is None and (not output.exists() or output.stat().st_size <= len(before)):
            time.sleep(0.0005)
        left = 1 - len(before) / len(expected)
        time.sleep(chance.uniform(0, 0.8 * seconds * left))
        process.kill()
        process.wait()
        process.stderr.close()
        kept = output.read_bytes()
        assert expected.startswith(kept), "what is on disk is no beginning of the output"
        if len(before) < len(kept) < len(expected):
            return
        # Too late: the run was complete. Back to where it began.
        output.write_bytes(before)
        if not before:
            output.unlink()
            Path(f"{output}.resume").unlink(missing_ok=True)
    raise AssertionError("no kill landed inside the run")


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
        for kill in range(arguments.kills):
            output.unlink(missing_ok=True)
            Path(f"{output}.resume").unlink(missing_ok=True)
            kill_inside(program, command, output, expected, chance, seconds)
            # Every fourth kill hits a run that resumes another one as well.
            if kill % 4 == 3:
                kill_inside(program, command, output, expected, chance, seconds)
            done = program.run(*command, str(output))
            assert done.returncode == 1, done.stderr
            assert output.read_bytes() == expected, f"kill {kill}: the output differs"
            print(f"kill {kill}: identical", flush=True)
        print(f"{arguments.kills} kills between the first line and the last, {arguments.kills // 4} more during a resume; {seconds:.1f} s a run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
