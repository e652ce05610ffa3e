#!/usr/bin/env python3
"""Turns the test sets of the demo model into lines for `deepinfer batch`.

    python3 to_batch.py EVAL_DIR --prefill full > in.jsonl
    deepinfer batch in.jsonl -o full.jsonl --temperature 0
    python3 judge.py EVAL_DIR --full full.jsonl

Prompts go in as they are (form 2 of a batch line), special tokens recognised. With --transcripts the lines are those of
transcripts.jsonl, with log-probabilities of the five best tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

MAX_NEW = 96  # tokens of an answer in the reference evaluation; stories may be twice as long
NOT_TASKS = ("transcripts.jsonl", "answers.jsonl")


def read_lines(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def task_records(directory: Path, tasks: list[str], limit: int) -> list[dict]:
    records = []
    for path in sorted(directory.glob("*.jsonl")):
        if path.name in NOT_TASKS or (tasks and path.stem not in tasks):
            continue
        lines = read_lines(path)
        records += lines[:limit] if limit else lines
    return records


def max_tokens(record: dict) -> int:
    # The reference allows 16 tokens more than the expected text has; a character is at most one token here.
    return max(MAX_NEW * (2 if record["task"] == "story" else 1), len(record["expected"]) + 16)


def batch_line(record: dict, prefill: str) -> dict:
    return {"id": record["id"], "prompt": record["prompt"], "special": True, "temperature": 0, "max_tokens": max_tokens(record),
            "prefill": prefill}


def transcript_line(record: dict) -> dict:
    return {"id": record["id"], "prompt_ids": record["prompt_ids"], "temperature": 0, "max_tokens": MAX_NEW, "prefill": "full",
            "logprobs": 5}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("eval", type=Path, help="folder with one .jsonl file a task")
    parser.add_argument("--prefill", choices=("full", "exact_halo", "bounded_replay"), default="full")
    parser.add_argument("--transcripts", action="store_true", help="the prompts of transcripts.jsonl instead")
    parser.add_argument("--tasks", nargs="*", default=[], help="only these tasks")
    parser.add_argument("--limit", type=int, default=0, help="prompts per task; 0 = all")
    arguments = parser.parse_args()
    if arguments.transcripts:
        lines = [transcript_line(record) for record in read_lines(arguments.eval / "transcripts.jsonl")]
        lines = lines[: arguments.limit] if arguments.limit else lines
    else:
        lines = [batch_line(r, arguments.prefill) for r in task_records(arguments.eval, arguments.tasks, arguments.limit)]
    for line in lines:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
