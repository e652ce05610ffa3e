"""Random texts, names and JSON values for the comparison with the package deepseek-recipe."""

import json
import random

WORDS = ("anvil beacon candle dahlia elbow ferry gravel hammock island juniper kettle lantern meadow nickel oyster parcel quarry "
         "rudder saddle thistle umbrella velvet walnut yonder zipper").split()
UNICODE = ["Übung", "façade", "да", "中文", "日本語", "한글", "ברית", "مرحبا", "🐙", "👩‍🔬", "🇪🇺", "o\u0308", "¾", "\u00a0", "\u200b", "\u2029",
           "\ufeff", "𝕏", "x²", "１２", "\x7f", "\x01", "\x00", "\u0085"]
BLOCK = "<｜DSML｜ calls>"
MARKUP = ["<think>", "</think>", "<｜User｜>", "<｜Assistant｜>", "<｜System｜>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "｜DSML｜",
          BLOCK, "</｜DSML｜ calls>", '<｜DSML｜ invoke name="f">', '<｜DSML｜ parameter name="a" string="true">', "</｜DSML｜ parameter>",
          "<tool_result>", "</tool_result>", "<｜image｜>", "<｜deepseek_image｜>", "<｜latest_reminder｜>", "<｜action｜>", "<|place_holder_mm_span_0442|>",
          "<dsml:", "</b>", "&amp;", "\\u0041", "{{", "]]", '"', "\\", "'"]
SNIPPETS = ["x = [1, 2]\n\ty(x)\r\n", "a | b\n---|---\n", "SELECT 'q' FROM t;", "```c\nint a;\n```", '{"k": [1, null]}', "1,000.5", "A.B.C", "10%\n\n\n"]
GLUE = [" ", " ", " ", "", "\n", "\n\n", ", ", " \n ", "  ", "\t"]
KEYS = WORDS[:9] + ["", "größe", "钥匙", "a.b", "x-1", "B_2", "🐙", "k\"q", "sl/ash"]
BLANK_KEYS = ["two words", " lead", "tail ", "tab\tstop", "back\\slash", "line\nbreak", "\x01", 'string="no"', "=", "a  b"]
INTEGERS = [0, 1, -1, 42, 2**31, -2**31, 2**53 + 1, 2**63 - 1, -2**63, 2**64 - 1]
NUMBER_TEXTS = ["-0", "0.0", "-0.0", "1.0", "1e2", "1E+3", "1e16", "123456789e12", "1e15", "0.0001", "0.00001", "1.5e-9", "2.5", "1e-7", "5e-324", "1e308",
                "18446744073709551616", "-9223372036854775809", "99999999999999999999999", "3.0000000000000001", "0.30000000000000004", "1e22", "1e23",
                "4.35", "100000000000000000.0", "9007199254740993.0", "1.7976931348623157e308"]


class Number(str):
    """A number with the spelling it has in the JSON text."""


