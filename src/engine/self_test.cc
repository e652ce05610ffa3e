#include "engine/self_test.h"
namespace deepinfer { Result<std::vector<SelfTestItem>> RunSelfTest(std::string_view, SelfTestDepth, int) { return std::vector<SelfTestItem>{}; } }
