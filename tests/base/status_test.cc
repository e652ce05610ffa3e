#include "base/status.h"

#include <memory>

#include <gtest/gtest.h>

#include "base/checked.h"

namespace deepinfer {
namespace {

Result<int> Half(int v) {
  if (v % 2 != 0) return InvalidArgument("odd number", "v");
  return v / 2;
}

Result<int> Quarter(int v) {
  DEEPINFER_ASSIGN_OR_RETURN(const int half, Half(v));
  DEEPINFER_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int v) {
  DEEPINFER_RETURN_IF_ERROR(Quarter(v).status());
  return OkStatus();
}

TEST(Status, PrintsWhatAndWhere) {
  EXPECT_EQ(OkStatus().ToString(), "ok");
  EXPECT_EQ(NotFound("no such tensor", "layers.3").ToString(), "no such tensor (layers.3)");
  EXPECT_EQ(IoError("cannot read").ToString(), "cannot read");
  EXPECT_EQ(DataLoss("bad", "field").Within("file").where(), "file: field");
  EXPECT_EQ(DataLoss("bad").Within("file").where(), "file");
  EXPECT_EQ(Unavailable("no GPU").WithHint("use --device cpu").hint(), "use --device cpu");
}

TEST(Status, CodeNamesAreStable) {
  EXPECT_EQ(StatusCodeName(StatusCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(StatusCodeName(StatusCode::kDataLoss), "data_loss");
  EXPECT_EQ(StatusCodeName(StatusCode::kResourceExhausted), "resource_exhausted");
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_FALSE(CheckQuarter(7).ok());
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(Checked, NoticesOverflow) {
  EXPECT_EQ(CheckedMul<int64_t>(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_FALSE(CheckedMul<int64_t>(int64_t{1} << 40, 1 << 30).has_value());
  EXPECT_FALSE(CheckedAdd<uint64_t>(UINT64_MAX, 1).has_value());
  EXPECT_EQ(RoundUp(130, 128), 256);
  EXPECT_EQ(CeilDiv(130, 128), 2);
}

}  // namespace
}  // namespace deepinfer
