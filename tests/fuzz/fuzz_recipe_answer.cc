// Output of a model on arbitrary bytes: the answer does not depend on where it is cut nor on whether it comes as text or ids, texts
// only grow towards the final ones, and every event and object is JSON whose deltas give the same texts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "recipe/response.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace {

using deepinfer::recipe::Answer;
using deepinfer::recipe::AnswerOptions;
using deepinfer::recipe::AnswerProcessor;
using deepinfer::recipe::BackendFinish;
using deepinfer::recipe::ParserStage;
using deepinfer::recipe::Protocol;
namespace json = deepinfer::json;

void Require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<const deepinfer::Tokenizer> DemoTokenizer() {
  static const auto tokenizer = [] {
    auto loaded = deepinfer::Tokenizer::Load(DEEPINFER_TEST_DATA "/demo-model/tokenizer.json");
    Require(loaded.ok());
    return *loaded;
  }();
  return tokenizer;
}

// The id of a single-byte token (spec: checkpoint.md §8.1).
int32_t ByteId(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte <= 32    ? byte + 191
         : byte <= 126 ? byte - 30
         : byte <= 160 ? byte + 97
         : byte <= 172 ? byte - 64
         : byte == 173 ? 258
                       : byte - 65;
}

// Collects, and demands that texts are whole characters that lead to those of `whole`.
class Checker : public deepinfer::recipe::AnswerCollector {
 public:
  explicit Checker(const Answer* whole) : whole_(whole) {}
  void OnReasoning(std::string_view text, Logprobs logprobs) override {
    AnswerCollector::OnReasoning(text, logprobs);
    Require(whole_ == nullptr || whole_->reasoning.starts_with(answer().reasoning));
    Require(deepinfer::unicode::FindInvalidUtf8(text) == std::string_view::npos);
  }
  void OnText(std::string_view text, Logprobs logprobs) override {
    AnswerCollector::OnText(text, logprobs);
    Require(whole_ == nullptr || whole_->text.starts_with(answer().text));
    Require(deepinfer::unicode::FindInvalidUtf8(text) == std::string_view::npos);
  }

 private:
  const Answer* whole_;
};

void Feed(const AnswerOptions& options, std::string_view text, size_t step, bool as_ids,
          deepinfer::recipe::AnswerSink* sink) {
  AnswerProcessor processor(options, DemoTokenizer(), sink);
  for (size_t at = 0; at < text.size(); at += step) {
    const std::string_view piece = text.substr(at, step);
    if (!as_ids) {
      processor.Text(piece);
      continue;
    }
    std::vector<int32_t> ids;
    for (const char c : piece) ids.push_back(ByteId(c));
    Require(processor.Tokens(ids).ok());
  }
  processor.Finish(BackendFinish::kStop);
}

void CheckSame(const Answer& a, const Answer& b) {
  Require(a.reasoning == b.reasoning && a.text == b.text && a.reason == b.reason &&
          a.stop_sequence == b.stop_sequence);
  Require(a.calls.size() == b.calls.size());
  for (size_t i = 0; i < a.calls.size(); ++i) {
    Require(a.calls[i].name == b.calls[i].name && a.calls[i].arguments == b.calls[i].arguments);
  }
}

// Texts of the deltas of a stream; every event must be a JSON object.
class DeltaSink : public deepinfer::recipe::EventSink {
 public:
  void OnEvent(std::string_view name, std::string_view data) override {
    json::ParseLimits limits;
    limits.max_bytes = data.size();
    const auto event = json::Parse(data, limits);
    Require(event.ok() && event->is_object());
    const json::Value* delta = event->Find("delta");
    if (delta == nullptr) return;
    if (name == "response.output_text.delta") text += delta->AsString();
    if (name == "response.reasoning_text.delta") reasoning += delta->AsString();
    if (name == "response.function_call_arguments.delta") arguments += delta->AsString();
    if (name != "content_block_delta") return;
    if (const json::Value* part = delta->Find("text")) text += part->AsString();
    if (const json::Value* part = delta->Find("thinking")) reasoning += part->AsString();
    if (const json::Value* part = delta->Find("partial_json")) arguments += part->AsString();
  }
  std::string text, reasoning, arguments;
};

void CheckStream(Protocol protocol, const AnswerOptions& options, std::string_view text, size_t step,
                 bool custom_tool, const Answer& whole) {
  deepinfer::recipe::ResponseOptions response;
  response.thinking = options.thinking;
  if (custom_tool) response.custom_tools = {"f"};
  DeltaSink sink;
  const auto stream = MakeResponseStream(protocol, response, &sink);
  Feed(options, text, step, false, stream.get());
  Require(json::Parse(json::Serialize(ResponseObject(protocol, whole, response))).ok());
  if (protocol == Protocol::kChat || protocol == Protocol::kCompletions) return;
  Require(sink.text == whole.text && sink.reasoning == whole.reasoning);
  if (custom_tool && protocol == Protocol::kResponses) return;  // inputs instead of arguments
  std::string arguments;
  for (const Answer::Call& call : whole.calls) arguments += call.arguments;
  Require(sink.arguments == arguments);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  AnswerOptions options;
  options.parsing.tools = (data[0] & 1) != 0;
  options.parsing.json = (data[0] & 2) != 0;
  options.plain = (data[0] & 0x1C) == 0x1C;
  if ((data[0] & 0x20) != 0) options.parsing.stops = {"STOP", "aab", "\n\n<"};
  if ((data[0] & 0x40) != 0) options.parsing.stops.emplace_back(text.substr(text.size() / 2, 3));
  options.parsing.stage = static_cast<ParserStage>(data[1] % 5);
  // A text without thinking may still begin in the middle of an answer.
  options.thinking = (data[0] & 0x80) == 0 && options.parsing.stage != ParserStage::kToolCalls;
  options.random = [] { return uint64_t{0}; };
  const size_t step = data[2] % 16 + size_t{1};

  Checker whole(nullptr);
  Feed(options, text, std::max<size_t>(text.size(), 1), false, &whole);
  for (const bool as_ids : {false, true}) {
    Checker pieces(&whole.answer());
    Feed(options, text, step, as_ids, &pieces);
    CheckSame(pieces.answer(), whole.answer());
  }
  CheckStream(static_cast<Protocol>(data[2] >> 4 & 3), options, text, step, (data[2] & 0x40) != 0,
              whole.answer());
  return 0;
}
