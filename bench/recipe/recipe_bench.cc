// Speed of the way from a request body to token ids, on one core, in bytes of the body or of the prompt a second.
//
//     recipe_bench [--body FILE] [google-benchmark options]
//
// Without FILE, a Chat Completions body of about 0.8 MB: 101 messages in four scripts, 20 tools.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "recipe/json_document.h"
#include "recipe/prompt.h"
#include "recipe/request.h"
#include "tokenizer/test_tokenizers.h"
#include "tokenizer/unicode.h"

namespace deepinfer::recipe {
namespace {

/// Words of one script: the tokens of the vocabulary in it, the frequent ones (low ids) first.
std::vector<std::string> WordsOf(const Tokenizer& tokenizer, char32_t first, char32_t last) {
  std::vector<std::string> words;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsAdded(id)) continue;
    std::string_view bytes = tokenizer.TokenBytes(id);
    if (unicode::FindInvalidUtf8(bytes) != std::string_view::npos) continue;
    if (bytes.starts_with(' ')) bytes.remove_prefix(1);
    bool fits = !bytes.empty();
    for (const char32_t c : unicode::ToCodePoints(bytes)) fits = fits && c >= first && c <= last;
    if (fits) words.emplace_back(bytes);
  }
  return words;
}

/// Text with the word frequencies of prose (the n-th word about 1/n as often as the first), one word in eight made of two, numbers,
/// punctuation and paragraphs.
class TextMaker {
 public:
  explicit TextMaker(const Tokenizer& tokenizer)
      : scripts_{WordsOf(tokenizer, U'a', U'z'), WordsOf(tokenizer, U'\u0430', U'\u044f'),
                 WordsOf(tokenizer, U'\u4e00', U'\u9fa5'), WordsOf(tokenizer, U'\u0620', U'\u064a')} {}

  std::string Make(size_t script, size_t bytes) {
    const bool spaced = script != 2;
    std::string text;
    while (text.size() < bytes) {
      if (spaced && !text.empty() && text.back() != '\n') text += ' ';
      text += Word(script);
      if (Below(8) == 0) text += Word(script);
      if (Below(12) == 0) text += spaced ? "," : "\uff0c";
      if (Below(15) == 0) text += spaced ? "." : "\u3002";
      if (Below(40) == 0) text += " " + std::to_string(Below(100'000));
      if (Below(60) == 0) text += "\n\n";
    }
    return text;
  }

 private:
  const std::string& Word(size_t script) {
    const auto& words = scripts_[script];
    const double u = static_cast<double>(random_()) / static_cast<double>(std::mt19937_64::max());
    const auto rank = static_cast<size_t>(std::pow(static_cast<double>(words.size()), u)) - 1;
    return words[std::min(rank, words.size() - 1)];
  }
  uint64_t Below(uint64_t n) { return random_() % n; }

  std::vector<std::string> scripts_[4];
  std::mt19937_64 random_{1};
};

std::string MakeBody() {
  TextMaker text(*testing::V41Tokenizer());
  json::Value messages, tools, body;
  messages.Append(json::Object{{"role", "system"}, {"content", text.Make(0, 4000)}});
  for (size_t i = 0; i < 100; ++i) {
    json::Value message = json::Object{{"role", i % 2 == 0 ? "user" : "assistant"}};
    message.Set("content", text.Make(i / 2 % 4, 8000));
    messages.Append(std::move(message));
  }
  for (int i = 0; i < 20; ++i) {
    json::Value properties;
    for (int k = 0; k < 6; ++k) {
      properties.Set("p" + std::to_string(k),
                     json::Object{{"type", "string"}, {"description", text.Make(0, 60)}});
    }
    json::Value function =
        json::Object{{"name", "tool_" + std::to_string(i)}, {"description", text.Make(0, 200)}};
    function.Set("parameters", json::Object{{"type", "object"}, {"properties", std::move(properties)}});
    tools.Append(json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  body.Set("model", "DeepSeek-V4.1-Flash");
  body.Set("messages", std::move(messages));
  body.Set("tools", std::move(tools));
  return json::Serialize(body);
}

std::string& Body() {
  static std::string body;
  return body;
}

Request ParseBody() { return *ParseRequest(Protocol::kChat, Body()); }

void SetBytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

void BM_BodyToTree(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(JsonDocument::Parse(Body()));
  SetBytes(state, Body().size());
}
BENCHMARK(BM_BodyToTree);

void BM_BodyToRequest(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(ParseRequest(Protocol::kChat, Body()));
  SetBytes(state, Body().size());
}
BENCHMARK(BM_BodyToRequest);

void BM_ConversationToPrompt(benchmark::State& state) {
  const Request request = ParseBody();
  size_t bytes = 0;
  for (auto _ : state) {
    const auto prompt = RenderPrompt(request.conversation);
    bytes = prompt->text.size();
    benchmark::DoNotOptimize(prompt->text.data());
  }
  SetBytes(state, bytes);
}
BENCHMARK(BM_ConversationToPrompt);

void BM_BodyToPrompt(benchmark::State& state) {
  for (auto _ : state) {
    const RequestResult request = ParseRequest(Protocol::kChat, Body());
    benchmark::DoNotOptimize(RenderPrompt(request->conversation));
  }
  SetBytes(state, Body().size());
}
BENCHMARK(BM_BodyToPrompt);

void BM_ConversationToIds(benchmark::State& state) {
  const Request request = ParseBody();
  const auto tokenizer = testing::V41Tokenizer();
  size_t bytes = 0, tokens = 0;
  for (auto _ : state) {
    const auto prompt = RenderPrompt(request.conversation);
    const auto ids = EncodePrompt(*prompt, *tokenizer);
    bytes = prompt->text.size();
    tokens = ids->size();
    benchmark::DoNotOptimize(ids->data());
  }
  SetBytes(state, bytes);
  state.counters["tokens"] = static_cast<double>(tokens);
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_ConversationToIds)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace deepinfer::recipe

int main(int argc, char** argv) {
  std::string& body = deepinfer::recipe::Body();
  if (argc > 2 && std::strcmp(argv[1], "--body") == 0) {
    auto text = deepinfer::ReadFile(argv[2], size_t{64} << 20);
    if (!text.ok()) {
      std::fprintf(stderr, "recipe_bench: error: %s\n", text.status().ToString().c_str());
      return 3;
    }
    body = std::move(*text);
    argv[2] = argv[0];
    argc -= 2;
    argv += 2;
  } else {
    body = deepinfer::recipe::MakeBody();
  }
  if (!deepinfer::recipe::ParseRequest(deepinfer::recipe::Protocol::kChat, body).ok()) {
    std::fprintf(stderr, "recipe_bench: error: the body is no valid request\n");
    return 4;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::printf("body: %zu bytes\n", body.size());
  benchmark::RunSpecifiedBenchmarks();
}
