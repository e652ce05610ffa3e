#!/usr/bin/env python3
"""Help texts, errors and JSON of the command line, compared byte for byte with golden/*.txt.

    python3 golden_test.py PROGRAM             # compares
    python3 golden_test.py PROGRAM --update    # writes the files anew; look at the difference before you commit it

What differs between machines and builds is replaced before comparing: paths, version and commit, times.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from program import Program, program_from_arguments

GOLDEN = Path(__file__).resolve().parent / "golden"
COMMANDS = ("generate", "chat", "batch", "score", "tokenize", "detokenize", "encode", "parse", "plan", "inspect", "doctor", "completion", "man")

CASES = {
    "help": ["--help"],
    **{f"help_{name}": [name, "--help"] for name in COMMANDS},
    "error_no_command": [],
    "error_command": ["genrate"],
    "error_command_json": ["genrate", "--json"],
    "error_option": ["generate", "--tempratur", "1", "hi"],
    "error_option_json": ["generate", "--tempratur", "1", "hi", "--json"],
    "error_range_real": ["generate", "--top-p", "0", "hi"],
    "error_range_integer": ["generate", "--max-tokens", "0", "hi"],
    "error_range_seed": ["generate", "--seed", "-1", "hi"],
    "error_not_a_number": ["generate", "--temperature", "warm", "hi"],
    "error_choice": ["generate", "--prefill", "exact-halo", "hi"],
    "error_missing_value": ["generate", "hi", "--max-tokens"],
    "error_flag_value": ["generate", "hi", "--quiet=yes"],
    "error_json_value": ["generate", "hi", "--json=1"],
    "error_help_as_value": ["generate", "hi", "--max-tokens", "-h"],
    "error_device_name": ["generate", "hi", "--device", "gpu"],
    "error_context_length": ["generate", "--ids", ",".join(["5"] * 8193)],
    "error_stop_utf8": ["generate", "hi", "--stop", b"\xff"],
    "error_text_utf8": ["generate", b"a\xffb"],
    "error_score_ids": ["score", "--ids", "4096"],
    "error_host_memory": ["plan", "--host-memory", "4XiB"],
    "plan_tebibytes": ["plan", "deepseek-v4.1-flash", "--gpu", "2TiB"],
    "error_dash_text": ["generate", "-5 + 3"],
    "error_too_many": ["generate", "a", "b", "c"],
    "error_logit_bias": ["generate", "hi", "--logit-bias", "5"],
    "error_effort": ["generate", "hi", "--effort", "101"],
    "error_two_sources": ["generate", "--ids", "0", "--messages", "-"],
    "error_model": ["generate", "/does/not/exist", "hi"],
    "error_model_json": ["generate", "/does/not/exist", "hi", "--json"],
    "error_device": ["generate", "hi", "--device", "cuda"],
    "error_score_prefill": ["score", "--text", "hi", "--prefill", "bounded_replay"],
    "error_batch_output": ["batch", "in.jsonl"],
    "error_batch_input": ["batch", "/does/not/exist.jsonl", "-o", "-"],
    "error_gpu": ["plan", "--gpu", "abacus"],
    "error_shell": ["completion", "csh"],
    "error_ids": ["detokenize", "1,x"],
    "tokenize": ["tokenize", "Hello, world 17"],
    "tokenize_json": ["tokenize", "--json", "--special", "<think>Hello"],
    "detokenize": ["detokenize", "19,25,375"],
    "detokenize_json": ["detokenize", "--json", "19,25,375"],
    "plan_released": ["plan", "deepseek-v4.1-flash", "--gpus", "8", "--gpu", "h200"],
    "plan_released_json": ["plan", "deepseek-v4.1-flash", "--gpus", "8", "--gpu", "h200", "--json"],
    "plan_too_small_json": ["plan", "deepseek-v4.1-flash", "--gpus", "1", "--gpu", "h100", "--host-memory", "64GiB", "--engram", "device", "--json"],
    "inspect": ["inspect"],
    "inspect_json": ["inspect", "--json"],
    "inspect_tensors": ["inspect", "--tensors=layers.0.attn.*"],
    "inspect_missing": ["inspect", "/does/not/exist"],
    "generate_json": ["generate", "--json", "17 + 10 = ?", "--thinking", "off", "--temperature", "0", "--seed", "1", "--cpu-target", "reference"],
}


def normalised(text: str, program: Program) -> str:
    text = text.replace(program.model, "MODEL").replace(str(Path(program.path).parent), "BIN")
    text = re.sub(r'"(load_ms|prefill_ms|decode_ms|tokens_per_s)":[0-9.eE+-]+', r'"\1":0', text)
    text = re.sub(r"loaded in \d+ ms", "loaded in N ms", text)
    return re.sub(r"\d+ threads?", "N threads", text)


def transcript(program: Program, arguments: list[str | bytes]) -> str:
    done = program.run(*arguments)
    arguments = [word if isinstance(word, str) else word.decode("utf-8", "backslashreplace") for word in arguments]
    out, err = (normalised(data.decode("utf-8"), program) for data in (done.stdout, done.stderr))
    if len(shlex.join(arguments)) > 1000:
        arguments = [word if len(word) < 100 else word[:20] + "…" for word in arguments]
    return f"$ deepinfer {shlex.join(arguments)}\nexit code {done.returncode}\n---- standard output\n{out}---- standard error\n{err}"


def main() -> int:
    program = program_from_arguments()
    update = "--update" in sys.argv
    faults = []
    for name, arguments in CASES.items():
        path, text = GOLDEN / f"{name}.txt", transcript(program, arguments)
        if update:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            faults.append(name)
            print(f"== {name}: got\n{text}\n== instead of\n{path.read_text(encoding='utf-8') if path.exists() else 'nothing'}")
    stale = [path.name for path in GOLDEN.glob("*.txt") if path.stem not in CASES]
    if stale:
        print(f"golden files without a case: {', '.join(stale)}")
    # Every message about wrong usage says what to try (unless it is JSON).
    for name, arguments in CASES.items():
        text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
        if "exit code 2\n" in text and "deepinfer: error:" in text and "\ntry: " not in text:
            faults.append(name)
            print(f"== {name}: no line try: …")
    print(f"{len(CASES)} cases, {len(faults)} differ")
    return 1 if faults or stale else 0


if __name__ == "__main__":
    sys.exit(main())
