#include "model/golden_observer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace deepinfer::testing {
namespace {

int64_t DifferingBits(std::span<const Bf16> a, std::span<const Bf16> b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i].bits != b[i].bits;
  return count;
}

int64_t DifferingBits(std::span<const float> a, std::span<const float> b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  return count;
}

/// Class "score": at most 1 % of the finite elements differ, each by one bf16 ulp, infinities exact.
void ExpectScores(const std::string& name, std::span<const float> got, std::span<const float> want) {
  int64_t finite = 0, differing = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::isinf(got[i]), std::isinf(want[i])) << name << " element " << i;
    if (std::isinf(want[i])) continue;
    ++finite;
    if (got[i] == want[i]) continue;
    ++differing;
    const int32_t a = std::bit_cast<int32_t>(got[i]) >> 16, b = std::bit_cast<int32_t>(want[i]) >> 16;
    EXPECT_LE(std::abs(a - b), 1) << name << " element " << i << ": " << got[i] << " for " << want[i];
  }
  EXPECT_LE(static_cast<double>(differing), std::max(0.01 * static_cast<double>(finite), 1.0))
      << name << " of " << finite;
}

/// Class "grid": at most 0.2 % of the elements differ (one element in small tensors).
void ExpectGrid(const std::string& name, const Comparison& c) {
  EXPECT_LE(static_cast<double>(c.differing), std::max(0.002 * static_cast<double>(c.elements), 1.0))
      << name << ": " << c.ToString();
}

template <typename T>
void ExpectDrift(const std::string& name, std::span<const T> got, std::span<const T> want,
                 double (*value)(T)) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double a = value(got[i]), b = value(want[i]);
    ASSERT_EQ(std::isinf(a), std::isinf(b)) << name << " element " << i;
    if (std::isinf(b)) continue;
    error += (a - b) * (a - b);
    norm += b * b;
  }
  EXPECT_LE(std::sqrt(error), kMaxDrift * std::sqrt(norm)) << name;
}

