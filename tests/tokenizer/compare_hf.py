#!/usr/bin/env python3
"""Compares the engine's tokenizer with HF `tokenizers` on generated strings.

For every tokenizer file: strings in many scripts are drawn from a seed, encoded by both sides (with added tokens
recognised, and as ordinary text), and random id lists are decoded by both sides. Any difference fails, and so do fewer
than --count strings for a file.

The class of a code point depends on the Unicode version of its table. Ours is 14.0; HF's is whatever its regular
expression library holds. The script reads HF's classes by running its regexes over all code points, says how many differ,
and leaves those code points out of the strings (assigned in one version only, or changed since).

usage: compare_hf.py --tool TOKENIZER_ENCODE_TOOL [--count N] [--seed N] TOKENIZER.json ...
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

from tokenizers import Regex, Tokenizer, pre_tokenizers  # noqa: E402

# Values of deepinfer::unicode::CharClass.
CLASS_PATTERNS = {1: r"\p{L}+", 2: r"\p{M}+", 3: r"\p{N}+", 4: r"\p{P}+", 5: r"\p{S}+", 6: r"\s+"}
NUM_CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)
REFUSED = 0xFFFFFFFF
ORDINARY, WITH_ADDED, DECODE = 0, 1, 2

# Name: inclusive ranges. Unassigned code points inside them are wanted, too.
SCRIPTS = {
    "ascii": [(0x20, 0x7E)],
    "ascii_letters": [(0x41, 0x5A), (0x61, 0x7A)],
    "ascii_marks": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    "latin": [(0xA0, 0x24F), (0x1E00, 0x1EFF)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F)],
    "armenian_georgian": [(0x530, 0x58F), (0x10A0, 0x10FF)],
    "hebrew": [(0x590, 0x5FF)],
    "arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)],
    "devanagari": [(0x900, 0x97F)],
    "bengali_tamil": [(0x980, 0x9FF), (0xB80, 0xBFF)],
    "thai_lao": [(0xE00, 0xEFF)],
    "tibetan_myanmar": [(0xF00, 0x109F)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x3130, 0x318F)],
    "hangul_syllables": [(0xAC00, 0xD7A3)],
    "ethiopic_cherokee": [(0x1200, 0x13FF)],
    "kana": [(0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF65, 0xFF9F)],
    "han": [(0x4E00, 0x9FFF)],
    "han_common": [(0x4E00, 0x5200), (0x7684, 0x7684), (0x662F, 0x662F)],
    "han_extension": [(0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2EBE0), (0x30000, 0x3134A), (0xF900, 0xFAFF)],
    "cjk_signs": [(0x3000, 0x303F), (0xFF00, 0xFFEF), (0x2E80, 0x2FDF)],
    "emoji": [(0x1F300, 0x1FAFF), (0x2600, 0x27BF), (0x1F1E6, 0x1F1FF)],
    "emoji_glue": [(0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F)],
    "combining": [(0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE00, 0xFE2F)],
    "digits": [(0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0xE50, 0xE59), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)],
    "numbers": [(0xB2, 0xB3), (0xBC, 0xBE), (0x2150, 0x218B), (0x2460, 0x249B), (0x3007, 0x3007), (0x10107, 0x10133)],
    "controls": [(0x00, 0x1F), (0x7F, 0x9F)],
    "formats": [(0xAD, 0xAD), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFF)],
    "spaces": [(0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
               (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)],
    "breaks": [(0x0A, 0x0A), (0x0D, 0x0D)],
    "blanks": [(0x20, 0x20), (0x09, 0x09)],
    "signs": [(0x2000, 0x2BFF), (0x1D400, 0x1D7FF)],
    "private": [(0xE000, 0xF8FF), (0xF0000, 0xF0FFF), (0x10FF00, 0x10FFFF)],
    "unassigned": [(0x378, 0x379), (0x2FE0, 0x2FEF), (0x50000, 0x50FFF), (0xE0080, 0xE00FF), (0x10FFFE, 0x10FFFF)],
    "ancient": [(0x10000, 0x10FFF), (0x12000, 0x123FF), (0x13000, 0x1342F)],
    "anything": [(0x00, 0xD7FF), (0xE000, 0x10FFFF)],
}
WORDS = ("the of and to in is you that it for was on are as with his they at be this have from or one had by words but not what "
         "I'm don't we'll they've HTTPServer getValue snake_case __init__ e.g. 3.14 1,000,000 0xFF 2026-11-30 12:30 $5.00 50% "
         "user@example.com https://example.com/a?b=c&d=e#f C++20 std::vector<int> x+=1; if(a&&b){} // /* */ \\n \\t <div> </p> "
         "naïve café Straße ÆØÅ Привет мир Ελλάδα γειά العربية مرحبا שלום नमस्ते สวัสดี 안녕하세요 こんにちは カタカナ 世界 你好 "
         "👍🏽 👨‍👩‍👧‍👦 🇩🇪 e\u0301 ½ Ⅻ ² \ufeffbom").split(" ")


def hf_classes():
    """HF's class of every code point, by removing what its regexes match from the text of all code points."""
    points = [c for c in range(NUM_CODE_POINTS) if c not in SURROGATES]
    text = "".join(map(chr, points))
    classes = bytearray(NUM_CODE_POINTS)
    for value, pattern in CLASS_PATTERNS.items():
        rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text)
        matched = bytearray(b"\1") * len(points)
        for _, (begin, end) in rest:
            matched[begin:end] = bytes(end - begin)
        for index, hit in enumerate(matched):
            if hit:
                classes[points[index]] = value
    return classes


