"""Random request bodies of three protocols, valid and invalid, for the comparison with the package deepseek-recipe."""

import copy


from compare_texts import WORDS, Number, Texts, dump

MODEL = "DeepSeek-V4.1-Flash"
OFF = {"type": "disabled"}
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
BAD_REGEX = ["(", "[a", "a{2,1}", "*a", "(?P<n", "\\"]
GOOD_REGEX = ["a+", "^(x|y)*$", "[0-9]{2,4}", "\\d+\\s?", "(?i)yes|no", ""]

# Values of top-level fields, good and bad alike.
SHARED_FIELDS = {
    "temperature": [0, 0.5, 1, 2, 2.5, -1, None, "1", True, Number("1e-3"), Number("1E0"), []],
    "top_p": [0.1, 0.95, 1, 1.5, 0, -0.5, None, "x", Number("9.9e-1"), {}],
    "stream": [True, False, None, "true", 1],
    "unknown": [None, 1, {"a": [1]}, "x"],
    "top_logprobs": [0, 5, 20, 21, -1, None, 2.0, "3"],
    "user": ["someone", "", None, 5],
    "model": [MODEL, "deepseek-flash", "deepseek-v4-flash", "DeepSeek-V4-Pro", "gpt", "", None, 4, "deepseek-v4.1-flash"],
}
CHAT_FIELDS = {
    **SHARED_FIELDS,
    "max_tokens": [1, 300, 393216, 393217, 0, -1, 2**32, 2**64, 1.0, None, "5"],
    "logprobs": [True, False, None, 1],
    "n": [1, 0, 2, None, "1", -1, 1.0],
    "frequency_penalty": [0, 2, -2, 2.01, -3, None, "a"],
    "presence_penalty": [0, 1.5, -2.5, None, False],
    "seed": [0, 11, 2**63 - 1, 2**63, -1, None, 0.5, "s"],
    "stop": ["END", ["a", "b"], [], "", [""], ["s"] * 16, ["s"] * 17, None, 5, [None], {"a": 1}],
    "stream_options": [{"include_usage": True}, {"include_usage": False}, {}, None, "x", {"include_usage": None}, {"other": 1}],
    "response_format": [{"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
                        {"type": "regex", "regex": "a|b"}, {"type": "regex", "regex": "("}, {"type": "json_schema", "json_schema": {"name": "n"}}, {"type": "yaml"}, None, {}, "text",
                        {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": 5}}}, {"type": "json_schema", "json_schema": {"schema": {}}}],
    "thinking": [{"type": "enabled"}, OFF, {"type": "adaptive"}, {"type": "auto"}, None, {}, "on", {"type": "enabled", "budget_tokens": 64}, {"type": "enabled", "budget_tokens": "x"}],
    "reasoning_effort": EFFORTS + ["HIGH", "", None, 1, 50, 100, 0, 101, 12.5, True, Number("75.0"), -3, Number("1e1")],
    "tool_choice": ["auto", "none", "required", "any", None, {"type": "function", "function": {"name": "f"}}, {"type": "function"}, {"type": "function", "function": {}}, 3],
    "tools": [[], None, {}, "x"],
    "parallel_tool_calls": [True, False, None, "x"],
    "max_completion_tokens": [5, 0, None, "x"],
    "functions": [[], None, 5],
    "logit_bias": [{}, {"5": 1}, None],
}
MESSAGES_FIELDS = {
    **SHARED_FIELDS,
    "max_tokens": [1, 4096, 393217, 10**9, 0, -5, None, "7", 2.0, 2**32, 2**64],
    "system": ["You help.", "", [], [{"type": "text", "text": "A"}], [{"type": "text", "text": "A"}, {"type": "text", "text": ""}], None, 5, [{"type": "image"}], ["x"], {}],
    "stop_sequences": [["END"], [], None, "END", [""], ["x"] * 17, [5]],
    "thinking": [{"type": "enabled", "budget_tokens": 1024}, {"type": "enabled"}, OFF, {"type": "adaptive"}, {"type": "none"}, None, {}, "x", {"type": "disabled", "x": 1}, {"type": "adaptive", "display": "omitted"}],
    "output_config": [{"effort": e} for e in EFFORTS] + [{}, None, {"effort": "huge"}, {"effort": None}, {"effort": 50}, "x", {"format": {"type": "json_schema", "schema": {}}}],
    "tool_choice": [{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": "f"}, {"type": "tool"}, {"type": "auto", "disable_parallel_tool_use": True}, None, "auto", {}, {"type": "required"}],
    "metadata": [{"user_id": "u"}, {}, None, 5, {"user_id": None}],
    "top_k": [5, 0, None, "x"],
    "service_tier": ["auto", None, 3],
    "tools": [[], None, {}, "x"],
}
RESPONSES_FIELDS = {
    **SHARED_FIELDS,
    "max_output_tokens": [1, 500, 393216, 393217, 0, -1, None, "5", 3.0, 2**32],
    "instructions": ["Be brief.", "", None, 5, []],
    "reasoning": [{"effort": e} for e in EFFORTS] + [{}, None, {"effort": None}, {"effort": "huge"}, {"effort": 40}, {"effort": 0}, {"summary": "auto"}, {"summary": "detailed"}, {"summary": "long"}, {"summary": None}, "high"],
    "text": [{}, None, {"format": {"type": "text"}}, {"format": {"type": "json_object"}}, {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}},
             {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]}}},
             {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "object"}}}, {"format": {"type": "regex", "regex": "a"}}, {"verbosity": "low"}, {"verbosity": "loud"}, "x", {"format": None}],
    "tool_choice": ["auto", "none", "required", None, {"type": "function", "name": "f"}, {"type": "custom", "name": "apply_patch"}, {"type": "web_search"}, {"type": "function"}, "any", 5, {"type": "allowed_tools", "mode": "auto", "tools": []}],
    "tools": [[], None, {}, "x", [{"type": "web_search"}], [{"type": "web_search_2025_08_26"}], [{"type": "file_search"}], [{"name": "f"}], [{"type": "custom", "name": "apply_patch"}]],
    "store": [True, None, 5],
    "metadata": [{}, None, {"a": "b"}, 5],
    "previous_response_id": ["resp_1", None, 5],
    "include": [[], ["reasoning.encrypted_content"], None, "x"],
    "truncation": ["auto", None, 5],
    "parallel_tool_calls": [True, None, "x"],
    "background": [False, None],
}
FIELDS = {"chat": CHAT_FIELDS, "messages": MESSAGES_FIELDS, "responses": RESPONSES_FIELDS}
# No array with elements: the package also reads an object's values from an array, in the order of its own declarations.
JUNK = [None, True, 0, -1, 1.5, "", "x", [], {}, {"type": "x"}, {"a": 1}, 2**64, "🐙", Number("1e2")]


