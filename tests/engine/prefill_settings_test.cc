#include "engine/prefill_settings.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deepinfer {
namespace {

using model::PrefillMode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kWindow = 128, kContext = 8192;

PrefillSettings Good(std::optional<PrefillMode> mode, int64_t keep, const YocoVariables& variables) {
  const auto settings = ResolvePrefill(mode, keep, variables, kWindow, kContext);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? *settings : PrefillSettings{};
}

TEST(PrefillSettings, DefaultIsExactHalo) {
  const PrefillSettings s = Good(std::nullopt, 0, {});
  EXPECT_EQ(s.mode, PrefillMode::kExactHalo);
  EXPECT_EQ(s.keep_tokens, 0);
  EXPECT_THAT(s.note, IsEmpty());
}

TEST(PrefillSettings, VariablesOfDeepInfer) {
  const PrefillSettings compact = Good(std::nullopt, 0, {"compact", "140"});
  EXPECT_EQ(compact.mode, PrefillMode::kBoundedReplay);
  EXPECT_EQ(compact.keep_tokens, 140);
  EXPECT_THAT(compact.note, HasSubstr("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE=compact"));
  EXPECT_THAT(compact.note, HasSubstr("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS=140"));
  EXPECT_FALSE(compact.note_is_warning);

  const PrefillSettings mask = Good(std::nullopt, 0, {"mask", std::nullopt});
  EXPECT_EQ(mask.mode, PrefillMode::kBoundedReplay);
  EXPECT_TRUE(mask.note_is_warning);

  const PrefillSettings off = Good(std::nullopt, 0, {"off", "0"});
  EXPECT_EQ(off.mode, PrefillMode::kExactHalo);
  EXPECT_EQ(off.keep_tokens, 0);
  EXPECT_THAT(off.note, IsEmpty());
}

TEST(PrefillSettings, OptionsDecide) {
  const PrefillSettings s = Good(PrefillMode::kFull, 200, {"compact", "140"});
  EXPECT_EQ(s.mode, PrefillMode::kFull);
  EXPECT_EQ(s.keep_tokens, 200);
  EXPECT_THAT(s.note, IsEmpty());
}

TEST(PrefillSettings, DeepInfersSmallestKeepIsAccepted) {  // open-questions.md 23
  EXPECT_EQ(Good(std::nullopt, 0, {"compact", "134"}).keep_tokens, 134);
  for (const char* bad : {"133", "-1", "8193", "134x", "x", "1e3", "99999999999999999999"}) {
    const auto settings = ResolvePrefill(std::nullopt, 0, {"compact", bad}, kWindow, kContext);
    EXPECT_EQ(settings.status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(settings.status().where(), "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS");
  }
}

TEST(PrefillSettings, UnknownModeNamesTheVariable) {
  const auto settings = ResolvePrefill(std::nullopt, 0, {"Compact", std::nullopt}, kWindow, kContext);
  EXPECT_EQ(settings.status().where(), "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE");
  EXPECT_THAT(settings.status().message(), HasSubstr("off, mask or compact"));
}

TEST(PrefillSettings, KeepTokensOfOptions) {
  for (const int64_t good : {int64_t{0}, kWindow, kWindow + 12, kContext}) {
    EXPECT_TRUE(CheckKeepTokens(good, kWindow, kContext).ok());
  }
  for (const int64_t bad : {int64_t{-1}, int64_t{1}, kWindow - 1, kContext + 1}) {
    EXPECT_EQ(CheckKeepTokens(bad, kWindow, kContext).where(), "keep_tokens") << bad;
    EXPECT_FALSE(ResolvePrefill(std::nullopt, bad, {}, kWindow, kContext).ok());
  }
}

TEST(PrefillSettings, ReadsTheEnvironment) {
  ::setenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "compact", 1);
  ::setenv("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "", 1);
  const YocoVariables variables = ReadYocoVariables();
  ::unsetenv("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE");
  ::unsetenv("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS");
  EXPECT_EQ(variables.truncation_mode, "compact");
  EXPECT_EQ(variables.keep_tokens, std::nullopt);
  EXPECT_EQ(ReadYocoVariables().truncation_mode, std::nullopt);
}

}  // namespace
}  // namespace deepinfer
