#include "support/golden_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace deepinfer::testing {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

[[noreturn]] void Fail(const std::string& where, const std::string& what) {
  throw std::runtime_error(where + ": " + what);
}

std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Fail(path, "cannot be opened");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

json::Value ParseOrFail(std::string_view text, const std::string& path) {
  Result<json::Value> value = json::Parse(text);
  if (!value.ok()) Fail(path, value.status().ToString());
  return *std::move(value);
}

int64_t IntOrFail(const json::Value& value, const std::string& where) {
  int64_t out = 0;
  if (!value.GetInt64(&out) || out < 0) Fail(where, "is no size");
  return out;
}

const json::Value& MemberOrFail(const json::Value& object, std::string_view key, const std::string& where) {
  const json::Value* member = object.Find(key);
  if (member == nullptr) Fail(where, "has no " + std::string(key));
  return *member;
}

template <typename T>
Comparison CompareValues(std::span<const T> got, std::span<const T> want, double (*to_double)(T)) {
  Comparison c;
  if (got.size() != want.size()) Fail("Compare", "sizes differ");
  c.elements = static_cast<int64_t>(want.size());
  double squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double a = to_double(got[i]), b = to_double(want[i]);
    squares += b * b;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ++c.differing;
    const double error = std::isnan(a) || std::isnan(b) ? INFINITY : std::fabs(a - b);
    c.max_abs = std::max(c.max_abs, error);
    c.max_excess = std::max(c.max_excess, error / std::max(1.0, std::fabs(b)));
  }
  c.rms = c.elements == 0 ? 0 : std::sqrt(squares / static_cast<double>(c.elements));
  return c;
}

}  // namespace

int64_t GoldenTensor::num_elements() const {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

int64_t GoldenTensor::row_size() const {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

GoldenFile GoldenFile::Load(const std::string& dir, const std::string& stem) {
  GoldenFile file;
  file.name_ = stem;
  file.AddSafetensors(dir + "/" + stem + ".safetensors");
  file.AddManifest(dir + "/" + stem + ".json");
  return file;
}

GoldenFile GoldenFile::LoadCheckpoint(const std::string& dir) {
  GoldenFile file;
  file.name_ = dir;
  std::vector<std::string> shards;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path().string());
  }
  if (shards.empty()) Fail(dir, "holds no safetensors file");
  std::sort(shards.begin(), shards.end());
  for (const std::string& shard : shards) file.AddSafetensors(shard);
  return file;
}

const GoldenFile& GoldenFile::Shared(const std::string& stem) {
  static std::map<std::string, GoldenFile> files;
  auto it = files.find(stem);
  if (it == files.end())
    it = files.emplace(stem, Load(std::string(DEEPINFER_TEST_DATA) + "/goldens", stem)).first;
  return it->second;
}

const GoldenFile& GoldenFile::SharedCheckpoint(const std::string& folder) {
  static std::map<std::string, GoldenFile> files;
  auto it = files.find(folder);
  if (it == files.end()) {
    it = files.emplace(folder, LoadCheckpoint(std::string(DEEPINFER_TEST_DATA) + "/goldens/" + folder)).first;
  }
  return it->second;
}

void GoldenFile::AddSafetensors(const std::string& path) {
  const std::string text = ReadWhole(path);
  uint64_t header_size = 0;
  if (text.size() < sizeof(header_size)) Fail(path, "is too short");
  std::memcpy(&header_size, text.data(), sizeof(header_size));
  if (header_size > text.size() - sizeof(header_size)) Fail(path, "is cut");
  const std::string_view data = std::string_view(text).substr(sizeof(header_size) + header_size);
  const json::Value header =
      ParseOrFail(std::string_view(text).substr(sizeof(header_size), header_size), path);
  for (const auto& [name, entry] : header.AsObject()) {
    if (name == "__metadata__") continue;
    const std::string where = path + ": " + name;
    GoldenTensor tensor;
    tensor.dtype = MemberOrFail(entry, "dtype", where).AsString();
    for (const json::Value& dim : MemberOrFail(entry, "shape", where).AsArray())
      tensor.shape.push_back(IntOrFail(dim, where));
    const json::Array& offsets = MemberOrFail(entry, "data_offsets", where).AsArray();
    const auto begin = static_cast<size_t>(IntOrFail(offsets.at(0), where));
    const auto end = static_cast<size_t>(IntOrFail(offsets.at(1), where));
    if (begin > end || end > data.size()) Fail(where, "lies outside the file");
    const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
    storage_.emplace_back(bytes + begin, bytes + end);
    tensor.bytes = storage_.back();
    if (!tensors_.emplace(name, std::move(tensor)).second) Fail(where, "occurs twice");
  }
}

