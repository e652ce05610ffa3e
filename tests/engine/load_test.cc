#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_copy.h"

namespace deepinfer {
namespace {

using deepinfer::testing::Demo;
using deepinfer::testing::Greedy;
using deepinfer::testing::kDemoModel;
using deepinfer::testing::ModelCopy;
using deepinfer::testing::MustGenerate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Load, DemoModel) {
  const Engine& engine = Demo();
  EXPECT_EQ(engine.config().vocab_size, 4096);
  EXPECT_EQ(engine.tokenizer().vocab_size(), 4096);
  EXPECT_EQ(engine.defaults().sampling.temperature, 0) << "generation_config.json says do_sample false";
  EXPECT_EQ(engine.defaults().max_tokens, 256);
  EXPECT_THAT(engine.defaults().eos_ids, ElementsAre(1));
  EXPECT_EQ(engine.kernel_target(), KernelTargets().front());
  EXPECT_EQ(engine.threads(), 2);
  EXPECT_GT(engine.load_ms(), 0);
  EXPECT_EQ(engine.prefill(), model::PrefillMode::kExactHalo);
}

TEST(Load, ReportsProgress) {
  EngineOptions options;
  options.model_dir = kDemoModel;
  uint64_t last = 0, total = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, all);
    last = done;
    total = all;
  };
  ASSERT_TRUE(Engine::Load(options).ok());
  EXPECT_GT(total, 0U);
  EXPECT_EQ(last, total);
}

TEST(Load, BadOptions) {
  const auto load = [](auto change) {
    EngineOptions options;
    options.model_dir = kDemoModel;
    change(options);
    return Engine::Load(options).status();
  };
  EXPECT_EQ(load([](EngineOptions& o) { o.threads = -1; }).where(), "threads");
  EXPECT_EQ(load([](EngineOptions& o) { o.max_chunk_rows = 0; }).where(), "max_chunk_rows");
  EXPECT_EQ(load([](EngineOptions& o) { o.keep_tokens = 63; }).where(), "keep_tokens");
  EXPECT_EQ(load([](EngineOptions& o) { o.device = "cuda"; }).code(), StatusCode::kUnavailable);
  EXPECT_EQ(load([](EngineOptions& o) { o.cpu_target = "mmx"; }).code(), StatusCode::kUnavailable);
  EXPECT_EQ(load([](EngineOptions& o) { o.model_dir = "/nowhere/at/all"; }).code(), StatusCode::kNotFound);
}

TEST(Load, WithoutTokenizer) {
  const ModelCopy copy;
  copy.Remove("tokenizer.json");
  const Status status = copy.Load().status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.hint(), HasSubstr("tokenizer.json"));
}

TEST(Load, WithoutGenerationConfig) {
  const ModelCopy copy;
  copy.Remove("generation_config.json");
  const auto engine = copy.Load();
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EXPECT_EQ((*engine)->defaults().sampling.temperature, 1);
  EXPECT_EQ((*engine)->defaults().max_tokens, 0);
  EXPECT_THAT((*engine)->defaults().eos_ids, ElementsAre(1));
}

TEST(Load, UnsoundGenerationConfigNamesFileAndKey) {
  const ModelCopy copy;
  copy.Write("generation_config.json", R"({"top_p": 2})");
  const Status status = copy.Load().status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.where(), HasSubstr("generation_config.json: top_p"));
}

TEST(Load, TokenMapIsDerivedWithoutSidecar) {
  const ModelCopy copy;
  copy.Remove("engram_token_map.i32");
  const auto engine = copy.Load();
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EXPECT_EQ(MustGenerate(**engine, Greedy("arith-000")).output_ids,
            MustGenerate(Demo(), Greedy("arith-000")).output_ids);
}

TEST(Load, UnsoundSidecar) {
  const ModelCopy copy;
  std::string map = copy.Read("engram_token_map.i32");
  copy.Write("engram_token_map.i32", map.substr(4));
  EXPECT_EQ(copy.Load().status().code(), StatusCode::kDataLoss);
}

TEST(Load, MissingShard) {
  const ModelCopy copy;
  copy.Remove("model-00003-of-00006.safetensors");
  EXPECT_FALSE(copy.Load().ok());
}

TEST(Load, BackboneTensorMissingInTheIndex) {
  const ModelCopy copy;
  auto index = json::Parse(copy.Read("model.safetensors.index.json"));
  ASSERT_TRUE(index.ok());
  json::Object kept;
  for (const auto& [name, file] : index->Find("weight_map")->AsObject()) {
    if (!name.starts_with("layers.0.attn.wq_a")) kept.emplace_back(name, file);
  }
  ASSERT_LT(kept.size(), index->Find("weight_map")->AsObject().size());
  index->Set("weight_map", kept);
  copy.Write("model.safetensors.index.json", json::Serialize(*index));
  EXPECT_EQ(copy.Load().status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace deepinfer
