// Every line of goldens/recipe/streams.jsonl: skeleton of the events, concatenated deltas, order of keys, accumulated object.
#include <map>

#include <gtest/gtest.h>

#include "recipe/answer_cases.h"
#include "recipe/json_document.h"
#include "recipe/json_lines.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

json::Value* Member(json::Value& object, std::string_view key) {
  for (auto& [name, value] : object.AsObject()) {
    if (name == key) return &value;
  }
  return nullptr;
}

// The place of the text of a delta event, and what tells the deltas of one run.
struct DeltaPlace {
  json::Value* text;
  std::string run;
};

std::optional<DeltaPlace> ChatDelta(json::Value* data) {
  json::Value& choice = Member(*data, "choices")->AsArray().at(0);
  json::Value& delta = *Member(choice, "delta");
  if (!choice.Find("finish_reason")->is_null() || delta.Find("role") != nullptr) return std::nullopt;
  for (const char* key : {"content", "reasoning_content"}) {
    if (json::Value* text = Member(delta, key); text != nullptr && text->is_string())
      return DeltaPlace{text, key};
  }
  json::Value& call = Member(delta, "tool_calls")->AsArray().at(0);
  if (call.Find("id") != nullptr) return std::nullopt;
  return DeltaPlace{Member(*Member(call, "function"), "arguments"),
                    "arguments" + json::Serialize(*call.Find("index"))};
}

std::optional<DeltaPlace> PlaceOf(Protocol protocol, Event* event) {
  if (protocol == Protocol::kChat) return ChatDelta(&event->data);
  if (protocol == Protocol::kResponses) {
    if (!event->name.ends_with(".delta")) return std::nullopt;
    return DeltaPlace{Member(event->data, "delta"), event->name + Text(event->data, "item_id")};
  }
  if (event->name != "content_block_delta") return std::nullopt;
  json::Value& delta = *Member(event->data, "delta");
  const std::string run = Text(delta, "type") + json::Serialize(*event->data.Find("index"));
  for (const char* key : {"text", "thinking", "signature", "partial_json"}) {
    if (json::Value* text = Member(delta, key)) return DeltaPlace{text, run};
  }
  return std::nullopt;
}

// Runs of deltas become one; sequence numbers are checked and removed.
std::vector<std::string> Skeleton(Protocol protocol, std::vector<Event> events) {
  std::vector<std::string> out;
  std::string run;
  std::optional<Event> merged;
  const auto flush = [&] {
    if (merged) out.push_back(merged->name + " " + Masked(Serialize(merged->data)));
    merged.reset();
  };
  int64_t sequence_number = 0;
  for (Event& event : events) {
    if (json::Value* number = Member(event.data, "sequence_number")) {
      int64_t value = -1;
      EXPECT_TRUE(number->GetInt64(&value) && value == sequence_number);
      ++sequence_number;
      *number = 0;
    }
    const auto place = PlaceOf(protocol, &event);
    if (place && merged && run == place->run) {
      json::Value* text = PlaceOf(protocol, &*merged)->text;
      *text = text->AsString() + place->text->AsString();
      continue;
    }
    flush();
    run = place ? place->run : "";
    merged = std::move(event);
  }
  flush();
  return out;
}

std::vector<Event> GoldenEvents(const json::Value& line) {
  std::vector<Event> events;
  for (const json::Value& event : line.Find("events")->AsArray()) {
    const json::Value& name = event.AsArray().at(0);
    events.push_back({name.is_null() ? "" : name.AsString(), event.AsArray().at(1)});
  }
  return events;
}

Protocol ProtocolOf(const json::Value& line) {
  static const std::map<std::string, Protocol> protocols = {
      {"chat", Protocol::kChat}, {"messages", Protocol::kMessages}, {"responses", Protocol::kResponses}};
  return protocols.at(Text(line, "protocol"));
}

