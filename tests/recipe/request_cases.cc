#include "recipe/request_cases.h"

#include <stdexcept>

#include "recipe/json_lines.h"
#include "recipe/request_json.h"

namespace deepinfer::recipe {
std::vector<json::Value> GoldenLines(const std::string& file) {
  return testing::ReadJsonLines(std::string(DEEPINFER_TEST_DATA) + "/goldens/recipe/" + file);
}

RequestOptions GoldenOptions(const json::Value& line) {
  RequestOptions options;
  const json::Value* given = line.Find("options");
  if (given == nullptr) return options;
  for (const auto& [name, value] : given->AsObject()) {
    if (auto status = ApplyRequestOption(name, value, &options); !status.ok()) {
      throw std::runtime_error(status.ToString());
    }
  }
  return options;
}

RequestResult ParseGolden(const json::Value& line) {
  return ParseRequest(*FindProtocol(testing::Text(line, "protocol")), testing::Text(line, "body"),
                      GoldenOptions(line));
}

const json::Value* Expected(const json::Value& line, std::string_view key) {
  const json::Value* ours = line.Find("ours");
  const json::Value* value = ours == nullptr ? nullptr : ours->Find(key);
  return value != nullptr ? value : line.Find(key);
}

}  // namespace deepinfer::recipe
