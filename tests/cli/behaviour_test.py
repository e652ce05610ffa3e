#!/usr/bin/env python3
"""Pipes, interrupts, disks, documents and conversations: python3 behaviour_test.py PROGRAM"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from program import program_from_arguments

PROGRAM = program_from_arguments()
LINES = [{"id": i, "messages": [{"role": "user", "content": f"{i} + 10 = ?"}], "max_tokens": 24} for i in range(6)]


def write_lines(path: Path, lines: list) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="deepinfer-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.input = write_lines(self.folder / "in.jsonl", LINES)
        self.output = self.folder / "out.jsonl"

    def batch(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        return PROGRAM.run("batch", str(self.input), "-o", str(self.output), "--quiet", *arguments, **options)

    def results(self) -> list[dict]:
        return [json.loads(line) for line in self.output.read_text(encoding="utf-8").splitlines()]


class Pipes(Folder):
    def assert_silent(self, arguments: list[str], ignore_sigpipe: bool) -> None:
        process = PROGRAM.start(*arguments, stdout=subprocess.PIPE, restore_signals=not ignore_sigpipe)
        process.stdout.close()  # nobody reads
        error = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual((process.wait(60), error), (0, ""))

    def test_closed_pipe_ends_silently(self) -> None:
        for ignore in (False, True):
            self.assert_silent(["man"], ignore)
            self.assert_silent(["generate", "--quiet", "Tell me a story.", "--max-tokens", "40"], ignore)
            self.assert_silent(["batch", str(self.input), "-o", "-", "--quiet"], ignore)

    def test_head(self) -> None:
        done = subprocess.run(f"'{PROGRAM.path}' man | head -n 1", shell=True, capture_output=True, timeout=60)
        self.assertEqual((done.stderr, done.stdout[:4]), (b"", b".TH "))

    def test_full_standard_output(self) -> None:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM.path, "man"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"standard output", done.stderr)

    def test_no_terminal_no_progress(self) -> None:
        done = PROGRAM.run("batch", str(self.input), "-o", str(self.output))
        self.assertNotIn(b"\r", done.stderr)
        self.assertNotIn(b"\x1b", done.stderr + PROGRAM.run("generate", "hi", "--show-thinking", "--max-tokens", "8").stdout)


class Disks(Folder):
    def test_full_disk_keeps_whole_lines_and_goes_on(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        self.output.unlink()

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, len(whole) // 2))

        done = self.batch(preexec_fn=limit)
        self.assertEqual(done.returncode, 3)
        self.assertIn(str(self.output).encode(), done.stderr)
        kept = self.output.read_bytes()
        self.assertTrue(kept.endswith(b"\n") and whole.startswith(kept))
        self.assertEqual(self.batch().returncode, 0)
        self.assertEqual(self.output.read_bytes(), whole)

    def test_device_without_space(self) -> None:
        done = PROGRAM.run("batch", str(self.input), "-o", "/dev/full", "--quiet")
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"/dev/full", done.stderr)

    def test_output_that_may_not_be_written(self) -> None:
        locked = self.folder / "locked"
        locked.mkdir()
        (locked / "out.jsonl").write_text("")
        (locked / "out.jsonl").chmod(0o444)
        locked.chmod(0o555)
        self.folder.chmod(0o755)

        def drop_rights() -> None:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        for name in ("out.jsonl", "new.jsonl"):
            done = PROGRAM.run("batch", str(self.input), "-o", str(locked / name), "--quiet", preexec_fn=drop_rights)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(str(locked / name).encode(), done.stderr)
        locked.chmod(0o755)

    def test_refused_outputs(self) -> None:
        link = self.folder / "link.jsonl"
        os.link(self.input, link)
        before = self.input.read_bytes()
        for path in (self.input, link):
            self.assertEqual(PROGRAM.run("batch", str(self.input), "-o", str(path), "--overwrite").returncode, 2)
        self.assertEqual(self.input.read_bytes(), before)
        self.output.write_text("not ours\n")
        self.assertEqual(self.batch().returncode, 2)
        self.assertEqual(self.output.read_text(), "not ours\n")
        self.assertEqual(PROGRAM.run("batch", str(self.input), "-o", str(self.folder)).returncode, 3)


class Batch(Folder):
    def test_complete_run_has_nothing_to_do(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        self.assertEqual([result["id"] for result in self.results()], list(range(6)))
        self.assertEqual(self.batch("--resume").returncode, 0)
        self.assertEqual(self.output.read_bytes(), whole)

    def test_a_model_is_loaded_only_when_something_is_left(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        done = PROGRAM.run("batch", str(self.input), "-o", str(self.output))
        self.assertEqual(done.returncode, 0)
        self.assertNotIn(b"loaded in", done.stderr)
        write_lines(self.input, [])
        done = PROGRAM.run("batch", str(self.input), "-o", str(self.folder / "none.jsonl"))
        self.assertEqual((done.returncode, (self.folder / "none.jsonl").read_bytes()), (0, b""))
        self.assertNotIn(b"loaded in", done.stderr)

    def test_errors_name_the_field_of_the_line(self) -> None:
        lines = [{"id": 0, "prompt_ids": [5] * 8193}, {"id": 1, "prompt": "word " * 9000}, {"id": 2, "messages": [{"role": "user", "content": "word " * 9000}]}]
        write_lines(self.input, lines)
        self.assertEqual(self.batch().returncode, 1)
        self.assertEqual([result["error"]["where"] for result in self.results()], ["prompt_ids", "prompt", "messages"])

    def test_other_input_or_options_are_refused(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        done = self.batch("--temperature", "0.5")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--temperature", done.stderr)
        write_lines(self.input, LINES[:3])
        self.assertEqual(self.batch().returncode, 2)
        self.assertEqual(self.output.read_bytes(), whole)
        self.assertEqual(self.batch("--overwrite").returncode, 0)
        self.assertEqual(len(self.results()), 3)

    def test_cut_line_is_repaired(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        for tail in (b'{"id":3,"pro', b"\0" * 300, b"{}\n"):
            cut = whole.split(b"\n")[0] + b"\n" + tail
            self.output.write_bytes(cut)
            self.assertEqual(self.batch().returncode, 0, tail)
            self.assertEqual(self.output.read_bytes(), whole)

    def test_edited_output_is_refused(self) -> None:
        self.assertEqual(self.batch().returncode, 0)
        lines = self.output.read_bytes().splitlines(keepends=True)
        for edited in (lines[1:], [lines[0], b"broken\n", *lines[1:]], lines + lines[:1]):
            self.output.write_bytes(b"".join(edited))
            self.assertEqual(self.batch().returncode, 4)
            self.assertEqual(self.output.read_bytes(), b"".join(edited))

    def test_two_runs_at_once(self) -> None:
        first = PROGRAM.start("batch", "-", "-o", str(self.output), "--quiet", stdin=subprocess.PIPE)
        while not self.output.exists():
            time.sleep(0.01)
        time.sleep(0.2)
        self.assertEqual(self.batch().returncode, 3)
        first.stdin.close()
        first.stderr.close()
        self.assertEqual(first.wait(60), 0)

    def test_streams(self) -> None:
        done = PROGRAM.run("batch", "-", "-o", "-", "--quiet", stdin=self.input.read_bytes() + b"\n\n")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([json.loads(line)["id"] for line in done.stdout.splitlines()], list(range(6)))
        self.assertNotIn(b"timing", done.stdout)

    def test_run_without_resume_forgets_the_run_before(self) -> None:
        self.assertEqual(self.batch("--max-tokens", "1").returncode, 0)
        other = json.dumps({"id": 0, "prompt": "z", "max_tokens": 1}).encode() + b"\n"
        streamed = PROGRAM.run("batch", "-", "-o", str(self.output), "--quiet", "--overwrite", stdin=other)
        self.assertEqual(streamed.returncode, 0, streamed.stderr)
        # Results of another input must not be taken for the beginning of this one.
        self.assertNotEqual(self.batch("--max-tokens", "1").returncode, 0)
        self.assertEqual(len(self.results()), 1)

    def test_sum_of_forms(self) -> None:
        ids = PROGRAM.json("tokenize", "--special", "<think>hello")["ids"]
        write_lines(self.input, [{"id": "a", "prompt": "<think>hello", "special": True, "temperature": 0, "max_tokens": 5},
                                 {"id": "b", "prompt_ids": ids, "temperature": 0, "max_tokens": 5}])
        self.assertEqual(self.batch().returncode, 0)
        first, second = self.results()
        self.assertEqual(first["prompt_ids"], ids)
        self.assertEqual(first["output_ids"], second["output_ids"])
        self.assertEqual(PROGRAM.json("generate", "--ids", ",".join(map(str, ids)), "--temperature", "0", "--max-tokens", "5")["output_ids"],
                         first["output_ids"])


class BrokenModel(Folder):
    """A shard is cut while the program runs: no line may carry that as its result."""

    def setUp(self) -> None:
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(PROGRAM.model, self.model)
        for path in [self.model, *self.model.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.shards = sorted(self.model.glob("*.safetensors"))
        self.whole = {path: path.read_bytes() for path in self.shards}

    def cut(self) -> None:
        for path in self.shards:
            os.truncate(path, 4096)

    def mend(self) -> None:
        for path, content in self.whole.items():
            path.write_bytes(content)

    def test_batch_ends_and_is_resumed(self) -> None:
        write_lines(self.input, [dict(LINES[0], id=i, ignore_eos=True, max_tokens=30) for i in range(8)])
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        command = ["batch", str(self.model), str(self.input), "-o", str(self.folder / "cut.jsonl"), "--quiet"]
        output = self.folder / "cut.jsonl"
        process = PROGRAM.start(*command)
        while process.poll() is None and not (output.exists() and output.stat().st_size):
            time.sleep(0.005)
        self.cut()
        error = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(process.wait(60), 4, error)
        self.assertIn(".safetensors", error)
        kept = output.read_bytes()
        self.assertTrue(kept.endswith(b"\n") and whole.startswith(kept) and len(kept) < len(whole))
        self.mend()
        self.assertEqual(PROGRAM.run(*command).returncode, 0)
        self.assertEqual(output.read_bytes(), whole)

    def test_score_ends(self) -> None:
        process = PROGRAM.start("score", str(self.model), "-", "--jsonl", "--json", "--quiet", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = json.dumps({"id": 1, "prompt": "Tell me a story about a rabbit."}).encode() + b"\n"
        process.stdin.write(line)
        process.stdin.flush()
        self.assertIn("nll", json.loads(process.stdout.readline()))
        self.cut()
        process.stdin.write(line)
        process.stdin.close()
        rest = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(60), 4)
        self.assertNotIn(b'"id":1', rest)

    def test_another_tokenizer_is_another_run(self) -> None:
        command = ["batch", str(self.model), str(self.input), "-o", str(self.output), "--quiet"]
        self.assertEqual(PROGRAM.run(*command).returncode, 0)
        config = self.model / "generation_config.json"
        config.write_text(config.read_text() + "\n")
        done = PROGRAM.run(*command)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"generation_config.json", done.stderr)


class Requests(Folder):
    def generate(self, body: dict, *arguments: str) -> subprocess.CompletedProcess:
        path = self.folder / "body.json"
        path.write_text(json.dumps(body))
        return PROGRAM.run("generate", "--messages", str(path), "--quiet", "--json", *arguments)

    def test_sampling_fields_of_a_body(self) -> None:
        body = {"model": "x", "stream": True, "messages": LINES[0]["messages"], "temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "seed": 7,
                "ignore_eos": True, "stop": ["zzzz"]}
        answer = json.loads(self.generate(body).stdout)
        self.assertEqual((answer["seed"], len(answer["output_ids"])), (7, 3))
        answer = json.loads(self.generate(body, "--max-tokens", "5", "--seed", "8").stdout)
        self.assertEqual((answer["seed"], len(answer["output_ids"])), (8, 5))

    def test_other_fields_are_refused_by_name(self) -> None:
        for field in ("nonsense", "prompt", "max_completion_tokens"):
            done = self.generate({"messages": LINES[0]["messages"], field: 1})
            self.assertEqual(done.returncode, 2, field)
            self.assertIn(field, json.loads(done.stdout)["error"]["message"])

    def test_options_are_checked_before_the_model_is_loaded(self) -> None:
        # A folder whose weights are missing: loading would be another error.
        model = self.folder / "model"
        model.mkdir()
        shutil.copy(Path(PROGRAM.model) / "config.json", model)
        vocabulary = json.loads((model / "config.json").read_text())["text_config"]["vocab_size"]
        cases = [["hi", "--stop", ""], ["hi", *["--stop", "x"] * 17], ["hi", "--stop-id", str(vocabulary)], ["--ids", f"0,{vocabulary}"],
                 ["--ids", "0,x"], ["--messages", str(self.folder / "none.json")]]
        if vocabulary < 1000:
            cases.append(["hi", "--logprobs", str(vocabulary + 1)])
        for case in cases:
            done = PROGRAM.run("generate", str(model), *case)
            self.assertIn(done.returncode, (2, 3), case)
            self.assertNotIn(b"safetensors", done.stderr, case)
            self.assertTrue(b"--" in done.stderr or b"none.json" in done.stderr, done.stderr)


def evaluation(task: str, count: int) -> list[dict]:
    """Lines of the demo model's evaluation as chat requests, with the answer of the reference."""
    lines = (Path(PROGRAM.model).parent / "demo-eval" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    requests = []
    for record in map(json.loads, lines):
        messages, results = [], 0
        for message in record["messages"]:
            chat = {"role": message["role"], "content": message["content"]}
            if message["role"] == "assistant":
                chat["reasoning_content"], results = message["reasoning"], 0
            if message["calls"]:
                chat["tool_calls"] = [{"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                                      for i, (name, arguments) in enumerate(message["calls"])]
            if message["role"] == "tool":
                chat["tool_call_id"] = f"c{results}"
                results += 1
            messages.append(chat)
        body = {"messages": messages, "thinking": {"type": "enabled" if record["thinking"] else "disabled"},
                "reasoning_effort": record["effort"], "temperature": 0, "max_tokens": 120}
        if record["tools"]:
            body["tools"] = [{"type": "function", "function": tool} for tool in record["tools"]]
        if record["json_mode"]:
            body["response_format"] = {"type": "json_object"}
        requests.append({"record": record, "body": body})
    return requests


def expected_calls(record: dict) -> list[tuple[str, dict]]:
    calls = []
    for invoke in re.finditer(r'<｜DSML｜ invoke name="(.*?)">(.*?)</｜DSML｜ invoke>', record["expected"], re.S):
        parameters = re.findall(r'<｜DSML｜ parameter name="(.*?)" string="(true|false)">(.*?)</｜DSML｜ parameter>', invoke[2], re.S)
        calls.append((invoke[1], {name: value if is_text == "true" else json.loads(value) for name, is_text, value in parameters}))
    return calls


def calls_of(message: dict) -> list[tuple[str, dict]]:
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])]


