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
