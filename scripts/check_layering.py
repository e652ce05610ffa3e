#!/usr/bin/env python3
"""Checks the #include lines of src/ against the modules' levels (docs/architecture.md).

A module may include headers of its own and of modules of a lower level; a third-party library is used by one module alone.
Prints every violation as FILE:LINE and exits with 1 when there is one.
"""

import pathlib
import re
import sys

LEVELS = {
    "base": 0,
    "tensor": 1,
    "checkpoint": 2,
    "tokenizer": 2,
    "kernels": 2,
    "recipe": 3,
    "sampling": 3,
    "model": 3,
    "cache": 3,
    "scheduler": 4,
    "engine": 5,
    "cli": 7,
}

# Back ends see the interface of the operations, tensors and base only; nobody but the engine's start-up code sees them.
BACK_ENDS = ("kernels/reference", "kernels/cpu")
BACK_END_MAY_INCLUDE = ("tensor", "base")
BACK_END_USERS = ("engine",)

# First folder (or file) of a third-party header -> the only module (or part of one) that may include it.
WRAPPED = {
    "nlohmann": "base",
    "openssl": "base",
    "hwy": "kernels/cpu",
    "CLI": "cli",
    "Random123": "sampling",
    "simdjson.h": "recipe",
    "pcre2.h": "recipe",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """The module (a back end counts as one) of a root-relative path, or None for a file outside any module's folder."""
    for back_end in BACK_ENDS:
        if path.startswith(back_end + "/"):
            return back_end
    head, slash, _ = path.partition("/")
    return head if slash else None


def reason_against(module, included):
    """Why `module` may not include the project header `included`; None when it may."""
    other = module_of(included)
    if other is None or other.split("/")[0] not in LEVELS:
        return "is no header of a known module (includes are relative to src/)"
    if other == module:
        return None
    if module in BACK_ENDS:
        if other == "kernels" or other in BACK_END_MAY_INCLUDE:
            return None
        return f"back ends may include kernels/*.h, {' and '.join(BACK_END_MAY_INCLUDE)} only"
    if other in BACK_ENDS:
        if module in BACK_END_USERS:
            return None
        return f"only {', '.join(BACK_END_USERS)} may include a back end"
    if LEVELS[other] < LEVELS[module]:
        return None
    return f"{module} has level {LEVELS[module]}, {other} has level {LEVELS[other]}"


def reason_against_system(module, included):
    """Why `module` may not include the system header `included`; None when it may."""
    owner = WRAPPED.get(included.split("/")[0])
    if owner is None or module == owner or module.startswith(owner + "/"):
        return None
    return f"only {owner} may include it"


def check(src):
    violations = []
    files = sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".cuh"))
    for path in files:
        relative = path.relative_to(src).as_posix()
        module = module_of(relative)
        if module is None or module.split("/")[0] not in LEVELS:
            violations.append(f"src/{relative}:1: its folder is not in the table of modules")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            quote, included = match.groups()
            reason = (reason_against if quote == '"' else reason_against_system)(module, included)
            if reason is not None:
                violations.append(f"src/{relative}:{number}: {included}: {reason}")
    return files, violations


def main():
    src = pathlib.Path(__file__).resolve().parent.parent / "src"
    if len(sys.argv) > 1:
        src = pathlib.Path(sys.argv[1])
    files, violations = check(src)
    for violation in violations:
        print(violation)
    print(f"layering: {len(files)} files, {len(violations)} violations")
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
