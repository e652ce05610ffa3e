// The recipe module for compare_package.py: one JSON object a line in, one out.
//
//     recipe_compare_tool tokenizer      prints the tokenizer file of the released model that all tests use
//     recipe_compare_tool run            answers lines of standard input
//
// {"do":"encode","protocol","profile","options","body"}: the body as hexadecimal digits, since bodies need not be text. Answer as
// `deepinfer encode`, or {"error":{status, class, stage, message}}.
// {"do":"parse","id",…,"requests":{protocol: body}} with the fields of parse.jsonl (goldens/recipe/README.md), and optionally
// "logprobs", one [logprob, [[id, logprob]…]] for each id of each chunk. Answer: {protocol: {"response", "events"}}.
// {"do":"spans","sizes":[[w, h]…]} is answered by {"spans":[[tokens, w', h']…]}.
#include <charconv>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "recipe/answer_cases.h"
#include "recipe/image_span.h"
#include "recipe/json_lines.h"
#include "recipe/prompt.h"
#include "recipe/request.h"
#include "recipe/request_cases.h"
#include "recipe/request_json.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {
namespace {

using testing::Text;

std::string FromHex(std::string_view digits) {
  std::string out;
  for (size_t at = 0; at + 1 < digits.size(); at += 2) {
    uint8_t byte = 0;
    std::from_chars(digits.data() + at, digits.data() + at + 2, byte, 16);
    out += static_cast<char>(byte);
  }
  return out;
}

void AppendIds(const Prompt& prompt, json::Object* out) {
  const auto ids = EncodePrompt(prompt, *testing::V41Tokenizer());
  if (!ids.ok()) throw std::runtime_error(ids.status().ToString());
  json::Array list;
  std::string text;
  for (const int32_t id : *ids) {
    list.emplace_back(int64_t{id});
    text += id == 129264 ? kImageText : testing::V41Tokenizer()->TokenBytes(id);
  }
  if (text != prompt.text) throw std::runtime_error("ids spell another text than the prompt");
  out->emplace_back("ids", std::move(list));
}

json::Object Encode(const json::Value& line) {
  const auto protocol = FindProtocol(Text(line, "protocol"));
  const RequestResult request = ParseRequest(*protocol, FromHex(Text(line, "body")), GoldenOptions(line));
  if (!request.ok()) {
    const RequestError& error = request.error();
    return {{"error", json::Object{{"status", error.status},
                                   {"class", RejectKindName(error.kind)},
                                   {"stage", error.stage == RejectStage::kBody ? "body" : "convert"},
                                   {"message", error.message}}}};
  }
  PromptOptions options;
  const bool v4 = request->model_version == ModelVersion::kV4Pro;
  options.profile = v4 ? PromptProfile::kV4 : PromptProfile::kRecipe;
  const auto prompt = RenderPrompt(request->conversation, options);
  if (!prompt.ok())
    throw std::runtime_error("a checked request does not render: " + prompt.status().ToString());
  json::Array special;
  for (const auto& [begin, end] : SpecialCodePoints(*prompt)) {
    special.emplace_back(json::Array{uint64_t{begin}, uint64_t{end}});
  }
  json::Object out = {{"prompt", prompt->text}, {"special", std::move(special)}};
  if (!v4) AppendIds(*prompt, &out);
  json::Array images;
  for (const ImageSource* image : prompt->images) images.push_back(ImageJson(*image));
  out.emplace_back("images", std::move(images));
  AppendSettings(*request, &out);
  return out;
}

std::vector<TokenLogprob> LogprobsOf(const std::vector<int32_t>& ids, const json::Value& entries) {
  std::vector<TokenLogprob> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    const json::Array& entry = entries.AsArray().at(i).AsArray();
    TokenLogprob logprob{ids[i], static_cast<float>(entry.at(0).AsDouble()), {}};
    for (const json::Value& candidate : entry.at(1).AsArray()) {
      int64_t id = 0;
      candidate.AsArray().at(0).GetInt64(&id);
      logprob.top.push_back(
          {static_cast<int32_t>(id), static_cast<float>(candidate.AsArray().at(1).AsDouble())});
    }
    out.push_back(std::move(logprob));
  }
  return out;
}