void GoldenFile::AddManifest(const std::string& path) {
  manifest_ = ParseOrFail(ReadWhole(path), path);
  for (const auto& [name, entry] : MemberOrFail(manifest_, "tensors", path).AsObject()) {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) Fail(path, name + " is not in the safetensors file");
    if (const json::Value* tolerance = entry.Find("tolerance")) it->second.tolerance = tolerance->AsString();
    if (const json::Value* note = entry.Find("note")) it->second.note = note->AsString();
  }
}

std::vector<std::string> GoldenFile::Names(std::string_view prefix) const {
  std::vector<std::string> names;
  for (auto it = tensors_.lower_bound(prefix); it != tensors_.end() && it->first.starts_with(prefix); ++it) {
    names.push_back(it->first);
  }
  return names;
}

const GoldenTensor& GoldenFile::Get(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) Fail(name_, "has no tensor " + std::string(name));
  return it->second;
}

template <typename T>
std::span<const T> GoldenFile::Typed(std::string_view name,
                                     std::initializer_list<std::string_view> dtypes) const {
  const GoldenTensor& tensor = Get(name);
  if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
    Fail(name_ + ": " + std::string(name), "is of type " + tensor.dtype);
  }
  return {reinterpret_cast<const T*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(T)};
}

std::span<const Bf16> GoldenFile::Bf16s(std::string_view name) const { return Typed<Bf16>(name, {"BF16"}); }
std::span<const float> GoldenFile::Floats(std::string_view name) const { return Typed<float>(name, {"F32"}); }
std::span<const int32_t> GoldenFile::Ints(std::string_view name) const {
  return Typed<int32_t>(name, {"I32"});
}
std::span<const uint8_t> GoldenFile::Bytes(std::string_view name) const {
  return Typed<uint8_t>(name, {"U8", "I8", "BOOL", "F8_E4M3", "F8_E8M0"});
}

std::optional<double> GoldenFile::Noise(std::string_view prompt, std::string_view figure) const {
  const json::Value* value = manifest_.Find("noise");
  if (value != nullptr) value = value->Find(prompt);
  while (value != nullptr && !figure.empty()) {
    const size_t dot = std::min(figure.find('.'), figure.size());
    value = value->Find(figure.substr(0, dot));
    figure.remove_prefix(std::min(dot + 1, figure.size()));
  }
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->AsDouble();
}

void GoldenFile::MarkCompared(std::string_view name) const {
  Get(name);  // a name that does not exist is a mistake in the test
  compared_.emplace(name);
}

std::vector<std::string> GoldenFile::NotCompared(std::string_view prefix) const {
  std::vector<std::string> names = Names(prefix);
  std::erase_if(names, [this](const std::string& name) { return compared_.contains(name); });
  return names;
}

std::string Comparison::ToString() const {
  return std::to_string(differing) + " of " + std::to_string(elements) + " differ, max |a-b| " +
         std::to_string(max_abs) + " (rms " + std::to_string(rms) + ", relative " +
         std::to_string(max_excess) + ")";
}

Comparison Compare(std::span<const Bf16> got, std::span<const Bf16> want) {
  return CompareValues<Bf16>(got, want, [](Bf16 v) { return static_cast<double>(ToFloat(v)); });
}

Comparison Compare(std::span<const float> got, std::span<const float> want) {
  return CompareValues<float>(got, want, [](float v) { return static_cast<double>(v); });
}

bool WithinBf16Class(const Comparison& c) {
  return static_cast<double>(c.differing) <= 0.02 * static_cast<double>(c.elements) &&
         c.max_abs <= 0.1 * c.rms;
}

bool WithinFp32Class(const Comparison& c) { return c.max_excess <= 1e-5; }

}  // namespace deepinfer::testing