/// Share of the golden's non-negative numbers of a row that are among `got`'s.
double Overlap(std::span<const int32_t> got, std::span<const int32_t> golden) {
  int64_t common = 0, count = 0;
  for (int32_t j : golden) {
    if (j < 0) continue;
    ++count;
    common += std::find(got.begin(), got.end(), j) != got.end();
  }
  return count == 0 ? 1.0 : static_cast<double>(common) / static_cast<double>(count);
}

}  // namespace

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const Bf16> got,
                  Strictness strictness) {
  const std::span<const Bf16> want = file.Bf16s(name);
  file.MarkCompared(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  if (strictness == Strictness::kBits) {
    EXPECT_EQ(DifferingBits(got, want), 0) << name << ": " << Compare(got, want).ToString();
    return;
  }
  if (strictness == Strictness::kDrift) {
    return ExpectDrift<Bf16>(name, got, want, [](Bf16 v) { return static_cast<double>(ToFloat(v)); });
  }
  const Comparison c = Compare(got, want);
  if (file.Get(name).tolerance == "grid") return ExpectGrid(name, c);
  EXPECT_TRUE(WithinBf16Class(c)) << name << ": " << c.ToString();
}

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const float> got,
                  Strictness strictness) {
  const std::span<const float> want = file.Floats(name);
  file.MarkCompared(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  if (strictness == Strictness::kBits) {
    EXPECT_EQ(DifferingBits(got, want), 0) << name << ": " << Compare(got, want).ToString();
    return;
  }
  if (strictness == Strictness::kDrift) {
    return ExpectDrift<float>(name, got, want, [](float v) { return static_cast<double>(v); });
  }
  const std::string& tolerance = file.Get(name).tolerance;
  const Comparison c = Compare(got, want);
  if (tolerance == "score") return ExpectScores(name, got, want);
  if (tolerance == "logits") {
    EXPECT_LE(c.max_abs, 1e-4) << name << ": " << c.ToString();
  } else if (tolerance == "bf16") {  // compressor tails: fp32 values of class bf16
    EXPECT_LE(c.max_abs, 0.1 * c.rms) << name << ": " << c.ToString();
  } else {
    EXPECT_TRUE(WithinFp32Class(c)) << name << ": " << c.ToString();
  }
}

void ExpectGoldenExact(const GoldenFile& file, const std::string& name, std::span<const int32_t> got) {
  const std::span<const int32_t> want = file.Ints(name);
  file.MarkCompared(name);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << name;
}

void ExpectGoldenExact(const GoldenFile& file, const std::string& name, std::span<const uint8_t> got) {
  const std::span<const uint8_t> want = file.Bytes(name);
  file.MarkCompared(name);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << name;
}

Strictness GoldenObserver::StrictnessOf(const std::string& name) const {
  if (strictness_ == Strictness::kBits || !inject_) return strictness_;
  // The recorded tensor that feeds the module which made `name`; everything in between is injected as well where it is recorded.
  std::string feeds;
  if (name == "final_hidden") {
    feeds = "layers.9.streams_out";
  } else {
    const size_t dot = name.find('.', 7);
    const std::string layer = name.substr(0, dot + 1), part = name.substr(dot + 1);
    const bool first = layer == "layers.0.";
    if (part.starts_with("attn.") && part != "attn.input") {
      feeds = layer + "attn.input";
    } else if (part.starts_with("ffn.") && part != "ffn.input") {
      feeds = layer + "ffn.input";
    } else if (part == "collapsed_out") {
      feeds = layer + "streams_out";
    } else if (part == "engram.rows" || first) {
      return strictness_;  // from token ids alone
    } else if (part.starts_with("engram.") || part == "streams_in" || part == "hc.pre_in") {
      feeds = "layers." + std::to_string(std::stoi(layer.substr(7)) - 1) + ".streams_out";
    } else {
      feeds = layer + "streams_in";
    }
  }
  return file_.Has(prefix_ + "." + feeds) ? strictness_ : Strictness::kDrift;
}

void GoldenObserver::OnBf16(const std::string& name, std::span<Bf16> data,
                            std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGolden(file_, key, data, StrictnessOf(name));
  const std::span<const Bf16> want = file_.Bf16s(key);
  if (inject_ && want.size() == data.size()) std::copy(want.begin(), want.end(), data.begin());
}

void GoldenObserver::OnFloat(const std::string& name, std::span<float> data,
                             std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGolden(file_, key, data, StrictnessOf(name));
  const std::span<const float> want = file_.Floats(key);
  if (inject_ && want.size() == data.size()) std::copy(want.begin(), want.end(), data.begin());
}

void GoldenObserver::OnInt64(const std::string& name, std::span<int64_t> data,
                             std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGoldenExact(file_, key, std::vector<int32_t>(data.begin(), data.end()));
}

void GoldenObserver::OnInt32(const std::string& name, std::span<int32_t> data,
                             std::span<const int64_t> shape) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  if (name.ends_with(".topk")) return CompareTopK(key, data, shape[0], StrictnessOf(name));
  if (name.ends_with(".candidates")) return CompareCandidates(key, data, shape[0], StrictnessOf(name));
  if (name.ends_with("gate.selected")) return CompareExperts(key, data, shape[0], StrictnessOf(name));
  ExpectGoldenExact(file_, key, data);
}