class Tools(Folder):
    """Conversations with tools and formats, through every command that takes one."""

    def test_lines_of_both_forms(self) -> None:
        requests = evaluation("tools", 8) + evaluation("json", 4)
        lines = []
        for i, request in enumerate(requests):
            lines.append(dict(request["body"], id=i))
            lines.append({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": dict(request["body"], model="deepseek-flash")})
        write_lines(self.input, lines)
        done = self.batch("--history-thinking", "keep")
        self.assertEqual(done.returncode, 0, done.stderr)
        results = self.results()
        with_calls = 0
        for i, request in enumerate(requests):
            line, response = results[2 * i], results[2 * i + 1]["response"]["body"]
            record, choice = request["record"], response["choices"][0]
            with self.subTest(record=record["id"]):
                text = PROGRAM.json("detokenize", ",".join(map(str, line["prompt_ids"])))["text"]
                self.assertEqual(text, record["prompt"])
                wanted = expected_calls(record)
                with_calls += bool(wanted)
                self.assertEqual(calls_of(line), wanted)
                self.assertEqual(line["finish_reason"], "tool_calls" if wanted else "stop")
                self.assertNotIn("DSML", line["text"])
                if not wanted:
                    self.assertEqual(line["text"], record["expected_content"])
                if "response_format" in request["body"]:
                    json.loads(line["text"])
                self.assertEqual((response["id"] != line["id"], response["created"], response["model"]), (True, 0, "deepseek-flash"))
                self.assertEqual(response["usage"]["prompt_tokens"], line["usage"]["prompt_tokens"])
                if not record["thinking"]:  # with thinking a body has no temperature 0
                    self.assertEqual(calls_of(choice["message"]), wanted)
                    self.assertEqual(choice["message"]["content"], line["text"])
                    self.assertEqual(response["usage"]["completion_tokens"], line["usage"]["completion_tokens"])
                else:
                    self.assertGreater(line["usage"]["reasoning_tokens"], 0)
                    self.assertLess(line["usage"]["reasoning_tokens"], len(line["output_ids"]))
        self.assertGreaterEqual(with_calls, 4)
        ids = [call["id"] for result in results[::2] for call in result["tool_calls"]]
        self.assertEqual(len(set(ids)), len(ids))

    def test_protocols(self) -> None:
        tool = {"type": "object", "properties": {"hour": {"type": "integer"}, "minute": {"type": "integer"}}, "required": ["hour", "minute"]}
        ask, model = "Set an alarm for 10:11.", "demo-model"
        bodies = [
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": ask}], "thinking": {"type": "disabled"}, "logprobs": True, "top_logprobs": 2,
                                      "tools": [{"type": "function", "function": {"name": "set_alarm", "description": "Set an alarm", "parameters": tool}}]}),
            ("/v1/responses", {"input": ask, "reasoning": {"effort": "none"},
                               "tools": [{"type": "function", "name": "set_alarm", "description": "Set an alarm", "parameters": tool}]}),
            ("/v1/messages", {"messages": [{"role": "user", "content": ask}], "max_tokens": 99, "thinking": {"type": "disabled"},
                              "tools": [{"name": "set_alarm", "description": "Set an alarm", "input_schema": tool}]}),
            ("/v1/completions", {"prompt": "17 + 10 =", "max_tokens": 3, "echo": True, "stream": True}),
        ]
        write_lines(self.input, [{"custom_id": url, "method": "POST", "url": url, "body": dict(body, model=model, temperature=0)} for url, body in bodies])
        self.assertEqual(self.batch().returncode, 0)
        results = self.results()
        self.assertEqual([result["custom_id"] for result in results], [url for url, _ in bodies])
        chat, responses, messages, completion = (result["response"]["body"] for result in results)
        wanted = {"hour": 10, "minute": 11}
        self.assertEqual(calls_of(chat["choices"][0]["message"]), [("set_alarm", wanted)])
        self.assertEqual(chat["choices"][0]["finish_reason"], "tool_calls")
        call = next(item for item in responses["output"] if item["type"] == "function_call")
        self.assertEqual((responses["object"], responses["status"], call["name"], json.loads(call["arguments"])), ("response", "completed", "set_alarm", wanted))
        self.assertEqual((messages["type"], messages["stop_reason"]), ("message", "tool_use"))
        self.assertEqual([(block["name"], block["input"]) for block in messages["content"] if block["type"] == "tool_use"], [("set_alarm", wanted)])
        self.assertEqual(completion["object"], "text_completion")
        self.assertTrue(completion["choices"][0]["text"].startswith("17 + 10 ="))
        self.assertEqual(completion["choices"][0]["finish_reason"], "length")

    def test_options_and_bodies(self) -> None:
        message = [{"role": "user", "content": "17 + 10 = ?"}]
        off = {"type": "disabled"}
        bodies = [{}, {"max_tokens": 4}, {"thinking": off}, {"thinking": off, "logprobs": True, "top_logprobs": 1}, {"thinking": off, "stop": "+", "max_tokens": 8}]
        write_lines(self.input, [{"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": dict(body, model="deepseek-flash", messages=message)}
                                 for i, body in enumerate(bodies)])
        self.assertEqual(self.batch("--temperature", "0", "--max-tokens", "2", "--thinking", "off").returncode, 0)
        choices = [result["response"]["body"]["choices"][0] for result in self.results()]
        texts = [choice["message"]["content"] for choice in choices]
        self.assertNotIn("reasoning_content", choices[0]["message"])
        self.assertEqual(texts[0], texts[2])
        self.assertTrue(texts[1].startswith(texts[0]) and len(texts[1]) > len(texts[0]))
        self.assertEqual(len(choices[3]["logprobs"]["content"]), 2)
        self.assertEqual((texts[4], choices[4]["finish_reason"]), ("17 ", "stop"))

    def test_generate(self) -> None:
        request = next(r for r in evaluation("tools", 8) if r["record"]["id"] == "tools-002")
        path = self.folder / "body.json"
        path.write_text(json.dumps(dict(request["body"], model="any", stream=True)), encoding="utf-8")
        answer = PROGRAM.json("generate", "--messages", str(path), "--quiet", "--seed", "1")
        self.assertEqual((calls_of(answer), answer["finish_reason"], answer["text"]), ([("set_alarm", {"hour": 10, "minute": 11})], "tool_calls", ""))
        again = PROGRAM.json("generate", "--messages", "-", "--quiet", "--seed", "1", stdin=path.read_bytes())
        self.assertEqual(again["tool_calls"], answer["tool_calls"], "the same seed, the same ids")
        shown = PROGRAM.run("generate", "--messages", str(path), "--quiet")
        self.assertEqual(shown.stdout.decode(), '[call set_alarm] {"hour": 10, "minute": 11}\n')
        # A forced call begins inside the block of calls, and the body's `none` hides the tools.
        body = dict(request["body"], tool_choice="required")
        path.write_text(json.dumps(body), encoding="utf-8")
        forced = PROGRAM.json("generate", "--messages", str(path), "--quiet")
        self.assertTrue(calls_of(forced))
        path.write_text(json.dumps(dict(body, tool_choice="none")), encoding="utf-8")
        hidden = PROGRAM.json("generate", "--messages", str(path), "--quiet", "--max-tokens", "1")
        self.assertLess(len(hidden["prompt_ids"]), 100)

    def test_settings(self) -> None:
        def prompt(*arguments: str) -> str:
            answer = PROGRAM.json("generate", "hi", "--max-tokens", "1", "--quiet", *arguments)
            return PROGRAM.json("detokenize", ",".join(map(str, answer["prompt_ids"])))["text"]

        self.assertIn("Reasoning Effort: 37 (", prompt("--effort", "37", "--system", "Be kind."))
        self.assertIn("\n\nBe kind.<｜User｜>hi", prompt("--effort", "37", "--system", "Be kind."))
        self.assertIn("Reasoning Effort: 100 (", prompt("--effort", "max"))
        self.assertEqual(prompt("--thinking", "off"), "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>")
        history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "because"}, {"role": "user", "content": "c"}]
        path = self.folder / "history.json"
        path.write_text(json.dumps(history), encoding="utf-8")
        texts = {}
        for rule in ("auto", "keep", "drop"):
            answer = PROGRAM.json("generate", "--messages", str(path), "--history-thinking", rule, "--max-tokens", "1", "--quiet")
            texts[rule] = PROGRAM.json("detokenize", ",".join(map(str, answer["prompt_ids"])))["text"]
        self.assertIn("<think>because</think>b", texts["keep"])
        self.assertNotIn("because", texts["auto"] + texts["drop"])

    def test_prefix(self) -> None:
        messages = [{"role": "user", "content": "17 + 10 = ?"}, {"role": "assistant", "content": "17 + 10", "prefix": True}]
        path = self.folder / "prefix.json"
        path.write_text(json.dumps(messages), encoding="utf-8")
        answer = PROGRAM.json("generate", "--messages", str(path), "--thinking", "off", "--temperature", "0", "--quiet")
        self.assertEqual(answer["text"], " = 27")

    def test_stop_texts_leave_reasoning_alone(self) -> None:
        answer = PROGRAM.json("generate", "17 + 10 = ?", "--temperature", "0", "--stop", "+", "--quiet")
        self.assertIn("+", answer["reasoning"])
        self.assertEqual((answer["text"], answer["finish_reason"]), ("17 ", "stop"))

    def test_refusals(self) -> None:
        path = self.folder / "body.json"
        message = [{"role": "user", "content": "hi"}]
        for body, code, part in (({"messages": message, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}}, 3,
                                  "constrained decoding"),
                                 ({"messages": message, "tools": [{"type": "function"}]}, 4, "tools[0]"),
                                 ({"messages": [{"role": "wizard", "content": ""}]}, 4, "messages[0].role"), ([], 4, "Empty input messages"), ({"tools": []}, 4, "messages")):
            path.write_text(json.dumps(body), encoding="utf-8")
            done = PROGRAM.run("generate", "--messages", str(path), "--json", "--quiet")
            self.assertEqual(done.returncode, code, done.stdout)
            error = json.loads(done.stdout)["error"]
            self.assertIn(part, error["message"])
            self.assertIn(str(path), error["where"])

    def test_vocabulary_without_tags(self) -> None:
        model = self.folder / "model"
        shutil.copytree(PROGRAM.model, model)
        for path in [model, *model.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        tokenizer = model / "tokenizer.json"
        tokenizer.write_text(tokenizer.read_text(encoding="utf-8").replace("｜DSML｜", "|DSML|"), encoding="utf-8")
        request = evaluation("tools", 1)[0]
        body = self.folder / "body.json"
        body.write_text(json.dumps(request["body"]), encoding="utf-8")
        done = PROGRAM.run("generate", str(model), "--messages", str(body), "--quiet")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the vocabulary has no token ｜DSML｜", done.stderr.decode())
        self.assertEqual(PROGRAM.run("generate", str(model), "hi", "--max-tokens", "1", "--quiet").returncode, 0)


class Interrupts(Folder):
    def test_interrupt_keeps_what_is_done(self) -> None:
        write_lines(self.input, [dict(LINES[0], id=i, ignore_eos=True, max_tokens=20) for i in range(8)])
        self.assertEqual(self.batch().returncode, 0)
        whole = self.output.read_bytes()
        self.output.unlink()
        process = PROGRAM.start("batch", str(self.input), "-o", str(self.output), "--quiet")
        while not (self.output.exists() and self.output.stat().st_size):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        process.stderr.close()
        kept = self.output.read_bytes()
        self.assertTrue(kept.endswith(b"\n") and whole.startswith(kept) and len(kept) < len(whole))
        self.assertEqual(self.batch().returncode, 0)
        self.assertEqual(self.output.read_bytes(), whole)

    def test_interrupted_answer(self) -> None:
        process = PROGRAM.start("generate", "--json", "--quiet", "Tell me a story.", "--ignore-eos", "--max-tokens", "4000", stdout=subprocess.PIPE)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(60), 130)
        if output:  # nothing when the interrupt came before the model was loaded
            self.assertEqual(json.loads(output)["finish_reason"], "cancelled")

    def test_waiting_for_input(self) -> None:
        for arguments in (["batch", "-", "-o", "-", "--quiet"], ["chat", "--quiet"]):
            process = PROGRAM.start(*arguments, stdin=subprocess.PIPE)
            time.sleep(3)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
            process.stdin.close()
            process.stderr.close()


