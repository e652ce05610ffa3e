"""Requests: what the package makes of them, and which differences are deliberate (recipe.md section 17.2)."""

import json
import re

import deepseek_recipe as package

from compare_requests import BAD_REGEX, Requests
from compare_texts import Number, dump

CLASSES = {"chat": package.ChatCompletionRequest, "messages": package.MessagesRequest, "responses": package.ResponsesRequest}
VERSIONS = {"v41": package.ModelVersion.DeepseekV41Flash, "v4": package.ModelVersion.DeepseekV4Pro}
WEB_SEARCH = {"drop": package.WebSearchBehavior.Drop, "reject": package.WebSearchBehavior.Reject}
STAGES = {"ReasoningStart": "start", "ReasoningContinuation": "reasoning", "ContentContinuation": "content", "None": "none"}
OUR_IMAGE = package.SpecialTokens(image="<｜deepseek_image｜>")
IMAGE_ID = 129264
OUR_NAMES = {"deepseek-flash": "v41", "deepseek-v4-flash": "v41", "deepseek-v4-flash-vision-exp": "v41", "deepseek-v4-pro": "v4"}

# Class of a message of the package, by its words; the first match counts. The names are those of RejectKind.
WORDINGS = [
    ("bad_json", "^invalid JSON request"),
    ("number_range", "^invalid request body: .*invalid value: integer"),
    ("unknown_variant", "^invalid request body: .*unknown variant"),
    ("missing_field", "^invalid request body: .*missing field"),
    ("wrong_type", "^invalid request body: "),
    ("model", "supported API model names"),
    ("schema", "[Ss]chema"),
]


def options_of(names):
    out = package.ConversionOptions()
    for name, value in (names or {}).items():
        if name == "default_thinking":
            out = out.with_default_thinking_mode(value)
        elif name == "missing_reasoning":
            out = out.with_reasoning_content_behavior(package.ReasoningContentBehavior.Reject if value == "reject" else package.ReasoningContentBehavior.FillEmpty)
        elif name == "max_tokens_bound":
            out = out.with_thinking_max_tokens_upper_bound(value).with_non_thinking_max_tokens_upper_bound(value)
        elif name == "alias":
            for alias, version in value.items():
                out = out.with_model_alias(alias, VERSIONS[version])
        elif name == "messages_web_search":
            out = out.with_messages_web_search(WEB_SEARCH[value])
        elif name == "responses_web_search":
            out = out.with_responses_web_search(WEB_SEARCH[value])
        else:
            raise ValueError(name)
    return out


def refusal(error):
    if isinstance(error, package.ConversionError):
        body = json.loads(error.body)["error"]
        return {"error": {"status": error.status_code, "stage": "convert", "message": body["message"]}}
    return {"error": {"status": 400, "stage": "body", "message": str(error)}}


def class_of(message):
    return next((name for name, pattern in WORDINGS if re.search(pattern, message, re.S)), "?")


class Package:
    """The package as an encoder with the answer form of our tool."""

    def __init__(self, tokenizer):
        # A new encoding copies the vocabulary.
        self.encoding = package.DeepseekV41Encoding().with_tokenizer(tokenizer)
        self.encoding_of_our_image = package.DeepseekV41Encoding().with_special_tokens(OUR_IMAGE).with_tokenizer(tokenizer)

    def encode(self, protocol, body, names):
        try:
            request = CLASSES[protocol](body)
            converted = request.convert(options_of(names))
        except (ValueError, package.ConversionError) as error:
            return refusal(error)
        v4 = "V4Pro" in str(converted.model_version)
        encoding = package.DeepseekV4Encoding() if v4 else self.encoding
        prompt = encoding.render_conversation(converted.conversation)
        out = {"prompt": prompt.prompt, "special": [list(r) for r in prompt.special_ranges]}
        out["images"] = [{"kind": s.kind, "detail": s.detail, "path": s.path} for s in prompt.image_sources]
        if not v4:
            out["ids"] = self.ids_with_images(CLASSES[protocol](body), names) if out["images"] else self.encoding.encode(converted.conversation)
        out.update(self.settings(converted))
        return out

    def ids_with_images(self, request, names):
        """Its own spelling of an image is no token of the vocabulary; the caller has to name another (D12)."""
        converted = request.convert(options_of(names).with_special_tokens(OUR_IMAGE))
        return self.encoding_of_our_image.encode(converted.conversation)

    def settings(self, converted):
        conversation, parsing, inference = converted.conversation, converted.parsing_options, converted.inference_options
        stage = "tool_calls" if parsing.starts_in_tool_calls else STAGES[str(parsing.thinking_initial_stage).split(".")[-1]]
        out = {"thinking": conversation.thinking_mode, "effort": conversation.reasoning_effort,
               "parsing": {"tools": parsing.parse_tool_calls, "stage": stage, "json": parsing.parse_json_output, "stops": parsing.stop_sequences},
               "inference": {"max_tokens": inference.max_tokens, "temperature": round(inference.temperature, 6), "top_p": round(inference.top_p, 6)},
               "stream": converted.stream}
        for name in ("logprobs", "top_logprobs", "seed"):
            value = getattr(inference, name)
            if value:
                out["inference"][name] = value
        if inference.output_constraint:
            out["inference"]["constraint"] = [inference.output_constraint.kind, inference.output_constraint.schema]
        return out


