// Speed of reading answers: ids or text to Chat Completions events, JSON text of every event included (spec: recipe.md §17.4).
//   answers_bench [google-benchmark options]
// Counters: tokens (ids a second) for pushes of ids, bytes a second for pushes of text.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/answer_processor.h"
#include "recipe/response.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer::recipe {
namespace {

constexpr std::string_view kWords[] = {
    "the",    "river",  "stone",   "of",   "a",       "copper",  "window",   "and",   "letter",
    "bridge", "Größe",  "quietly", "мир",  "because", "harbor",  "pencils",  "which", "mountain",
    "你好",   "yellow", "kitchen", "2048", "silver",  "forests", "anchored", "in",    "world"};

std::string Prose(size_t num_words, bool reasoning) {
  std::mt19937 random(1);
  std::string text;
  for (size_t i = 0; i < num_words; ++i) {
    text += kWords[random() % std::size(kWords)];
    text += i % 97 == 96 ? "\n\n" : i % 13 == 12 ? ". " : i % 7 == 6 ? ", " : " ";
    if (reasoning && i == num_words / 2) text += "</think>\n\n";
  }
  return text;
}

std::string ToolCalls(size_t num_calls) {
  std::string text = "<｜DSML｜ calls>\n";
  for (size_t i = 0; i < num_calls; ++i) {
    text +=
        "<｜DSML｜ invoke name=\"get_weather\">\n"
        "<｜DSML｜ parameter name=\"location\" string=\"true\">" +
        Prose(12, false) +
        "</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"days\" string=\"false\">[1, 2, {\"a\": " +
        std::to_string(i) +
        "}]</｜DSML｜ parameter>\n"
        "</｜DSML｜ invoke>\n";
  }
  return text + "</｜DSML｜ calls>";
}

std::vector<int32_t> Ids(std::string_view text) {
  EncodeOptions options;
  options.added_tokens = true;
  return testing::V41Tokenizer()->Encode(text, options).value();
}

class CountingSink : public EventSink {
 public:
  void OnEvent(std::string_view, std::string_view data) override {
    ++events;
    bytes += data.size();
  }
  size_t events = 0, bytes = 0;
};

// One answer: `push(processor)` gives it all of the output.
template <typename Push>
void RunAnswer(benchmark::State& state, ParserStage stage, Push push) {
  CountingSink sink;
  ResponseOptions response;
  response.id = "4bdbd4bd-6f0c-4a2f-93a5-0a1b2c3d4e5f";
  response.model = "deepseek-flash";
  response.created = 1793000000;
  AnswerOptions options;
  options.parsing.tools = true;
  options.parsing.stage = stage;
  options.thinking = response.thinking = stage == ParserStage::kStart;
  const auto tokenizer = testing::V41Tokenizer();
  for (auto _ : state) {
    const auto stream = MakeResponseStream(Protocol::kChat, response, &sink);
    AnswerProcessor processor(options, tokenizer, stream.get());
    processor.Ready("fp", {1000, 640});
    push(&processor);
    processor.Finish(BackendFinish::kStop);
  }
  benchmark::DoNotOptimize(sink.bytes);
  state.counters["events"] =
      benchmark::Counter(static_cast<double>(sink.events), benchmark::Counter::kIsRate);
}

void PushIds(benchmark::State& state, ParserStage stage, const std::vector<int32_t>& ids) {
  const auto step = static_cast<size_t>(state.range(0));
  RunAnswer(state, stage, [&](AnswerProcessor* processor) {
    for (size_t at = 0; at < ids.size(); at += step) {
      const Status status = processor->Tokens(std::span(ids).subspan(at, std::min(step, ids.size() - at)));
      if (!status.ok()) state.SkipWithError(status.ToString().c_str());
    }
  });
  state.counters["tokens"] = benchmark::Counter(
      static_cast<double>(ids.size()) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void BM_ProseIds(benchmark::State& state) { PushIds(state, ParserStage::kNone, Ids(Prose(40'000, false))); }
void BM_ReasoningIds(benchmark::State& state) {
  PushIds(state, ParserStage::kStart, Ids(Prose(40'000, true)));
}
void BM_ToolCallIds(benchmark::State& state) { PushIds(state, ParserStage::kNone, Ids(ToolCalls(1000))); }
BENCHMARK(BM_ProseIds)->Arg(1)->Arg(6)->Arg(64);
BENCHMARK(BM_ReasoningIds)->Arg(1)->Arg(6)->Arg(64);
BENCHMARK(BM_ToolCallIds)->Arg(1)->Arg(6)->Arg(64);

// Cuts at characters, `num_characters` a chunk.
std::vector<std::string> TextChunks(std::string_view text, size_t num_characters) {
  std::vector<std::string> chunks;
  size_t characters = 0;
  for (const char c : text) {
    const bool begins = (static_cast<uint8_t>(c) & 0xC0) != 0x80;
    if (begins && characters++ % num_characters == 0) chunks.emplace_back();
    chunks.back() += c;
  }
  return chunks;
}

void PushText(benchmark::State& state, std::string_view text) {
  const std::vector<std::string> chunks = TextChunks(text, static_cast<size_t>(state.range(0)));
  RunAnswer(state, ParserStage::kNone, [&](AnswerProcessor* processor) {
    for (const std::string& chunk : chunks) processor->Text(chunk);
  });
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * static_cast<int64_t>(state.iterations()));
}

void BM_ProseText(benchmark::State& state) { PushText(state, Prose(150'000, false)); }
void BM_ToolCallText(benchmark::State& state) { PushText(state, ToolCalls(4000)); }
BENCHMARK(BM_ProseText)->Arg(4)->Arg(64)->Arg(4096)->Arg(200'000);
BENCHMARK(BM_ToolCallText)->Arg(4)->Arg(64)->Arg(4096)->Arg(200'000);

}  // namespace
}  // namespace deepinfer::recipe

BENCHMARK_MAIN();
