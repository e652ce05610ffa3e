// Every line of goldens/recipe/parse.jsonl in three protocols, whole and in pieces.
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "recipe/answer_cases.h"
#include "recipe/json_document.h"
#include "recipe/json_lines.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

constexpr Protocol kProtocols[] = {Protocol::kChat, Protocol::kMessages, Protocol::kResponses};

const std::vector<AnswerCase>& Cases() {
  static const std::vector<AnswerCase> cases = ReadAnswerCases("parse.jsonl");
  return cases;
}

json::Value ResultOf(const Answer& answer, std::string_view finish_reason) {
  json::Array calls;
  for (const Answer::Call& call : answer.calls) calls.push_back(json::Array{call.name, call.arguments});
  return json::Object{{"reasoning", answer.reasoning},
                      {"content", answer.text},
                      {"calls", std::move(calls)},
                      {"finish_reason", finish_reason}};
}

// D06 is one id outside the vocabulary and nothing else. The package counts such an id with the next text, so it counts none; ours counts
// every id (spec: recipe.md §6.4, §17 D7), but the line has no `ours`.
json::Value WithOneToken(const json::Value& golden) {
  std::string text = Serialize(golden);
  for (const auto& [from, to] :
       {std::pair{"\"completion_tokens\":0,\"total_tokens\":4", "\"completion_tokens\":1,\"total_tokens\":5"},
        {"\"output_tokens\":0", "\"output_tokens\":1"},
        {"\"total_tokens\":4", "\"total_tokens\":5"}}) {
    if (const size_t at = text.find(from); at != std::string::npos)
      text.replace(at, std::string_view(from).size(), to);
  }
  return json::Parse(text).value();
}

json::Value Golden(const AnswerCase& c, std::string_view protocol) {
  const json::Value& golden = *c.line.Find(protocol);
  return c.id == "D06" ? WithOneToken(golden) : golden;
}

// Only the keys of the golden, in its order.
json::Value Picked(const json::Value& object, const json::Value& golden) {
  json::Value out = json::Object{};
  for (const auto& [key, value] : golden.AsObject())
    out.Set(key, object.Find(key) == nullptr ? json::Value() : *object.Find(key));
  return out;
}

json::Value ParsedOrEmpty(std::string_view arguments) {
  const auto document = JsonDocument::Parse(arguments);
  return document.ok() ? document->root().ToValue() : json::Value(json::Object{});
}

// What the golden of a protocol is with the result of `ours`: same places, our texts.
class OursEditor {
 public:
  explicit OursEditor(const AnswerCase& c) : line_(c.line), ours_(*c.line.Find("ours")) {}

  json::Value Chat() const {
    json::Value chat = *line_.Find("chat");
    json::Value message = *chat.Find("message");
    message.Set("content", Text(ours_, "content"));
    if (const json::Value* calls = message.Find("tool_calls")) {
      json::Array edited = calls->AsArray();
      for (size_t i = 0; i < edited.size(); ++i) {
        json::Value function = *edited[i].Find("function");
        function.Set("arguments", Arguments(i));
        edited[i].Set("function", std::move(function));
      }
      message.Set("tool_calls", std::move(edited));
    }
    chat.Set("message", std::move(message));
    if (const json::Value* tokens = ours_.Find("completion_tokens")) {
      json::Value usage = *chat.Find("usage");
      int64_t prompt = 0, completion = 0;
      EXPECT_TRUE(usage.Find("prompt_tokens")->GetInt64(&prompt) && tokens->GetInt64(&completion));
      usage.Set("completion_tokens", completion);
      usage.Set("total_tokens", prompt + completion);
      chat.Set("usage", std::move(usage));
    }
    return chat;
  }

  /// Texts and inputs that must stand in the lists of the other two protocols.
  json::Array Contents(bool messages) const {
    json::Array out;
    if (!Text(ours_, "content").empty()) out.emplace_back(Text(ours_, "content"));
    for (size_t i = 0; i < ours_.Find("calls")->AsArray().size(); ++i) {
      out.push_back(messages ? ParsedOrEmpty(Arguments(i)) : json::Value(Arguments(i)));
    }
    return out;
  }

 private:
  const std::string& Arguments(size_t i) const {
    return ours_.Find("calls")->AsArray().at(i).AsArray().at(1).AsString();
  }

  const json::Value& line_;
  const json::Value& ours_;
};

json::Array MessagesContents(const json::Value& body) {
  json::Array out;
  for (const json::Value& block : body.Find("content")->AsArray()) {
    if (Text(block, "type") == "text") out.push_back(*block.Find("text"));
    if (Text(block, "type") == "tool_use") out.push_back(*block.Find("input"));
  }
  return out;
}

