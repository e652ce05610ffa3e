#include "checkpoint/safetensors.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "checkpoint/json_scanner.h"

namespace deepinfer {
namespace {

struct DtypeInfo {
  std::string_view name;
  int bits;
};

constexpr std::array<DtypeInfo, kNumStorageDtypes> kDtypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

constexpr size_t kMaxMetadataBytes = size_t{16} << 20;
constexpr size_t kLengthBytes = 8;

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

/// For messages: a name from a hostile file, with anything unprintable shown as '?' and cut to a readable length.
std::string Printable(std::string_view name) {
  std::string out(name.substr(0, 80));
  for (char& c : out) {
    if (c < 0x20 || c >= 0x7F) c = '?';
  }
  return name.size() > 80 ? out + "..." : out;
}

uint64_t LoadLittleEndian64(std::span<const std::byte, kLengthBytes> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

std::string_view StorageDtypeName(StorageDtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }
int StorageDtypeBits(StorageDtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bits; }

std::optional<StorageDtype> ParseStorageDtype(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<StorageDtype>(i);
  }
  return std::nullopt;
}

std::optional<uint64_t> TensorBytes(StorageDtype dtype, std::span<const uint64_t> shape) {
  std::optional<uint64_t> bits = 1;
  for (const uint64_t dim : shape) {
    bits = CheckedMul(*bits, dim);
    if (!bits.has_value()) return std::nullopt;
  }
  bits = CheckedMul(*bits, static_cast<uint64_t>(StorageDtypeBits(dtype)));
  if (!bits.has_value() || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

std::string DescribeTensor(StorageDtype dtype, std::span<const uint64_t> shape) {
  std::string out(StorageDtypeName(dtype));
  out += " [";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

/// Parses one header; a class because the pools, the limits and the scanner belong together.
class SafetensorsHeaderParser {
 public:
  SafetensorsHeaderParser(std::string_view text, uint64_t data_bytes, const SafetensorsLimits& limits)
      : text_(text), scanner_(text), data_bytes_(data_bytes), limits_(limits) {}

  Result<SafetensorsHeader> Run() {
    if (text_.size() > limits_.max_header_bytes) return DataLoss("the header is longer than the limit");
    if (text_.empty() || text_.front() != '{') return DataLoss("the header does not begin with '{'");
    if (unicode::FindInvalidUtf8(text_) != std::string_view::npos) return DataLoss("the header is not UTF-8");
    DEEPINFER_RETURN_IF_ERROR(ParseObject());
    if (scanner_.rest().find_first_not_of(' ') != std::string_view::npos) {
      return scanner_.Error("text behind the header's object");
    }
    DEEPINFER_RETURN_IF_ERROR(CheckOffsets());
    DEEPINFER_RETURN_IF_ERROR(IndexNames());
    return std::move(out_);
  }

 private:
  Status ParseObject() {
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('{'));
    if (scanner_.Consume('}')) return OkStatus();
    do {
      name_.clear();
      DEEPINFER_RETURN_IF_ERROR(scanner_.ReadString(limits_.max_name_bytes, &name_));
      DEEPINFER_RETURN_IF_ERROR(scanner_.Expect(':'));
      if (name_ == "__metadata__") {
        DEEPINFER_RETURN_IF_ERROR(ParseMetadata());
      } else {
        DEEPINFER_RETURN_IF_ERROR(ParseTensor());
      }
    } while (scanner_.Consume(','));
    return scanner_.Expect('}');
  }

  Status ParseMetadata() {
    if (has_metadata_) return scanner_.Error("__metadata__ occurs twice");
    has_metadata_ = true;
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('{'));
    if (scanner_.Consume('}')) return OkStatus();
    do {
      std::pair<std::string, std::string> item;
      DEEPINFER_RETURN_IF_ERROR(scanner_.ReadString(kMaxMetadataBytes, &item.first));
      DEEPINFER_RETURN_IF_ERROR(scanner_.Expect(':'));
      DEEPINFER_RETURN_IF_ERROR(scanner_.ReadString(kMaxMetadataBytes, &item.second));
      if (out_.metadata_.size() >= limits_.max_metadata)
        return scanner_.Error("too many entries in __metadata__");
      out_.metadata_.push_back(std::move(item));
    } while (scanner_.Consume(','));
    return scanner_.Expect('}');
  }

  Status ParseTensor() {
    if (out_.records_.size() >= limits_.max_tensors) return scanner_.Error("too many tensors");
    if (name_.empty() || !IsPrintableAscii(name_))
      return scanner_.Error("a tensor name is empty or not printable ASCII");
    record_ = {};
    record_.name_offset = static_cast<uint32_t>(out_.names_.size());
    record_.name_length = static_cast<uint16_t>(name_.size());
    record_.shape_offset = static_cast<uint32_t>(out_.shapes_.size());
    out_.names_ += name_;

    unsigned seen = 0;  // bits: dtype, shape, data_offsets
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('{'));
    do {
      DEEPINFER_RETURN_IF_ERROR(ParseField(&seen));
    } while (scanner_.Consume(','));
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('}'));
    if (seen != 7) return Broken("the tensor lacks dtype, shape or data_offsets");
    if (record_.begin > record_.end) return Broken("data_offsets end before they begin");
    const auto bytes = TensorBytes(record_.dtype, Shape());
    if (!bytes.has_value()) return Broken("the shape overflows or does not fill whole bytes");
    if (*bytes != record_.end - record_.begin) {
      return Broken("the shape needs " + std::to_string(*bytes) + " bytes, data_offsets span " +
                    std::to_string(record_.end - record_.begin));
    }
    out_.records_.push_back(record_);
    return OkStatus();
  }

