#!/usr/bin/env python3
"""Applies each fault of faults.py alone and checks that its test fails, and that the unmodified tree passes.

  tools/fault-seeding/run.py [--scratch DIR] [--only NAME ...] [--jobs N] [--report docs/testing/fault-seeding.md]

Works on a copy of the source tree, so the tree itself never changes. Only the reference kernels are built: they are what the
faults are seeded into, and the tests named here run them.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
# What the tests need; the CPU kernels take most of the time to build and are left out.
COPIED = ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "cmake", "testdata", "src/CMakeLists.txt", "src/base",
          "src/tensor", "src/checkpoint", "src/kernels/CMakeLists.txt", "src/kernels/ops.h", "src/kernels/reference", "src/model",
          "tests/CMakeLists.txt", "tests/support", "tests/model", "tests/check_layering_test.py", "scripts"]
TEST_SECONDS = 600


def copy_tree(to: Path):
    """Copies what changed, so that a scratch folder that is used again rebuilds little."""
    wanted = set()
    for name in COPIED:
        source = ROOT / name
        files = [source] if source.is_file() else [p for p in sorted(source.rglob("*")) if p.is_file()]
        for file in files:
            target = to / file.relative_to(ROOT)
            wanted.add(target)
            if not target.exists() or target.read_bytes() != file.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    for file in list(to.rglob("*")):
        if file.is_file() and file not in wanted:
            file.unlink()


def call(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


class Scratch:
    def __init__(self, folder: Path, jobs: int):
        self.source, self.build, self.jobs = folder / "source", folder / "build", jobs
        copy_tree(self.source)
        result = call(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"])
        if result.returncode != 0:
            sys.exit(result.stdout)

    def compile(self, program):
        result = call(["ninja", "-C", self.build, f"-j{self.jobs}", program])
        return result.returncode == 0, result.stdout

    def run_test(self, test):
        """'passed', 'failed' or 'crashed', and the output."""
        program, test_filter = test.split(":")
        path = self.build / "tests" / "model" / program
        try:
            result = call([path, f"--gtest_filter={test_filter}"], timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return "crashed", "time limit"
        if "[==========] Running 0 tests" in result.stdout:
            sys.exit(f"no test matches {test}")
        if result.returncode == 0:
            return "passed", result.stdout
        return ("failed" if "[  FAILED  ]" in result.stdout else "crashed"), result.stdout


def pattern(text):
    """The text with any white space where it has some, so that a formatter does not matter."""
    return re.compile(r"\s+".join(re.escape(word).replace(r"\(", r"\(\s*") for word in text.split()))


def edited(scratch: Scratch, fault):
    """The files of a fault with its edits applied: {path: (original, faulty)}."""
    texts = {}
    for name, old, new in fault.edits:
        path = scratch.source / "src" / name
        original, text = texts.get(path) or (path.read_text(), path.read_text())
        found = list(pattern(old).finditer(text))
        if len(found) != 1:
            sys.exit(f"{fault.name}: the text to replace occurs {len(found)} times in {name}")
        texts[path] = (original, text[:found[0].start()] + new + text[found[0].end():])
    return texts


def try_fault(scratch: Scratch, fault):
    texts = edited(scratch, fault)
    try:
        for path, (_, faulty) in texts.items():
            path.write_text(faulty)
        built, output = scratch.compile(fault.test.split(":")[0])
        if not built:
            print(output)
            return "does not build"
        return scratch.run_test(fault.test)[0]
    finally:
        for path, (original, _) in texts.items():
            path.write_text(original)


def short_name(test):
    return re.sub(r"^.*[:.]([A-Za-z0-9_]+)(/.*)?$", r"\1", test) if "Golden" not in test else test.split(":")[1]


def report(rows):
    caught = sum(outcome == "failed" for _, outcome in rows)
    lines = ["# Fault seeding", "",
             "Deliberate faults, each applied alone to the reference kernels, the number formats or the model, and the test that fails",
             "under it. Made by `tools/fault-seeding/run.py --report docs/testing/fault-seeding.md`; the edits are in",
             "`tools/fault-seeding/faults.py`. Without a fault every test of the table passes.", "",
             f"{caught} of {len(rows)} faults are caught.", "",
             "| fault | what is wrong | file | test | program | result |", "|---|---|---|---|---|---|"]
    for fault, outcome in rows:
        program = fault.test.split(":")[0]
        result = "caught" if outcome == "failed" else outcome
        lines.append(f"| {fault.name} | {fault.meaning} | `src/{fault.edits[0][0]}` | `{short_name(fault.test)}` | `{program}` | {result} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, help="folder for the copy and its build; kept (default: a temporary one)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these faults")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="write the table there")
    options = parser.parse_args()
    faults = [f for f in FAULTS if not options.only or f.name in options.only]
    if options.only and len(faults) != len(options.only):
        sys.exit("unknown fault among " + ", ".join(options.only))

    with tempfile.TemporaryDirectory() as temporary:
        scratch = Scratch(options.scratch or Path(temporary), options.jobs)
        for program in sorted({f.test.split(":")[0] for f in faults}):
            built, output = scratch.compile(program)
            if not built:
                sys.exit(output)
        for fault in faults:  # an edit that matches no longer must not be found after an hour
            edited(scratch, fault)
        for test in sorted({f.test for f in faults}):
            outcome, output = scratch.run_test(test)
            if outcome != "passed":
                sys.exit(f"{test} {outcome} on the unmodified tree\n{output}")
            print(f"unmodified  {test}", flush=True)
        rows = []
        for fault in faults:
            begin = time.monotonic()
            outcome = try_fault(scratch, fault)
            rows.append((fault, outcome))
            print(f"{'caught' if outcome == 'failed' else outcome.upper():8}  {fault.name:38} {time.monotonic() - begin:5.0f} s  {fault.test}",
                  flush=True)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(report(rows))
    missed = [fault.name for fault, outcome in rows if outcome != "failed"]
    print(f"{len(rows) - len(missed)} of {len(rows)} faults caught" + (": not " + ", ".join(missed) if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
