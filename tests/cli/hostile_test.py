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
    ('{"id":30,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}]}', 30, "tools[0]"),
    ('{"id":31,"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}}', 31, "json"),
    ('{"id":35,"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}}', 35,
     "response_format of type json_schema needs constrained decoding"),
    ('{"id":36,"messages":[{"role":"user","content":"a"}],"response_format":{"type":"regex","regex":"a+"}}', 36, "constrained decoding"),
    ('{"id":37,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a/b.png"}}]}]}', 37, "image"),
    ('{"id":38,"prompt":"a","tools":[]}', 38, "tools belongs to messages"),
    ('{"id":39,"messages":[{"role":"user","content":"a"}],"effort":50,"reasoning_effort":50}', 39, "same field"),
    ('{"id":40,"messages":[{"role":"user","content":"a"}],"thinking":"maybe"}', 40, "thinking"),
    ('{"id":41,"messages":[{"role":"user","content":"a"}],"top_logprobs":2}', 41, "logprobs"),
    ('{"id":42,"messages":[{"role":"tool","content":"a","tool_call_id":"x"}]}', 42, "tool_calls"),
    ('{"id":43,"messages":[{"role":"user","content":"a"}],"tool_choise":"none"}', 43, "tool_choice"),
    ('{"id":32,"messages":[{"role":"user","content":"a"}],"special":true}', 32, "special"),
    ('{"id":33,"prompt":"a","effort":0}', 33, "effort"),
    (json.dumps({"id": 34, "prompt_ids": [5] * 20000}), 34, ""),
]


CHAT = "/v1/chat/completions"
HI = {"model": "deepseek-flash", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}

# (line of the OpenAI form, status of the response or None for a line that is no request, part of the message)
BAD_REQUESTS = [
    ({"method": "POST", "url": CHAT, "body": HI}, None, "custom_id"),
    ({"custom_id": 7, "method": "POST", "url": CHAT, "body": HI}, None, "custom_id"),
    ({"custom_id": "c", "url": CHAT, "body": HI}, None, "method"),
    ({"custom_id": "c", "method": "GET", "url": CHAT, "body": HI}, None, "method"),
    ({"custom_id": "c", "method": "POST", "url": "/v1/embeddings", "body": HI}, None, "url"),
    ({"custom_id": "c", "method": "POST", "url": CHAT}, None, "body"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": "text"}, None, "body"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": HI, "bodi": 1}, None, "bodi"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": {}}, 400, "model"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, model="gpt-5")}, 400, "gpt-5"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, model="deepseek-v4-pro")}, 400, "deepseek-v4-pro"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, messages=[])}, 400, "Empty input messages"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, n=2)}, 400, "n value"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, max_tokens=9000)}, 400, "maximum context length is 8192"),
    ({"custom_id": "c", "method": "POST", "url": CHAT, "body": dict(HI, response_format={"type": "regex", "regex": "a"})}, 400, "response_format of type regex"),
    ({"custom_id": "c", "method": "POST", "url": "/v1/responses", "body": {
        "model": "deepseek-flash", "input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}}}, 400,
     "text.format of type json_schema"),
    ({"custom_id": "c", "method": "POST", "url": "/v1/messages", "body": {"model": "deepseek-flash", "messages": []}}, 400, "at least one message"),
    ({"custom_id": "c", "method": "POST", "url": "/v1/completions", "body": {"model": "deepseek-flash", "prompt": "a", "suffix": "b"}}, 400, "suffix"),
]


class Hostile(unittest.TestCase):
    def test_every_bad_request_has_its_answer(self) -> None:
        lines = [line for line, _, _ in BAD_REQUESTS]
        good = {"custom_id": "good", "method": "POST", "url": CHAT, "body": HI}
        done = PROGRAM.run("batch", "-", "-o", "-", "--quiet", stdin="".join(json.dumps(line) + "\n" for line in [*lines, good]))
        self.assertEqual(done.returncode, 1, done.stderr)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(results), len(lines) + 1)
        for (line, status, part), result in zip(BAD_REQUESTS, results):
            with self.subTest(line=json.dumps(line)[:120]):
                self.assertEqual(set(result), {"id", "custom_id", "response", "error"})
                self.assertRegex(result["id"], "^batch_req_[0-9a-f]{32}$")
                if status is None:
                    self.assertIsNone(result["response"])
                    self.assertIn(part, result["error"]["message"])
                    continue
                self.assertIsNone(result["error"])
                self.assertEqual((result["custom_id"], result["response"]["status_code"]), ("c", status))
                self.assertRegex(result["response"]["request_id"], "^req_[0-9a-f]{32}$")
                error = result["response"]["body"]["error"]
                self.assertEqual((error["type"], error["param"], error["code"]), ("invalid_request_error", None, "invalid_request_error"))
                self.assertIn(part, error["message"])
        self.assertEqual(results[-1]["response"]["status_code"], 200)
        self.assertEqual(len({result["id"] for result in results}), len(results))

    def test_bodies_follow_the_rules_of_bodies(self) -> None:
        # Of equal keys the last counts, and unknown fields are ignored, where lines of the other forms refuse both.
        line = ('{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"model":"x","model":"deepseek-flash","unknown":1,'
                '"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}}')
        done = PROGRAM.run("batch", "-", "-o", "-", "--quiet", stdin=line)
        self.assertEqual((done.returncode, json.loads(done.stdout)["response"]["body"]["model"]), (0, "deepseek-flash"))

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

    def test_score_conversations(self) -> None:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        message = {"role": "user", "content": "Hi"}
        answer = {"role": "assistant", "content": "Hello", "prefix": True}
        lines = [{"id": 0, "messages": [message], "thinking": "off"}, {"id": 1, "messages": [message], "thinking": "off", "tools": [tool]},
                 {"id": 2, "messages": [message, answer], "thinking": False},
                 {"id": 3, "messages": [message], "response_format": {"type": "regex", "regex": "a"}}]
        done = PROGRAM.run("score", "-", "--jsonl", "--json", "--quiet", stdin="".join(json.dumps(line) + "\n" for line in lines))
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, ["error" in result for result in results]), (1, [False, False, False, True]), done.stderr)
        text = [PROGRAM.json("detokenize", ",".join(map(str, result["ids"])))["text"] for result in results[:3]]
        self.assertEqual(text[0], "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>")
        self.assertIn('{"name": "f", "description": "", "parameters": {"type": "object"}}', text[1])
        self.assertEqual(text[2], text[0] + "Hello")
        self.assertEqual(results[2]["logprobs"][:len(results[0]["logprobs"])], results[0]["logprobs"])

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
