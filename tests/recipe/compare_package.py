#!/usr/bin/env python3
"""Compares the recipe module with the PyPI package deepseek-recipe 0.2.0 on generated requests and model outputs.

Every request goes to both sides: prompt, control tokens, ids, images, settings, or the refusal must agree. Every output is read by both
sides for three protocols: response objects and events (with the deltas of a run joined) must agree. A difference counts only when it
is one of the deliberate differences D1 to D14 of recipe.md section 17.2 and the package, asked in a way that avoids its rule, then gives
what we give. Anything else is unclassified and fails the run, as do fewer cases than asked for.

usage: compare_package.py --tool RECIPE_COMPARE_TOOL [--requests N] [--outputs N] [--seed N] [--show N]
"""

import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile

import deepseek_recipe

import compare_answers
import compare_prompts


class Tool:
    """Our side: answers lines of JSON."""

    def __init__(self, path):
        self.path = path

    def tokenizer(self):
        return subprocess.run([self.path, "tokenizer"], stdout=subprocess.PIPE, check=True).stdout.decode()

    def ask(self, lines):
        with tempfile.TemporaryFile() as stream:
            for line in lines:
                stream.write(json.dumps(line).encode() + b"\n")
            stream.seek(0)
            output = subprocess.run([self.path, "run"], stdin=stream, stdout=subprocess.PIPE, check=True).stdout
        answers = [json.loads(line) for line in output.decode().split("\n") if line]
        if len(answers) != len(lines):
            sys.exit(f"the tool gave {len(answers)} answers to {len(lines)} lines")
        for line, answer in zip(lines, answers):
            if "failure" in answer:
                sys.exit(f"the tool failed: {answer['failure']}\n{json.dumps(line)[:3000]}")
        return answers


class Tally:
    """Counts cases and classes; prints the first unclassified differences."""

    def __init__(self, show):
        self.counts = collections.Counter()
        self.unclassified = collections.Counter()
        self.show = show

    def add(self, what):
        self.counts[what] += 1

    def fail(self, what, detail):
        self.unclassified[what] += 1
        if self.unclassified[what] <= self.show:
            print(f"UNCLASSIFIED {what}\n{detail}\n", flush=True)


def batches(total, size=2000):
    return [min(size, total - at) for at in range(0, total, size)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--requests", type=int, default=15000)
    parser.add_argument("--outputs", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--show", type=int, default=3, help="how many differences of a kind to print")
    args = parser.parse_args()
    if deepseek_recipe.__version__ != "0.2.0":
        sys.exit(f"deepseek-recipe {deepseek_recipe.__version__} is installed, 0.2.0 is needed (scripts/test-venv.sh)")
    tool, tally = Tool(args.tool), Tally(args.show)
    package = deepseek_recipe.Tokenizer.from_str(tool.tokenizer())
    prompts = compare_prompts.Comparer(tool, package, tally, random.Random(args.seed))
    for size in batches(args.requests):
        prompts.run(size)
    prompts.compare_spans(3000)
    answers = compare_answers.Comparer(tool, package, tally, random.Random(args.seed + 1))
    for size in batches(args.outputs):
        answers.run(size)
    for name, count in sorted(tally.counts.items()):
        print(f"{count:8d}  {name}")
    failures = sum(tally.unclassified.values())
    print(f"{failures:8d}  unclassified differences {dict(tally.unclassified) or ''}")
    wanted = [f"D{n}" for n in range(1, 15)]
    missing = [d for d in wanted if not any(name.startswith(d + " ") for name in tally.counts)]
    if missing:
        print("no case of", ", ".join(missing))
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
