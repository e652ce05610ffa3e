#!/usr/bin/env python3
"""Shows that scripts/check_layering.py reports every kind of violation and accepts what is allowed."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
sys.dont_write_bytecode = True
import check_layering  # noqa: E402


def violations_of(path, line):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / path
        file.parent.mkdir(parents=True)
        file.write_text(f"// A comment: #include is not parsed here\n{line}\n", encoding="utf-8")
        return check_layering.check(pathlib.Path(folder))[1]


class CheckLayeringTest(unittest.TestCase):
    def test_allowed(self):
        for path, line in (
            ("base/a.cc", '#include "base/status.h"'),
            ("base/a.cc", "#include <nlohmann/json.hpp>"),
            ("base/a.cc", "#include <vector>"),
            ("model/a.h", '#include "kernels/ops.h"'),
            ("kernels/cpu/a.cc", '#include "kernels/ops.h"'),
            ("kernels/cpu/a.cc", '#include "kernels/cpu/b.h"'),
            ("kernels/cpu/a.cc", "#include <hwy/highway.h>"),
            ("kernels/reference/a.cc", '  #  include "tensor/dtype.h"'),
            ("engine/a.cc", '#include "kernels/cpu/a.h"'),
            ("cli/a.cc", '#include "engine/engine.h"'),
        ):
            self.assertEqual(violations_of(path, line), [], (path, line))

    def test_refused(self):
        for path, line in (
            ("base/a.cc", '#include "tensor/dtype.h"'),
            ("checkpoint/a.cc", '#include "tokenizer/bpe.h"'),
            ("sampling/a.cc", '#include "model/backbone.h"'),
            ("model/a.cc", '#include "kernels/cpu/cpu_ops.h"'),
            ("cli/a.cc", '#include "kernels/reference/reference_ops.h"'),
            ("kernels/cpu/a.cc", '#include "checkpoint/config.h"'),
            ("kernels/cpu/a.cc", '#include "kernels/reference/dot.h"'),
            ("engine/a.cc", "#include <nlohmann/json.hpp>"),
            ("kernels/reference/a.cc", "#include <hwy/highway.h>"),
            ("engine/a.cc", "#include <CLI/CLI.hpp>"),
            ("cli/a.cc", "#include <openssl/evp.h>"),
            ("cli/a.cc", '#include "output.h"'),
            ("unknown/a.cc", "#include <vector>"),
        ):
            self.assertEqual(len(violations_of(path, line)), 1, (path, line))


if __name__ == "__main__":
    unittest.main()
