#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/back_end.h"
#include "engine/engine.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;

class KernelTarget : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("DEEPINFER_CPU_TARGET"); }
  void TearDown() override { ::unsetenv("DEEPINFER_CPU_TARGET"); }
};

TEST_F(KernelTarget, ReferenceIsLast) {
  const auto names = KernelTargets();
  ASSERT_GE(names.size(), 2U);
  EXPECT_EQ(names.back(), "reference");
}

TEST_F(KernelTarget, EveryNameWorks) {
  for (const std::string& name : KernelTargets()) {
    const auto back_end = ChooseBackEnd("cpu", name);
    ASSERT_TRUE(back_end.ok()) << name;
    EXPECT_NE(back_end->ops, nullptr);
    EXPECT_EQ(back_end->target, name);
  }
}

TEST_F(KernelTarget, OptionThenVariableThenBest) {
  EXPECT_EQ(ChooseBackEnd("auto", "")->target, KernelTargets().front());
  ::setenv("DEEPINFER_CPU_TARGET", "reference", 1);
  EXPECT_EQ(ChooseBackEnd("auto", "")->target, "reference");
  EXPECT_EQ(ChooseBackEnd("auto", KernelTargets().front())->target, KernelTargets().front());
}

TEST_F(KernelTarget, UnknownNamesListTheValidOnes) {
  const auto by_option = ChooseBackEnd("cpu", "avx1024");
  EXPECT_EQ(by_option.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(by_option.status().where(), "cpu_target");
  for (const std::string& name : KernelTargets()) EXPECT_THAT(by_option.status().message(), HasSubstr(name));
  ::setenv("DEEPINFER_CPU_TARGET", "avx1024", 1);
  EXPECT_EQ(ChooseBackEnd("cpu", "").status().where(), "DEEPINFER_CPU_TARGET");
}

TEST_F(KernelTarget, Devices) {
  for (const char* device : {"cuda", "cuda:0", "cuda:13"}) {
    const auto back_end = ChooseBackEnd(device, "");
    EXPECT_EQ(back_end.status().code(), StatusCode::kUnavailable) << device;
    EXPECT_THAT(back_end.status().hint(), HasSubstr("cpu"));
  }
  for (const char* device : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cuda0", "cuda:1234"}) {
    EXPECT_EQ(ChooseBackEnd(device, "").status().code(), StatusCode::kInvalidArgument) << device;
  }
}

}  // namespace
}  // namespace deepinfer
