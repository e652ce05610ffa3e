#!/usr/bin/env python3
"""Compares results of `deepinfer batch` with the verdicts and transcripts of the reference.

    python3 judge.py EVAL_DIR --full full.jsonl --bounded-replay replay.jsonl --transcripts transcripts.out.jsonl

Verdicts are those of the reference evaluation: `exact` compares the text after </think>, `whole` the reasoning, too, and both need
an answer that ended by itself (`finished`); stories have no single answer and count as finished or not. The transcripts are
compared token by token; the margin of a first difference is what the reference's own choice led by there (natural logarithm):
a margin near 0 is a tie that rounding decides.

Exit code 0: no task has more differing prompts than --max-differences, and every difference of a transcript is a near tie; 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

EOS_FINISH = "stop"
NEAR_TIE = 0.05


def read_lines(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_records(directory: Path) -> dict[str, dict]:
    records = {}
    for path in sorted(directory.glob("*.jsonl")):
        if path.name not in ("transcripts.jsonl", "answers.jsonl"):
            records.update({record["id"]: record for record in read_lines(path)})
    return records


def verdict(record: dict, result: dict) -> dict[str, bool]:
    """What the reference evaluation would say about this result."""
    text = result["text"]
    content = text.split("</think>", 1)[-1] if record["thinking"] else text
    finished = result["finish_reason"] == EOS_FINISH
    if record["task"] == "story":
        return {"finished": finished}
    return {"exact": finished and content == record["expected_content"], "whole": finished and text == record["expected"],
            "finished": finished}


def judge_mode(mode: str, results: list[dict], records: dict[str, dict], answers: dict[str, dict], verbose: bool) -> int:
    """Prints one line a task; returns the largest number of prompts of one task whose verdict differs or that failed."""
    rows: dict[str, dict] = {}
    differing = 0
    for result in results:
        record = records[result["id"]]
        row = rows.setdefault(record["task"], {"prompts": 0, "errors": 0, "prompts_differ": 0, "ours": {}, "reference": {}, "differ": {}})
        row["prompts"] += 1
        if "error" in result:
            row["errors"] += 1
            row["prompts_differ"] += 1
            differing += 1
            print(f"  {result['id']}: {result['error']['message']}")
            continue
        ours, reference = verdict(record, result), answers[result["id"]][mode]
        for key, value in ours.items():
            row["ours"][key] = row["ours"].get(key, 0) + value
            row["reference"][key] = row["reference"].get(key, 0) + reference[key]
            row["differ"][key] = row["differ"].get(key, 0) + (value != reference[key])
            differing += value != reference[key]
        row["prompts_differ"] += any(ours[key] != reference[key] for key in ours)
        if verbose and any(ours[key] != reference[key] for key in ours):
            print(f"  {result['id']}: ours {ours}, reference {({key: reference[key] for key in ours})}: {result['text']!r}")
    print(f"\n{mode}\n{'task':<16}{'prompts':>8}{'errors':>8}   exact ours/ref (differ)   whole ours/ref (differ)   finished ours/ref (differ)")
    for task, row in sorted(rows.items()):
        cells = []
        for key in ("exact", "whole", "finished"):
            cell = f"{row['ours'][key]}/{row['reference'][key]} ({row['differ'][key]})" if key in row["ours"] else "-"
            cells.append(f"{cell:>24}")
        print(f"{task:<16}{row['prompts']:>8}{row['errors']:>8}  {'  '.join(cells)}")
    missing = [i for i in records if i not in {result["id"] for result in results}]
    if missing:
        print(f"{len(missing)} prompts have no result")
    print(f"{differing} verdicts differ")
    return max((row["prompts_differ"] for row in rows.values()), default=0)


def first_difference(ours: list[int], reference: list[int]) -> int | None:
    for position, (a, b) in enumerate(zip(ours, reference)):
        if a != b:
            return position
    return None if len(ours) == len(reference) else min(len(ours), len(reference))


def margin(transcript: dict, position: int, token: int | None) -> float | None:
    """By how much the reference preferred its own token to ours there; None when ours is not among its five best."""
    if position >= len(transcript["top5"]):
        return None
    best = dict((i, value) for i, value in transcript["top5"][position])
    own = best.get(transcript["output_ids"][position])
    return None if own is None or token not in best else own - best[token]


def judge_transcripts(results: list[dict], transcripts: dict[str, dict]) -> int:
    equal, far = 0, 0
    for result in results:
        transcript = transcripts[result["id"]]
        if "error" in result:
            print(f"  {result['id']}: {result['error']['message']}")
            far += 1
            continue
        position = first_difference(result["output_ids"], transcript["output_ids"])
        if position is None:
            equal += 1
            continue
        token = result["output_ids"][position] if position < len(result["output_ids"]) else None
        lead = margin(transcript, position, token)
        far += lead is None or lead > NEAR_TIE
        print(f"  {result['id']}: differs at output token {position}, margin {'not among the five best' if lead is None else f'{lead:.6f}'}")
    share = 100 * equal / max(1, len(results))
    print(f"\ntranscripts: {equal} of {len(results)} equal ({share:.1f} %), {len(results) - equal - far} differ in a near tie, {far} differ clearly")
    worst = logprob_difference(results, transcripts)
    if worst is not None:
        print(f"largest difference of a log-probability of the chosen token: {worst:.6f}")
    return far


def logprob_difference(results: list[dict], transcripts: dict[str, dict]) -> float | None:
    """Over the common beginning of the outputs."""
    worst = None
    for result in results:
        if "logprobs" not in result:
            continue
        transcript = transcripts[result["id"]]
        for ours, token, reference, top in zip(result["logprobs"]["token"], result["output_ids"], transcript["output_ids"], transcript["top5"]):
            if token != reference:
                break
            difference = abs(ours - dict((i, v) for i, v in top)[token])
            worst = difference if worst is None else max(worst, difference)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("eval", type=Path, help="folder with tasks, answers.jsonl and transcripts.jsonl")
    parser.add_argument("--full", type=Path, help="results of the tasks in mode full (or exact_halo)")
    parser.add_argument("--bounded-replay", type=Path, help="results of the tasks in mode bounded_replay")
    parser.add_argument("--transcripts", type=Path, help="results of the transcripts")
    parser.add_argument("--max-differences", type=int, default=0, metavar="N", help="prompts of one task whose verdict may differ; default 0")
    parser.add_argument("--verbose", action="store_true", help="shows every differing answer")
    arguments = parser.parse_args()
    faults = 0
    if arguments.full or arguments.bounded_replay:
        records = read_records(arguments.eval)
        answers = {answer["id"]: answer for answer in read_lines(arguments.eval / "answers.jsonl")}
        for mode, path in (("full", arguments.full), ("bounded_replay", arguments.bounded_replay)):
            if path:
                faults += judge_mode(mode, read_lines(path), records, answers, arguments.verbose) > arguments.max_differences
    if arguments.transcripts:
        transcripts = {transcript["id"]: transcript for transcript in read_lines(arguments.eval / "transcripts.jsonl")}
        faults += judge_transcripts(read_lines(arguments.transcripts), transcripts)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
