// Outputs of the golden files and ways of feeding them (goldens/recipe/README.md: parse.jsonl, streams.jsonl).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "recipe/response.h"

namespace deepinfer::recipe {

/// A piece of model output as the engine hands it over: text, or ids.
using Chunk = std::variant<std::string, std::vector<int32_t>>;

struct AnswerCase {
  std::string id;
  ParsingOptions parsing;
  bool thinking = false;
  std::optional<BackendFinish> finish;
  PromptUsage usage;
  std::vector<Chunk> chunks;
  json::Value line;  // the whole line

  bool has_ids() const;
  /// All text, or all ids, in one chunk. Every case has chunks of one kind only.
  Chunk Joined() const;
};

/// A line of parse.jsonl; its results are not read. Throws when a field is not as documented.
AnswerCase AnswerCaseOf(const json::Value& line);
/// The lines of a golden file; throws when it cannot be read.
std::vector<AnswerCase> ReadAnswerCases(std::string_view file);
/// Number of bytes of text, or of ids.
size_t ChunkSize(const Chunk& chunk);
/// The elements [begin, end).
Chunk SubChunk(const Chunk& chunk, size_t begin, size_t end);

/// Ids of these tests end in zeros.
AnswerOptions OptionsOf(const AnswerCase& answer_case);
ResponseOptions ResponseOptionsOf(const AnswerCase& answer_case);
/// Random parts of call ids become `*`, as in the golden files.
std::string Masked(std::string text);

/// Feeds the chunks and the finish.
void Feed(const AnswerCase& answer_case, std::span<const Chunk> chunks, AnswerSink* sink);
Answer Collect(const AnswerCase& answer_case, std::span<const Chunk> chunks);

/// Events as they come.
struct Event {
  std::string name;
  json::Value data;
};
std::vector<Event> CollectEvents(const AnswerCase& answer_case, std::span<const Chunk> chunks,
                                 Protocol protocol, const ResponseOptions& options);

/// Gives every piece of an answer to several sinks.
class TeeSink : public AnswerSink {
 public:
  explicit TeeSink(std::vector<AnswerSink*> sinks) : sinks_(std::move(sinks)) {}
  void OnStart(const AnswerStart& start) override {
    for (AnswerSink* sink : sinks_) sink->OnStart(start);
  }
  void OnReasoning(std::string_view text, Logprobs logprobs) override {
    for (AnswerSink* sink : sinks_) sink->OnReasoning(text, logprobs);
  }
  void OnText(std::string_view text, Logprobs logprobs) override {
    for (AnswerSink* sink : sinks_) sink->OnText(text, logprobs);
  }
  void OnCall(const CallStart& call) override {
    for (AnswerSink* sink : sinks_) sink->OnCall(call);
  }
  void OnArguments(std::string_view json) override {
    for (AnswerSink* sink : sinks_) sink->OnArguments(json);
  }
  void OnFinish(const AnswerFinish& finish) override {
    for (AnswerSink* sink : sinks_) sink->OnFinish(finish);
  }

 private:
  std::vector<AnswerSink*> sinks_;
};

/// Keeps events with their data parsed.
class EventKeeper : public EventSink {
 public:
  void OnEvent(std::string_view name, std::string_view data) override;
  std::vector<Event> events;
};

}  // namespace deepinfer::recipe
