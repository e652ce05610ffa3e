// The numbered vectors of recipe.md §4 and §5, with the place of every control token.
#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "recipe/conversation_builder.h"
#include "recipe/prompt.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {

void PrintTo(const Prompt::Special& special, std::ostream* out) {
  *out << "[" << special.begin << "," << special.end << ") " << TokenRoleText(special.role);
}

namespace testing {
namespace {

using Format = ResponseFormat::Kind;

const TalkSetup kOff{.thinking = false};
const TalkSetup kTools{.tools = {W()}};
const TalkSetup kToolsOff{.thinking = false, .tools = {W()}};

/// Control tokens in expected prompts.
const std::pair<std::string_view, TokenRole> kMarks[] = {{"[B]", TokenRole::kBos},
                                                         {"[E]", TokenRole::kEos},
                                                         {"[S]", TokenRole::kSystem},
                                                         {"[U]", TokenRole::kUser},
                                                         {"[A]", TokenRole::kAssistant},
                                                         {"[R]", TokenRole::kLatestReminder},
                                                         {"[T]", TokenRole::kThinkBegin},
                                                         {"[/T]", TokenRole::kThinkEnd},
                                                         {"[D]", TokenRole::kDsml},
                                                         {"[I]", TokenRole::kImage},
                                                         {"[query]", TokenRole::kQuery},
                                                         {"[action]", TokenRole::kAction},
                                                         {"[title]", TokenRole::kTitle},
                                                         {"[url]", TokenRole::kExtractedUrl},
                                                         {"[read]", TokenRole::kReadUrl},
                                                         {"[hole]", TokenRole::kFimHole},
                                                         {"[begin]", TokenRole::kFimBegin},
                                                         {"[end]", TokenRole::kFimEnd},
                                                         {"[authority]", TokenRole::kAuthority},
                                                         {"[domain]", TokenRole::kDomain}};

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string EffortLine(int number) {
  return "Reasoning Effort: " + std::to_string(number) +
         " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
}

/// The two halves of TOOLS, from a prompt with one tool.
std::pair<std::string, std::string> ToolsHalves() {
  const Result<Prompt> prompt = RenderPrompt(Talk({U("q")}, kToolsOff));
  EXPECT_TRUE(prompt.ok());
  const std::string& text = prompt->text;
  const size_t begin = text.find("## Tools");
  const size_t line = text.find("{\"name\": \"w\"");
  const size_t after = text.find('\n', line);
  return {text.substr(begin, line - begin), text.substr(after, text.find("<｜User｜>") - after)};
}

std::string Digest(std::string_view text) { return ToHex(Sha256Of(text)); }

constexpr std::string_view kW = R"({"name": "w", "description": "d", "parameters": {"type": "object"}})";

/// An expected prompt, written with marks; `{TOOLS:…}` is the tools text around these schema lines, `{E75}` the line of effort.
Prompt Expand(std::string text) {
  const auto [begin, end] = ToolsHalves();
  const auto mark = [](std::string half) {
    half = Replace(std::move(half), "｜DSML｜", "[D]");
    return Replace(Replace(std::move(half), "</think>", "[/T]"), "<think>", "[T]");
  };
  text = Replace(std::move(text), "{W}", "{TOOLS:" + std::string(kW) + ":TOOLS}");
  text = Replace(Replace(std::move(text), "{TOOLS:", mark(begin)), ":TOOLS}", mark(end));
  for (const int number : {37, 50, 75, 100}) {
    text = Replace(std::move(text), "{E" + std::to_string(number) + "}", EffortLine(number));
  }
  Prompt prompt;
  for (std::string_view rest = text; !rest.empty();) {
    const auto* found = std::find_if(std::begin(kMarks), std::end(kMarks),
                                     [&](const auto& m) { return rest.starts_with(m.first); });
    if (found == std::end(kMarks)) {
      prompt.text += rest[0];
      rest.remove_prefix(1);
      continue;
    }
    const size_t at = prompt.text.size();
    prompt.text += found->second == TokenRole::kImage ? kImageText : TokenRoleText(found->second);
    prompt.special.push_back({at, prompt.text.size(), found->second});
    rest.remove_prefix(found->first.size());
  }
  return prompt;
}

void Check(const Conversation& conversation, const std::string& expected, const PromptOptions& options = {}) {
  const Result<Prompt> prompt = RenderPrompt(conversation, options);
  ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
  const Prompt wanted = Expand(expected);
  EXPECT_EQ(prompt->text, wanted.text);
  EXPECT_EQ(prompt->special, wanted.special);
}

const PromptOptions kCheckpoint{.profile = PromptProfile::kCheckpoint};
const PromptOptions kV4{.profile = PromptProfile::kV4};
const PromptOptions kKeep{.history_thinking = HistoryThinking::kKeep};
const PromptOptions kDrop{.history_thinking = HistoryThinking::kDrop};

void CheckBoth(const Conversation& conversation, const std::string& expected) {
  Check(conversation, expected);
  Check(conversation, expected, kCheckpoint);
}

std::string Invoke(const std::string& name, const std::string& parameters) {
  return "<[D] invoke name=\"" + name + "\">\n" + parameters + "\n</[D] invoke>";
}
std::string Parameter(const std::string& key, const std::string& is_string, const std::string& value) {
  return "<[D] parameter name=\"" + key + "\" string=\"" + is_string + "\">" + value + "</[D] parameter>";
}
std::string Calls(const std::string& invokes) { return "\n\n<[D] calls>\n" + invokes + "\n</[D] calls>"; }

TEST(PromptVectors, ToolsText) {
  const auto [begin, end] = ToolsHalves();
  EXPECT_EQ(begin.size(), 884U);
  EXPECT_EQ(Digest(begin), "2ae2ff83edf990187ed419c4e2901bb9ea6ce2129eb503ac543b258e7de8231d");
  EXPECT_EQ(end.size(), 99U);
  EXPECT_EQ(Digest(end), "690702850fe256512cb1ee67c4e436ecb3e735c71ebee77ca45ff357a75fb5a7");
  const std::string all = begin + std::string(kW) + end;
  EXPECT_EQ(all.size(), 1050U);
  EXPECT_EQ(Digest(all), "16c8bcf523c4723b6f0da6eb350ff284ddd9fc996acc1476e31435ee8b2161c0");
}

TEST(PromptVectors, V01) { CheckBoth(Talk({U("Hello")}), "[B][S]{E75}[U]Hello[A][T]"); }

TEST(PromptVectors, V02) {
  CheckBoth(Talk({S("You are helpful."), U("Hello")}, kOff), "[B][S]You are helpful.[U]Hello[A][/T]");
}

TEST(PromptVectors, V02b) {
  const Effort max{Effort::Name::kMax, 100};
  CheckBoth(Talk({S("sys"), U("Hi")}, {.effort = max}), "[B][S]{E100}sys[U]Hi[A][T]");
}

TEST(PromptVectors, V02c) { CheckBoth(Talk({U("Hi")}, kOff), "[B][U]Hi[A][/T]"); }

TEST(PromptVectors, V03) {
  const std::vector<Message> turns = {U("1+1?"), A("2", "add"), U("+1?")};
  const std::string kept = "[B][S]{E75}[U]1+1?[A][T]add[/T]2[E][U]+1?[A][T]";
  const std::string dropped = "[B][S]{E75}[U]1+1?[A][/T]2[E][U]+1?[A][T]";
  Check(Talk(turns), kept, kKeep);  // V03a
  Check(Talk(turns), kept, {PromptProfile::kCheckpoint, HistoryThinking::kKeep});
  Check(Talk(turns), dropped);                                         // V03
  Check(Talk(turns), dropped, kCheckpoint);                            // V03b
  CheckBoth(Talk(turns, kOff), "[B][U]1+1?[A][/T]2[E][U]+1?[A][/T]");  // V03c
  const std::string with_tools = "[B][S]{E75}\n\n{W}[U]1+1?[A][T]add[/T]2[E][U]+1?[A][T]";
  CheckBoth(Talk(turns, kTools), with_tools);  // V03d
  const std::string drop_tools = "[B][S]{E75}\n\n{W}[U]1+1?[A][/T]2[E][U]+1?[A][T]";
  Check(Talk(turns, kTools), drop_tools, kDrop);
  Check(Talk(turns, kTools), drop_tools, {PromptProfile::kCheckpoint, HistoryThinking::kDrop});
}

TEST(PromptVectors, V04) {
  Check(Talk({U("x"), A("y"), R("Be brief.")}), "[B][S]{E75}[U]x[A][/T]y[E][R]Be brief.[A][T]");
}

TEST(PromptVectors, V05) {
  CheckBoth(Talk({S("s"), R("2026-10-20"), U("q")}), "[B][S]{E75}s[R]2026-10-20[U]q[A][T]");
}

TEST(PromptVectors, V06) { CheckBoth(Talk({U("a"), U("b")}, kOff), "[B][U]a\n\nb[A][/T]"); }

TEST(PromptVectors, V07) {
  Check(Talk({S("A"), U("x"), A("y", "r"), S("B"), U("z")}), "[B][S]{E75}A[U]x[A][/T]y[E][S]B[U]z[A][T]");
  CheckBoth(Talk({S("A"), U("x"), A("y"), S("B")}, kOff), "[B][S]A[U]x[A][/T]y[E][S]B[A][/T]");  // V07b
}

TEST(PromptVectors, V08) {
  CheckBoth(Talk({U("Weather in Paris?")}, kToolsOff), "[B][S]\n\n{W}[U]Weather in Paris?[A][/T]");
}

TEST(PromptVectors, V09) { CheckBoth(Talk({U("q")}, kTools), "[B][S]{E75}\n\n{W}[U]q[A][T]"); }

TEST(PromptVectors, V10) {
  TalkSetup setup = kToolsOff;
  setup.choice = ToolChoice::kRequired;
  CheckBoth(Talk({U("q")}, setup), "[B][S]\n\n{W}[U]q[A][/T]\n\n<[D] calls>\n");
}

TEST(PromptVectors, V11) {
  TalkSetup setup = kToolsOff;
  setup.choice = ToolChoice::kNone;
  CheckBoth(Talk({U("q")}, setup), "[B][U]q[A][/T]");
}

TEST(PromptVectors, V12V13) {
  const std::vector<ToolCall> calls = {{"c1", "get_weather", R"({"location":"Paris"})"}};
  const std::string block = Calls(Invoke("get_weather", Parameter("location", "true", "Paris")));
  CheckBoth(Talk({U("Weather in Paris?"), A("", "Need the weather tool.", calls), T("c1", R"({"temp": 20})")},
                 kToolsOff),
            "[B][S]\n\n{W}[U]Weather in Paris?[A][/T]" + block +
                "[E][U]<tool_result>{\"temp\": 20}</tool_result>[A][/T]");
  CheckBoth(Talk({U("Weather in Paris?"), A("", "Need tool.", calls), T("c1", "20C")}, kTools),
            "[B][S]{E75}\n\n{W}[U]Weather in Paris?[A][T]Need tool.[/T]" + block +
                "[E][U]<tool_result>20C</tool_result>[A][T]");
}

const std::vector<Message> kParallel = {
    U("q"), A("", "think", {{"c1", "f", R"({"a":"x","n":3})"}, {"c2", "g", "{}"}}), T("c2", "R2"),
    T("c1", "R1")};
const std::string kParallelBlock = Calls(
    Invoke("f", Parameter("a", "true", "x") + "\n" + Parameter("n", "false", "3")) + "\n" + Invoke("g", ""));
const std::string kParallelResults = "[U]<tool_result>R1</tool_result>\n\n<tool_result>R2</tool_result>";

TEST(PromptVectors, V14) {
  Check(Talk(kParallel), "[B][S]{E75}[U]q[A][/T]" + kParallelBlock + "[E]" + kParallelResults + "[A][T]");
}

TEST(PromptVectors, V15) {
  std::vector<Message> messages = kParallel;
  messages.push_back(A("done", "t2"));
  messages.push_back(U("next"));
  CheckBoth(Talk(messages, kTools), "[B][S]{E75}\n\n{W}[U]q[A][T]think[/T]" + kParallelBlock + "[E]" +
                                        kParallelResults + "[A][T]t2[/T]done[E][U]next[A][T]");
}

TEST(PromptVectors, V16) {
  const std::string arguments = R"({"k":null,"b":true,"o":{"z":1,"a":[1.5,"é"]}})";
  CheckBoth(Talk({U("q"), A("", {}, {{"c1", "f", arguments}}), T("c1", "R1"), U("and?")}, kOff),
            "[B][U]q[A][/T]" +
                Calls(Invoke("f", Parameter("k", "false", "null") + "\n" + Parameter("b", "false", "true") +
                                      "\n" + Parameter("o", "false", R"({"z": 1, "a": [1.5, "é"]})"))) +
                "[E][U]<tool_result>R1</tool_result>\n\nand?[A][/T]");
}

TEST(PromptVectors, V17) {
  for (const std::string arguments :
       {"not json", "", "[1]", "\"x\"", "{} x", R"({"a":"\ud800"})", R"({"a":1e400})", "null"}) {
    Check(Talk({U("q"), A("", {}, {{"c1", "f", arguments}}), T("c1", "")}, kOff),
          "[B][U]q[A][/T]" + Calls(Invoke("f", Parameter("arguments", "true", arguments))) +
              "[E][U]<tool_result></tool_result>[A][/T]");
  }
}

TEST(PromptVectors, V18) {
  Check(Talk({U("q"), A("Let me see.", "r", {{"c", "f", R"({"a":"1"})"}}), T("c", "R")}),
        "[B][S]{E75}[U]q[A][/T]Let me see." + Calls(Invoke("f", Parameter("a", "true", "1"))) +
            "[E][U]<tool_result>R</tool_result>[A][T]");
}

const std::string kFormatText =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

TEST(PromptVectors, V19) {
  CheckBoth(
      Talk({S("Answer with json."), U("Give me a number")}, {.format = {Format::kJsonObject, {}, {}}}),
      "[B][S]{E75}Answer with json." + kFormatText + "{\"type\": \"json_object\"}[U]Give me a number[A][T]");
}

TEST(PromptVectors, V20) {
  TalkSetup setup = kToolsOff;
  setup.format.kind = Format::kJsonObject;
  CheckBoth(Talk({S("sys json"), U("q")}, setup),
            "[B][S]sys json\n\n{W}" + kFormatText + "{\"type\": \"json_object\"}[U]q[A][/T]");
}

TEST(PromptVectors, ResponseSchemaAndRegex) {
  TalkSetup setup{.thinking = false};
  setup.format = {Format::kJsonSchema, json::Object{{"type", "object"}, {"strict", true}}, {}};
  CheckBoth(Talk({U("q")}, setup),
            "[B][S]" + kFormatText + "{\"type\": \"object\", \"strict\": true}[U]q[A][/T]");
  setup.format = {Format::kRegex, {}, "a+"};
  CheckBoth(Talk({U("q")}, setup), "[B][U]q[A][/T]");
}

TEST(PromptVectors, V21) {
  const Content content = WithImages("What is this?\n\n\n\n", {15, 17});
  const Conversation conversation = Talk({UserMessage{content, Task::kNone, {}}});
  CheckBoth(conversation, "[B][S]{E75}[U]What is this?\n\n[I]\n\n[I][A][T]");
  const Result<Prompt> prompt = RenderPrompt(conversation);
  ASSERT_TRUE(prompt.ok());
  const auto& images = std::get<UserMessage>(conversation.messages[0]).content.images;
  EXPECT_EQ(prompt->images, (std::vector<const ImageSource*>{&images[0].source, &images[1].source}));
}

TEST(PromptVectors, V22) {
  const std::vector<Tool> tools = {MakeTool("weather::current", "Weather tools\nCurrent weather",
                                            json::Value(json::Object{{"type", "object"}})),
                                   MakeTool("weather::forecast", "Weather tools\n")};
  Check(
      Talk({U("q")}, {.thinking = false, .tools = tools}),
      "[B][S]\n\n{TOOLS:"
      R"({"name": "weather::current", "description": "Weather tools\nCurrent weather", "parameters": {"type": "object"}})"
      "\n"
      R"({"name": "weather::forecast", "description": "Weather tools\n", "parameters": {}})"
      ":TOOLS}[U]q[A][/T]");
}

TEST(PromptVectors, V23) { Check(Talk({A("hi", "r"), U("x")}), "[B][S]{E75}[A][/T]hi[E][U]x[A][T]"); }

TEST(PromptVectors, V24) {
  Check(Talk({U("q"), A("partial")}, kOff), "[B][U]q[A][/T]partial[E][A][/T]");
  CheckBoth(Talk({U("q"), Prefix("partial")}, kOff), "[B][U]q[A][/T]partial");
}

TEST(PromptVectors, V25) {
  Check(Talk({U("find x", Task::kQuery)}, kOff), "[B][U]find x[query]", kCheckpoint);
  Check(Talk({U("find x", Task::kAction)}, kOff), "[B][U]find x[A][/T][action]", kCheckpoint);
}

TEST(PromptVectors, V26) {
  CheckBoth(Talk({U("Hi")}, {.effort = Effort{Effort::Name::kNumber, 37}}), "[B][S]{E37}[U]Hi[A][T]");
}

TEST(PromptVectors, V27) {
  Check(Talk({U("a"), A("b"), S("Be nice"), U("c")}), "[B][S]{E75}[U]a[A][/T]b[E][S]Be nice[U]c[A][T]");
}

TEST(PromptVectors, V28) {
  Check(Talk({S("You are helpful."), U("Hello")}, kOff), "[B]You are helpful.[U]Hello[A][/T]", kV4);
}

TEST(PromptV4, SystemMessagesComeFirst) {
  Check(Talk({R("r"), S("a"), U("x"), S("b"), U("z")}, kOff), "[B]a\n\nb[R]r[U]x\n\nz[A][/T]", kV4);
}

TEST(PromptV4, TagsHaveNoBlanks) {
  const std::vector<ToolCall> calls = {{"1", "f", R"({"a":1})"}, {"2", "g", "{}"}};
  TalkSetup setup = kToolsOff;
  setup.choice = ToolChoice::kRequired;
  const Result<Prompt> prompt = RenderPrompt(Talk({U("q"), A("", {}, calls), U("z")}, setup), kV4);
  ASSERT_TRUE(prompt.ok());
  EXPECT_TRUE(prompt->text.find("｜DSML｜ ") == std::string::npos) << prompt->text;
  const std::string expected =
      Replace(Replace(Replace(Expand("[B]\n\n{W}[U]q[A][/T]" +
                                     Calls("<[D] invoke name=\"f\">\n" + Parameter("a", "false", "1") +
                                           "\n</[D] invoke>\n<[D] invoke name=\"g\">\n</[D] invoke>") +
                                     "[E][U]z[A][/T]\n\n<[D] calls>\n")
                                  .text,
                              "｜ calls", "｜tool_calls"),
                      "｜ invoke", "｜invoke"),
              "｜ parameter", "｜parameter");
  EXPECT_EQ(prompt->text, expected);
}

TEST(PromptV4, EffortIsAText) {
  const auto text_of = [](int number) {
    return RenderPrompt(Talk({S("s"), U("q")}, {.effort = Effort{Effort::Name::kNumber, number}}), kV4)->text;
  };
  // Digests of what the library writes for high and max; low has no text.
  EXPECT_EQ(text_of(50), Expand("[B]s[U]q[A][T]").text);
  EXPECT_EQ(Digest(text_of(75)), "686ecc26ea119661f27630f986c882bf709559356f4fb3b7a45121923d8b9b67");
  EXPECT_EQ(Digest(text_of(100)), "269660d95a20146d494c2d11635e3b66d1aa5a118a9c63fd037431da1373e5d7");
}

TEST(PromptCheckpoint, Tasks) {
  Check(Talk({U("u", Task::kAuthority)}), "[B][S]{E75}[U]u[authority]", kCheckpoint);
  Check(Talk({U("u", Task::kDomain)}, kOff), "[B][U]u[domain]", kCheckpoint);
  Check(Talk({U("u", Task::kAction)}), "[B][S]{E75}[U]u[A][T][action]", kCheckpoint);
  Check(Talk({U("read", Task::kReadUrl, "http://a.example")}, kOff), "[B][U]read[url]http://a.example[read]",
        kCheckpoint);
  // The answer to a task has no think part; user messages merge only while the earlier one has no task.
  Check(Talk({U("a"), U("b", Task::kQuery), A("x", "r"), U("c")}, {.tools = {W()}}),
        "[B][S]{E75}\n\n{W}[U]a\n\nb[query]x[E][U]c[A][T]", kCheckpoint);
  Check(Talk({U("a", Task::kQuery), U("b")}, kOff), "[B][U]a[U]b[A][/T]", kCheckpoint);
  Conversation title = Talk({U("a"), A("b")}, kOff);
  std::get<AssistantMessage>(title.messages[1]).task = Task::kTitle;
  Check(title, "[B][U]a[A][/T]b[E][title]", kCheckpoint);
}

TEST(PromptCheckpoint, ReasoningBehindTheLastQuestionStays) {
  Check(Talk({U("a"), A("b", "r1"), U("c"), A("d", "r2")}), "[B][S]{E75}[U]a[A][/T]b[E][U]c[A][T]r2[/T]d[E]",
        kCheckpoint);
  // A system turn in the middle counts as a question.
  Check(Talk({U("a"), A("b", "r1"), S("s"), A("d", "r2")}), "[B][S]{E75}[U]a[A][/T]b[E][S]s[A][T]r2[/T]d[E]",
        kCheckpoint);
  Check(Talk({U("a"), A("b", "r1"), R("r")}), "[B][S]{E75}[U]a[A][T]r1[/T]b[E][R]r", kCheckpoint);
}

TEST(PromptCheckpoint, ToolsOfASystemMessage) {
  Conversation conversation = Talk({S("s"), U("a"), A("b", "r"), U("c")});
  std::get<SystemMessage>(conversation.messages[0]).tools = {W()};
  Check(conversation, "[B][S]{E75}s\n\n{W}[U]a[A][T]r[/T]b[E][U]c[A][T]", kCheckpoint);
}

TEST(PromptCheckpoint, ToolsAndArgumentsAsPythonWritesThem) {
  Tool tool = MakeTool("f");
  tool.strict = true;
  Check(Talk({U("q"), A("", {}, {{"1", "f", R"("{\"a\":-0,\"b\":18446744073709551616}")"}}), U("z")},
             {.thinking = false, .tools = {tool}}),
        "[B][S]\n\n{TOOLS:{\"name\": \"f\", \"strict\": true}:TOOLS}[U]q[A][/T]" +
            Calls(Invoke(
                "f", Parameter("a", "false", "0") + "\n" + Parameter("b", "false", "18446744073709551616"))) +
            "[E][U]z[A][/T]",
        kCheckpoint);
}

TEST(Prompt, PrefixTable) {
  // recipe.md §3.10, after a user message and as the first message (§17 D5).
  struct Case {
    bool thinking;
    std::string content;
    std::optional<std::string> reasoning;
    std::string tail;
  };
  const Case cases[] = {
      {true, "c", "r", "[A][T]r[/T]c"}, {true, "c", {}, "[A][T][/T]c"}, {true, "", "r", "[A][T]r"},
      {true, "", {}, "[A][T]"},         {true, "", "", "[A][T]"},       {false, "c", "r", "[A][/T]c"},
      {false, "", "r", "[A][/T]"},      {false, "c", {}, "[A][/T]c"},
  };
  for (const Case& c : cases) {
    const std::string head = c.thinking ? "[B][S]{E75}" : "[B]";
    CheckBoth(Talk({U("q"), Prefix(c.content, c.reasoning)}, {.thinking = c.thinking}),
              head + "[U]q" + c.tail);
    Check(Talk({Prefix(c.content, c.reasoning)}, {.thinking = c.thinking}), head + c.tail);
  }
  // The flag counts on the last message alone.
  Check(Talk({U("q"), Prefix("a"), U("z")}, kOff), "[B][U]q[A][/T]a[E][U]z[A][/T]");
}

TEST(Prompt, ResultsStandInCallOrder) {
  const Message call = A("", {}, {{"a", "f", "{}"}, {"b", "f", "{}"}, {"c", "f", "{}"}});
  const std::string block = Calls(Invoke("f", "") + "\n" + Invoke("f", "") + "\n" + Invoke("f", ""));
  const auto result = [](const std::string& text) { return "<tool_result>" + text + "</tool_result>"; };
  // User messages keep their places.
  Check(Talk({U("q"), call, T("c", "C"), U("u"), T("a", "A"), T("b", "B")}, kOff),
        "[B][U]q[A][/T]" + block + "[E][U]" + result("A") + "\n\nu\n\n" + result("B") + "\n\n" + result("C") +
            "[A][/T]");
  // An unknown id counts as the first call; equal ranks keep their order.
  Check(Talk({U("q"), call, T("b", "B"), T("?", "X"), T("a", "A")}, kOff),
        "[B][U]q[A][/T]" + block + "[E][U]" + result("X") + "\n\n" + result("A") + "\n\n" + result("B") +
            "[A][/T]");
  // Runs are sorted on their own, by the calls of the last turn that has some.
  Check(Talk({U("q"), call, T("b", "B"), A("x"), T("c", "C"), T("a", "A")}, kOff),
        "[B][U]q[A][/T]" + block + "[E][U]" + result("B") + "[A][/T]x[E][U]" + result("A") + "\n\n" +
            result("C") + "[A][/T]");
}

TEST(Prompt, ResultsWithImages) {
  Conversation conversation = Talk({U("q"), A("", {}, {{"a", "f", "{}"}, {"b", "f", "{}"}})}, kOff);
  ToolMessage second{WithImages("", {0}), "b"}, first{WithImages("see\n\n", {5}), "a"};
  second.content.images[0].source.location = "second";
  first.content.images[0].source.location = "first";
  conversation.messages.emplace_back(second);
  conversation.messages.emplace_back(first);
  Check(conversation,
        "[B][U]q[A][/T]" + Calls(Invoke("f", "") + "\n" + Invoke("f", "")) +
            "[E][U]<tool_result>see\n\n[I]</tool_result>\n\n<tool_result>[I]</tool_result>[A][/T]");
  const Result<Prompt> prompt = RenderPrompt(conversation);
  ASSERT_EQ(prompt->images.size(), 2U);
  EXPECT_EQ(prompt->images[0]->location, "first");
}

TEST(Prompt, DeferredTools) {
  Tool later = MakeTool("later", "l");
  later.defer_loading = true;
  Conversation conversation =
      Talk({U("q"), A("a"), S("note"), U("z")}, {.thinking = false, .tools = {W(), later}});
  std::get<SystemMessage>(conversation.messages[2]).loaded_tools = {"later", "w"};
  const std::string loaded =
      "\n\n### Updated Tool Schemas\n\n{\"name\": \"later\", \"description\": \"l\", \"parameters\": {}}\n" +
      std::string(kW);
  Check(conversation, "[B][S]\n\n{W}[U]q[A][/T]a[E][S]note" + loaded + "[U]z[A][/T]");
  // Not with tools that the model may not call.
  conversation.tool_choice = ToolChoice::kNone;
  Check(conversation, "[B][U]q[A][/T]a[E][S]note[U]z[A][/T]");
  // A leading system message loads behind the tools.
  Conversation leading = Talk({S("s"), U("z")}, {.thinking = false, .tools = {W(), later}});
  std::get<SystemMessage>(leading.messages[0]).loaded_tools = {"later"};
  Check(leading,
        "[B][S]s\n\n{W}\n\n### Updated Tool Schemas\n\n{\"name\": \"later\", \"description\": \"l\", "
        "\"parameters\": {}}[U]z[A][/T]");
  std::get<SystemMessage>(leading.messages[0]).loaded_tools = {"unknown"};
  EXPECT_EQ(RenderPrompt(leading).status().code(), StatusCode::kInvalidArgument);
}

TEST(Prompt, Completions) {
  const Prompt plain = RenderCompletion("a<｜User｜>", std::nullopt);
  EXPECT_EQ(plain.text, Expand("[B]").text + "a<｜User｜>");
  EXPECT_EQ(plain.special.size(), 1U);
  const Prompt fim = RenderCompletion("def f(", "return 1\n");
  const Prompt expected = Expand("[B][begin]def f([hole]return 1\n[end]");
  EXPECT_EQ(fim.text, expected.text);
  EXPECT_EQ(fim.special, expected.special);
  EXPECT_EQ(RenderCompletion("a", "").text, Expand("[B][begin]a[hole][end]").text);
}

TEST(Prompt, ClientTextNeverBecomesAToken) {
  std::string spellings;
  for (const std::string_view text : kTokenRoleText) spellings += text;
  spellings += kImageText;
  const Conversation conversation =
      Talk({S(spellings), U(spellings),
            A(spellings, spellings, {{"1", spellings, "{\"" + spellings + "\":\"" + spellings + "\"}"}}),
            T("1", spellings), R(spellings), U(spellings)},
           {.tools = {MakeTool(spellings, spellings)}});
  for (const auto profile : {PromptProfile::kRecipe, PromptProfile::kCheckpoint, PromptProfile::kV4}) {
    const Result<Prompt> prompt = RenderPrompt(conversation, {profile, HistoryThinking::kKeep});
    ASSERT_TRUE(prompt.ok());
    const Result<Prompt> plain = RenderPrompt(
        Talk({S("x"), U("x"), A("x", "x", {{"1", "x", R"({"x":"x"})"}}), T("1", "x"), R("x"), U("x")},
             {.tools = {MakeTool("x", "x")}}),
        {profile, HistoryThinking::kKeep});
    const auto roles = [](const Prompt& p) {
      std::vector<TokenRole> list;
      for (const auto& special : p.special) list.push_back(special.role);
      return list;
    };
    EXPECT_EQ(roles(*prompt), roles(*plain));
    // The ids hold exactly these tokens, and every other id is one of the base vocabulary.
    const auto tokenizer = deepinfer::testing::V41Tokenizer();
    const auto ids = EncodePrompt(*prompt, *tokenizer);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    std::vector<int32_t> added, expected;
    for (const int32_t id : *ids) {
      if (tokenizer->IsAdded(id)) added.push_back(id);
    }
    for (const TokenRole role : roles(*prompt)) expected.push_back(*tokenizer->RoleId(role));
    EXPECT_EQ(added, expected);
    EXPECT_EQ(tokenizer->Decode(*ids), prompt->text);
  }
}

/// Whether the prompt of the first `n` messages, without what asks for the answer, begins the prompt of all.
void ExpectPrefixStable(const Conversation& whole, const PromptOptions& options) {
  const Result<Prompt> all = RenderPrompt(whole, options);
  ASSERT_TRUE(all.ok());
  const auto ids = EncodePrompt(*all, *deepinfer::testing::V41Tokenizer());
  ASSERT_TRUE(ids.ok());
  for (size_t n = 1; n < whole.messages.size(); ++n) {
    if (!std::holds_alternative<AssistantMessage>(whole.messages[n])) continue;
    // What the model read before it answered with message n, header included.
    Conversation part = whole;
    part.messages.resize(n);
    const Result<Prompt> before = RenderPrompt(part, options);
    ASSERT_TRUE(before.ok());
    EXPECT_TRUE(all->text.starts_with(before->text)) << "before message " << n;
    const auto part_ids = EncodePrompt(*before, *deepinfer::testing::V41Tokenizer());
    ASSERT_TRUE(part_ids.ok());
    ASSERT_LE(part_ids->size(), ids->size());
    EXPECT_TRUE(std::equal(part_ids->begin(), part_ids->end(), ids->begin())) << "before message " << n;
  }
}

TEST(Prompt, TurnsRenderToTheSameBytesNextTime) {
  const std::vector<ToolCall> calls = {{"1", "w", R"({"a":[1,{"b":"ü"}]})"}, {"2", "w", "{}"}};
  const std::vector<Message> messages = {S("s"),        U("a"),        A("", "think", calls),
                                         T("2", "two"), T("1", "one"), A("answer\n", "more"),
                                         U("b"),        U("c"),        A("d", ""),
                                         U("e"),        A("f", "g")};
  ExpectPrefixStable(Talk(messages, kTools), {});
  ExpectPrefixStable(Talk(messages, kTools), kCheckpoint);
  ExpectPrefixStable(Talk(messages), kKeep);
  ExpectPrefixStable(Talk(messages), {PromptProfile::kCheckpoint, HistoryThinking::kKeep});
  ExpectPrefixStable(Talk(messages, kOff), {});
  ExpectPrefixStable(Talk(messages, kToolsOff), kCheckpoint);
  // Without tools the library drops earlier reasoning, and the prefix changes.
  Conversation part = Talk(messages);
  const Result<Prompt> all = RenderPrompt(part);
  part.messages.resize(5);
  EXPECT_FALSE(all->text.starts_with(RenderPrompt(part)->text));
}

TEST(Prompt, CodePointRanges) {
  const Result<Prompt> prompt = RenderPrompt(Talk({U("é🦀")}, kOff));
  // "<｜begin▁of▁sentence｜>" has 21 code points, "<｜User｜>" 8, "<｜Assistant｜>" 13, "</think>" 8.
  EXPECT_EQ(SpecialCodePoints(*prompt),
            (std::vector<std::pair<size_t, size_t>>{{0, 21}, {21, 29}, {31, 44}, {44, 52}}));
}

std::vector<int32_t> IdsOf(const Conversation& conversation) {
  const Result<Prompt> prompt = RenderPrompt(conversation);
  const auto ids = EncodePrompt(*prompt, *deepinfer::testing::V41Tokenizer());
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *ids : std::vector<int32_t>();
}

TEST(PromptIds, Vectors) {
  EXPECT_EQ(IdsOf(Talk({U("Hello")})),
            (std::vector<int32_t>{0,   128799, 77666, 288,   9504, 482,    28,    223,    2402,  343, 16801,
                                  223, 19,     15,    1457,  14,   270,    4077,  270,    1990,  14,  270,
                                  850, 15146,  270,   22805, 868,  128803, 19923, 128804, 128821}));
  EXPECT_EQ(IdsOf(Talk({S("You are helpful."), U("Hello")}, kOff)),
            (std::vector<int32_t>{0, 128799, 3476, 477, 11502, 16, 128803, 19923, 128804, 128822}));
  const std::vector<int32_t> tail = {
      128804, 128822, 271,   30,    128825, 10699,  1018,  30,     128825, 34756,  2329,  1281,
      1133,   65,     50219, 3816,  30,     128825, 10767, 2329,   1281,   33182,  4,     3418,
      1281,   11476,  3320,  51119, 1718,   128825, 10767, 1018,   1718,   128825, 34756, 1018,
      1718,   128825, 10699, 32,    1,      128803, 30,    72461,  46148,  32,     24313, 26343,
      3362,   223,    397,   24568, 72461,  46148,  32,    128804, 128822};
  const auto ids =
      IdsOf(Talk({U("Weather in Paris?"),
                  A("", "Need the weather tool.", {{"c1", "get_weather", R"({"location":"Paris"})"}}),
                  T("c1", R"({"temp": 20})")},
                 kToolsOff));
  ASSERT_GT(ids.size(), tail.size());
  EXPECT_EQ(std::vector<int32_t>(ids.end() - static_cast<ptrdiff_t>(tail.size()), ids.end()), tail);
}

TEST(PromptIds, Texts) {
  // Texts of recipe.md §5 as user messages: ids between `<｜User｜>` and `<｜Assistant｜>`.
  const std::pair<const char*, std::vector<int32_t>> texts[] = {
      {"Hello", {19923}},
      {"Hello, world!", {19923, 14, 2058, 3}},
      {"你好，世界", {30594, 303, 3427}},
      {"a  b", {67, 223, 291}},
      {"trailing   ", {19660, 7400, 361}},
      {"\n\ncode `x` \"q\"", {271, 8308, 3608, 90, 66, 582, 83, 4}},
      {"1 12 123 1234", {19, 223, 736, 223, 6895, 223, 6895, 22}},
  };
  for (const auto& [text, expected] : texts) {
    std::vector<int32_t> ids = IdsOf(Talk({U(text)}, kOff));
    ASSERT_GT(ids.size(), 4U);
    EXPECT_EQ(std::vector<int32_t>(ids.begin() + 2, ids.end() - 2), expected) << text;
  }
}

TEST(PromptIds, ImagesAreTheTokenOfTheVocabulary) {
  const auto ids = IdsOf(Talk({UserMessage{WithImages("a<｜image｜>\n\n", {16}), Task::kNone, {}}}, kOff));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 129264), 1);
  EXPECT_EQ(ids[ids.size() - 3], 129264);
}

TEST(PromptIds, SeamsBetweenTextsMerge) {
  // ".\n\n" is one token although the two texts come from different messages.
  const auto tokenizer = deepinfer::testing::V41Tokenizer();
  const auto ids = IdsOf(Talk({U("a."), U("b")}, kOff));
  const auto expected = tokenizer->Encode("a.\n\nb");
  EXPECT_EQ(std::vector<int32_t>(ids.begin() + 2, ids.end() - 2), *expected);
  EXPECT_EQ(expected->size(), 3U);
}

TEST(PromptIds, Errors) {
  const Result<Prompt> prompt = RenderPrompt(Talk({U("Hello")}));
  EXPECT_EQ(EncodePrompt(*prompt, *deepinfer::testing::V3Tokenizer()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodePrompt(*prompt, *deepinfer::testing::V41Tokenizer(), 10).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(
      EncodePrompt(*RenderPrompt(Talk({U("\xFF")})), *deepinfer::testing::V41Tokenizer()).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(PromptProfiles, Names) {
  for (const auto profile : {PromptProfile::kRecipe, PromptProfile::kCheckpoint, PromptProfile::kV4}) {
    EXPECT_EQ(FindPromptProfile(PromptProfileName(profile)), profile);
  }
  EXPECT_EQ(FindPromptProfile("v5"), std::nullopt);
}

// Found by compare_package.py; recipe.md does not mention it.
TEST(RecipeProfile, OnlyTheFirstOfAdjacentRemindersIsWritten) {
  const auto prompt =
      RenderPrompt(Talk({U("q"), R("1"), R("2"), A("a"), R("3"), U("z"), R("4")}, {.thinking = false}));
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(
      prompt->text,
      "<｜begin▁of▁sentence｜><｜User｜>q<｜latest_reminder｜>1<｜Assistant｜></think>a<｜end▁of▁sentence｜>"
      "<｜latest_reminder｜>3<｜User｜>z<｜latest_reminder｜>4<｜Assistant｜></think>");
}

}  // namespace
}  // namespace testing
}  // namespace deepinfer::recipe
