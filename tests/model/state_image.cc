#include "model/state_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

namespace deepinfer::testing {

using model::Sequence;

StateImage TakeState(const model::Backbone& backbone, const Sequence& sequence) {
  StateImage image;
  image.length = sequence.length();
  const std::span<const int32_t> ids = sequence.compressed_ids();
  image.compressed_ids.assign(ids.begin(), ids.end());
  for (int layer = 0; layer < backbone.config().num_hidden_layers; ++layer)
    image.rings.push_back(sequence.Ring(layer));
  for (size_t source = 0; source < backbone.plan().sources().size(); ++source) {
    image.main.push_back(sequence.MainEntries(static_cast<int>(source)));
    image.index.push_back(sequence.IndexEntries(static_cast<int>(source)));
    image.tails.push_back(sequence.Tail(static_cast<int>(source)));
  }
  return image;
}

namespace {

std::string Part(const std::string& kind, size_t number, const char* what) {
  return kind + " " + std::to_string(number) + " " + what;
}

std::string DifferenceOf(const std::string& kind, const std::vector<Sequence::EntryImage>& a,
                         const std::vector<Sequence::EntryImage>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].count != b[i].count) return Part(kind, i, "count");
    if (a[i].codes != b[i].codes) return Part(kind, i, "codes");
    if (a[i].scales != b[i].scales) return Part(kind, i, "scales");
  }
  return {};
}

}  // namespace

std::string EntryDifference(const StateImage& a, const StateImage& b) {
  const std::string main = DifferenceOf("main entries of source", a.main, b.main);
  return main.empty() ? DifferenceOf("index keys of source", a.index, b.index) : main;
}

std::string RingDifference(const StateImage& a, const StateImage& b) {
  for (size_t layer = 0; layer < a.rings.size(); ++layer) {
    if (a.rings[layer].valid != b.rings[layer].valid) return Part("ring", layer, "valid");
    if (a.rings[layer].codes != b.rings[layer].codes) return Part("ring", layer, "codes");
    if (a.rings[layer].scales != b.rings[layer].scales) return Part("ring", layer, "scales");
  }
  return {};
}

std::string Difference(const StateImage& a, const StateImage& b) {
  if (a.length != b.length) return "length " + std::to_string(a.length) + " and " + std::to_string(b.length);
  if (a.compressed_ids != b.compressed_ids) return "compressed ids";
  if (std::string rings = RingDifference(a, b); !rings.empty()) return rings;
  if (std::string entries = EntryDifference(a, b); !entries.empty()) return entries;
  for (size_t i = 0; i < a.tails.size(); ++i) {
    if (!SameBits(a.tails[i].content, b.tails[i].content)) return Part("tail", i, "content");
    if (!SameBits(a.tails[i].gate, b.tails[i].gate)) return Part("tail", i, "gate");
  }
  return {};
}

namespace {

template <typename T>
bool SameBytes(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

bool SameBits(std::span<const float> a, std::span<const float> b) { return SameBytes(a, b); }
bool SameBits(std::span<const Bf16> a, std::span<const Bf16> b) { return SameBytes(a, b); }

int64_t FirstDifferingRow(std::span<const float> a, std::span<const float> b, int64_t width) {
  if (a.size() != b.size()) return 0;
  const size_t w = static_cast<size_t>(width);
  for (size_t row = 0; row * w < a.size(); ++row) {
    if (!SameBits(a.subspan(row * w, w), b.subspan(row * w, w))) return static_cast<int64_t>(row);
  }
  return -1;
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

std::vector<float> FeedInChunks(TestModel& model, Sequence* sequence, std::span<const int32_t> ids,
                                int64_t size, model::PrefillMode mode, int64_t keep) {
  std::vector<float> logits;
  // Only a prompt has a length that is known beforehand; a chunk of full rows needs none.
  const int64_t prompt_length =
      mode == model::PrefillMode::kFull ? 0 : sequence->length() + static_cast<int64_t>(ids.size());
  for (size_t at = 0; at < ids.size();) {
    const size_t count = std::min(static_cast<size_t>(size), ids.size() - at);
    const model::ChunkOutput out =
        model.Feed(sequence, ids.subspan(at, count), model::LogitsWanted::kAll, mode, prompt_length, keep);
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
    at += count;
  }
  return logits;
}

Outcome FeedInChunks(TestModel& model, std::span<const int32_t> ids, int64_t size, model::PrefillMode mode,
                     int64_t keep) {
  const std::unique_ptr<Sequence> sequence = model.NewSequence();
  Outcome outcome;
  outcome.logits = FeedInChunks(model, sequence.get(), ids, size, mode, keep);
  outcome.state = TakeState(*model.backbone, *sequence);
  return outcome;
}

std::string TargetName(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

TestModel& Tiny(const std::string& target) {
  static std::map<std::string, TestModel> models;
  auto found = models.find(target);
  if (found == models.end()) found = models.emplace(target, TestModel::Load("goldens/tiny", target, 1)).first;
  return found->second;
}

}  // namespace deepinfer::testing
