#include "engine/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deepinfer {
namespace {

using ::testing::ElementsAre;

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 100;
  config.eos_token_id = 7;
  return config;
}

TEST(GenerationConfig, WithoutFile) {
  const GenerationDefaults d = DefaultsWithoutFile(Config());
  EXPECT_EQ(d.sampling, sampling::SamplingParams{});
  EXPECT_EQ(d.max_tokens, 0);
  EXPECT_THAT(d.eos_ids, ElementsAre(7));
}

TEST(GenerationConfig, ReadsEverything) {
  const auto d = ParseGenerationConfig(
      R"({"bos_token_id":0,"eos_token_id":[1,5],"pad_token_id":2,"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0.01,
          "repetition_penalty":1.1,"max_new_tokens":64,"transformers_version":"5.6.0","use_cache":true,"presence_penalty":null})",
      Config());
  ASSERT_TRUE(d.ok()) << d.status().ToString();
  const sampling::SamplingParams want{
      .temperature = 0.6, .top_p = 0.95, .top_k = 20, .min_p = 0.01, .repetition_penalty = 1.1};
  EXPECT_EQ(d->sampling, want);
  EXPECT_EQ(d->max_tokens, 64);
  EXPECT_THAT(d->eos_ids, ElementsAre(1, 5));
}

TEST(GenerationConfig, DoSampleFalseIsArgMaxWhateverTheTemperature) {
  for (const char* text :
       {R"({"do_sample":false,"temperature":0.6})", R"({"temperature":0.6,"do_sample":false})"}) {
    const auto d = ParseGenerationConfig(text, Config());
    ASSERT_TRUE(d.ok());
    EXPECT_EQ(d->sampling.temperature, 0) << text;
    EXPECT_THAT(d->eos_ids, ElementsAre(7));
  }
}

struct BadFile {
  const char *name, *text, *where;
};

class GenerationConfigReject : public ::testing::TestWithParam<BadFile> {};

TEST_P(GenerationConfigReject, NamesTheKey) {
  const auto d = ParseGenerationConfig(GetParam().text, Config());
  ASSERT_FALSE(d.ok());
  EXPECT_EQ(d.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(d.status().where(), GetParam().where);
}

INSTANTIATE_TEST_SUITE_P(
    All, GenerationConfigReject,
    ::testing::Values(BadFile{"array", "[]", ""},
                      BadFile{"temperature_text", R"({"temperature":"0.6"})", "temperature"},
                      BadFile{"temperature_range", R"({"temperature":-1})", "temperature"},
                      BadFile{"top_p", R"({"top_p":0})", "top_p"},
                      BadFile{"top_k_fraction", R"({"top_k":1.5})", "top_k"},
                      BadFile{"eos_range", R"({"eos_token_id":100})", "eos_token_id"},
                      BadFile{"eos_list", R"({"eos_token_id":[1,-1]})", "eos_token_id"},
                      BadFile{"eos_empty", R"({"eos_token_id":[]})", "eos_token_id"},
                      BadFile{"eos_nested", R"({"eos_token_id":[[1]]})", "eos_token_id"},
                      BadFile{"bos", R"({"bos_token_id":1.5})", "bos_token_id"},
                      BadFile{"pad", R"({"pad_token_id":"x"})", "pad_token_id"},
                      BadFile{"max_tokens", R"({"max_new_tokens":0})", "max_new_tokens"},
                      BadFile{"max_tokens_text", R"({"max_new_tokens":"9"})", "max_new_tokens"},
                      BadFile{"do_sample", R"({"do_sample":0})", "do_sample"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(GenerationConfig, BrokenJson) {
  EXPECT_EQ(ParseGenerationConfig("{", Config()).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseGenerationConfig(R"({"top_k":1,"top_k":2})", Config()).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace deepinfer
