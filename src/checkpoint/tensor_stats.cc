#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/checked.h"
#include "checkpoint/inspect.h"
#include "tensor/dtype.h"

namespace deepinfer {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kScaleBlock = 32;

class Accumulator {
 public:
  void Add(float value) {
    ++stats_.elements;
    if (value != value) {
      ++stats_.nan;
      return;
    }
    sum_ += value;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
  TensorStats Finish() {
    const uint64_t numbers = stats_.elements - stats_.nan;
    if (numbers > 0) {
      stats_.min = min_;
      stats_.max = max_;
      stats_.mean = sum_ / static_cast<double>(numbers);
    }
    return stats_;
  }

 private:
  TensorStats stats_;
  double sum_ = 0;
  float min_ = std::numeric_limits<float>::infinity();
  float max_ = -std::numeric_limits<float>::infinity();
};

/// A matrix of codes with the scales that belong to it.
struct ScaledMatrix {
  TensorInfo codes;
  TensorInfo scales;
  uint64_t rows = 0;
  uint64_t row_bytes = 0;
  uint64_t scale_row_bytes = 0;
  uint64_t rows_per_scale = 1;  // 1: a scale row for every row (FP4, Engram); 32: blocks
};

/// The scale tensor beside a weight, when its shape is one of those of checkpoint.md §5.
std::optional<ScaledMatrix> FindScales(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  constexpr std::string_view kWeight = ".weight";
  const bool coded = tensor.dtype == StorageDtype::kI8 || tensor.dtype == StorageDtype::kF8E4M3;
  if (!coded || tensor.shape.size() != 2 || !tensor.name.ends_with(kWeight)) return std::nullopt;
  const std::string name = std::string(tensor.name.substr(0, tensor.name.size() - kWeight.size())) + ".scale";
  const auto scales = checkpoint.FindInfo(name);
  if (!scales.has_value() || scales->shape.size() != 2 || StorageDtypeBits(scales->dtype) != 8)
    return std::nullopt;
  ScaledMatrix m;
  m.codes = tensor;
  m.scales = *scales;
  m.rows = tensor.shape[0];
  m.row_bytes = tensor.shape[1];
  m.scale_row_bytes = scales->shape[1];
  const uint64_t columns = tensor.dtype == StorageDtype::kI8 ? 2 * m.row_bytes : m.row_bytes;
  if (m.scale_row_bytes != CeilDiv(columns, kScaleBlock)) return std::nullopt;
  if (scales->shape[0] == m.rows) return m;
  m.rows_per_scale = kScaleBlock;
  if (scales->shape[0] == CeilDiv(m.rows, kScaleBlock)) return m;
  return std::nullopt;
}

void AddRow(const ScaledMatrix& m, const std::byte* codes, const std::byte* scales, Accumulator* out) {
  const bool packed = m.codes.dtype == StorageDtype::kI8;
  const uint64_t bytes_per_scale = packed ? kScaleBlock / 2 : kScaleBlock;
  for (uint64_t i = 0; i < m.row_bytes; ++i) {
    const float scale = E8m0ToFloat(static_cast<uint8_t>(scales[i / bytes_per_scale]));
    const auto code = static_cast<uint8_t>(codes[i]);
    if (packed) {
      out->Add(E2m1ToFloat(code) * scale);
      out->Add(E2m1ToFloat(static_cast<uint8_t>(code >> 4)) * scale);
    } else {
      out->Add(E4m3ToFloat(code) * scale);
    }
  }
}

Result<TensorStats> ScaledStats(const Checkpoint& checkpoint, const ScaledMatrix& m) {
  Accumulator accumulator;
  // Whole scale rows per piece; a row wider than a piece is still read as one.
  const uint64_t fit = std::max<uint64_t>(kPieceBytes / std::max<uint64_t>(m.row_bytes, 1), 1);
  const uint64_t step = RoundUp(fit, m.rows_per_scale);
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  for (uint64_t first = 0; first < m.rows; first += step) {
    const uint64_t rows = std::min(step, m.rows - first);
    codes.resize(rows * m.row_bytes);
    scales.resize(CeilDiv(rows, m.rows_per_scale) * m.scale_row_bytes);
    DEEPINFER_RETURN_IF_ERROR(checkpoint.Read(m.codes, first * m.row_bytes, codes));
    DEEPINFER_RETURN_IF_ERROR(
        checkpoint.Read(m.scales, first / m.rows_per_scale * m.scale_row_bytes, scales));
    for (uint64_t r = 0; r < rows; ++r) {
      AddRow(m, codes.data() + r * m.row_bytes, scales.data() + r / m.rows_per_scale * m.scale_row_bytes,
             &accumulator);
    }
  }
  return accumulator.Finish();
}

/// One element of an unscaled tensor; nothing when the type has no decoder.
std::optional<float> Decode(StorageDtype dtype, const std::byte* bytes) {
  const auto byte = static_cast<uint8_t>(*bytes);
  switch (dtype) {
    case StorageDtype::kBf16: {
      Bf16 value;
      std::memcpy(&value, bytes, sizeof(value));
      return ToFloat(value);
    }
    case StorageDtype::kF32: {
      float value = 0;
      std::memcpy(&value, bytes, sizeof(value));
      return value;
    }
    case StorageDtype::kF8E4M3: return E4m3ToFloat(byte);
    case StorageDtype::kF8E8M0: return E8m0ToFloat(byte);
    case StorageDtype::kI8: return static_cast<float>(static_cast<int8_t>(byte));
    case StorageDtype::kU8: return static_cast<float>(byte);
    default: return std::nullopt;
  }
}

}  // namespace

Result<TensorStats> ComputeTensorStats(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  if (const auto scaled = FindScales(checkpoint, tensor); scaled.has_value())
    return ScaledStats(checkpoint, *scaled);
  constexpr std::byte kZero[8] = {};
  if (!Decode(tensor.dtype, kZero).has_value()) {
    return InvalidArgument("no statistics for dtype " + std::string(StorageDtypeName(tensor.dtype)),
                           std::string(tensor.name));
  }
  const uint64_t width = static_cast<uint64_t>(StorageDtypeBits(tensor.dtype)) / 8;
  Accumulator accumulator;
  std::vector<std::byte> piece;
  for (uint64_t offset = 0; offset < tensor.num_bytes; offset += piece.size()) {
    piece.resize(std::min(kPieceBytes, tensor.num_bytes - offset));
    DEEPINFER_RETURN_IF_ERROR(checkpoint.Read(tensor, offset, piece));
    for (size_t i = 0; i < piece.size(); i += width) accumulator.Add(*Decode(tensor.dtype, piece.data() + i));
  }
  return accumulator.Finish();
}

}  // namespace deepinfer