def text_part(text, kind="text"):
    return {"type": kind, "text": text}


class Requests(Texts):
    """make() draws one request: {"protocol", "options", "body"} with the body as bytes."""

    def make(self, accepted):
        """`accepted(case)` says whether a request is valid: only valid ones are spoiled, so that there is one fault to name."""
        protocol = self.pick(["chat", "chat", "messages", "responses"])
        self.definitions = self.pick(["$defs", "definitions", "$def"])
        body = copy.deepcopy(getattr(self, protocol)())  # parts of it are shared until here
        case = {"protocol": protocol, "options": self.options(body), "body": dump(body, self.rng).encode()}
        draw = self.rng.random()
        if draw > 0.65 or not accepted(case):
            return case
        if draw < 0.28:
            self.set_field(protocol, body)
        elif draw < 0.57:
            self.mutate(body)
        text = self.duplicate_member(protocol, body) if 0.57 < draw < 0.61 else dump(body, self.rng)
        case["body"] = text.encode()
        if draw > 0.61:
            case["body"] = self.damage(case["body"])
        return case

    def options(self, body):
        draw = self.rng.random()
        if draw > 0.12:
            return {}
        choice = self.pick([{"default_thinking": False}, {"missing_reasoning": "reject"}, {"missing_reasoning": "reject"}, {"max_tokens_bound": 4096}, {"alias": {"house": "v41"}},
                            {"messages_web_search": "drop"}, {"responses_web_search": "reject"}])
        if "alias" in choice:
            body["model"] = self.pick(["house", "house", "other"])
        return choice

    # Ways to spoil a body.
    def set_field(self, protocol, body):
        name = self.pick(list(FIELDS[protocol]))
        body[name] = copy.deepcopy(self.pick(FIELDS[protocol][name]))

    def nodes(self, value, path=()):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            yield (value, key, path)
            yield from self.nodes(child, path + (key,))

    def mutate(self, body):
        container, key, _ = self.pick(list(self.nodes(body)))
        draw = self.rng.random()
        if draw < 0.35:
            container[key] = copy.deepcopy(self.pick(JUNK))
        elif draw < 0.55:
            del container[key]
        elif draw < 0.65 and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        elif draw < 0.75 and isinstance(container, list) and len(container) > 1:
            self.rng.shuffle(container)
        elif draw < 0.85 and isinstance(container[key], str):
            container[key] = self.pick([container[key] + "x", container[key][:-1], container[key].upper(), " " + container[key], self.text(3, markup=0.3)])
        elif isinstance(container, dict):
            container[self.pick(["type", "role", "content", "name", "id", "text", "x", "tools", "call_id", "input"])] = copy.deepcopy(self.pick(JUNK))
        else:
            container.insert(key, copy.deepcopy(self.pick(JUNK)))

    def duplicate_member(self, protocol, body):
        text = dump(body, None)
        name = self.pick([k for k in body] or ["model"])
        extra = dump({name: self.pick([body[name], self.pick(JUNK)])}, None)[1:-1]
        return text[:-1] + "," + extra + "}" if self.chance(0.5) else "{" + extra + "," + text[1:]

    def damage(self, raw):
        at = self.rng.randint(0, len(raw))
        return self.pick([raw[:at], raw[:at] + bytes([self.rng.randint(0, 255)]) + raw[at + 1:], raw + self.pick([b" ", b"\n\t", b"x", b",", b"}", b"\x00"]), b"\xef\xbb\xbf" + raw,
                          raw[:at] + b"\\ud800" + raw[at:], raw.replace(b":", b"::", 1), raw.replace(b"}", b",}", 1), b"", b" ", raw[:at] + b"\t" + raw[at:], raw[:at] + b"\\" + raw[at:]])

    # Chat Completions.
    def chat(self):
        tools = self.chance(0.5)
        body = {"model": MODEL, "messages": self.chat_messages(tools or self.chance(0.2), images=self.chance(0.15))}
        body.update(self.pick([{}, {}, {}, {"thinking": OFF}, {"thinking": OFF}, {"thinking": {"type": "enabled"}}, {"reasoning_effort": self.pick(EFFORTS)}]))
        if tools:
            body["tools"] = self.chat_tools()
            if self.chance(0.25):
                name = self.pick(body["tools"])["function"]["name"] if self.chance(0.9) else "nobody"
                body["tool_choice"] = self.pick(["auto", "none", "required", {"type": "function", "function": {"name": name}}])
                if self.chance(0.7):
                    body["thinking"] = OFF
        if self.chance(0.12):
            body["response_format"] = self.pick([
                {"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "n", "schema": self.schema()}}, {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": self.strict_schema()}},
                {"type": "regex", "regex": self.pick(GOOD_REGEX + BAD_REGEX)}])
            if self.chance(0.7):
                body["messages"].append({"role": "user", "content": self.pick(["in JSON", "json please", "a Json"])})
        if self.chance(0.15):
            self.add_prefix(body)
        if self.chance(0.02):
            body = {"model": "DeepSeek-V4-Pro", **{k: v for k, v in body.items() if k != "model"}}
        if self.chance(0.3):
            body.update(self.pick([{"temperature": 0.3, "top_p": 0.5}, {"stop": ["END", "\n"]}, {"seed": 5, "max_tokens": 77}, {"stream": True, "stream_options": {"include_usage": True}}, {"logprobs": True, "top_logprobs": 3},
                                   {"n": 1, "user": "u", "presence_penalty": 0.25}]))
        return body

    def add_prefix(self, body):
        body.pop("tools", None), body.pop("tool_choice", None)
        messages = body["messages"]
        if messages[-1]["role"] == "assistant":
            messages.pop()
        if self.chance(0.12):
            messages[:] = messages[:1] if messages and messages[0]["role"] == "system" and self.chance(0.5) else []
        message = {"role": "assistant", "content": self.pick(["", self.text(3), "\n", "a\n\n"]), "prefix": True}
        if self.chance(0.5):
            message["reasoning_content"] = self.pick(["", self.text(3), "r\n"])
        messages.append(message)

    def chat_content(self, images, most=8):
        if not images and self.chance(0.8):
            return self.text(most)
        parts = [text_part(self.text(4, markup=0.1)) for _ in range(self.rng.randint(1, 3))]
        if images:
            for _ in range(self.rng.randint(1, 3)):
                part = self.pick([{"type": "image_url", "image_url": {"url": PIXEL}}, {"type": "image_url", "image_url": {"url": "http://host.test/%s.png" % self.pick(WORDS), "detail": self.pick(["low", "high", "original", "auto"])}},
                                  {"type": "file", "file_data": PIXEL}])
                parts.insert(self.rng.randint(0, len(parts)), part)
        return parts

    def chat_messages(self, calls, images):
        messages = []
        if self.chance(0.5):
            messages.append({"role": "system", "content": self.pick([self.text(6), self.chat_content(images and self.chance(0.3)), ""])})
        number = 0
        for _ in range(self.rng.randint(1, 3)):
            messages.append({"role": "user", "content": self.chat_content(images)})
            if self.chance(0.1):
                messages.append({"role": "user", "content": self.text(3)})
            if self.chance(0.06):
                messages.append({"role": "latest_reminder", "content": self.text(3)})
            for _ in range(self.rng.randint(0, 2) if calls else 0):
                ids = [self.pick(["call_%d", "call_00_ET_x%d", "%d", "c-%d"]) % (number + i) for i in range(self.rng.randint(1, 3))]
                number += len(ids)
                message = {"role": "assistant", "content": self.pick(["", None, self.text(4)]), "tool_calls": [
                    {"id": i, "type": "function", "function": {"name": self.name(), "arguments": self.arguments()}} for i in ids]}
                if self.chance(0.6):
                    message["reasoning_content"] = self.pick(["", self.text(4)])
                messages.append(message)
                results = [{"role": "tool", "tool_call_id": i, "content": self.pick(["", self.text(5), dump(self.members(), None)]) if not images else self.chat_content(images)} for i in ids]
                self.rng.shuffle(results)
                messages += results
            if self.chance(0.7):
                message = {"role": "assistant", "content": self.pick([self.text(6), [text_part(self.text(3)), text_part("")]])}
                if self.chance(0.5):
                    message["reasoning_content"] = self.pick([None, "", self.text(4)])
                messages.append(message)
            if self.chance(0.1):
                messages.append({"role": "system", "content": self.pick([self.text(3), ""])})
        if messages[-1]["role"] == "assistant" and self.chance(0.7):
            messages.append({"role": "user", "content": self.text(4)})
        return messages

    def function(self):
        function = {"name": self.name()}
        if self.chance(0.7):
            function["description"] = self.pick([self.text(5), "", None])
        if self.chance(0.85):
            function["parameters"] = self.schema()
        if self.chance(0.15):
            function.update(strict=self.pick([True, True, False, None]), parameters=self.pick([self.strict_schema(), self.schema(), {}, None]))
        return function

    def functions(self):
        named = {f["name"]: f for f in (self.function() for _ in range(self.rng.randint(1, 3)))}
        functions = list(named.values())
        if self.chance(0.02):
            functions.append(copy.deepcopy(functions[0]))
        if any(f.get("strict") for f in functions) and self.chance(0.8):
            for f in functions:
                f.update(strict=True, parameters=self.strict_schema())
        return functions

    def chat_tools(self):
        return [{"type": "function", "function": f} for f in self.functions()]

    # Messages.
    def messages(self):
        tools = self.chance(0.5)
        body = {"model": MODEL, "max_tokens": self.pick([1, 900, 10**6]), "messages": self.message_turns(tools)}
        body.update(self.pick([{}, {}, {"thinking": OFF}, {"thinking": {"type": "enabled", "budget_tokens": 99}}, {"output_config": {"effort": self.pick(EFFORTS)}}]))
        if self.chance(0.5):
            body["system"] = self.pick([self.text(6), "", [text_part(self.text(3)), text_part(self.text(2))], []])
        if tools:
            body["tools"] = []
            for f in self.functions():
                tool = {"name": f["name"], "input_schema": f.get("parameters") or self.pick([{"type": "object"}, self.schema()])}
                tool.update({k: f[k] for k in ("description", "strict") if k in f})
                if self.chance(0.1):
                    tool["cache_control"] = {"type": "ephemeral"}
                body["tools"].append(tool)
            if self.chance(0.25):
                body["tool_choice"] = self.pick([{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": self.pick(body["tools"])["name"]}])
            if self.chance(0.12):
                self.defer(body)
            if self.chance(0.05):
                body["tools"].append(self.pick([{"type": "web_search_20250305", "name": "web_search"}, {"type": "custom", "name": "f", "input_schema": {"type": "object"}}, {"type": "bash_20250124", "name": "bash"}]))
        if self.chance(0.2):
            body.update(self.pick([{"stop_sequences": ["END"]}, {"temperature": 0.2, "top_p": 0.9}, {"stream": True}, {"metadata": {"user_id": "u"}, "top_k": 3}]))
        return body

    def defer(self, body):
        for name in self.rng.sample(["late_one", "late_two"], self.rng.randint(1, 2)):
            body["tools"].append({"name": name, "input_schema": {"type": "object"}, "defer_loading": True})
        blocks = [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": self.pick(["late_one", "late_two"])}} for _ in range(self.rng.randint(1, 2))]
        if self.chance(0.5):
            blocks.insert(self.rng.randint(0, len(blocks)), text_part(self.text(3)))
        body["messages"] += [{"role": "system", "content": blocks}, {"role": "user", "content": self.text(3)}]

    def image_block(self):
        return {"type": "image", "source": self.pick([{"type": "base64", "media_type": self.pick(["image/png", "image/jpeg", "image/webp", "image/gif", "image/jpg"]), "data": "iVBORw0KGgo="}, {"type": "url", "url": "https://host.test/p.png"}])}

    def user_blocks(self):
        blocks = [text_part(self.text(4)) for _ in range(self.rng.randint(1, 2))]
        if self.chance(0.2):
            blocks.insert(self.rng.randint(0, len(blocks)), self.image_block())
        if self.chance(0.07):
            blocks.append({"type": "document", "source": self.pick([{"type": "text", "media_type": "text/plain", "data": "x"}, {"type": "url", "url": "http://host.test/d.pdf"}, {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}])})
        return blocks

    def message_turns(self, tools):
        turns = []
        for t in range(self.rng.randint(1, 3)):
            turns.append({"role": "user", "content": self.pick([self.text(6), self.user_blocks()])})
            if tools and self.chance(0.6):
                ids = ["toolu_%d_%d" % (t, i) for i in range(self.rng.randint(1, 3))]
                blocks = [{"type": "thinking", "thinking": self.text(3), "signature": "s"}] if self.chance(0.6) else []
                blocks += [text_part(self.text(3))] if self.chance(0.5) else []
                blocks += [{"type": "tool_use", "id": i, "name": self.name(), "input": self.members(0.05)} for i in ids]
                results = [{"type": "tool_result", "tool_use_id": i, "content": self.pick([self.text(4), "", [text_part(self.text(2)), text_part("z")], [self.image_block()], []])} for i in ids]
                if self.chance(0.1):
                    results[0].pop("content")
                if self.chance(0.1):
                    results[0]["is_error"] = True
                self.rng.shuffle(results)
                turns += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results + ([text_part(self.text(3))] if self.chance(0.3) else [])}]
            if self.chance(0.7):
                turns.append({"role": "assistant", "content": self.pick([self.text(5), [text_part(self.text(3)), text_part("b")], [{"type": "thinking", "thinking": self.text(3), "signature": "s"}, text_part(self.text(2))]])})
            if self.chance(0.1):
                turns.append({"role": "system", "content": self.pick([self.text(3), [text_part("m"), text_part(self.text(2))]])})
        if turns[-1]["role"] == "assistant" and self.chance(0.6):
            turns.append({"role": "user", "content": self.text(4)})
        return turns

    # Responses.
    def responses(self):
        body = {"model": MODEL, "input": self.text(6) if self.chance(0.15) else self.items()}
        body.update(self.pick([{}, {}, {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": self.pick(EFFORTS)}}, {"reasoning": {"summary": "auto"}}]))
        if self.chance(0.4):
            body["instructions"] = self.pick([self.text(5), ""])
        if self.chance(0.5):
            body["tools"] = self.responses_tools()
            if self.chance(0.2):
                body["tool_choice"] = self.pick(["auto", "none", "required", {"type": "function", "name": "f"}, {"type": "custom", "name": "apply_patch"}])
                if self.chance(0.7):
                    body["reasoning"] = {"effort": "none"}
        if self.chance(0.1):
            body["text"] = self.pick([{"format": {"type": "json_object"}}, {"format": {"type": "json_schema", "name": "n", "schema": self.schema()}}, {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": self.strict_schema()}},
                                      {"verbosity": self.pick(["low", "medium", "high"])}])
        if self.chance(0.08):
            self.add_search(body)
        if self.chance(0.2):
            body.update(self.pick([{"temperature": 0.4, "top_p": 0.7}, {"max_output_tokens": 64}, {"stream": True, "store": False}, {"user": "u", "top_logprobs": 2}]))
        return body

    def responses_tools(self):
        tools = [{"type": "function", **f} for f in self.functions()]
        if self.chance(0.15):
            tools.append({"type": "namespace", "name": "ns", "description": self.pick([self.text(3), ""]), "tools": [{"type": "function", **f} for f in self.functions()]})
        if self.chance(0.03):
            tools.append({"type": "function", "name": "ns_" + self.pick(WORDS)})
        if self.chance(0.1):
            tools.append({"type": "custom", "name": "apply_patch"})
        if self.chance(0.1):
            tools.append(self.pick([{"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {"type": "web_search_2025_08_26"}, {"type": "custom", "name": "shell"}]))
        self.rng.shuffle(tools)
        return tools

    def add_search(self, body):
        body.setdefault("tools", []).append({"type": "tool_search", "execution": "client", "description": "find", "parameters": {"type": "object"}})
        if isinstance(body["input"], str):
            body["input"] = [{"role": "user", "content": body["input"]}]
        found = [{"type": "function", "name": "found_" + self.pick(WORDS[:4]), "description": self.text(3), "parameters": self.schema()}]
        body["input"] += [{"type": "tool_search_call", "call_id": "search", "arguments": {"query": self.text(2)}, "execution": "client"},
                          {"type": "tool_search_output", "call_id": "search", "tools": found, "execution": "client"}, {"role": "user", "content": self.text(2)}]

    def items(self):
        items, number = [], self.pick([0, 8, 97])
        for t in range(self.rng.randint(1, 3)):
            content = self.pick([self.text(5), [text_part(self.text(3), "input_text"), text_part("b", "input_text")], [{"type": "input_image", "image_url": self.pick([PIXEL, "http://host.test/i.png"])}, text_part(self.text(2), "input_text")],
                                 [{"type": "input_file", "file_id": "f"}]])
            items.append({"role": self.pick(["user", "user", "user", "developer", "system"]), "content": content})
            if self.chance(0.4):
                items.append({"type": "reasoning", "id": "rs_%d" % t, "summary": [], "content": [text_part(self.text(3), "reasoning_text") for _ in range(self.rng.randint(0, 2))], "encrypted_content": "e"})
            if self.chance(0.5):
                items.append({"type": "message", "role": "assistant", "content": [text_part(self.text(4), "output_text") for _ in range(self.rng.randint(1, 2))]})
            if self.chance(0.6):
                self.add_calls(items, number)
                number += 3
            if self.chance(0.08):
                items.append(self.pick([{"type": "web_search_call", "id": "w"}, {"type": "item_reference", "id": "i"}]))
        if self.chance(0.8):
            items.append({"role": "user", "content": self.text(3)})
        return items

    def add_calls(self, items, number):
        ids = ["call_%d" % (number + i) for i in range(self.rng.randint(1, 3))]
        for i in ids:
            call = {"type": "function_call", "call_id": i, "name": self.name(), "arguments": self.arguments()}
            if self.chance(0.1):
                call["namespace"] = self.pick(["ns", None, "other"])
            if self.chance(0.08):
                call = {"type": "custom_tool_call", "call_id": i, "name": "apply_patch", "input": self.text(4)}
            items.append(call)
        kind = lambda call: "custom_tool_call_output" if call["type"] == "custom_tool_call" else "function_call_output"
        outputs = [{"type": kind(call), "call_id": call["call_id"], "output": self.pick([self.text(4), "", [text_part("a", "input_text"), text_part(self.text(2), "input_text")]])} for call in items[-len(ids):]]
        self.rng.shuffle(outputs)
        items += outputs