class Words(unittest.TestCase):
    """Options in the place of values, and errors in the form that was asked for."""

    def test_help_as_a_value(self) -> None:
        done = PROGRAM.run("generate", "hi", "--stop", "-h", "--max-tokens", "1", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"Usage:", done.stdout)
        self.assertIn(b"Usage:", PROGRAM.run("generate", "--tensors", "-h").stdout)
        self.assertIn(b"Usage:", PROGRAM.run("inspect", "--tensors", "--help").stdout)

    def test_json_with_a_value(self) -> None:
        done = PROGRAM.run("generate", "hi", "--json=1")
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["where"]), (2, "--json"))
        done = PROGRAM.run("generate", "hi", "--stop", "--json", "--top-p", "0")
        self.assertEqual((done.returncode, done.stdout), (2, b""))

    def test_places(self) -> None:
        text = "word " * 9000
        for words, place in ((["generate", "-"], "TEXT"), (["score", "-"], "standard input")):
            done = PROGRAM.run(*words, "--json", stdin=text)
            self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["where"]), (2, place))

    def test_host_memory_of_a_plan(self) -> None:
        self.assertGreater(PROGRAM.json("plan", "--gpus", "1")["host"]["free"], 0)
        self.assertIsNone(PROGRAM.json("plan", "deepseek-v4.1-flash", "--gpus", "8")["host"]["free"])
        self.assertNotIn(b"needs 0 B", PROGRAM.run("plan", "deepseek-v4.1-flash", "--gpus", "8").stdout)