ResponseOptions OptionsFor(const AnswerCase& c) {
  ResponseOptions options = ResponseOptionsOf(c);
  const json::Value& request = *c.line.Find("request");
  if (const json::Value* stream_options = request.Find("stream_options")) {
    options.include_usage = stream_options->Find("include_usage")->AsBool();
  }
  if (!c.thinking) options.echo.reasoning_effort = "none";
  for (const auto& [key, place] :
       std::map<std::string, json::Value*>{{"instructions", &options.echo.instructions},
                                           {"max_output_tokens", &options.echo.max_output_tokens},
                                           {"temperature", &options.echo.temperature},
                                           {"user", &options.echo.user}}) {
    if (const json::Value* value = request.Find(key)) *place = *value;
  }
  const json::Value* tools = request.Find("tools");
  if (tools == nullptr) return options;
  for (const json::Value& tool : tools->AsArray()) {
    if (Text(tool, "type") == "custom") options.custom_tools.push_back(Text(tool, "name"));
    if (Text(tool, "type") != "namespace") continue;
    for (const json::Value& inner : tool.Find("tools")->AsArray()) {
      const std::string &name_space = Text(tool, "name"), &name = Text(inner, "name");
      options.namespaces.push_back({name_space + "::" + name, name_space, name});
    }
  }
  return options;
}

// Replaces the package's argument texts by ours, wherever a line with `ours` has them.
class OursTexts {
 public:
  OursTexts(const AnswerCase& c, const std::map<std::string, AnswerCase>& parse_cases) {
    const json::Value* ours = c.line.Find("ours");
    if (ours == nullptr) return;
    const json::Array& theirs =
        parse_cases.at(Text(c.line, "case")).line.Find("result")->Find("calls")->AsArray();
    for (size_t i = 0; i < theirs.size(); ++i) {
      const std::string& text = ours->Find("calls")->AsArray().at(i).AsArray().at(1).AsString();
      pairs_.emplace_back(json::Serialize(theirs[i].AsArray().at(1)), json::Serialize(json::Value(text)));
      inputs_.push_back(JsonDocument::Parse(text)->root().ToValue());
    }
  }

  std::string In(std::string text) const {
    for (const auto& [from, to] : pairs_) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
    }
    return text;
  }

  /// The object of Messages holds parsed inputs.
  void EditInputs(json::Value* response) const {
    json::Value* content = Member(*response, "content");
    if (content == nullptr || inputs_.empty()) return;
    size_t i = 0;
    for (json::Value& block : content->AsArray()) {
      if (Text(block, "type") == "tool_use") block.Set("input", inputs_.at(i++));
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
  std::vector<json::Value> inputs_;
};

void ShortenSnapshots(std::vector<Event>* events) {
  for (Event& event : *events) {
    if (json::Value* response = Member(event.data, "response")) *response = "…";
  }
}

TEST(StreamGolden, EveryLineGivesTheGoldenEventsAndObject) {
  std::map<std::string, AnswerCase> parse_cases;
  for (AnswerCase& c : ReadAnswerCases("parse.jsonl")) parse_cases.emplace(c.id, c);
  const std::vector<AnswerCase> cases = ReadAnswerCases("streams.jsonl");
  EXPECT_EQ(cases.size(), 143U);
  for (const AnswerCase& c : cases) {
    SCOPED_TRACE(c.id);
    const Protocol protocol = ProtocolOf(c.line);
    const ResponseOptions options = OptionsFor(c);
    const OursTexts ours(c, parse_cases);

    std::vector<Event> events = CollectEvents(c, c.chunks, protocol, options);
    if (c.id.starts_with("t")) ShortenSnapshots(&events);
    std::vector<std::string> golden = Skeleton(protocol, GoldenEvents(c.line));
    for (std::string& event : golden) event = ours.In(std::move(event));
    EXPECT_EQ(Skeleton(protocol, std::move(events)), golden);

    json::Value want = *c.line.Find("response");
    ours.EditInputs(&want);
    json::Value got = ResponseObject(protocol, Collect(c, c.chunks), options);
    if (c.id.starts_with("t")) {
      json::Value picked = json::Object{};
      for (const auto& [key, value] : want.AsObject()) picked.Set(key, *got.Find(key));
      got = std::move(picked);
    }
    EXPECT_EQ(Masked(Serialize(got)), ours.In(Serialize(want)));
  }
}

}  // namespace
}  // namespace deepinfer::recipe