def dump(value, style):
    """JSON text; `style` is a random.Random that draws blanks and escapes, or None for the plain form."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=bool(style) and style.random() < 0.15)
        return text.replace("/", "\\/") if style and style.random() < 0.05 else text
    comma, colon = (", ", ": ") if style and style.random() < 0.5 else (",", ":")
    if isinstance(value, dict):
        return "{" + comma.join(json.dumps(k, ensure_ascii=False) + colon + dump(v, style) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + comma.join(dump(v, style) for v in value) + "]"
    return json.dumps(value)


class Texts:
    def __init__(self, rng):
        self.rng = rng
        self.definitions = "$defs"  # the word for definitions of schemas in the request at hand

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, choices):
        return self.rng.choice(choices)

    def text(self, most=8, markup=0.03, least=1):
        parts = []
        for _ in range(self.rng.randint(least, most)):
            draw = self.rng.random()
            pool = MARKUP if draw < markup else UNICODE if draw < markup + 0.15 else SNIPPETS if draw < markup + 0.22 else WORDS
            parts.append(self.pick(pool))
        return self.pick(GLUE).join(parts) + self.pick(["", "", "", ".", "\n", "\n\n", "?"])

    def name(self):
        return self.pick(["get", "put", "scan", "f", "Z9", "do-it"]) + self.pick(["_", "-", ""]) + self.pick(WORDS[:12])

    def key(self, blanks=0.0):
        return self.pick(BLANK_KEYS) if self.chance(blanks) else self.pick(KEYS)

    def value(self, depth=0, blanks=0.0):
        kind = self.rng.randint(0, 9 if depth < 3 else 6)
        if kind == 0:
            return self.text(5, markup=0.05)
        if kind == 1:
            return self.pick(INTEGERS)
        if kind == 2:
            return Number(self.pick(NUMBER_TEXTS))
        if kind == 3:
            return self.pick([True, False, None])
        if kind == 4:
            return ""
        if kind <= 6:
            return self.pick(UNICODE + WORDS)
        if kind == 7:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.key(): self.value(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def members(self, blanks=0.0):
        return {self.key(blanks): self.value() for _ in range(self.rng.randint(0, 4))}

    def arguments(self, blanks=0.05):
        """Arguments of a call as a client writes them: mostly a JSON object, sometimes something else."""
        draw = self.rng.random()
        if draw < 0.08:
            return self.pick(["", "plain", "[1]", '"text"', "null", "7", '{"a":', '{"a":1}x', '{"a":"\\ud83d"}', '{"a":1e999}', "{a:1}", "{} ", " \n{}",
                              '{"a":1,"b":2,"a":{"c":3}}', '{"a":' + "[" * 130 + "]" * 130 + "}", '{"a":01}', "{\"a\":\"\t\"}", "\ufeff{}"])
        return dump(self.members(blanks), self.rng)

    def schema(self, depth=0):
        properties = {}
        for _ in range(self.rng.randint(0, 4)):
            properties[self.key() or "k"] = self.property(depth)
        schema = {"type": "object", "properties": properties}
        if properties and self.chance(0.5):
            schema["required"] = self.rng.sample(list(properties), self.rng.randint(1, len(properties)))
        if self.chance(0.25):
            schema["additionalProperties"] = self.pick([True, False])
        if self.chance(0.15):
            schema["description"] = self.text(4)
        if self.chance(0.1):
            schema = {"$schema": self.pick(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]), **schema}
        if self.chance(0.1):
            word = self.definitions
            schema[word] = {"part": {"type": "string"}}
            properties["ref"] = {"$ref": "#/%s/part" % word}
        return schema

    def property(self, depth):
        kind = self.pick(["string", "integer", "number", "boolean", "array", "object", "any"])
        if kind == "object" and depth < 2:
            return self.schema(depth + 1)
        out = {} if kind == "any" else {"type": kind if self.chance(0.9) else [kind, "null"]}
        if kind == "array":
            out["items"] = {"type": self.pick(["string", "number", "object"])}
            if self.chance(0.3):
                out["minItems"] = 1
        if kind == "string" and self.chance(0.4):
            out.update(self.pick([{"enum": [self.pick(WORDS), self.pick(UNICODE)]}, {"pattern": "^[a-z]+$"}, {"minLength": 1, "maxLength": 9}, {"format": "date"},
                                  {"const": "c"}, {"default": "d"}]))
        if kind in ("integer", "number") and self.chance(0.5):
            out.update(self.pick([{"minimum": 0, "maximum": 10}, {"minimum": Number("-1.50"), "exclusiveMaximum": Number("1e3")}, {"multipleOf": Number("0.5")}]))
        if kind == "any":
            out["anyOf"] = [{"type": "string"}, {"type": "null"}]
        if self.chance(0.4):
            out["description"] = self.text(4)
        return out

    def strict_schema(self, depth=0):
        """What strict tools ask for: every property required, types everywhere."""
        properties = {}
        for key in self.rng.sample(WORDS, self.rng.randint(1, 3)):
            properties[key] = self.strict_schema(depth + 1) if depth < 2 and self.chance(0.2) else self.pick([
                {"type": "string", "minLength": 1, "title": "T"}, {"type": "integer", "minimum": 0, "default": 3}, {"type": "array", "items": {"type": "string"}, "maxItems": 4},
                {"description": self.text(3), "type": "string", "enum": ["a", "b"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"], "format": "email"}])
        schema = {"type": "object", "properties": properties}
        if self.chance(0.5):
            schema = {"title": "S", **schema}
        if self.chance(0.5):
            schema["required"] = list(properties)
        if self.chance(0.3):
            schema["additionalProperties"] = False
        if depth == 0 and self.chance(0.3):
            word = self.definitions
            schema[word] = {"part": {"type": "string"}}
            properties["ref"] = {"$ref": "#/%s/part" % word}
            if "required" in schema:
                schema["required"].append("ref")
        return schema
