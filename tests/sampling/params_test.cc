#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sampling/sampling.h"

namespace deepinfer::sampling {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(Validate(SamplingParams{}, 10).ok()); }

struct RangeCase {
  const char* field;
  std::vector<double> good, bad;
};

class FieldRange : public ::testing::TestWithParam<RangeCase> {};

TEST_P(FieldRange, AcceptsAndRefuses) {
  const RangeCase& c = GetParam();
  for (const double value : c.good) {
    SamplingParams params;
    EXPECT_TRUE(SetField(c.field, value, &params).ok()) << c.field << " " << value;
    EXPECT_EQ(FindField(c.field)->get(params), value);
    EXPECT_TRUE(Validate(params, 10).ok()) << c.field << " " << value;
  }
  std::vector<double> bad = c.bad;
  bad.insert(bad.end(), {kNan, kInfinity, -kInfinity});
  for (const double value : bad) {
    SamplingParams params;
    const Status status = SetField(c.field, value, &params);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.field << " " << value;
    EXPECT_EQ(status.where(), c.field);
    EXPECT_THAT(status.message(), HasSubstr(RangeText(*FindField(c.field))));
    EXPECT_EQ(params, SamplingParams{}) << "a refused value must not be stored";
  }
}

INSTANTIATE_TEST_SUITE_P(All, FieldRange,
                         ::testing::Values(RangeCase{"temperature", {0, 1e-9, 1, 100}, {-0.001, 100.5}},
                                           RangeCase{"top_p", {1e-12, 0.5, 1}, {0, -0.1, 1.0000001}},
                                           RangeCase{"top_k", {0, 1, 2147483647}, {-1, 1.5, 2147483648.0}},
                                           RangeCase{"min_p", {0, 0.5, 1}, {-0.1, 1.1}},
                                           RangeCase{
                                               "repetition_penalty", {0.01, 1, 100}, {0.0099, 0, -1, 101}},
                                           RangeCase{"presence_penalty", {-2, 0, 2}, {-2.1, 2.1}},
                                           RangeCase{"frequency_penalty", {-2, 0, 2}, {-2.1, 2.1}}),
                         [](const auto& test) { return std::string(test.param.field); });

TEST(SamplingParams, TableCoversEveryNumericField) {
  for (const FieldSpec& field : Fields()) {
    SamplingParams one;
    field.set(one, field.min + 0.75 * (field.max - field.min));
    EXPECT_NE(one, SamplingParams{}) << field.name << " has no effect";
    EXPECT_FALSE(field.meaning.empty());
  }
  EXPECT_EQ(Fields().size(), 7U);
}

TEST(SamplingParams, ValidateNamesTheField) {
  SamplingParams params;
  params.top_p = 0;
  const Status status = Validate(params, 10);
  EXPECT_EQ(status.where(), "top_p");
  EXPECT_THAT(status.message(), HasSubstr("a number in (0, 1]"));
}

TEST(SamplingParams, UnknownFieldIsNamed) {
  SamplingParams params;
  EXPECT_EQ(FindField("top_q"), nullptr);
  const Status status = SetField("top_q", 1, &params);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("top_q"));
}

TEST(SamplingParams, LogitBias) {
  EXPECT_TRUE(CheckLogitBias(0, -100, 10).ok());
  EXPECT_TRUE(CheckLogitBias(9, 100, 10).ok());
  EXPECT_FALSE(CheckLogitBias(10, 0, 10).ok());
  EXPECT_FALSE(CheckLogitBias(-1, 0, 10).ok());
  EXPECT_FALSE(CheckLogitBias(0, 100.1, 10).ok());
  EXPECT_FALSE(CheckLogitBias(0, kNan, 10).ok());
  SamplingParams params;
  params.logit_bias = {{1, 2.0F}, {3, 1.0F}};
  EXPECT_TRUE(Validate(params, 10).ok());
  EXPECT_FALSE(Validate(params, 3).ok());
  params.logit_bias.emplace_back(1, 5.0F);
  const Status twice = Validate(params, 10);
  EXPECT_EQ(twice.where(), "logit_bias");
  EXPECT_THAT(twice.message(), HasSubstr("token 1"));
}

}  // namespace
}  // namespace deepinfer::sampling
