// All state of a sequence as bytes, and bit comparison of results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/backbone.h"
#include "model/model_fixture.h"
#include "model/sequence.h"

namespace deepinfer::testing {

/// What a sequence keeps between passes, in the form of its public images.
struct StateImage {
  int64_t length = 0;
  std::vector<int32_t> compressed_ids;
  std::vector<model::Sequence::RingImage> rings;         // per layer
  std::vector<model::Sequence::EntryImage> main, index;  // per source
  std::vector<model::Sequence::TailImage> tails;         // per source
};
StateImage TakeState(const model::Backbone& backbone, const model::Sequence& sequence);

/// Empty when every byte is equal, else the first part that differs ("ring 7 codes").
std::string Difference(const StateImage& a, const StateImage& b);
/// The same for the global KV alone.
std::string EntryDifference(const StateImage& a, const StateImage& b);
/// The same for the window rings alone.
std::string RingDifference(const StateImage& a, const StateImage& b);

/// Bit comparison, so that -0 differs from +0 and NaN equals itself.
bool SameBits(std::span<const float> a, std::span<const float> b);
bool SameBits(std::span<const Bf16> a, std::span<const Bf16> b);
/// Index of the first row of `width` values with a differing bit; -1 when all are equal; 0 when the sizes differ.
int64_t FirstDifferingRow(std::span<const float> a, std::span<const float> b, int64_t width);

bool AllFinite(std::span<const float> values);

/// Logits of all rows that came out and the state afterwards.
struct Outcome {
  std::vector<float> logits;
  StateImage state;
};

/// Feeds `ids` to a new sequence in chunks of `size` rows, as a prompt of that mode.
Outcome FeedInChunks(TestModel& model, std::span<const int32_t> ids, int64_t size,
                     model::PrefillMode mode = model::PrefillMode::kFull, int64_t keep = 0);
/// The same into a sequence that exists.
std::vector<float> FeedInChunks(TestModel& model, model::Sequence* sequence, std::span<const int32_t> ids,
                                int64_t size, model::PrefillMode mode = model::PrefillMode::kFull,
                                int64_t keep = 0);

/// GoogleTest parameter names of kernel targets.
std::string TargetName(const ::testing::TestParamInfo<std::string>& info);

/// goldens/tiny under a target, one thread, passes of up to 512 rows; loaded once a process.
TestModel& Tiny(const std::string& target);

}  // namespace deepinfer::testing
