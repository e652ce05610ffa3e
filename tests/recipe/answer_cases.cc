#include "recipe/answer_cases.h"

#include <stdexcept>

#include "recipe/json_lines.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

constexpr std::string_view kRandomPart = "000000000000000000000000";  // of MakeCallId with zeros

ParserStage StageOf(std::string_view name) {
  if (name == "none") return ParserStage::kNone;
  if (name == "start") return ParserStage::kStart;
  if (name == "reasoning") return ParserStage::kReasoning;
  if (name == "content") return ParserStage::kContent;
  if (name == "tool_calls") return ParserStage::kToolCalls;
  throw std::runtime_error("unknown stage " + std::string(name));
}

std::optional<BackendFinish> FinishOf(const json::Value& value) {
  if (value.is_null()) return std::nullopt;
  if (value.AsString() == "stop") return BackendFinish::kStop;
  if (value.AsString() == "length") return BackendFinish::kLength;
  if (value.AsString() == "content_filter") return BackendFinish::kContentFilter;
  throw std::runtime_error("unknown finish " + value.AsString());
}

int64_t Int(const json::Value& value) {
  int64_t out = 0;
  if (!value.GetInt64(&out)) throw std::runtime_error("not an integer");
  return out;
}

}  // namespace

AnswerCase AnswerCaseOf(const json::Value& line) {
  AnswerCase out;
  out.id = Text(line, "id");
  out.parsing.tools = line.Find("tools")->AsBool();
  out.parsing.json = line.Find("json")->AsBool();
  out.parsing.stage = StageOf(Text(line, "stage"));
  for (const json::Value& stop : line.Find("stops")->AsArray()) out.parsing.stops.push_back(stop.AsString());
  out.thinking = out.parsing.stage != ParserStage::kNone && out.parsing.stage != ParserStage::kToolCalls;
  out.finish = FinishOf(*line.Find("finish"));
  const json::Array& usage = line.Find("usage")->AsArray();
  out.usage = {Int(usage.at(0)), Int(usage.at(1))};
  for (const json::Value& chunk : line.Find("chunks")->AsArray()) {
    if (chunk.is_string()) {
      out.chunks.emplace_back(chunk.AsString());
      continue;
    }
    std::vector<int32_t> ids;
    for (const json::Value& id : chunk.AsArray()) ids.push_back(static_cast<int32_t>(Int(id)));
    out.chunks.emplace_back(std::move(ids));
  }
  out.line = line;
  return out;
}

bool AnswerCase::has_ids() const {
  return !chunks.empty() && std::holds_alternative<std::vector<int32_t>>(chunks.front());
}

Chunk AnswerCase::Joined() const {
  if (has_ids()) {
    std::vector<int32_t> ids;
    for (const Chunk& chunk : chunks) {
      const auto& part = std::get<std::vector<int32_t>>(chunk);
      ids.insert(ids.end(), part.begin(), part.end());
    }
    return ids;
  }
  std::string text;
  for (const Chunk& chunk : chunks) text += std::get<std::string>(chunk);
  return text;
}

std::vector<AnswerCase> ReadAnswerCases(std::string_view file) {
  std::vector<AnswerCase> cases;
  const std::string path = std::string(DEEPINFER_TEST_DATA) + "/goldens/recipe/" + std::string(file);
  for (const json::Value& line : testing::ReadJsonLines(path)) cases.push_back(AnswerCaseOf(line));
  return cases;
}

size_t ChunkSize(const Chunk& chunk) {
  return std::visit([](const auto& elements) { return elements.size(); }, chunk);
}

Chunk SubChunk(const Chunk& chunk, size_t begin, size_t end) {
  return std::visit(
      [&](const auto& elements) -> Chunk {
        using Elements = std::decay_t<decltype(elements)>;
        return Elements(elements.begin() + static_cast<ptrdiff_t>(begin),
                        elements.begin() + static_cast<ptrdiff_t>(end));
      },
      chunk);
}

AnswerOptions OptionsOf(const AnswerCase& answer_case) {
  AnswerOptions options;
  options.parsing = answer_case.parsing;
  options.thinking = answer_case.thinking;
  options.random = [] { return uint64_t{0}; };
  return options;
}

ResponseOptions ResponseOptionsOf(const AnswerCase& answer_case) {
  ResponseOptions options;
  options.id = "rid";
  options.model = "DeepSeek-V4.1-Flash";
  options.thinking = answer_case.thinking;
  return options;
}

std::string Masked(std::string text) {
  for (size_t at = text.find(kRandomPart); at != std::string::npos; at = text.find(kRandomPart, at)) {
    text.replace(at, kRandomPart.size(), "*");
  }
  return text;
}

void Feed(const AnswerCase& answer_case, std::span<const Chunk> chunks, AnswerSink* sink) {
  AnswerProcessor processor(OptionsOf(answer_case), testing::V41Tokenizer(), sink);
  processor.Ready("fp", answer_case.usage);
  for (const Chunk& chunk : chunks) {
    if (const auto* text = std::get_if<std::string>(&chunk)) {
      processor.Text(*text);
    } else if (const Status status = processor.Tokens(std::get<std::vector<int32_t>>(chunk)); !status.ok()) {
      throw std::runtime_error(status.ToString());
    }
  }
  if (answer_case.finish) {
    processor.Finish(*answer_case.finish);
  } else {
    processor.End();
  }
}

Answer Collect(const AnswerCase& answer_case, std::span<const Chunk> chunks) {
  AnswerCollector collector;
  Feed(answer_case, chunks, &collector);
  return collector.answer();
}

void EventKeeper::OnEvent(std::string_view name, std::string_view data) {
  auto value = json::Parse(data);
  if (!value.ok()) throw std::runtime_error("event " + std::string(data) + ": " + value.status().ToString());
  events.push_back({std::string(name), std::move(value).value()});
}

std::vector<Event> CollectEvents(const AnswerCase& answer_case, std::span<const Chunk> chunks,
                                 Protocol protocol, const ResponseOptions& options) {
  EventKeeper keeper;
  const auto stream = MakeResponseStream(protocol, options, &keeper);
  Feed(answer_case, chunks, stream.get());
  return std::move(keeper.events);
}

}  // namespace deepinfer::recipe