json::Array ResponsesContents(const json::Value& body) {
  json::Array out;
  for (const json::Value& item : body.Find("output")->AsArray()) {
    if (Text(item, "type") == "message") out.push_back(*item.Find("content")->AsArray().at(0).Find("text"));
    if (Text(item, "type") == "function_call") out.push_back(*item.Find("arguments"));
  }
  return out;
}

TEST(ParseGolden, EveryLineGivesTheGoldenObjects) {
  EXPECT_EQ(Cases().size(), 481U);
  size_t num_ours = 0;
  for (const AnswerCase& c : Cases()) {
    SCOPED_TRACE(c.id);
    const Answer answer = Collect(c, c.chunks);
    const ResponseOptions options = ResponseOptionsOf(c);
    const json::Value chat = ResponseObject(Protocol::kChat, answer, options);
    const json::Value& choice = chat.Find("choices")->AsArray().at(0);
    const json::Value got_chat = json::Object{{"message", *choice.Find("message")},
                                              {"finish_reason", *choice.Find("finish_reason")},
                                              {"usage", *chat.Find("usage")}};
    const json::Value messages = ResponseObject(Protocol::kMessages, answer, options);
    const json::Value responses = ResponseObject(Protocol::kResponses, answer, options);
    const json::Value* ours = c.line.Find("ours");
    const json::Value& result = ours == nullptr ? *c.line.Find("result") : *ours;
    const json::Value golden_result = Picked(result, *c.line.Find("result"));
    EXPECT_EQ(Serialize(ResultOf(answer, Text(choice, "finish_reason"))), Serialize(golden_result));
    if (ours != nullptr) {
      ++num_ours;
      const OursEditor editor(c);
      EXPECT_EQ(Masked(Serialize(got_chat)), Serialize(editor.Chat()));
      EXPECT_EQ(json::Serialize(MessagesContents(messages)), json::Serialize(editor.Contents(true)));
      EXPECT_EQ(json::Serialize(ResponsesContents(responses)), json::Serialize(editor.Contents(false)));
      continue;
    }
    EXPECT_EQ(Masked(Serialize(got_chat)), Serialize(Golden(c, "chat")));
    EXPECT_EQ(Masked(Serialize(Picked(messages, *c.line.Find("messages")))),
              Serialize(Golden(c, "messages")));
    EXPECT_EQ(Masked(Serialize(Picked(responses, *c.line.Find("responses")))),
              Serialize(Golden(c, "responses")));
  }
  EXPECT_EQ(num_ours, 72U);
}

// Content and reasoning may only grow, and only towards the final texts: then no byte of markup is ever shown.
class PrefixChecker : public AnswerCollector {
 public:
  explicit PrefixChecker(const Answer& whole) : whole_(whole) {}
  void OnReasoning(std::string_view text, Logprobs logprobs) override {
    AnswerCollector::OnReasoning(text, logprobs);
    EXPECT_TRUE(whole_.reasoning.starts_with(answer().reasoning));
  }
  void OnText(std::string_view text, Logprobs logprobs) override {
    AnswerCollector::OnText(text, logprobs);
    EXPECT_TRUE(whole_.text.starts_with(answer().text));
  }

 private:
  const Answer& whole_;
};

void ExpectSame(const AnswerCase& c, const Answer& got, const Answer& want) {
  EXPECT_EQ(got.reasoning, want.reasoning);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.reason, want.reason);
  EXPECT_EQ(got.stop_sequence, want.stop_sequence);
  EXPECT_EQ(got.reasoning_tokens, want.reasoning_tokens);
  if (c.has_ids() && c.parsing.stops.empty()) {
    EXPECT_EQ(got.completion_tokens, want.completion_tokens);
  }
  ASSERT_EQ(got.calls.size(), want.calls.size());
  for (size_t i = 0; i < got.calls.size(); ++i) {
    EXPECT_EQ(got.calls[i].id, want.calls[i].id);
    EXPECT_EQ(got.calls[i].name, want.calls[i].name);
    EXPECT_EQ(got.calls[i].arguments, want.calls[i].arguments);
  }
}

void ExpectSplitGivesTheSame(const AnswerCase& c, std::span<const Chunk> chunks, const Answer& whole) {
  PrefixChecker checker(whole);
  Feed(c, chunks, &checker);
  ExpectSame(c, checker.answer(), whole);
}

std::vector<Chunk> Pieces(const Chunk& joined, const std::set<size_t>& cuts) {
  std::vector<Chunk> pieces;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    pieces.push_back(SubChunk(joined, begin, cut));
    begin = cut;
  }
  pieces.push_back(SubChunk(joined, begin, ChunkSize(joined)));
  return pieces;
}

