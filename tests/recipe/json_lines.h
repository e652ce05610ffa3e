// Reads JSON Lines files of the test data; throws, which GoogleTest reports.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace deepinfer::testing {

inline std::vector<json::Value> ReadJsonLines(const std::string& path) {
  auto text = ReadFile(path, size_t{64} << 20);
  if (!text.ok()) throw std::runtime_error(text.status().ToString());
  std::vector<json::Value> lines;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = rest.find('\n');
    auto value = json::Parse(rest.substr(0, end));
    if (!value.ok()) throw std::runtime_error(path + ": " + value.status().ToString());
    lines.push_back(std::move(value).value());
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return lines;
}

inline const std::string& Text(const json::Value& object, std::string_view key) {
  return object.Find(key)->AsString();
}

}  // namespace deepinfer::testing
