#!/usr/bin/env python3
"""`deepinfer encode` over the goldens of the recipe module: python3 encode_test.py PROGRAM DATA_DIR"""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

from program import program_from_arguments

PROGRAM = program_from_arguments()
DATA = Path(sys.argv.pop(1))
TOKENIZER = tempfile.TemporaryDirectory()

# Added tokens of the released model that the older file has under other names, and which prompts use.
ADDED = {
    128799: "<｜System｜>", 128821: "<think>", 128822: "</think>", 128825: "｜DSML｜", 128828: "<｜latest_reminder｜>",
    129264: "<｜deepseek_image｜>",
}
HELLO = json.dumps({"model": "deepseek-flash", "messages": [{"role": "user", "content": "Hello"}], "thinking": {"type": "disabled"}})
HELLO_PROMPT = "<｜begin▁of▁sentence｜><｜User｜>Hello<｜Assistant｜></think>"


def golden(name: str) -> list[dict]:
    with open(DATA / "goldens" / "recipe" / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_tokenizer() -> None:
    document = json.loads((DATA / "tokenizer" / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = {token["id"]: token for token in document["added_tokens"]}
    last = max(ADDED)
    for number in range(max(tokens) + 1, last + 1):
        tokens[number] = {"content": f"<|spare {number}|>"}
    for number, content in ADDED.items():
        tokens[number] = {"content": content}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    document["added_tokens"] = [{**flags, **tokens[number], "id": number} for number in sorted(tokens)]
    (Path(TOKENIZER.name) / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def encode_lines(lines: list[dict]) -> tuple[int, list[dict]]:
    keys = ("id", "protocol", "profile", "options", "body")
    text = "".join(json.dumps({k: line[k] for k in keys if k in line}) + "\n" for line in lines)
    done = PROGRAM.run("encode", "--jsonl", "--tokenizer", TOKENIZER.name, stdin=text)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def rounded(inference: dict) -> dict:
    out = {k: round(v, 6) if k in ("temperature", "top_p") else v for k, v in inference.items()}
    return {k: v for k, v in out.items() if not (k == "seed" and v == 0)}


class Goldens(unittest.TestCase):
    maxDiff = 2000

    def test_prompts(self) -> None:
        lines = golden("prompts.jsonl")
        code, answers = encode_lines(lines)
        self.assertEqual((code, len(answers)), (0, 548))
        for line, answer in zip(lines, answers):
            expected = {**line, **line.get("ours", {})}
            keys = ["id", "prompt", "thinking", "effort", "parsing", "stream"]
            # Where our prompt differs on purpose, the file says so for prompt and ids only.
            keys += [k for k in ("special", "images", "ids") if k in line and (k in line.get("ours", {}) or "prompt" not in line.get("ours", {}))]
            for key in keys:
                self.assertEqual(answer.get(key), expected[key], (line["id"], key))
            if "$defs" not in line["body"]:
                self.assertEqual(rounded(answer["inference"]), rounded(line["inference"]), line["id"])
            self.assertEqual("images" in answer, "images" in line, line["id"])

    def test_rejects(self) -> None:
        lines = golden("rejects.jsonl")
        code, answers = encode_lines(lines)
        self.assertEqual((code, len(answers)), (1, 271))
        for line, answer in zip(lines, answers):
            self.assertEqual(answer["id"], line["id"])
            if line.get("ours", {}).get("accept"):
                self.assertIn("prompt", answer)
                continue
            self.assertEqual(answer["status"], 400, line["id"])
            self.assertEqual(answer["error"]["type"], "invalid_request_error")
            if line["error"]["stage"] == "convert":
                self.assertEqual(answer["error"]["message"], line["error"]["message"], line["id"])


class Single(unittest.TestCase):
    def encode(self, *arguments: str, body: str = HELLO):
        return PROGRAM.run("encode", "--tokenizer", TOKENIZER.name, *arguments, stdin=body)

    def test_object(self) -> None:
        done = self.encode()
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["prompt"]), (0, HELLO_PROMPT))
        self.assertEqual(answer["ids"], [0, 128803, 19923, 128804, 128822])
        self.assertEqual(list(answer), ["prompt", "special", "ids", "thinking", "effort", "parsing", "inference", "stream"])

    def test_text_and_show(self) -> None:
        self.assertEqual(self.encode("--text").stdout.decode(), HELLO_PROMPT)
        shown = self.encode("--show", body=HELLO.replace("Hello", "<｜User｜>\\u001b[31m")).stdout.decode()
        self.assertIn("\x1b[1;36m<｜User｜>\x1b[0m<｜User｜>\\x1b[31m", shown)

    def test_file_and_protocols(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps({"model": "deepseek-flash", "prompt": "a <think>", "suffix": "b"}))
            file.flush()
            done = PROGRAM.run("encode", "--tokenizer", TOKENIZER.name, "--protocol", "completions", file.name)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["prompt"], "<｜begin▁of▁sentence｜><｜fim▁begin｜>a <think><｜fim▁hole｜>b<｜fim▁end｜>")
        self.assertNotIn(128821, answer["ids"])

    def test_refused(self) -> None:
        done = self.encode(body='{"model": "deepseek-flash", "messages": []}')
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout), {"status": 400, "error": {
            "message": "Empty input messages", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}})
        done = self.encode("--text", body="{")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"deepinfer: error: invalid JSON request", done.stderr)
        self.assertIn(b"\ntry: ", done.stderr)

    def test_wrong_usage(self) -> None:
        for arguments, code in ((["--text", "--show"], 2), (["--jsonl", "--text"], 2), (["--protocol", "grpc"], 2), (["/does/not/exist"], 3)):
            done = self.encode(*arguments)
            self.assertEqual(done.returncode, code, arguments)
            self.assertIn(b"deepinfer: error: ", done.stderr)
        done = PROGRAM.run("encode", "--tokenizer", "/does/not/exist", "--json", stdin=HELLO)
        self.assertEqual((done.returncode, set(json.loads(done.stdout)["error"])), (3, {"code", "message", "where"}))

    def test_bad_lines(self) -> None:
        lines = ["{", "5", '{"id": 1}', '{"id": 2, "body": "{}", "x": 1}', '{"id": 3, "body": "{}", "options": {"y": 1}}',
                 '{"id": 4, "body": "{}", "protocol": "grpc"}', '{"id": 5, "body": {}}', "", '{"id": 6, "body": ' + json.dumps(HELLO) + "}"]
        done = PROGRAM.run("encode", "--jsonl", "--tokenizer", TOKENIZER.name, stdin="\n".join(lines))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([answer["id"] for answer in answers], [None, None, 1, 2, 3, 4, 5, 6])
        for answer in answers[:-1]:
            self.assertEqual(set(answer["error"]), {"code", "message", "where"})
        self.assertEqual(answers[-1]["prompt"], HELLO_PROMPT)


if __name__ == "__main__":
    write_tokenizer()
    unittest.main()