TEST(SplitInvariance, EverySplitInTwoAndElementByElement) {
  for (const AnswerCase& c : Cases()) {
    SCOPED_TRACE(c.id);
    const Chunk joined = c.Joined();
    const Answer whole = Collect(c, {&joined, 1});
    std::vector<Chunk> single;
    for (size_t i = 0; i < ChunkSize(joined); ++i) single.push_back(SubChunk(joined, i, i + 1));
    ExpectSplitGivesTheSame(c, single, whole);
    ExpectSplitGivesTheSame(c, c.chunks, whole);
    for (size_t cut = 1; cut < ChunkSize(joined) && !::testing::Test::HasFailure(); ++cut) {
      ExpectSplitGivesTheSame(c, Pieces(joined, {cut}), whole);
    }
  }
}

// Concatenated deltas of one stream, to be compared with the object of the same answer.
struct Deltas {
  std::string reasoning, text;
  std::vector<std::string> arguments;
};

Deltas ChatDeltas(const std::vector<Event>& events) {
  Deltas out;
  for (const Event& event : events) {
    const json::Value& delta = *event.data.Find("choices")->AsArray().at(0).Find("delta");
    if (const json::Value* text = delta.Find("content"); text != nullptr && text->is_string())
      out.text += text->AsString();
    if (const json::Value* text = delta.Find("reasoning_content"); text != nullptr && text->is_string()) {
      out.reasoning += text->AsString();
    }
    if (const json::Value* calls = delta.Find("tool_calls")) {
      const json::Value& call = calls->AsArray().at(0);
      if (call.Find("id") != nullptr) out.arguments.emplace_back();
      out.arguments.back() += Text(*call.Find("function"), "arguments");
    }
  }
  return out;
}

Deltas MessagesDeltas(const std::vector<Event>& events) {
  Deltas out;
  for (const Event& event : events) {
    if (event.name == "content_block_start" &&
        Text(*event.data.Find("content_block"), "type") == "tool_use") {
      out.arguments.emplace_back();
    }
    if (event.name != "content_block_delta") continue;
    const json::Value& delta = *event.data.Find("delta");
    if (Text(delta, "type") == "text_delta") out.text += Text(delta, "text");
    if (Text(delta, "type") == "thinking_delta") out.reasoning += Text(delta, "thinking");
    if (Text(delta, "type") == "input_json_delta") out.arguments.back() += Text(delta, "partial_json");
  }
  return out;
}

Deltas ResponsesDeltas(const std::vector<Event>& events) {
  Deltas out;
  for (const Event& event : events) {
    if (event.name == "response.output_item.added" &&
        Text(*event.data.Find("item"), "type") == "function_call") {
      out.arguments.emplace_back();
    }
    if (event.name == "response.output_text.delta") out.text += Text(event.data, "delta");
    if (event.name == "response.reasoning_text.delta") out.reasoning += Text(event.data, "delta");
    if (event.name == "response.function_call_arguments.delta")
      out.arguments.back() += Text(event.data, "delta");
  }
  return out;
}

TEST(SplitInvariance, TenThousandRandomSplitsStreamTheSameInEveryProtocol) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 10'000 && !::testing::Test::HasFailure(); ++round) {
    const AnswerCase& c = Cases()[random() % Cases().size()];
    SCOPED_TRACE(c.id);
    const Chunk joined = c.Joined();
    const Answer whole = Collect(c, {&joined, 1});
    std::set<size_t> cuts;
    const size_t size = ChunkSize(joined);
    for (size_t n = size < 2 ? 0 : random() % std::min<size_t>(size, 40); n > 0; --n)
      cuts.insert(1 + random() % (size - 1));
    const std::vector<Chunk> pieces = Pieces(joined, cuts);
    ExpectSplitGivesTheSame(c, pieces, whole);
    const Protocol protocol = kProtocols[static_cast<size_t>(round) % 3];
    const auto events = CollectEvents(c, pieces, protocol, ResponseOptionsOf(c));
    const Deltas deltas = protocol == Protocol::kChat       ? ChatDeltas(events)
                          : protocol == Protocol::kMessages ? MessagesDeltas(events)
                                                            : ResponsesDeltas(events);
    EXPECT_EQ(deltas.reasoning, whole.reasoning);
    EXPECT_EQ(deltas.text, whole.text);
    ASSERT_EQ(deltas.arguments.size(), whole.calls.size());
    for (size_t i = 0; i < whole.calls.size(); ++i) EXPECT_EQ(deltas.arguments[i], whole.calls[i].arguments);
  }
}

}  // namespace
}  // namespace deepinfer::recipe