void GoldenObserver::CompareTopK(const std::string& key, std::span<int32_t> data, int64_t rows,
                                 Strictness strictness) {
  const std::span<const int32_t> want = file_.Ints(key);
  file_.MarkCompared(key);
  const int64_t width = static_cast<int64_t>(data.size()) / rows,
                golden_width = static_cast<int64_t>(want.size()) / rows;
  const std::string scores_key = key.substr(0, key.size() - 4) + "scores";
  const std::span<const float> scores =
      file_.Has(scores_key) ? file_.Floats(scores_key) : std::span<const float>();
  for (int64_t t = 0; t < rows; ++t) {
    const std::vector<int32_t> golden(want.begin() + t * golden_width, want.begin() + (t + 1) * golden_width);
    std::vector<int32_t> got(data.begin() + t * width, data.begin() + t * width + golden_width);
    for (int64_t i = golden_width; i < width; ++i)
      ASSERT_EQ(data[static_cast<size_t>(t * width + i)], -1) << key;
    if (strictness == Strictness::kDrift) {
      EXPECT_GE(Overlap(got, golden), 1 - kMaxDrift) << key << " row " << t;
    } else if (got != golden && strictness == Strictness::kTolerance && !scores.empty()) {
      // Entries may differ only where the recorded score is within 2 bf16 ulp of the row's k-th best.
      const float* row = scores.data() + t * static_cast<int64_t>(scores.size()) / rows;
      float kth = INFINITY;
      for (int32_t j : golden) kth = j < 0 ? kth : std::min(kth, row[j]);
      for (const auto& [mine, other] :
           {std::pair<const std::vector<int32_t>*, const std::vector<int32_t>*>(&got, &golden),
            {&golden, &got}}) {
        for (int32_t j : *mine) {
          if (j < 0 || std::find(other->begin(), other->end(), j) != other->end()) continue;
          EXPECT_LE(std::fabs(row[j] - kth), std::fabs(kth) * 2.0f / 128.0f)
              << key << " row " << t << " entry " << j;
        }
      }
    } else {
      EXPECT_EQ(got, golden) << key << " row " << t;
    }
    if (inject_) std::copy(golden.begin(), golden.end(), data.begin() + t * width);
  }
}

void GoldenObserver::CompareCandidates(const std::string& key, std::span<int32_t> data, int64_t rows,
                                       Strictness strictness) {
  const std::span<const uint8_t> want = file_.Bytes(key);
  const int64_t width = static_cast<int64_t>(data.size()) / rows,
                entries = static_cast<int64_t>(want.size()) / rows;
  std::vector<uint8_t> got(want.size(), 0);
  constexpr int64_t kBlock = 4;  // candidate_block_size of both golden checkpoints
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t block = data[static_cast<size_t>(t * width + i)];
      for (int64_t j = block * kBlock; block >= 0 && j < std::min((block + 1) * kBlock, entries); ++j) {
        got[static_cast<size_t>(t * entries + j)] = 1;
      }
    }
  }
  if (strictness != Strictness::kDrift) return ExpectGoldenExact(file_, key, got);
  file_.MarkCompared(key);
  int64_t differing = 0;
  for (size_t i = 0; i < want.size(); ++i) differing += got[i] != want[i];
  EXPECT_LE(static_cast<double>(differing), kMaxDrift * static_cast<double>(want.size())) << key;
}

void GoldenObserver::CompareExperts(const std::string& key, std::span<int32_t> data, int64_t rows,
                                    Strictness strictness) {
  const std::span<const int32_t> want = file_.Ints(key);
  const std::string scores_key = key.substr(0, key.size() - 8) + "scores";
  if (strictness == Strictness::kDrift) {
    file_.MarkCompared(key);
    EXPECT_GE(Overlap(data, want), 1 - kMaxDrift) << key;
  } else if (strictness == Strictness::kTolerance && file_.Has(scores_key)) {
    // Scores are recomputed inside the operation: another expert may be chosen only where the recorded scores tie within the fp32 class.
    const std::span<const float> scores = file_.Floats(scores_key);
    file_.MarkCompared(key);
    const int64_t experts = static_cast<int64_t>(scores.size()) / rows,
                  k = static_cast<int64_t>(data.size()) / rows;
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i] == want[i]) continue;
      const float* row = scores.data() + static_cast<int64_t>(i) / k * experts;
      EXPECT_NEAR(row[data[i]], row[want[i]], 1e-4) << key << " element " << i;
    }
  } else {
    ExpectGoldenExact(file_, key, data);
  }
  if (inject_) std::copy(want.begin(), want.end(), data.begin());
}

}  // namespace deepinfer::testing