class Documents(unittest.TestCase):
    def test_documents_name_every_option(self) -> None:
        page = PROGRAM.run("man").stdout.decode().replace("\\-", "-")
        scripts = {shell: PROGRAM.run("completion", shell).stdout.decode() for shell in ("bash", "zsh", "fish")}
        for command in ("generate", "chat", "batch", "score", "tokenize", "plan", "inspect", "doctor"):
            text = PROGRAM.run(command, "--help").stdout.decode()
            listed = set(re.findall(r"--[a-z][a-z-]*", text))
            for option in listed - {"--help"}:
                self.assertIn(option, page)
                for shell in ("bash", "zsh"):
                    self.assertIn(option, scripts[shell], shell)
                self.assertIn(f"-l {option[2:]}", scripts["fish"])

    def test_shell_syntax(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell):
                script = PROGRAM.run("completion", shell).stdout
                checked = subprocess.run([shell, "-n"], input=script, capture_output=True, timeout=60)
                self.assertEqual((checked.returncode, checked.stderr), (0, b""), shell)

    def test_completion_works(self) -> None:
        script = PROGRAM.run("completion", "bash").stdout.decode()
        script += "\nCOMP_WORDS=(deepinfer generate --prefill ''); COMP_CWORD=3; _deepinfer; echo \"${COMPREPLY[@]}\"\n"
        done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
        self.assertEqual(done.stdout.decode().split(), ["full", "exact_halo", "bounded_replay"])


