// The compressed token map (spec: checkpoint.md §9.1).
#include "tokenizer/engram_token_map.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/sha256.h"
#include "tokenizer/test_tokenizers.h"

namespace deepinfer {
namespace {

using deepinfer::testing::DemoTokenizer;
using deepinfer::testing::V3Tokenizer;
using deepinfer::testing::V41Tokenizer;
using ::testing::HasSubstr;

std::string Bytes(std::span<const int32_t> ids) {
  std::string bytes;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(static_cast<uint32_t>(id) >> shift);
  }
  return bytes;
}

/// A file that lives as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view content)
      : path_(std::filesystem::temp_directory_path() /
              ("engram_token_map_test." + std::to_string(getpid()))) {
    EXPECT_TRUE(WriteFileAtomic(path_, content).ok());
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(EngramTokenMapTest, GivesTheReleasedTable) {
  const auto map = EngramTokenMap::Derive(*V41Tokenizer(), kReleasedVocabSize, kReleasedEngramClasses);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  EXPECT_EQ(map->digest(), "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
  EXPECT_EQ(map->num_classes(), 99092);
  const std::pair<int, int> spots[] = {{0, 0},          {1, 1},          {2, 2},          {3, 3},
                                       {100, 74},       {223, 174},      {270, 237},      {671, 237},
                                       {76589, 48},     {19923, 15844},  {127999, 97811}, {128799, 98611},
                                       {128803, 98615}, {129264, 99076}, {129279, 99091}};
  for (const auto& [id, compressed] : spots) EXPECT_EQ(map->ids()[static_cast<size_t>(id)], compressed) << id;
  for (size_t id = 128000; id < 129280; ++id)
    EXPECT_EQ(map->ids()[id], 97812 + static_cast<int32_t>(id) - 128000);
  const auto base = map->ids().first(128000);
  EXPECT_EQ(*std::max_element(base.begin(), base.end()), 97811);
  EXPECT_EQ(ToHex(Sha256Of(Bytes(base))), "a44a9e7328b760556106bce7c1002c9fa632bc2f5c8e054ad9ce3ff8f8bfa8db");
}

TEST(EngramTokenMapTest, TheBaseVocabularyNeedsNoAddedTokens) {
  const std::vector<int32_t> ids = ComputeEngramClasses(*V3Tokenizer());
  EXPECT_EQ(ToHex(Sha256Of(Bytes(std::span(ids).first(128000)))),
            "a44a9e7328b760556106bce7c1002c9fa632bc2f5c8e054ad9ce3ff8f8bfa8db");
}

TEST(EngramTokenMapTest, DerivesTheSidecarOfTheDemoModel) {
  const std::string path = DEEPINFER_TEST_DATA "/demo-model/engram_token_map.i32";
  const std::vector<int32_t> derived = ComputeEngramClasses(*DemoTokenizer());
  const int64_t classes = *std::max_element(derived.begin(), derived.end()) + 1;
  const auto sidecar = EngramTokenMap::LoadSidecar(path, 4096, classes);
  ASSERT_TRUE(sidecar.ok()) << sidecar.status().ToString();
  EXPECT_THAT(sidecar->ids(), ::testing::ElementsAreArray(derived));
}

TEST(EngramTokenMapTest, Normalises) {
  EXPECT_EQ(NormalizeForEngram("Ünïcödé"), "unicode");
  EXPECT_EQ(NormalizeForEngram("İSTANBUL"), "istanbul");
  EXPECT_EQ(NormalizeForEngram("ΣΑΣ"), "σασ");  // no rule for a final sigma
  EXPECT_EQ(NormalizeForEngram("ﬁ①Ⅻ"), "fi1xii");
  EXPECT_EQ(NormalizeForEngram("a \t\r\n b"), "a b");
  EXPECT_EQ(NormalizeForEngram("  a\u00a0"), "a");
  EXPECT_EQ(NormalizeForEngram(" "), " ");
  EXPECT_EQ(NormalizeForEngram("\n\t"), " ");
  EXPECT_EQ(NormalizeForEngram("\u00a0"), " ");  // a space after NFKC
  EXPECT_EQ(NormalizeForEngram("\u00a0\u00a0"), " ");
  EXPECT_EQ(NormalizeForEngram("\u0085"), "");
  EXPECT_EQ(NormalizeForEngram("\u0301"), "");
  EXPECT_EQ(NormalizeForEngram("a\u20dd\u0903"), "a");  // enclosing and spacing marks go, too
  EXPECT_EQ(NormalizeForEngram("한"), "\u1112\u1161\u11ab");
}

TEST(EngramTokenMapTest, RefusesUnsoundSidecars) {
  struct Case {
    std::vector<int32_t> ids;
    int64_t vocab_size, classes;
    const char* message;
  };
  const Case cases[] = {
      {{0, 1, 2}, 4, 3, "must have 4 bytes for each of the 4 tokens"},
      {{0, 1, 2, 0, 1}, 4, 3, "must have 4 bytes for each of the 4 tokens"},
      {{}, 4, 3, "must have 4 bytes"},
      {{0, 1, -1, 0}, 4, 2, "token 2 has the impossible compressed id -1"},
      {{0, 1, INT32_MAX, 0}, 4, 3, "token 2 has the impossible compressed id 2147483647"},
      {{0, 1, 2, 0}, 4, 4, "has 3 compressed ids, but engram_compressed_vocab_size is 4"},
      {{0, 1, 3, 0}, 4, 4, "no token has the compressed id 2"},
      {{0, 1, 2, 0}, 4, -1, "engram_compressed_vocab_size is -1"},
      {{0}, 0, 1, "must be from 1 to"},
      {{0}, -1, 1, "must be from 1 to"},
      {{0}, INT64_MAX, 1, "must be from 1 to"},
  };
  for (const Case& c : cases) {
    const TemporaryFile file(Bytes(c.ids));
    const auto map = EngramTokenMap::LoadSidecar(file.path(), c.vocab_size, c.classes);
    ASSERT_FALSE(map.ok()) << c.message;
    EXPECT_EQ(map.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(map.status().message(), HasSubstr(c.message));
  }
  const TemporaryFile good(Bytes(std::vector<int32_t>{0, 1, 2, 0}));
  EXPECT_TRUE(EngramTokenMap::LoadSidecar(good.path(), 4, 3).ok());
  const TemporaryFile cut(Bytes(std::vector<int32_t>{0, 1, 2, 0}).substr(0, 15));
  EXPECT_FALSE(EngramTokenMap::LoadSidecar(cut.path(), 4, 3).ok());
  EXPECT_EQ(EngramTokenMap::LoadSidecar("/nonexistent", 4, 3).status().code(), StatusCode::kNotFound);
}

TEST(EngramTokenMapTest, RefusesAnotherTableOfTheReleasedSizes) {
  std::vector<int32_t> ids = ComputeEngramClasses(*V41Tokenizer());
  const TemporaryFile good(Bytes(ids));
  EXPECT_TRUE(EngramTokenMap::LoadSidecar(good.path(), kReleasedVocabSize, kReleasedEngramClasses).ok());
  std::swap(ids[1000], ids[1001]);
  const TemporaryFile swapped(Bytes(ids));
  const auto map = EngramTokenMap::LoadSidecar(swapped.path(), kReleasedVocabSize, kReleasedEngramClasses);
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(map.status().message(), HasSubstr("differs from the table of the released model"));
}

TEST(EngramTokenMapTest, RefusesATokenizerOfAnotherSize) {
  const auto map = EngramTokenMap::Derive(*V3Tokenizer(), kReleasedVocabSize, kReleasedEngramClasses);
  EXPECT_EQ(map.status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(EngramTokenMap::Derive(*DemoTokenizer(), 4096, 1).ok());
}

}  // namespace
}  // namespace deepinfer
