#!/usr/bin/env python3
"""Lines that no well-meaning program writes: python3 hostile_test.py PROGRAM"""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from program import program_from_arguments

PROGRAM = program_from_arguments()
GOOD = {"prompt_ids": [0], "max_tokens": 1}
LINE_LIMIT = 100_000_000

# (line, id in the answer, part of "where" or of the message)
BAD_LINES = [
    ("{", None, "line"),
    ("null", None, "object"),
    ("[1]", None, "object"),
    ('"text"', None, "object"),
    ("\ufeff{}", None, "line"),
    ('{"id":1,"prompt":"a"} trailing', None, "line"),
    ('{"id":1,"id":2,"prompt":"a"}', None, "id"),
    ('{"id":1,"prompt":"\\ud800"}', None, "line"),
    ('{"id":1,"prompt":"a","seed":1e400}', None, "line"),
    ("[" * 5000 + "]" * 5000, None, "line"),
    ('{"id":1}', 1, "prompt"),
    ('{"id":2,"prompt":"a","prompt_ids":[1]}', 2, "exclude"),
    ('{"id":{"a":1},"prompt":"a"}', None, "id"),
    ('{"id":1.5,"prompt":"a"}', None, "id"),
    ('{"id":3,"prompt":7}', 3, "prompt"),
    ('{"id":4,"prompt":"a","special":"yes"}', 4, "special"),
    ('{"id":5,"prompt":"a","tempratur":1}', 5, "temperature"),
    ('{"id":6,"prompt":"a","temperature":"hot"}', 6, "temperature"),
    ('{"id":7,"prompt":"a","temperature":-1}', 7, "temperature"),
    ('{"id":8,"prompt":"a","temperature":1e300}', 8, "temperature"),
    ('{"id":9,"prompt":"a","top_p":0}', 9, "top_p"),
    ('{"id":10,"prompt":"a","top_k":1.5}', 10, "top_k"),
    ('{"id":11,"prompt":"a","max_tokens":0}', 11, "max_tokens"),
    ('{"id":12,"prompt":"a","max_tokens":99999999999999999999999}', None, "line"),
    ('{"id":13,"prompt":"a","max_tokens":true}', 13, "max_tokens"),
    ('{"id":14,"prompt_ids":[0,-1]}', 14, "prompt_ids"),
    ('{"id":15,"prompt_ids":[0,4096]}', 15, "prompt_ids"),
    ('{"id":16,"prompt_ids":[]}', 16, "prompt"),
    ('{"id":17,"prompt_ids":[0.5]}', 17, "prompt_ids"),
    ('{"id":18,"prompt":"a","stop":[1]}', 18, "stop"),
    ('{"id":19,"prompt":"a","stop":""}', 19, "stop"),
    ('{"id":20,"prompt":"a","stop_id":4096}', 20, "stop_id"),
    ('{"id":21,"prompt":"a","logit_bias":{"x":1}}', 21, "logit_bias"),
    ('{"id":22,"prompt":"a","logit_bias":{"5":1000}}', 22, "logit_bias"),
    ('{"id":23,"prompt":"a","seed":-1}', 23, "seed"),
    ('{"id":24,"prompt":"a","n":1000}', 24, "n "),
    ('{"id":25,"prompt":"a","logprobs":-1}', 25, "logprobs"),
    ('{"id":26,"prompt":"a","prefill":"none"}', 26, "prefill"),
    ('{"id":27,"messages":[]}', 27, "messages"),
    ('{"id":28,"messages":[{"role":"wizard","content":"a"}]}', 28, "role"),
    ('{"id":29,"messages":[{"role":"user"}]}', 29, "content"),
    ('{"id":30,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}]}', 30, "recipe library"),
    ('{"id":31,"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}', 31, "recipe library"),
    ('{"id":32,"messages":[{"role":"user","content":"a"}],"special":true}', 32, "special"),
    ('{"id":33,"prompt":"a","effort":0}', 33, "effort"),
    ('{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{}}', None, "recipe library"),
    (json.dumps({"id": 34, "prompt_ids": [5] * 20000}), 34, ""),
]


class Hostile(unittest.TestCase):
    def test_every_bad_line_has_its_answer(self) -> None:
        with tempfile.TemporaryDirectory(prefix="deepinfer-hostile-") as name:
            source, output = Path(name) / "in.jsonl", Path(name) / "out.jsonl"
            lines = [line for line, _, _ in BAD_LINES]
            source.write_text("\n".join(lines + [json.dumps(dict(GOOD, id="last"))]), encoding="utf-8")
            done = PROGRAM.run("batch", str(source), "-o", str(output), "--quiet")
            self.assertEqual(done.returncode, 1, done.stderr)
            results = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(results), len(BAD_LINES) + 1)
        for (line, wanted, part), result in zip(BAD_LINES, results):
            with self.subTest(line=line[:80]):
                self.assertEqual(result["id"], wanted)
                self.assertEqual(set(result["error"]), {"code", "message", "where"})
                self.assertIn(part, result["error"]["message"] + " " + result["error"]["where"])
        self.assertEqual(results[-1]["id"], "last")
        self.assertEqual(results[-1]["usage"]["completion_tokens"], 1)

    def test_bytes_that_are_no_text(self) -> None:
        data = b'{"id":1,"prompt":"\xff"}\n\0\0\0\n' + json.dumps(dict(GOOD, id=2)).encode() + b"\r\n"
        done = PROGRAM.run("batch", "-", "-o", "-", "--quiet", stdin=data)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([("error" in result, result["id"]) for result in results], [(True, None), (True, None), (False, 2)])

    def test_lines_over_the_limit(self) -> None:
        with tempfile.TemporaryDirectory(prefix="deepinfer-hostile-") as name:
            source = Path(name) / "in.jsonl"
            with open(source, "wb") as file:
                file.write(b"x" * (LINE_LIMIT + 1) + b"\n")
                file.write(json.dumps(dict(GOOD, id=2)).encode() + b"\n")
                file.write(b" " * (LINE_LIMIT + 1))
            done = PROGRAM.run("batch", str(source), "-o", "-", "--quiet")
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual(["error" in result for result in results], [True, False, True])
        self.assertIn(str(LINE_LIMIT), results[0]["error"]["message"])

    def test_score_lines(self) -> None:
        lines = ['{"id":1,"prompt":"17 + 10"}', '{"id":2,"promt":"a"}', "{", '{"id":4,"prompt_ids":[0,19]}']
        done = PROGRAM.run("score", "-", "--jsonl", "--json", "--quiet", stdin="\n".join(lines))
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual(["error" in result for result in results], [False, True, True, False])
        self.assertIn("prompt", results[1]["error"]["message"])
        self.assertEqual(len(results[3]["logprobs"]), 2)


if __name__ == "__main__":
    unittest.main()