def usable_code_points(tool):
    ours = subprocess.run([tool, "classes"], stdout=subprocess.PIPE, check=True).stdout
    theirs = hf_classes()
    usable = [c not in SURROGATES and ours[c] == theirs[c] for c in range(NUM_CODE_POINTS)]
    differing = [c for c in range(NUM_CODE_POINTS) if c not in SURROGATES and ours[c] != theirs[c]]
    newer = sum(1 for c in differing if ours[c] == 0)
    print(f"code points whose class differs: {len(differing)} (excluded); {newer} of them have no class in Unicode 14.0")
    for c in [c for c in differing if ours[c] != 0][:20]:
        print(f"  U+{c:04X}: class {ours[c]} here, {theirs[c]} in HF")
    return usable


class Generator:
    def __init__(self, seed, usable, added):
        self.random = random.Random(seed)
        self.added = added
        self.scripts = {}
        for name, spans in SCRIPTS.items():
            self.scripts[name] = [chr(c) for a, b in spans for c in range(a, b + 1) if usable[c]]
        self.names = list(self.scripts)
        self.words = [w for w in WORDS if all(usable[ord(c)] for c in w)]

    def run_of_script(self):
        alphabet = self.scripts[self.random.choice(self.names)]
        if self.random.random() < 0.2:
            return self.random.choice(alphabet) * self.random.randint(1, 12)
        return "".join(self.random.choices(alphabet, k=self.random.randint(1, 10)))

    def mixed_characters(self):
        names = self.random.sample(self.names, self.random.randint(2, 4))
        return "".join(self.random.choice(self.scripts[self.random.choice(names)]) for _ in range(self.random.randint(2, 16)))

    def sentence(self):
        separators = [" "] * 8 + ["  ", "\n", "\r\n", "\t", "", ", ", ". ", "\n\n", " \n ", "\u3000", "\u00a0"]
        out = []
        for _ in range(self.random.randint(1, 12)):
            out += [self.random.choice(self.words), self.random.choice(separators)]
        return "".join(out)

    def emoji(self):
        parts = self.random.choices(self.scripts["emoji"], k=self.random.randint(1, 5))
        return self.random.choice(self.scripts["emoji_glue"]).join(parts)

    def added_token(self):
        text = self.random.choice(self.added)
        chance = self.random.random()
        if chance < 0.15:
            return text[: self.random.randint(1, len(text))]
        if chance < 0.25:
            return text[self.random.randint(0, len(text) - 1) :] + text
        return text

    def string(self):
        makers = [self.run_of_script, self.mixed_characters, self.sentence, self.run_of_script, self.emoji]
        if self.random.random() < 0.25:
            makers.append(self.added_token)
        out = "".join(self.random.choice(makers)() for _ in range(self.random.randint(1, 5)))
        if self.random.random() < 0.002:
            out *= self.random.randint(20, 200)  # long pieces
        return out


