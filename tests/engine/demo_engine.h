// The demo model, loaded once per process and variant, and its recorded answers.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"

namespace deepinfer::testing {

inline const std::string kDemoModel = DEEPINFER_TEST_DATA "/demo-model";

inline Engine& LoadDemo(const std::string& target, int threads, int64_t max_chunk_rows) {
  static std::map<std::string, std::unique_ptr<Engine>> engines;
  const std::string key = target + "/" + std::to_string(threads) + "/" + std::to_string(max_chunk_rows);
  if (!engines.contains(key)) {
    EngineOptions options;
    options.model_dir = kDemoModel;
    options.threads = threads;
    options.cpu_target = target;
    options.max_chunk_rows = max_chunk_rows;
    auto engine = Engine::Load(options);
    if (!engine.ok()) throw std::runtime_error(engine.status().ToString());
    engines[key] = std::move(engine).value();
  }
  return *engines[key];
}

/// The best kernels of this machine.
inline Engine& Demo() { return LoadDemo("", 2, 512); }

struct Transcript {
  std::string id, prompt, output_text;
  std::vector<int32_t> prompt_ids, output_ids;
  std::vector<std::vector<std::pair<int32_t, double>>> top5;
};

inline std::vector<int32_t> Ids(const json::Value& list) {
  std::vector<int32_t> ids;
  for (const json::Value& id : list.AsArray()) ids.push_back(static_cast<int32_t>(id.AsDouble()));
  return ids;
}

inline const std::vector<Transcript>& Transcripts() {
  static const std::vector<Transcript> all = [] {
    const auto text = ReadFile(DEEPINFER_TEST_DATA "/demo-eval/transcripts.jsonl", size_t{1} << 24);
    if (!text.ok()) throw std::runtime_error(text.status().ToString());
    std::vector<Transcript> out;
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t end = rest.find('\n');
      const auto line = json::Parse(rest.substr(0, end));
      if (!line.ok()) throw std::runtime_error(line.status().ToString());
      Transcript t{line->Find("id")->AsString(),          line->Find("prompt")->AsString(),
                   line->Find("output_text")->AsString(), Ids(*line->Find("prompt_ids")),
                   Ids(*line->Find("output_ids")),        {}};
      for (const json::Value& row : line->Find("top5")->AsArray()) {
        auto& top = t.top5.emplace_back();
        for (const json::Value& entry : row.AsArray()) {
          top.emplace_back(static_cast<int32_t>(entry.AsArray()[0].AsDouble()),
                           entry.AsArray()[1].AsDouble());
        }
      }
      out.push_back(std::move(t));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return out;
  }();
  return all;
}

inline const Transcript& FindTranscript(const std::string& id) {
  for (const Transcript& t : Transcripts()) {
    if (t.id == id) return t;
  }
  throw std::runtime_error("no transcript " + id);
}

/// Arg-max with the prompt of a transcript.
inline GenerationRequest Greedy(const std::string& transcript, int64_t max_tokens = 128) {
  GenerationRequest request;
  request.prompt_ids = FindTranscript(transcript).prompt_ids;
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  return request;
}

inline GenerationResult MustGenerate(Engine& engine, const GenerationRequest& request,
                                     const TokenSink& sink = nullptr, Session* session = nullptr,
                                     const std::atomic<bool>* stop = nullptr) {
  auto result = engine.Generate(request, sink, session, stop);
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

/// Bit for bit: ids, text and log-probabilities.
inline void ExpectSameAnswer(const GenerationResult& got, const GenerationResult& want) {
  EXPECT_EQ(got.output_ids, want.output_ids);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.finish_reason, want.finish_reason);
  ASSERT_EQ(got.logprobs.size(), want.logprobs.size());
  for (size_t i = 0; i < want.logprobs.size(); ++i) {
    EXPECT_EQ(got.logprobs[i].logprob, want.logprobs[i].logprob) << i;
    EXPECT_EQ(got.logprobs[i].top, want.logprobs[i].top) << i;
  }
}

}  // namespace deepinfer::testing
