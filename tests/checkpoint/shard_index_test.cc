#include "checkpoint/shard_index.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/cpu_timer.h"

namespace deepinfer {
namespace {

void ExpectRefused(std::string_view json, std::string_view part) {
  const auto index = ShardIndex::Parse(json);
  ASSERT_FALSE(index.ok()) << json.substr(0, 200);
  EXPECT_EQ(index.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(index.status().ToString().find(part), std::string::npos) << index.status().ToString();
}

TEST(ShardIndex, ReadsAnIndex) {
  const auto index = ShardIndex::Parse(
      R"({"metadata":{"total_size":18446744073709551615,"other":[1,{"x":null}]},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"2.safetensors"},"more":1}
)");
  ASSERT_TRUE(index.ok()) << index.status().ToString();
  EXPECT_EQ(index->shards(), (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  EXPECT_EQ(index->total_size(), UINT64_MAX);
  ASSERT_EQ(index->size(), 3u);
  EXPECT_EQ(index->name(0), "a");
  EXPECT_EQ(index->shard(0), 0);
  EXPECT_EQ(index->name(2), "c");
  EXPECT_EQ(index->shard(2), 1);
}

TEST(ShardIndex, TotalSizeIsOptional) {
  const auto index = ShardIndex::Parse(R"({"weight_map":{"a":"1.safetensors"}})");
  ASSERT_TRUE(index.ok());
  EXPECT_FALSE(index->total_size().has_value());
}

TEST(ShardIndex, RefusesNamesThatAreNoPlainFileNames) {
  for (const char* name : {"", ".", "..", "../x.safetensors", "/x.safetensors", "a/b.safetensors",
                           "a\\\\b.safetensors", "x\\u0000.safetensors", "x\\n.safetensors"}) {
    ExpectRefused(std::string(R"({"weight_map":{"a":")") + name + "\"}}", "plain file name");
  }
  EXPECT_FALSE(IsPlainFileName(std::string(256, 'a')));
  EXPECT_TRUE(IsPlainFileName("model-00001-of-00048.safetensors"));
}

TEST(ShardIndex, RefusesDuplicates) {
  ExpectRefused(R"({"weight_map":{"a":"1","a":"1"}})", "twice");
  ExpectRefused(R"({"weight_map":{"a":"1","\u0061":"2"}})", "twice");
  ExpectRefused(R"({"weight_map":{"a":"1"},"weight_map":{"a":"1"}})", "twice");
  ExpectRefused(R"({"metadata":{},"metadata":{},"weight_map":{"a":"1"}})", "twice");
  ExpectRefused(R"({"metadata":{"total_size":1,"total_size":1},"weight_map":{"a":"1"}})", "twice");
}

TEST(ShardIndex, RefusesWhatIsNoIndex) {
  for (const char* json :
       {"", "[]", "{}", "null", R"({"weight_map":{}})", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":"1"}} x)", R"({"metadata":{"total_size":-1},"weight_map":{"a":"1"}})",
        R"({"metadata":{"total_size":1.5},"weight_map":{"a":"1"}})", R"({"weight_map":{"":"1"}})",
        R"({"weight_map":{"a\u0000":"1"}})", "{\"weight_map\":{\"\xFF\":\"1\"}}"}) {
    ExpectRefused(json, "");
  }
  ExpectRefused(R"({"x":)" + std::string(1'000'000, '['), "deep");
}

TEST(ShardIndex, LimitsShardsAndEntries) {
  std::string json = R"({"weight_map":{)";
  for (int i = 0; i < 600; ++i) json += "\"t" + std::to_string(i) + "\":\"" + std::to_string(i) + "\",";
  json.back() = '}';
  ExpectRefused(json + "}", "too many shards");
}

TEST(ShardIndex, LargeHostileIndexIsAnsweredQuickly) {
  std::string json = R"({"weight_map":{)";
  for (int i = 0; json.size() < (size_t{63} << 20); ++i) json += "\"" + std::to_string(i) + "\":\"a\",";
  json.back() = '}';
  const std::string whole = json + "}";
  double seconds = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {  // the best: a neighbour on the same core slows a run
    const testing::CpuTimer timer;
    ExpectRefused(whole, "too many tensors");
    seconds = std::min(seconds, timer.Seconds());
  }
#ifdef NDEBUG
  EXPECT_LT(seconds, 1.0 * testing::kSanitizerFactor);
#endif
  json.append(size_t{2} << 20, ' ');
  ExpectRefused(json, "longer than 64 MiB");
}

}  // namespace
}  // namespace deepinfer
