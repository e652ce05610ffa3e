#!/usr/bin/env python3
"""`deepinfer parse` over the goldens of the recipe module: python3 parse_test.py PROGRAM DATA_DIR"""

from __future__ import annotations

import json
import re
import unittest

from encode_test import PROGRAM, TOKENIZER, golden, write_tokenizer

FIELDS = ("id", "stage", "tools", "json", "stops", "finish", "usage", "chunks")
CALL_ID = re.compile(r"call_(\d{2,})_(ET_)?[0-9A-Za-z]{20}\d{4}")
PROTOCOLS = ("chat", "messages", "responses")


def fields(line: dict) -> dict:
    return {key: line[key] for key in FIELDS}


def masked(value: object) -> str:
    """JSON with the order of its keys; random parts of call ids as the golden files have them."""
    return CALL_ID.sub(lambda m: f"call_{m[1]}_{m[2] or ''}*", json.dumps(value, ensure_ascii=False))


def parse_lines(protocol: str, lines: list[dict], *options: str) -> tuple[int, list[dict]]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = PROGRAM.run("parse", "--protocol", protocol, "--jsonl", "--tokenizer", TOKENIZER.name, *options, stdin=text)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def body_of(line: dict) -> str:
    """The request that a line of streams.jsonl answers."""
    thinking = line["stage"] in ("start", "reasoning", "content")
    body: dict = {"model": "DeepSeek-V4.1-Flash"}
    if line["protocol"] == "responses":
        body["input"] = "q"
        if not thinking:
            body["reasoning"] = {"effort": "none"}
    else:
        body["messages"] = [{"role": "user", "content": "q"}]
        if not thinking:
            body["thinking"] = {"type": "disabled"}
    return json.dumps({**body, **line["request"]})


def joined(events: list) -> list:
    """Consecutive deltas of one kind and place as one; sequence numbers say nothing then."""
    out: list = []
    for name, data in events:
        data = json.loads(json.dumps(data))
        data.pop("sequence_number", None)
        holder, key = delta_place(name, data)
        shape = None
        if holder is not None:
            text, holder[key] = holder[key], ""
            shape = json.dumps([name, data])
            if out and out[-1][0] == shape:
                out[-1][2] += text
                continue
            out.append([shape, [name, data], text])
        else:
            out.append([shape, [name, data], ""])
    return out


def delta_place(name: str | None, data: dict) -> tuple[dict | None, str]:
    if name is None:
        choice = data["choices"][0]
        delta = choice["delta"]
        if choice["finish_reason"] or "role" in delta:
            return None, ""
        if "tool_calls" in delta:
            call = delta["tool_calls"][0]
            return (None, "") if "id" in call else (call["function"], "arguments")
        return delta, "content" if delta.get("content") is not None else "reasoning_content"
    if name == "content_block_delta":
        delta = data["delta"]
        return delta, next(k for k in delta if k != "type")
    return (data, "delta") if name.endswith(".delta") else (None, "")


class Goldens(unittest.TestCase):
    maxDiff = 2000

    def test_responses_of_every_line(self) -> None:
        lines = golden("parse.jsonl")
        for protocol in PROTOCOLS:
            code, answers = parse_lines(protocol, [fields(line) for line in lines])
            self.assertEqual((code, len(answers)), (0, 481))
            for line, answer in zip(lines, answers):
                self.assertEqual(answer["id"], line["id"])
                response = answer["response"]
                if "ours" in line or line["id"] == "D06":  # D06: an id that nothing follows is counted
                    continue
                if protocol == "chat":
                    choice = response["choices"][0]
                    response = {"message": choice["message"], "finish_reason": choice["finish_reason"], "usage": response["usage"]}
                picked = {key: response[key] for key in line[protocol]}
                self.assertEqual(masked(picked), masked(line[protocol]), line["id"])

    def test_our_results(self) -> None:
        lines = [line for line in golden("parse.jsonl") if "ours" in line]
        code, answers = parse_lines("chat", [fields(line) for line in lines])
        self.assertEqual((code, len(answers)), (0, 72))
        for line, answer in zip(lines, answers):
            choice = answer["response"]["choices"][0]
            message = choice["message"]
            calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls", [])]
            expected = {k: v for k, v in line["ours"].items() if k != "completion_tokens"}
            self.assertEqual({"reasoning": message.get("reasoning_content", ""), "content": message["content"], "calls": calls,
                              "finish_reason": choice["finish_reason"]}, expected, line["id"])

    def test_events_of_every_stream(self) -> None:
        for protocol in PROTOCOLS:
            lines = [line for line in golden("streams.jsonl") if line["protocol"] == protocol]
            jobs = [{**fields(line), "body": body_of(line)} for line in lines]
            code, answers = parse_lines(protocol, jobs, "--stream")
            self.assertEqual((code, len(answers)), (0, len(lines)))
            _, responses = parse_lines(protocol, jobs)
            for line, answer, response in zip(lines, answers, responses):
                if "ours" in line:
                    continue
                events = answer["events"]
                if line["id"].startswith("t"):  # snapshots are shortened there
                    for _, data in events:
                        if "response" in data:
                            data["response"] = "…"
                self.assertEqual(masked(joined(events)), masked(joined(line["events"])), line["id"])
                self.assertEqual(masked({k: response["response"][k] for k in line["response"]}), masked(line["response"]), line["id"])