  Status ParseField(unsigned* seen) {
    field_.clear();
    DEEPINFER_RETURN_IF_ERROR(scanner_.ReadString(limits_.max_name_bytes, &field_));
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect(':'));
    const unsigned bit = field_ == "dtype" ? 1U : field_ == "shape" ? 2U : field_ == "data_offsets" ? 4U : 0U;
    if (bit == 0) return Broken("unknown field \"" + Printable(field_) + "\"");
    if ((*seen & bit) != 0) return Broken("the field " + field_ + " occurs twice");
    *seen |= bit;
    if (bit == 1) return ParseDtype();
    if (bit == 2) return ParseShape();
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('['));
    DEEPINFER_RETURN_IF_ERROR(scanner_.ReadUnsigned(&record_.begin));
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect(','));
    DEEPINFER_RETURN_IF_ERROR(scanner_.ReadUnsigned(&record_.end));
    return scanner_.Expect(']');
  }

  Status ParseDtype() {
    field_.clear();
    DEEPINFER_RETURN_IF_ERROR(scanner_.ReadString(limits_.max_name_bytes, &field_));
    const auto dtype = ParseStorageDtype(field_);
    if (!dtype.has_value()) return Broken("unknown dtype \"" + Printable(field_) + "\"");
    record_.dtype = *dtype;
    return OkStatus();
  }

  Status ParseShape() {
    DEEPINFER_RETURN_IF_ERROR(scanner_.Expect('['));
    if (scanner_.Consume(']')) return OkStatus();
    do {
      if (record_.rank >= limits_.max_rank) return Broken("the tensor has too many dimensions");
      uint64_t dim = 0;
      DEEPINFER_RETURN_IF_ERROR(scanner_.ReadUnsigned(&dim));
      out_.shapes_.push_back(dim);
      ++record_.rank;
    } while (scanner_.Consume(','));
    return scanner_.Expect(']');
  }

  /// Tensors sorted by offset must tile the data buffer exactly: no gap, no overlap, nothing behind.
  Status CheckOffsets() {
    std::sort(out_.records_.begin(), out_.records_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t expected = 0;
    for (const auto& record : out_.records_) {
      if (record.begin != expected) {
        return DataLoss(record.begin < expected ? "the data of two tensors overlap"
                                                : "there is a gap before the tensor's data",
                        Printable(out_.NameOf(record)));
      }
      expected = record.end;
    }
    if (expected == data_bytes_) return OkStatus();
    return DataLoss(expected > data_bytes_
                        ? "the file is cut: " + std::to_string(expected) + " bytes of data expected, " +
                              std::to_string(data_bytes_) + " present"
                        : "there are bytes behind the last tensor");
  }

  Status IndexNames() {
    out_.by_name_.resize(out_.records_.size());
    std::iota(out_.by_name_.begin(), out_.by_name_.end(), 0U);
    const auto name = [this](uint32_t index) { return out_.NameOf(out_.records_[index]); };
    std::sort(out_.by_name_.begin(), out_.by_name_.end(),
              [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
    for (size_t i = 1; i < out_.by_name_.size(); ++i) {
      if (name(out_.by_name_[i]) == name(out_.by_name_[i - 1])) {
        return DataLoss("the tensor occurs twice", Printable(name(out_.by_name_[i])));
      }
    }
    std::vector<std::string_view> keys;
    for (const auto& item : out_.metadata_) keys.emplace_back(item.first);
    std::sort(keys.begin(), keys.end());
    if (std::adjacent_find(keys.begin(), keys.end()) != keys.end())
      return DataLoss("a key of __metadata__ occurs twice");
    return OkStatus();
  }

  std::span<const uint64_t> Shape() const {
    return std::span(out_.shapes_).subspan(record_.shape_offset, record_.rank);
  }
  Status Broken(std::string message) const { return DataLoss(std::move(message), Printable(name_)); }

  std::string_view text_;
  JsonScanner scanner_;
  uint64_t data_bytes_;
  const SafetensorsLimits& limits_;
  SafetensorsHeader out_;
  SafetensorsHeader::Record record_;
  std::string name_;
  std::string field_;
  bool has_metadata_ = false;
};

Result<SafetensorsHeader> SafetensorsHeader::Parse(std::string_view text, uint64_t data_bytes,
                                                   const SafetensorsLimits& limits) {
  return SafetensorsHeaderParser(text, data_bytes, limits).Run();
}

SafetensorsHeader::Entry SafetensorsHeader::entry(size_t index) const {
  const Record& record = records_[index];
  return {NameOf(record), record.dtype, std::span(shapes_).subspan(record.shape_offset, record.rank),
          record.begin, record.end};
}

std::optional<size_t> SafetensorsHeader::Find(std::string_view name) const {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](uint32_t index, std::string_view key) { return NameOf(records_[index]) < key; });
  if (it == by_name_.end() || NameOf(records_[*it]) != name) return std::nullopt;
  return *it;
}

