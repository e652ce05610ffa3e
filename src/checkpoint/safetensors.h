// The safetensors format: header parsing with every rule and limit of checkpoint.md §7.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace deepinfer {

/// Element types of the format. For kF4 and kF6… the shape counts logical elements. A checkpoint of this model has only kI8 (two
/// FP4 codes a byte), kF8E4M3, kF8E8M0, kBf16 and kF32.
enum class StorageDtype : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
inline constexpr int kNumStorageDtypes = 22;

/// Name in a header, e.g. "F8_E4M3".
std::string_view StorageDtypeName(StorageDtype dtype);
/// Nothing for an unknown name.
std::optional<StorageDtype> ParseStorageDtype(std::string_view name);
/// Bits per element: 4 … 64.
int StorageDtypeBits(StorageDtype dtype);

/// Bytes of a tensor; nothing when the product overflows 64 bits or does not end on a byte.
std::optional<uint64_t> TensorBytes(StorageDtype dtype, std::span<const uint64_t> shape);

/// "F8_E4M3 [1280, 5120]".
std::string DescribeTensor(StorageDtype dtype, std::span<const uint64_t> shape);

struct SafetensorsLimits {
  uint64_t max_header_bytes = uint64_t{16} << 20;  // the format itself allows 100,000,000
  uint64_t max_tensors = 1'000'000;
  size_t max_metadata = 10'000;  // entries of __metadata__
  size_t max_rank = 8;
  size_t max_name_bytes = 512;  // printable ASCII
};

/// A parsed header. Names and shapes lie in two pools, so that its memory stays below that of the text it was read from.
class SafetensorsHeader {
 public:
  /// One tensor; views live as long as the header.
  struct Entry {
    std::string_view name;
    StorageDtype dtype;
    std::span<const uint64_t> shape;
    uint64_t begin;  // bytes from the start of the data buffer
    uint64_t end;
  };

  /// `text` is the JSON, padding included; `data_bytes` the length of the data buffer behind it. Entries come in the order of their
  /// offsets. Errors: kDataLoss with the tensor or byte offset.
  static Result<SafetensorsHeader> Parse(std::string_view text, uint64_t data_bytes,
                                         const SafetensorsLimits& limits = {});

  size_t size() const { return records_.size(); }
  Entry entry(size_t index) const;
  /// Index of a tensor, or nothing.
  std::optional<size_t> Find(std::string_view name) const;
  /// Entries of `__metadata__` in file order.
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }
  /// Memory held, in bytes.
  size_t memory_bytes() const;

 private:
  friend class SafetensorsHeaderParser;
  struct Record {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t name_offset = 0;
    uint32_t shape_offset = 0;
    uint16_t name_length = 0;
    StorageDtype dtype = StorageDtype::kU8;
    uint8_t rank = 0;
  };
  std::string_view NameOf(const Record& record) const {
    return std::string_view(names_).substr(record.name_offset, record.name_length);
  }

  std::string names_;
  std::vector<uint64_t> shapes_;
  std::vector<Record> records_;    // by (begin, end)
  std::vector<uint32_t> by_name_;  // indices into records_
  std::vector<std::pair<std::string, std::string>> metadata_;
};

/// The header of an open file with where its data lies.
struct SafetensorsFileHeader {
  SafetensorsHeader header;
  uint64_t data_start = 0;              // 8 + header length; need not be aligned to anything
  std::array<uint8_t, 32> sha256 = {};  // of the length field and the header text
};

/// Reads and checks the header of a file; the payload is not touched. Errors: kDataLoss, kIo, with the file as `where`.
Result<SafetensorsFileHeader> ReadSafetensorsHeader(const RandomAccessFile& file,
                                                    const SafetensorsLimits& limits = {});

}  // namespace deepinfer
