#include "model/edited_checkpoint.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "base/file.h"
#include "model/model_fixture.h"

namespace deepinfer::testing {

EditedCheckpoint::EditedCheckpoint(const std::string& folder) {
  std::string pattern = (std::filesystem::temp_directory_path() / "deepinfer-model-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create " + pattern);
  dir_ = pattern;
  std::filesystem::copy(std::filesystem::path(DEEPINFER_TEST_DATA) / folder, dir_,
                        std::filesystem::copy_options::recursive);
}

EditedCheckpoint::~EditedCheckpoint() {
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

void EditedCheckpoint::EditConfig(const std::function<void(ModelConfig&)>& edit) {
  ModelConfig config = Check(Checkpoint::Open(dir_))->config();
  edit(config);
  Check(WriteFileAtomic(dir_ + "/config.json", SerializeConfig(config)));
}

namespace {

void EditBytes(const Checkpoint& checkpoint, const TensorInfo& info,
               const std::function<void(std::span<uint8_t>)>& edit) {
  std::vector<uint8_t> bytes(info.num_bytes);
  Check(checkpoint.Read(info, 0, std::as_writable_bytes(std::span(bytes))));
  edit(bytes);
  const std::string path = checkpoint.dir() + "/" + checkpoint.shards()[static_cast<size_t>(info.shard)].name;
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(info.file_offset));
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

/// Bytes of an element and which bits of its last byte are signs.
struct SignBits {
  size_t stride;
  uint8_t mask;
};
SignBits SignsOf(StorageDtype dtype) {
  switch (dtype) {
    case StorageDtype::kBf16: return {2, 0x80};
    case StorageDtype::kF32: return {4, 0x80};
    case StorageDtype::kF8E4M3: return {1, 0x80};
    case StorageDtype::kI8: return {1, 0x88};  // two E2M1 codes
    default: throw std::runtime_error("a tensor without signs");
  }
}

}  // namespace

void EditedCheckpoint::EditTensor(const std::string& name,
                                  const std::function<void(std::span<uint8_t>)>& edit) {
  const std::shared_ptr<Checkpoint> checkpoint = Check(Checkpoint::Open(dir_));
  const std::optional<TensorInfo> info = checkpoint->FindInfo(name);
  if (!info.has_value()) throw std::runtime_error("no tensor " + name);
  EditBytes(*checkpoint, *info, edit);
}

int EditedCheckpoint::FlipSigns(const std::function<bool(std::string_view)>& wanted) {
  const std::shared_ptr<Checkpoint> checkpoint = Check(Checkpoint::Open(dir_));
  int count = 0;
  for (size_t i = 0; i < checkpoint->num_tensors(); ++i) {
    const TensorInfo info = checkpoint->tensor(i);
    if (info.dtype == StorageDtype::kF8E8M0 || !wanted(info.name)) continue;
    const SignBits signs = SignsOf(info.dtype);
    EditBytes(*checkpoint, info, [&signs](std::span<uint8_t> bytes) {
      for (size_t at = signs.stride - 1; at < bytes.size(); at += signs.stride) bytes[at] ^= signs.mask;
    });
    ++count;
  }
  return count;
}

}  // namespace deepinfer::testing
