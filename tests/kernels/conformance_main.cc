// Instantiates the tests of the conformance_*_test.cc files for every implementation.
#include "kernels/op_case.h"

namespace deepinfer::kernels::testing {

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(ImplementationNames()),
                         [](const auto& param) { return TestSuffix(param.param); });

}  // namespace deepinfer::kernels::testing
