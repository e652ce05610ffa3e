// Lines of goldens/recipe as requests: protocol, options, body.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "recipe/request.h"

namespace deepinfer::recipe {

/// A file of goldens/recipe in the test data; throws when it is missing.
std::vector<json::Value> GoldenLines(const std::string& file);

/// The options of a line (goldens/recipe/README.md). Throws for an option that it does not know.
RequestOptions GoldenOptions(const json::Value& line);

RequestResult ParseGolden(const json::Value& line);

/// What a line expects under `key`: its `ours` wins.
const json::Value* Expected(const json::Value& line, std::string_view key);

}  // namespace deepinfer::recipe
