#include "checkpoint/safetensors_writer.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "base/checked.h"
#include "base/json.h"

namespace deepinfer {
namespace {

Status WriteProblem(const std::string& path) {
  return IoError("cannot write: " + std::generic_category().message(errno), path);
}

Result<uint64_t> PayloadBytes(std::span<const TensorSpec> tensors) {
  uint64_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    const auto bytes = TensorBytes(tensor.dtype, tensor.shape);
    const auto sum = bytes.has_value() ? CheckedAdd(total, *bytes) : std::nullopt;
    if (!sum.has_value()) return InvalidArgument("the shape overflows", tensor.name);
    total = *sum;
  }
  return total;
}

}  // namespace

std::string BuildSafetensorsHeader(std::span<const TensorSpec> tensors,
                                   const SafetensorsWriteOptions& options) {
  constexpr size_t kLengthBytes = 8;
  std::string out(kLengthBytes, '\0');
  out += '{';
  const char* separator = "";
  if (!options.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : options.metadata) {
      out += separator;
      json::AppendQuoted(key, &out);
      out += ':';
      json::AppendQuoted(value, &out);
      separator = ",";
    }
    out += '}';
  }
  uint64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    out += separator;
    separator = ",";
    json::AppendQuoted(tensor.name, &out);
    out += ":{\"dtype\":\"" + std::string(StorageDtypeName(tensor.dtype)) + "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      out += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    out += "],\"data_offsets\":[" + std::to_string(offset) + ",";
    offset += tensor.num_bytes();
    out += std::to_string(offset) + "]}";
  }
  out += '}';
  out.append(options.extra_padding, ' ');
  while (out.size() % options.alignment != options.remainder % options.alignment) out += ' ';
  const uint64_t length = out.size() - kLengthBytes;
  for (size_t i = 0; i < kLengthBytes; ++i) out[i] = static_cast<char>(length >> (8 * i));
  return out;
}

Result<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path,
                                                    std::span<const TensorSpec> tensors,
                                                    const SafetensorsWriteOptions& options) {
  SafetensorsWriter writer;
  DEEPINFER_ASSIGN_OR_RETURN(writer.remaining_, PayloadBytes(tensors));
  writer.path_ = path;
  writer.file_.reset(std::fopen(path.c_str(), "wb"));
  if (writer.file_ == nullptr) return WriteProblem(path);
  const std::string header = BuildSafetensorsHeader(tensors, options);
  if (std::fwrite(header.data(), 1, header.size(), writer.file_.get()) != header.size())
    return WriteProblem(path);
  return writer;
}

Status SafetensorsWriter::Append(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_) return InvalidArgument("more payload than the tensors need", path_);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return WriteProblem(path_);
  remaining_ -= bytes.size();
  return OkStatus();
}

Status SafetensorsWriter::Finish() {
  if (remaining_ != 0)
    return InvalidArgument(std::to_string(remaining_) + " bytes of payload are missing", path_);
  return std::fclose(file_.release()) == 0 ? OkStatus() : WriteProblem(path_);
}

Status WriteSparseSafetensors(const std::string& path, std::span<const TensorSpec> tensors,
                              const SafetensorsWriteOptions& options) {
  DEEPINFER_ASSIGN_OR_RETURN(const uint64_t payload, PayloadBytes(tensors));
  const std::string header = BuildSafetensorsHeader(tensors, options);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr || std::fwrite(header.data(), 1, header.size(), file.get()) != header.size() ||
      std::fflush(file.get()) != 0 ||
      ::ftruncate(::fileno(file.get()), static_cast<off_t>(header.size() + payload)) != 0) {
    return WriteProblem(path);
  }
  return OkStatus();
}

}  // namespace deepinfer