class Tool:
    def __init__(self, tool, tokenizer):
        self.command = [tool, "run", tokenizer]

    def ask(self, requests):
        """Bodies (None = refused) of the answers to (kind, body) pairs."""
        with tempfile.TemporaryFile() as stream:
            for kind, body in requests:
                stream.write(struct.pack("<BI", kind, len(body)) + body)
            stream.seek(0)
            output = subprocess.run(self.command, stdin=stream, stdout=subprocess.PIPE, check=True).stdout
        answers, at = [], 0
        while at < len(output):
            (length,) = struct.unpack_from("<I", output, at)
            at += 4
            if length == REFUSED:
                answers.append(None)
                continue
            answers.append(output[at : at + length])
            at += length
        if len(answers) != len(requests):
            sys.exit(f"the tool gave {len(answers)} answers to {len(requests)} requests")
        return answers


def ids_of(answer):
    return None if answer is None else list(struct.unpack(f"<{len(answer) // 4}i", answer))


def compare_encodings(tool, hf, kind, strings):
    answers = tool.ask([(kind, s.encode()) for s in strings])
    failures = 0
    for begin in range(0, len(strings), 10000):
        batch = strings[begin : begin + 10000]
        for text, encoding, answer in zip(batch, hf.encode_batch(batch, add_special_tokens=False), answers[begin:]):
            ours = ids_of(answer)
            if ours != encoding.ids:
                failures += 1
                if failures <= 5:
                    print(f"differs: {text!r}\n  HF   {encoding.ids}\n  ours {ours}")
    return failures


def compare_decodings(tool, hf, lists):
    answers = tool.ask([(DECODE, struct.pack(f"<{len(ids)}i", *ids)) for ids in lists])
    failures = 0
    for ids, text, answer in zip(lists, hf.decode_batch(lists, skip_special_tokens=False), answers):
        if answer.decode("utf-8", "strict") != text:
            failures += 1
            if failures <= 5:
                print(f"decodes differently: {ids}\n  HF   {text!r}\n  ours {answer.decode()!r}")
    return failures


def random_id_lists(seed, vocab_size, count):
    """Half of any tokens; half of ids near the single bytes, which make broken characters."""
    rng = random.Random(seed)
    lists = [[rng.randrange(vocab_size) for _ in range(rng.randint(1, 12))] for _ in range(count // 2)]
    return lists + [[rng.randrange(3, 259) for _ in range(rng.randint(1, 12))] for _ in range(count - count // 2)]


def compare_file(path, arguments, usable):
    with open(path, encoding="utf-8") as stream:
        document = json.load(stream)
    added = [t["content"] for t in document["added_tokens"]]
    hf = Tokenizer.from_str(json.dumps(document))
    document["added_tokens"] = []
    hf_ordinary = Tokenizer.from_str(json.dumps(document))
    generator = Generator(f"{arguments.seed} {os.path.basename(path)} {len(added)}", usable, added)
    strings = list({generator.string(): None for _ in range(arguments.count * 21 // 20)})
    tool = Tool(arguments.tool, path)
    lists = random_id_lists(arguments.seed, hf.get_vocab_size(), arguments.count // 5)
    failures = compare_encodings(tool, hf, WITH_ADDED, strings)
    failures += compare_encodings(tool, hf_ordinary, ORDINARY, strings[: arguments.count // 3])
    failures += compare_decodings(tool, hf, lists)
    with_added = sum(any(a in s for a in added) for s in strings[:2000])
    distinct = len(set("".join(strings)))
    print(f"{path}: {len(strings)} strings ({sum(map(len, strings))} characters, {distinct} distinct; about "
          f"{with_added * 100 // 2000} % with added tokens), {len(lists)} id lists, {failures} differences")
    if len(strings) < arguments.count:
        print(f"fewer than {arguments.count} distinct strings")
        failures += 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=100_000, help="strings a file, at least")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("tokenizers", nargs="+")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    usable = usable_code_points(arguments.tool)
    sys.exit(1 if sum(compare_file(p, arguments, usable) for p in arguments.tokenizers) else 0)


if __name__ == "__main__":
    main()
