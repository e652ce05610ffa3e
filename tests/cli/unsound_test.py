#!/usr/bin/env python3
"""Model folders with something wrong in them: python3 unsound_test.py PROGRAM"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from program import program_from_arguments

PROGRAM = program_from_arguments()
SIDE_FILES = ("engram_token_map.i32", "tokenizer.json", "generation_config.json")


class Model(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="deepinfer-unsound-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.model = self.folder / "model"
        self.model.mkdir()
        for path in Path(PROGRAM.model).iterdir():
            if path.name.endswith(".safetensors"):
                os.link(path, self.model / path.name)
            else:
                shutil.copy(path, self.model / path.name)

    def inspect(self, *arguments: str, code: int = 4) -> dict:
        done = PROGRAM.run("inspect", str(self.model), "--json", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def replace(self, name: str, kind: str) -> None:
        path = self.model / name
        path.unlink()
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to("nowhere")
        else:
            path.write_bytes(b"\xffgarbage\0")

    def assert_named(self, report: dict, name: str) -> None:
        self.assertIs(report["sound"], False)
        self.assertTrue(any(name in problem for problem in report["problems"]), report["problems"])


class Inspect(Model):
    def test_side_files(self) -> None:
        self.assertEqual(self.inspect(code=0)["problems"], [])
        for name in SIDE_FILES:
            content = (self.model / name).read_bytes()
            for kind in ("fifo", "folder", "link", "garbage"):
                with self.subTest(name=name, kind=kind):
                    self.replace(name, kind)
                    self.assert_named(self.inspect(), name)
                    self.assertEqual(PROGRAM.run("generate", str(self.model), "hi", "--quiet").returncode, 4)
                    shutil.rmtree(self.model / name) if kind == "folder" else (self.model / name).unlink()
                    (self.model / name).write_bytes(content)

    def test_number_of_classes(self) -> None:
        path = self.model / "engram_token_map.i32"
        content = path.read_bytes()
        path.write_bytes(content[:-4] + content[:4])
        self.assert_named(self.inspect(), path.name)

    def test_absent_files_that_may_be_absent(self) -> None:
        (self.model / "engram_token_map.i32").unlink()
        (self.model / "generation_config.json").unlink()
        self.assertEqual(self.inspect(code=0)["problems"], [])

    def test_shards_that_are_no_files(self) -> None:
        shard = next(self.model.glob("*-00003-*.safetensors"))
        for kind in ("fifo", "link"):
            self.replace(shard.name, kind)
            report = self.inspect()
            self.assert_named(report, shard.name)
            self.assertIsNotNone(report["config"])
            self.assertEqual(PROGRAM.run("generate", str(self.model), "hi", "--quiet").returncode, 4)
        self.replace(shard.name, "folder")
        self.assert_named(self.inspect("--verify"), shard.name)

    def test_files_over_their_limit(self) -> None:
        for name, size in (("config.json", (1 << 20) + 1), ("model.safetensors.index.json", (64 << 20) + 1), ("generation_config.json", (1 << 20) + 1),
                           ("tokenizer.json", (64 << 20) + 1)):
            content = (self.model / name).read_bytes()
            with open(self.model / name, "ab") as file:
                file.truncate(size)
            self.assert_named(self.inspect(), name)
            self.assertEqual(PROGRAM.run("generate", str(self.model), "hi", "--quiet").returncode, 4)
            (self.model / name).write_bytes(content)
        with open(self.model / "config.json", "ab") as file:
            file.truncate((1 << 20) + 1)
        self.assertEqual(PROGRAM.run("plan", str(self.model)).returncode, 4)


class NotFinite(Model):
    def poison(self, name: str) -> None:
        tensors = self.inspect(f"--tensors={name}", code=0)["tensor_list"]
        self.assertEqual(len(tensors), 1)
        path = self.model / tensors[0]["shard"]
        content = bytearray(path.read_bytes())
        content[tensors[0]["offset"] : tensors[0]["offset"] + 4] = b"\xc0\x7f\xc0\x7f"
        path.unlink()  # a link to the original
        path.write_bytes(content)

    def test_logits(self) -> None:
        self.poison("norm.weight")
        done = PROGRAM.run("generate", str(self.model), "hi", "--quiet")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"inspect MODEL --verify", done.stderr)
        self.assertEqual(PROGRAM.run("score", str(self.model), "--text", "hi there", "--quiet").returncode, 4)
        done = PROGRAM.run("batch", str(self.model), "-", "-o", "-", "--quiet", stdin=json.dumps({"id": 1, "prompt": "a"}))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "data_loss")

    def test_verify_names_the_tensor(self) -> None:
        self.assertEqual(self.inspect("--verify", code=0)["not_finite"], [])
        self.poison("norm.weight")
        report = self.inspect("--verify")
        self.assertEqual(report["not_finite"], [{"name": "norm.weight", "count": 2}])
        self.assertIs(report["sound"], False)
        done = PROGRAM.run("inspect", str(self.model), "--verify")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"norm.weight: 2 values", done.stdout)


class HubCache(Model):
    """Files that are links into a folder of blobs, as download tools lay them out."""

    def setUp(self) -> None:
        super().setUp()
        self.blobs = self.folder / "blobs"
        self.blobs.mkdir()
        for path in list(self.model.iterdir()):
            path.rename(self.blobs / path.name)
            path.symlink_to(self.blobs / path.name)

    def test_the_hint_is_true(self) -> None:
        for command in (["generate", "hi", "--max-tokens", "1"], ["inspect"], ["plan"], ["score", "--text", "hi"]):
            words = [command[0], str(self.model), *command[1:]]
            done = PROGRAM.run(*words)
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            option = f"--allow-links {self.blobs.resolve()}"
            self.assertIn(option.encode(), done.stdout + done.stderr)
            done = PROGRAM.run(*words, *option.split(" ", 1))
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_batch_and_variable(self) -> None:
        line = json.dumps({"id": 1, "prompt": "a", "max_tokens": 1})
        words = ["batch", str(self.model), "-", "-o", "-", "--quiet"]
        self.assertEqual(PROGRAM.run(*words, stdin=line).returncode, 4)
        self.assertEqual(PROGRAM.run(*words, "--allow-links", str(self.folder), stdin=line).returncode, 0)
        PROGRAM.environment["DEEPINFER_ALLOW_LINKS"] = str(self.blobs)
        self.addCleanup(PROGRAM.environment.pop, "DEEPINFER_ALLOW_LINKS")
        self.assertEqual(PROGRAM.run(*words, stdin=line).returncode, 0)

    def test_other_folders_stay_closed(self) -> None:
        other = self.folder / "other"
        other.mkdir()
        self.assertEqual(PROGRAM.run("inspect", str(self.model), "--allow-links", str(other)).returncode, 4)


if __name__ == "__main__":
    unittest.main()