size_t SafetensorsHeader::memory_bytes() const {
  return names_.capacity() + shapes_.capacity() * sizeof(uint64_t) + records_.capacity() * sizeof(Record) +
         by_name_.capacity() * sizeof(uint32_t);
}

Result<SafetensorsFileHeader> ReadSafetensorsHeader(const RandomAccessFile& file,
                                                    const SafetensorsLimits& limits) {
  std::array<std::byte, kLengthBytes> length_bytes;
  if (file.size() < kLengthBytes)
    return DataLoss("the file is too short for a safetensors header", file.path());
  DEEPINFER_RETURN_IF_ERROR(file.ReadAt(0, length_bytes));
  const uint64_t length = LoadLittleEndian64(length_bytes);
  if (length > file.size() - kLengthBytes) return DataLoss("the header is longer than the file", file.path());
  if (length > limits.max_header_bytes) {
    return DataLoss("the header has " + std::to_string(length) + " bytes, more than the limit of " +
                        std::to_string(limits.max_header_bytes),
                    file.path());
  }
  std::string text(kLengthBytes + length, '\0');
  DEEPINFER_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  SafetensorsFileHeader out;
  out.data_start = kLengthBytes + length;
  out.sha256 = Sha256Of(text);
  auto header = SafetensorsHeader::Parse(std::string_view(text).substr(kLengthBytes),
                                         file.size() - out.data_start, limits);
  if (!header.ok()) return std::move(header).status().Within(file.path());
  out.header = std::move(header).value();
  return out;
}

}  // namespace deepinfer
