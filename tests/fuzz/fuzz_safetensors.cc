// The input is a whole safetensors file. What the parser accepts must tile the data buffer, and must be accepted again with the same
// tensors when our writer writes it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  if (size < 8) return 0;
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= uint64_t{data[i]} << (8 * i);
  // A length that does not fit is refused before the header is read; here the rest of the input serves as the header then.
  if (length > size - 8) length = size - 8;
  const std::string_view text(reinterpret_cast<const char*>(data) + 8, length);
  const uint64_t data_bytes = size - 8 - length;
  const auto header = SafetensorsHeader::Parse(text, data_bytes);
  if (!header.ok()) return 0;

  std::vector<TensorSpec> specs;
  uint64_t end = 0;
  for (size_t i = 0; i < header->size(); ++i) {
    const auto entry = header->entry(i);
    Require(entry.begin == end && entry.end >= end);
    end = entry.end;
    Require(header->Find(entry.name) == i);
    Require(TensorBytes(entry.dtype, entry.shape) == entry.end - entry.begin);
    specs.push_back({std::string(entry.name), entry.dtype, {entry.shape.begin(), entry.shape.end()}});
  }
  Require(end == data_bytes);
  Require(header->memory_bytes() <= 4096 + 4 * text.size());

  SafetensorsWriteOptions options;
  options.metadata = header->metadata();
  const std::string written = BuildSafetensorsHeader(specs, options).substr(8);
  const auto again = SafetensorsHeader::Parse(written, data_bytes);
  Require(again.ok() && again->size() == header->size() && again->metadata() == header->metadata());
  for (size_t i = 0; i < header->size(); ++i) Require(again->entry(i).name == header->entry(i).name);
  return 0;
}
