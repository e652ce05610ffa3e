// The memory rule for hostile files: no allocation larger than 16 MiB plus twice the file. This program replaces operator new to see
// every allocation of the C++ code.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_index.h"
#include "temp_dir.h"

namespace {
std::atomic<size_t> g_largest{0};
}  // namespace

void* operator new(size_t size) {
  size_t seen = g_largest.load();
  while (size > seen && !g_largest.compare_exchange_weak(seen, size)) {
  }
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace deepinfer {
namespace {

using testing::TempDir;
using testing::WriteText;

constexpr size_t kHeaderBytes = (size_t{16} << 20) - 100;

std::string Repeated(std::string text, size_t bytes, const std::function<std::string(size_t)>& item) {
  for (size_t i = 0; text.size() < bytes; ++i) text += item(i);
  return text;
}

/// Largest single allocation while `work` runs.
size_t LargestDuring(const std::function<void()>& work) {
  g_largest = 0;
  work();
  return g_largest;
}

TEST(Allocation, HostileHeadersStayWithinTheRule) {
  const std::string full_rank = R"(":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]},)";
  const std::string scalar = R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)";
  const std::vector<std::string> headers = {
      Repeated("{", kHeaderBytes, [&](size_t i) { return "\"" + std::to_string(i) + full_rank; }),
      Repeated("{", kHeaderBytes, [&](size_t i) { return "\"" + std::to_string(i) + scalar; }),
      Repeated("{", kHeaderBytes, [&](size_t) { return "\"a" + scalar; }),
      Repeated(R"({"__metadata__":{)", kHeaderBytes,
               [](size_t i) { return "\"" + std::to_string(i) + "\":\"\","; }),
      R"({"__metadata__":{"k":")" + std::string(kHeaderBytes, 'x'),
      "{\"" + std::string(kHeaderBytes, 'x'),
      "{" + std::string(kHeaderBytes, ' '),
      "{\"a\":" + std::string(kHeaderBytes, '['),
      R"({"a":{"shape":[)" + Repeated("", kHeaderBytes, [](size_t) { return "1,"; }),
      std::string(8, '\xFF'),
  };
  const TempDir dir;
  for (const std::string& header : headers) {
    std::string content(8, '\0');
    for (int i = 0; i < 8; ++i) content[static_cast<size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
    WriteText(dir / "x", content + header);
    const auto file = RandomAccessFile::Open(dir / "x");
    const size_t largest = LargestDuring([&] { EXPECT_FALSE(ReadSafetensorsHeader(*file).ok()); });
    EXPECT_LE(largest, (size_t{16} << 20) + 2 * file->size()) << header.substr(0, 40);
  }
}

TEST(Allocation, SmallFilesWithLargeClaimsAllocateLittle) {
  const TempDir dir;
  std::string content(8, '\0');
  content[3] = '\x7F';  // a header of 2 GB
  WriteText(dir / "x", content + "{}");
  const auto file = RandomAccessFile::Open(dir / "x");
  EXPECT_LE(LargestDuring([&] { EXPECT_FALSE(ReadSafetensorsHeader(*file).ok()); }), 4096u);
}

TEST(Allocation, HostileIndexesStayWithinTheRule) {
  for (const std::string& index :
       {Repeated(R"({"weight_map":{)", size_t{8} << 20,
                 [](size_t i) { return "\"" + std::to_string(i) + "\":\"a\","; }),
        Repeated(R"({"weight_map":{)", size_t{8} << 20,
                 [](size_t i) { return "\"a\":\"" + std::to_string(i) + "\","; }),
        "{\"x\":\"" + std::string(size_t{8} << 20, 'x'), "{\"x\":" + std::string(size_t{8} << 20, '[')}) {
    EXPECT_LE(LargestDuring([&] { EXPECT_FALSE(ShardIndex::Parse(index).ok()); }),
              (size_t{16} << 20) + 2 * index.size());
  }
}

TEST(Allocation, HostileConfigsStayWithinTheRule) {
  for (const std::string& config :
       {Repeated("[", size_t{1} << 20, [](size_t) { return "0,"; }),
        Repeated("{\"compress_ratios\":[", 900'000, [](size_t) { return "0,"; }) + "0]}",
        std::string(size_t{1} << 20, '[')}) {
    EXPECT_LE(LargestDuring([&] { EXPECT_FALSE(ParseConfig(config).ok()); }),
              (size_t{16} << 20) + 2 * config.size());
  }
}

}  // namespace
}  // namespace deepinfer
