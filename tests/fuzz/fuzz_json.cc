// What the parser accepts, the writer must write so that it parses to the same text again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<json::Value> value = json::Parse(text);
  if (!value.ok()) return 0;
  const std::string written = json::Serialize(*value);
  const Result<json::Value> again = json::Parse(written);
  if (!again.ok() || json::Serialize(*again) != written) std::abort();
  const Result<json::Value> indented = json::Parse(json::Serialize(*value, 2));
  if (!indented.ok() || json::Serialize(*indented) != written) std::abort();
  return 0;
}