class Conversations(Folder):
    def test_save_load_and_cached_prefix(self) -> None:
        saved = self.folder / "saved.json"
        script = f"My name is Vand.\nWhat is my name?\n/save {saved}\n/reset\n/load {saved}\nWhat is my name?\n/nonsense\n/thinking maybe\n"
        done = PROGRAM.run("chat", "--verbose", "--temperature", "0", "--thinking", "off", stdin=script)
        self.assertEqual(done.returncode, 1, done.stderr)  # two of the lines are wrong
        cached = [int(part.split()[0]) for part in done.stderr.decode().split("prompt tokens, ")[1:]]
        self.assertEqual(len(cached), 3)
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 10)
        body = json.loads(saved.read_text(encoding="utf-8"))
        self.assertEqual([m["role"] for m in body["messages"]], ["user", "assistant", "user", "assistant"])
        self.assertIn(b"unknown command /nonsense", done.stderr)
        again = PROGRAM.run("generate", "--messages", str(saved), "--quiet", "--max-tokens", "8")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_tools_in_a_conversation(self) -> None:
        request = next(r for r in evaluation("tools", 8) if r["record"]["id"] == "tools-002")
        loaded, saved = self.folder / "loaded.json", self.folder / "saved.json"
        body = {key: value for key, value in request["body"].items() if key in ("messages", "tools", "thinking")}
        body["messages"] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        loaded.write_text(json.dumps(body), encoding="utf-8")
        script = f"/result early\n/load {loaded}\nSet an alarm for 10:11.\nAnd now?\n/result ok\n/save {saved}\n/load {saved}\n/save {saved}\n"
        done = PROGRAM.run("chat", "--verbose", "--temperature", "0", stdin=script)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, 1, error)  # two of the lines are wrong
        self.assertIn("no call waits for a result", error)
        self.assertIn("the call of set_alarm has no result yet", error)
        self.assertIn('[call set_alarm] {"hour": 10, "minute": 11}\n', done.stdout.decode())
        self.assertIn("The alarm is set for 10:11.", done.stdout.decode())
        cached = [int(part.split()[0]) for part in error.split("prompt tokens, ")[1:]]
        self.assertEqual(len(cached), 2)
        self.assertGreater(cached[1], 200, "the prompt up to the call is not read again")
        kept = json.loads(saved.read_text(encoding="utf-8"))
        self.assertEqual(kept["tools"], body["tools"])
        self.assertEqual([m["role"] for m in kept["messages"]], ["user", "assistant", "user", "assistant", "tool", "assistant"])
        call = kept["messages"][3]["tool_calls"][0]
        self.assertEqual(kept["messages"][4], {"role": "tool", "content": "ok", "tool_call_id": call["id"]})

    def test_nothing_to_save(self) -> None:
        saved = self.folder / "saved.json"
        done = PROGRAM.run("chat", "--quiet", stdin=f"/save {saved}\n/quit\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no message to save", done.stderr)
        self.assertIn(b"\ntry: ", done.stderr)
        self.assertFalse(saved.exists())

    def test_bytes_that_are_no_text(self) -> None:
        done = PROGRAM.run("chat", "--quiet", "--max-tokens", "2", stdin=b"a\xff\nhello\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the message: byte 1", done.stderr)
        self.assertEqual(PROGRAM.run("chat", "--quiet", "--max-tokens", "2", stdin=b"hello\n").returncode, 0)

    def test_version(self) -> None:
        self.assertEqual(set(PROGRAM.json("--version")), {"version", "commit", "build_type", "compiler", "kernel_target", "cuda"})

    def test_doctor(self) -> None:
        report = PROGRAM.json("doctor")
        self.assertTrue(report["ok"], report["findings"])
        self.assertGreater(report["memory"]["read_bytes_per_s"], 0)


if __name__ == "__main__":
    unittest.main()