void FeedWithLogprobs(const AnswerCase& answer_case, const json::Value& logprobs, AnswerSink* sink) {
  AnswerProcessor processor(OptionsOf(answer_case), testing::V41Tokenizer(), sink);
  processor.Ready("fp", answer_case.usage);
  for (size_t i = 0; i < answer_case.chunks.size(); ++i) {
    const auto& ids = std::get<std::vector<int32_t>>(answer_case.chunks[i]);
    const Status status = processor.Tokens(ids, LogprobsOf(ids, logprobs.AsArray().at(i)));
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  if (answer_case.finish) {
    processor.Finish(*answer_case.finish);
  } else {
    processor.End();
  }
}

json::Value AnswerOf(const AnswerCase& answer_case, Protocol protocol, const std::string& body) {
  const RequestResult request = ParseRequest(protocol, body);
  if (!request.ok()) throw std::runtime_error(request.error().message);
  ResponseOptions options = MakeResponseOptions(*request, testing::V41Tokenizer());
  options.id = "rid";
  options.created = 0;
  EventKeeper keeper;
  const auto stream = MakeResponseStream(protocol, options, &keeper);
  AnswerCollector collector;
  TeeSink sinks({stream.get(), &collector});
  const json::Value* logprobs = answer_case.line.Find("logprobs");
  if (logprobs != nullptr) {
    FeedWithLogprobs(answer_case, *logprobs, &sinks);
  } else {
    Feed(answer_case, answer_case.chunks, &sinks);
  }
  json::Array events;
  for (Event& event : keeper.events) {
    events.emplace_back(
        json::Array{event.name.empty() ? json::Value() : json::Value(event.name), std::move(event.data)});
  }
  return json::Object{{"response", ResponseObject(protocol, collector.answer(), options)},
                      {"events", std::move(events)}};
}

json::Object Parse(const json::Value& line) {
  const AnswerCase answer_case = AnswerCaseOf(line);
  json::Object out;
  for (const auto& [name, body] : line.Find("requests")->AsObject()) {
    out.emplace_back(name, AnswerOf(answer_case, *FindProtocol(name), body.AsString()));
  }
  return out;
}

json::Object Spans(const json::Value& line) {
  json::Array spans;
  for (const json::Value& size : line.Find("sizes")->AsArray()) {
    int64_t width = 0, height = 0;
    size.AsArray().at(0).GetInt64(&width);
    size.AsArray().at(1).GetInt64(&height);
    const auto span = PlanImageSpan(width, height);
    if (!span.ok()) throw std::runtime_error(span.status().ToString());
    spans.emplace_back(json::Array{span->num_tokens(), span->width, span->height});
  }
  return {{"spans", std::move(spans)}};
}

json::Object AnswerLine(const std::string& text) {
  auto line = json::Parse(text, {.max_bytes = size_t{128} << 20, .max_depth = 64});
  if (!line.ok()) throw std::runtime_error(line.status().ToString());
  const std::string& what = Text(*line, "do");
  if (what == "encode") return Encode(*line);
  if (what == "parse") return Parse(*line);
  if (what == "spans") return Spans(*line);
  throw std::runtime_error("nothing is called " + what);
}

}  // namespace
}  // namespace deepinfer::recipe

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "tokenizer") {
    std::cout << deepinfer::testing::V41Json();
    return 0;
  }
  if (mode != "run") {
    std::cerr << "usage: recipe_compare_tool tokenizer|run\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    deepinfer::json::Object answer;
    try {
      answer = deepinfer::recipe::AnswerLine(line);
    } catch (const std::exception& e) {
      answer = {{"failure", std::string(e.what())}};
    }
    std::cout << deepinfer::json::Serialize(answer) << '\n';
  }
  return 0;
}