class Single(unittest.TestCase):
    def parse(self, job: dict | str, *arguments: str):
        return PROGRAM.run("parse", *arguments, stdin=job if isinstance(job, str) else json.dumps(job))

    def test_text_needs_no_vocabulary(self) -> None:
        done = self.parse({"stage": "start", "chunks": ["a</thi", "nk>b"]}, "--protocol", "messages")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["content"],
                         [{"type": "thinking", "thinking": "a", "signature": "rid"}, {"type": "text", "text": "b"}])

    def test_stream_is_server_sent_events(self) -> None:
        frames = self.parse({"chunks": ["Hi"]}, "--stream").stdout.decode().split("\n\n")
        self.assertEqual(frames[-2:], ["data: [DONE]", ""])
        self.assertEqual([json.loads(frame.removeprefix("data: "))["choices"][0]["delta"].get("content") for frame in frames[:-2]], ["", "Hi", ""])
        frames = self.parse({"chunks": ["Hi"]}, "--stream", "--protocol", "responses").stdout.decode().split("\n\n")
        self.assertTrue(frames[0].startswith("event: response.created\ndata: {"))
        self.assertTrue(frames[-2].startswith("event: response.completed\ndata: {"))

    def test_completions_recognise_nothing_but_stops(self) -> None:
        job = {"chunks": ["\n</think>x", "STOP y"], "stops": ["STOP"]}
        response = json.loads(self.parse(job, "--protocol", "completions").stdout)
        self.assertEqual((response["object"], response["choices"][0]["text"]), ("text_completion", "\n</think>x"))

    def test_seed(self) -> None:
        job = {"tools": True, "chunks": ['<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>']}
        first, second, other, free = (self.parse(job, *options).stdout for options in (["--seed", "1"], ["--seed", "1"], ["--seed", "2"], []))
        self.assertEqual(first, second)
        self.assertEqual(len({first, other, free}), 3)
        self.assertRegex(first.decode(), CALL_ID)

    def test_wrong_usage_and_unsound_input(self) -> None:
        for arguments, job, code in ((["--protocol", "grpc"], {"chunks": []}, 2), (["/does/not/exist"], "", 3), ([], "{", 4), ([], "[]", 4),
                                     ([], {}, 4), ([], {"chunks": [], "x": 1}, 4), ([], {"chunks": [[-1]]}, 4),
                                     (["--tokenizer", "/does/not/exist"], {"chunks": [[1]]}, 3)):
            done = self.parse(job, *arguments)
            self.assertEqual((done.returncode, done.stdout), (code, b""), (arguments, job))
            self.assertIn(b"deepinfer: error: ", done.stderr)
        done = self.parse("{", "--json")
        self.assertEqual((done.returncode, set(json.loads(done.stdout)["error"])), (4, {"code", "message", "where"}))

    def test_bad_lines(self) -> None:
        bad = [{"stage": "x"}, {"finish": "end"}, {"usage": [1]}, {"usage": [1, 2]}, {"stops": "a"}, {"stops": [1]}, {"chunks": "a"}, {"chunks": [5]},
               {"chunks": [[1.5]]}, {"chunks": [[2147483648]]}, {"tools": 1}, {"json": None}, {"y": 1}, {"body": {}}, {"body": "{}"}]
        lines = ["{", "5", json.dumps({"id": 0})] + [json.dumps({"id": i + 1, "chunks": [], **fault}) for i, fault in enumerate(bad)]
        lines += ["", json.dumps({"id": "good", "chunks": ["ok"]})]
        done = PROGRAM.run("parse", "--jsonl", stdin="\n".join(lines))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([answer["id"] for answer in answers], [None, None, *range(len(bad) + 1), "good"])
        for answer in answers[:-1]:
            self.assertEqual(set(answer["error"]), {"code", "message", "where"}, answer)
        self.assertEqual(answers[-1]["response"]["choices"][0]["message"]["content"], "ok")


if __name__ == "__main__":
    write_tokenizer()
    unittest.main()
