// Keys of blocks: golden values from an independent program, and that every field counts (spec: serving.md S2, S3).
#include "cache/block_key.h"

#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deepinfer::cache {
namespace {

Digest Filled(uint8_t byte) {
  Digest digest;
  digest.fill(byte);
  return digest;
}

ChainIdentity Identity() {
  return {.model = Filled(1),
          .format = Filled(2),
          .numeric_class = 0x01020304,
          .adapter = Filled(3),
          .exactness = 0,
          .salt = Filled(4)};
}

TEST(BlockKey, GoldenValues) {
  EXPECT_EQ(ToHex(RootKey({})), "35352be9e78e9c68570b3fc5cccd24eb0fb677c008f5cda74641886a6e1a5908");
  const Digest root = RootKey(Identity());
  EXPECT_EQ(ToHex(root), "784ac76a5e6743f98a446aa3f0b405049ddc810690df7505daab75177feb9468");

  Sha256BlockHasher hasher;
  std::vector<int32_t> ids(128);
  std::iota(ids.begin(), ids.end(), 0);
  const Digest text = hasher.BlockKey(root, ids, {});
  EXPECT_EQ(ToHex(text), "89e5f3c24be69cb567b9d6ccc972646aae60715e2c12e14fd315de50e7482435");

  const std::vector<int32_t> image_ids(128, 129'264);
  const std::vector<BlockItem> items{{.kind = 1, .offset = 0, .length = 100, .content = Filled(9)},
                                     {.kind = 2, .offset = 300, .length = 28, .content = Filled(10)}};
  EXPECT_EQ(ToHex(hasher.BlockKey(text, image_ids, items)),
            "0e94ca28536e4d86ac1faf36c116215f46f81299bdc00d8f8403066409a3fabe");
  // The hasher keeps no state from one block to the next.
  EXPECT_EQ(hasher.BlockKey(root, ids, {}), text);
}

TEST(BlockKey, EveryFieldOfTheIdentityCounts) {
  const Digest key = RootKey(Identity());
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    ChainIdentity other = Identity();
    const auto bit = static_cast<uint8_t>(1u << (random() % 8));
    const size_t byte = random() % 32;
    switch (i % 6) {
      case 0: other.model[byte] ^= bit; break;
      case 1: other.format[byte] ^= bit; break;
      case 2: other.numeric_class ^= 1u << (random() % 32); break;
      case 3: other.adapter[byte] ^= bit; break;
      case 4: other.exactness ^= bit; break;
      default: other.salt[byte] ^= bit;
    }
    ASSERT_NE(RootKey(other), key) << i;
  }
}

TEST(BlockKey, ParentIdsAndItemsCount) {
  Sha256BlockHasher hasher;
  std::mt19937 random(2);
  for (int i = 0; i < 100'000; ++i) {
    Digest parent = Filled(static_cast<uint8_t>(i));
    std::vector<int32_t> ids(128);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 129'280);
    std::vector<BlockItem> items{{.kind = 1, .offset = 5, .length = 7, .content = Filled(8)}};
    const Digest key = hasher.BlockKey(parent, ids, items);
    const auto flip = static_cast<uint8_t>(1u << (random() % 8));
    switch (i % 8) {
      case 0: parent[random() % 32] ^= flip; break;
      case 1: ids[random() % 128] ^= 1 << (random() % 17); break;
      case 2: std::swap(ids[0], ids[1] == ids[0] ? (ids[1] += 1) : ids[1]); break;
      case 3: items[0].kind ^= flip; break;
      case 4: items[0].offset ^= static_cast<uint16_t>(1u << (random() % 16)); break;
      case 5: items[0].length ^= static_cast<uint16_t>(1u << (random() % 16)); break;
      case 6: items[0].content[random() % 32] ^= flip; break;
      default: items.clear();
    }
    ASSERT_NE(hasher.BlockKey(parent, ids, items), key) << i;
  }
}

}  // namespace
}  // namespace deepinfer::cache
