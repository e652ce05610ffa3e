#!/usr/bin/env python3
"""The table of features and hardware in README.md, generated from what the tests showed.

    scripts/support_matrix.py JUNIT_XML            rewrites the table between the markers of README.md
    scripts/support_matrix.py JUNIT_XML --check    exit 1 when README.md says something else

A feature is "tested" when every test that it names passed in the report (`ctest --output-junit`), else "failing". Features without a
test are listed as not there. Kernel targets are those that the report's machine could run.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BEGIN, END = "<!-- support: begin -->", "<!-- support: end -->"

# Feature -> ctest names that show it. An empty list: not there.
FEATURES = [
    ("checkpoints in the published layout: reading, inventory, inspection, memory plan",
     ["checkpoint_test", "checkpoint_allocation_test", "checkpoint_scale_test"]),
    ("tokenizer, equal to HF tokenizers on generated strings of many scripts",
     ["tokenizer_test", "tokenizer_hostile_test", "detokenizer_test", "engram_token_map_test", "tokenizer_hf_compare"]),
    ("text backbone: recorded values bit for bit with the reference kernels and on every CPU target (but for the last digits of logits)",
     ["model_golden_test", "kernels_golden_test", "kernels_conformance_test"]),
    ("prefill modes full, exact_halo, bounded_replay; chunks, batches, rollback, prefix hits",
     ["model_prefill_test", "model_chunking_test", "model_sequence_test", "model_structure_test", "model_numbers_test"]),
    ("sampling, log-probabilities, stop strings, chat sessions, scoring", ["sampling_test", "engine_test", "engine_model_test"]),
    ("command line: generate, chat, batch with resume, score, tokenize, inspect, plan, doctor",
     ["cli_test", "cli_golden", "cli_behaviour", "cli_hostile", "cli_resume", "cli_unsound",
      "cli_install"]),
    ("requests and answers of Chat Completions, Responses, Messages and Completions: prompts, tool calls, JSON mode, event streams",
     ["recipe_request_test", "recipe_prompt_test", "recipe_prompts_golden_test", "recipe_answers_test", "recipe_demo_prompts_test",
      "cli_encode", "cli_parse"]),
    ("x86-64 CPUs from SSE4 to AVX2, chosen at run time", ["kernels_conformance_test", "model_golden_test"]),
    ("AVX-512 kernels: compiled, run only where the processor has it", []),
    ("constrained decoding (JSON schemas, regular expressions, strict tools)", []),
    ("image input, speculative decoding", []),
    ("continuous batching, HTTP server", []),
    ("CUDA, Ascend", []),
]


def passed_tests(report: Path) -> dict[str, bool]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {case.get("name"): case.get("status") == "run" and case.find("failure") is None for case in cases}


def table(report: Path) -> str:
    passed = passed_tests(report)
    lines = ["| feature | state | shown by |", "|---|---|---|"]
    for feature, tests in FEATURES:
        unknown = [name for name in tests if name not in passed]
        if unknown:
            sys.exit(f"support_matrix: error: the report has no test {', '.join(unknown)}")
        state = "not there" if not tests else "tested" if all(passed[name] for name in tests) else "failing"
        if feature.startswith("AVX-512"):
            state = "not tested"
        lines.append(f"| {feature} | {state} | {', '.join(f'`{name}`' for name in tests)} |")
    return "\n".join(lines)


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    readme = Path(__file__).resolve().parent.parent / "README.md"
    text = readme.read_text(encoding="utf-8")
    made = f"{BEGIN}\n{table(Path(arguments[0]))}\n{END}"
    new = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: made, text, flags=re.DOTALL)
    if BEGIN not in text or END not in text:
        sys.exit("support_matrix: error: README.md has no markers")
    if "--check" in sys.argv:
        if new != text:
            sys.exit("support_matrix: error: README.md differs from the tests; try: scripts/support_matrix.py REPORT")
        print("support_matrix: README.md agrees with the tests")
        return
    readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
