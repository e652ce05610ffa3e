#include "model/golden_observer.h"

#include <algorithm>
#include <bit>

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

}  // namespace

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const Bf16> got) {
  const std::span<const Bf16> want = file.Bf16s(name);
  file.MarkCompared(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  EXPECT_EQ(DifferingBits(got, want), 0) << name << ": " << Compare(got, want).ToString();
}

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const float> got) {
  const std::span<const float> want = file.Floats(name);
  file.MarkCompared(name);
  ASSERT_EQ(got.size(), want.size()) << name;
  EXPECT_EQ(DifferingBits(got, want), 0) << name << ": " << Compare(got, want).ToString();
}

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const int32_t> got) {
  const std::span<const int32_t> want = file.Ints(name);
  file.MarkCompared(name);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << name;
}

void ExpectGolden(const GoldenFile& file, const std::string& name, std::span<const uint8_t> got) {
  const std::span<const uint8_t> want = file.Bytes(name);
  file.MarkCompared(name);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << name;
}

void GoldenObserver::OnBf16(const std::string& name, std::span<Bf16> data,
                            std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGolden(file_, key, data);
}

void GoldenObserver::OnFloat(const std::string& name, std::span<float> data,
                             std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGolden(file_, key, data);
}

void GoldenObserver::OnInt64(const std::string& name, std::span<int64_t> data,
                             std::span<const int64_t> /*shape*/) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  ExpectGolden(file_, key, std::vector<int32_t>(data.begin(), data.end()));
}

void GoldenObserver::OnInt32(const std::string& name, std::span<int32_t> data,
                             std::span<const int64_t> shape) {
  const std::string key = prefix_ + "." + name;
  if (!file_.Has(key)) return;
  if (name.ends_with(".topk")) return CompareTopK(key, data, shape[0]);
  if (name.ends_with(".candidates")) return CompareCandidates(key, data, shape[0]);
  ExpectGolden(file_, key, data);
}

void GoldenObserver::CompareTopK(const std::string& key, std::span<int32_t> data, int64_t rows) {
  const std::span<const int32_t> want = file_.Ints(key);
  file_.MarkCompared(key);
  const int64_t width = static_cast<int64_t>(data.size()) / rows,
                golden_width = static_cast<int64_t>(want.size()) / rows;
  for (int64_t t = 0; t < rows; ++t) {
    const std::vector<int32_t> golden(want.begin() + t * golden_width, want.begin() + (t + 1) * golden_width);
    const std::vector<int32_t> got(data.begin() + t * width, data.begin() + t * width + golden_width);
    for (int64_t i = golden_width; i < width; ++i)
      ASSERT_EQ(data[static_cast<size_t>(t * width + i)], -1) << key;
    EXPECT_EQ(got, golden) << key << " row " << t;
  }
}

void GoldenObserver::CompareCandidates(const std::string& key, std::span<int32_t> data, int64_t rows) {
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
  ExpectGolden(file_, key, got);
}

}  // namespace deepinfer::testing