def ours_rounded(ours):
    if "inference" in ours:
        for name in ("temperature", "top_p"):
            ours["inference"][name] = round(ours["inference"][name], 6)
        for name in ("logprobs", "top_logprobs", "seed"):
            if not ours["inference"].get(name):
                ours["inference"].pop(name, None)
    return ours


class Comparer:
    def __init__(self, tool, tokenizer, tally, rng):
        self.tool, self.tally, self.rng = tool, tally, rng
        self.package = Package(tokenizer)
        self.maker = Requests(rng)

    def run(self, count):
        cases = [self.maker.make(self.accepted) for _ in range(count)]
        answers = self.tool.ask([{"do": "encode", "id": "", "protocol": c["protocol"], "options": c["options"], "body": c["body"].hex()} for c in cases])
        for case, ours in zip(cases, answers):
            self.compare(case, ours_rounded(ours))

    def accepted(self, case):
        try:
            CLASSES[case["protocol"]](case["body"]).convert(options_of(case["options"]))
        except (ValueError, package.ConversionError):
            return False
        return True

    def ask(self, case, body=None, **options):
        return self.package.encode(case["protocol"], case["body"] if body is None else body, {**case["options"], **options})

    def compare(self, case, ours):
        theirs = self.ask(case)
        self.tally.add(f"requests {case['protocol']}: " + ("refused" if "error" in theirs else "accepted"))
        wanted, classes = theirs, []
        for explain in (self.model_names, self.numeric_effort, self.definitions, self.call_order, self.first_prefix):
            wanted, name = explain(case, ours, wanted)
            if name is not None:
                classes.append(name)
        wanted, more = self.small_differences(case, ours, wanted)
        for name in classes + more:
            self.tally.add(name)
        if "error" in ours or "error" in wanted:
            self.compare_refusals(case, ours, wanted)
            return
        for name in wanted:
            if ours.get(name) != wanted[name]:
                self.fail(f"request {name}", case, ours.get(name), wanted[name])
                return

    def fail(self, what, case, ours, theirs):
        body = case["body"].decode("utf-8", "backslashreplace")
        a, b = (json.dumps(x, ensure_ascii=False) for x in (ours, theirs))
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), 0)
        self.tally.fail(what, f"{case['protocol']} {case['options']} {body[:1500]}\n  ours    …{a[max(0, at - 80):at + 200]}\n  package …{b[max(0, at - 80):at + 200]}")

    def compare_refusals(self, case, ours, theirs):
        if "error" not in ours:
            self.fail("request that only the package refuses", case, "", theirs["error"]["message"])
            return
        if "error" not in theirs:
            self.fail("request that only we refuse", case, ours["error"], "")
            return
        a, b = ours["error"], theirs["error"]
        if a["status"] != b["status"] or a["stage"] != b["stage"]:
            self.fail("refusal", case, a, b)
        elif a["message"] == b["message"]:
            self.tally.add("refusals: the same words")
        elif a["class"] == class_of(b["message"]):
            self.tally.add("refusals: the same class")
        else:
            self.fail("refusal class", case, a, {**b, "class": class_of(b["message"])})

    # Each of these gives what the package answers when it is asked in our sense, and the name of the class when that matters.
    def model_names(self, case, ours, theirs):
        if "error" not in theirs or "supported API model names" not in theirs["error"]["message"]:
            return theirs, None
        model = theirs["error"]["message"].rsplit("but you passed ", 1)[1][:-1]
        if model not in OUR_NAMES:
            return theirs, None
        return self.ask(case, alias={model: OUR_NAMES[model]}), "D10 model names of the API"

    def numeric_effort(self, case, ours, theirs):
        number = (ours.get("effort"))
        if isinstance(number, bool) or not isinstance(number, int) or "error" not in theirs:
            return theirs, None
        body, changes = re.subn(rb'("(?:reasoning_effort|effort)":\s*)%d\b' % number, rb'\1"high"', case["body"])
        out = self.ask(case, body)
        if changes == 0 or "error" in out:
            return theirs, None
        out["effort"] = number
        shift = len(str(number)) - 2
        out["prompt"] = out["prompt"].replace("Reasoning Effort: 75 (", f"Reasoning Effort: {number} (", 1)
        out["special"] = [[a + shift, b + shift] if a >= 31 else [a, b] for a, b in out["special"]]
        out["ids"] = ours["ids"]
        return out, "D9 numeric effort"

    def definitions(self, case, ours, theirs):
        """Asked with the one word that it keeps, `$def`, put back afterwards."""
        words = [w for w in (b"$defs", b"definitions") if b'"%s"' % w in case["body"]]
        if "error" in theirs or not re.search(rb'"strict":\s*true', case["body"]) or len(words) != 1:
            return theirs, None
        body = case["body"].replace(b'"%s"' % words[0], b'"$def"').replace(b"#/%s/" % words[0], b"#/$def/")
        out, word = self.ask(case, body), words[0].decode()
        if "error" in out:
            return theirs, None
        back = lambda text: text.replace('"$def"', f'"{word}"').replace("#/$def/", f"#/{word}/")
        shift = len(back(out["prompt"])) - len(out["prompt"])
        if back(out["prompt"]) == theirs["prompt"]:
            return theirs, None
        end = out["prompt"].rfind("#/$def/")
        out["special"] = [[a + shift, b + shift] if a > end else [a, b] for a, b in out["special"]]
        out["prompt"], out["ids"] = back(out["prompt"]), ours.get("ids")
        if "constraint" in out["inference"]:
            out["inference"]["constraint"][1] = back(out["inference"]["constraint"][1])
        return out, "D6 strict schema with definitions"

    def call_order(self, case, ours, theirs):
        """Asked with call ids whose order as texts is that of their arrival."""
        if case["protocol"] != "responses" or "error" in theirs or "error" in ours or ours["prompt"] == theirs["prompt"]:
            return theirs, None
        items = json.loads(case["body"])["input"]
        ids = [i["call_id"] for i in items if isinstance(i, dict) and i.get("type", "").endswith("_call") and "call_id" in i] if isinstance(items, list) else []
        body = case["body"]
        for number, name in enumerate(ids):
            body = re.sub(rb'("call_id":\s*)"%s"' % re.escape(name.encode()), rb'\1"ordered%05d"' % number, body)
        out = self.ask(case, body)
        return (theirs, None) if "error" in out or len(ids) < 2 else (out, "D8 order of Responses calls")

    def first_prefix(self, case, ours, theirs):
        """Asked with a user turn in front, which is cut out again."""
        if case["protocol"] != "chat" or "error" in theirs or "error" in ours or ours["prompt"] == theirs["prompt"]:
            return theirs, None
        body = json.loads(case["body"], parse_float=Number, parse_int=Number)
        messages = body["messages"]
        if not messages[-1].get("prefix") or not theirs["thinking"]:
            return theirs, None
        messages.insert(len(messages) - 1, {"role": "user", "content": "CUT"})
        out = self.ask(case, dump(body, None).encode())
        added = "<｜User｜>CUT"
        if "error" in out or added not in out["prompt"]:
            return theirs, None
        at = out["prompt"].rindex(added)
        out["special"] = [[a - len(added), b - len(added)] if a > at else [a, b] for a, b in out["special"] if a != at]
        out["prompt"], out["ids"] = out["prompt"].replace(added, ""), ours["ids"]
        return out, "D5 prefix as the first message"

    def small_differences(self, case, ours, theirs):
        names = []
        if "error" in theirs:
            return theirs, names
        if "error" in ours:
            constraint = theirs["inference"].get("constraint", [None])
            if constraint[0] == "regex" and constraint[1] in BAD_REGEX and ours["error"]["class"] == "regex":
                return ours, ["D14 regex that does not compile"]
            return theirs, names
        if theirs["parsing"]["stage"] == "none" and ours["parsing"]["stage"] == "content" and not theirs["thinking"]:
            messages = json.loads(case["body"])["messages"]
            if messages[-1].get("prefix") and messages[-1]["content"]:
                theirs["parsing"]["stage"] = "content"
                names.append("D4 prefix with thinking off")
        if theirs["images"] and "ids" in theirs and ours["ids"].count(IMAGE_ID) == len(theirs["images"]):
            names.append("D12 image tokens in ids")
        return theirs, names

    def compare_spans(self, count):
        sizes = [[self.side(), self.side()] for _ in range(count)]
        once = self.tool.ask([{"do": "spans", "sizes": sizes}])[0]["spans"]
        repeated = list(once)
        for _ in range(10):
            repeated = [[n, w, h] for n, w, h in self.tool.ask([{"do": "spans", "sizes": [s[1:] for s in repeated]}])[0]["spans"]]
        for size, one, many in zip(sizes, once, repeated):
            info = package.ImageInfo(b"x", *size)
            theirs = package.MultiModalData([info]).image_token_adjustment() + 1
            if theirs != many[0]:
                self.tally.fail("image span", f"{size}: ours repeated {many}, package {theirs}")
            self.tally.add("spans")
            if one != many:
                self.tally.add("D13 image sizes that the package fits again")

    def side(self):
        return self.rng.randint(1, self.rng.choice([20, 100, 1000, 8192]))
