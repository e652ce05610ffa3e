// Opening a folder: index rules of checkpoint.md §7 and the checkpoint-level faults of §10.
#include "checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "checkpoint/inventory.h"
#include "checkpoint/synthetic.h"
#include "temp_dir.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using testing::ReadText;
using testing::Replaced;
using testing::TempDir;
using testing::WriteText;

const std::string kTestData = DEEPINFER_TEST_DATA;
constexpr const char* kIndex = "model.safetensors.index.json";

/// A folder with a synthetic checkpoint.
class Folder {
 public:
  explicit Folder(const SyntheticOptions& options = {}, const ModelConfig& config = SyntheticConfig()) {
    const Status status = WriteSyntheticCheckpoint(dir_.path(), config, options);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  const std::string& path() const { return dir_.path(); }
  std::string operator/(std::string_view name) const { return dir_ / name; }
  Result<std::shared_ptr<Checkpoint>> Open() const { return Checkpoint::Open(path()); }
  void ReplaceIn(std::string_view file, std::string_view from, std::string_view to) const {
    WriteText(dir_ / file, Replaced(ReadText(dir_ / file), from, to));
  }

 private:
  TempDir dir_;
};

void ExpectRefused(const Folder& folder, std::string_view part, StatusCode code = StatusCode::kDataLoss) {
  const auto checkpoint = folder.Open();
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status().ToString();
  EXPECT_NE(checkpoint.status().ToString().find(part), std::string::npos) << checkpoint.status().ToString();
}

SyntheticOptions Edited(std::function<void(std::vector<SyntheticTensor>&)> edit) {
  SyntheticOptions options;
  options.edit = std::move(edit);
  return options;
}

TensorSpec& SpecOf(std::vector<SyntheticTensor>& tensors, std::string_view name) {
  for (SyntheticTensor& t : tensors) {
    if (t.spec.name == name) return t.spec;
  }
  throw std::runtime_error("no tensor " + std::string(name));
}

TEST(Checkpoint, OpensEveryVariant) {
  for (const auto layout : {SyntheticOptions::Layout::kSingleFile, SyntheticOptions::Layout::kParts,
                            SyntheticOptions::Layout::kReleased}) {
    for (const uint64_t remainder : {0, 5}) {
      SyntheticOptions options;
      options.layout = layout;
      options.write.remainder = remainder;
      options.write.extra_padding = remainder * 100;
      const Folder folder(options);
      const auto checkpoint = folder.Open();
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
      EXPECT_EQ((*checkpoint)->num_tensors(), 852u);
      EXPECT_EQ((*checkpoint)->total_bytes(), 4'006'944u);
      EXPECT_EQ((*checkpoint)->config(), SyntheticConfig());
      EXPECT_TRUE(CheckInventory(**checkpoint).sound());
    }
  }
}

TEST(Checkpoint, OpensTheGoldenCheckpoints) {
  const std::vector<std::pair<const char*, size_t>> folders = {
      {"/goldens/tiny", 885}, {"/goldens/tiny_trained", 885}, {"/demo-model", 1149}};
  for (const auto& [name, tensors] : folders) {
    const auto checkpoint = Checkpoint::Open(kTestData + name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
    EXPECT_EQ((*checkpoint)->num_tensors(), tensors);
    EXPECT_TRUE(CheckInventory(**checkpoint).sound()) << CheckInventory(**checkpoint).ToStatus().ToString();
  }
}

TEST(Checkpoint, FindsMapsAndReadsTheSameBytes) {
  SyntheticOptions options;
  options.write.remainder = 3;
  const Folder folder(options);
  const auto checkpoint = folder.Open().value();
  std::string previous;
  for (size_t i = 0; i < checkpoint->num_tensors(); ++i) {
    const TensorInfo info = checkpoint->tensor(i);
    EXPECT_LT(previous, info.name);
    previous = info.name;
    const auto ref = checkpoint->Find(info.name);
    ASSERT_TRUE(ref.ok());
    std::vector<std::byte> expected(info.num_bytes);
    FillSyntheticTensor(info.name, info.dtype, info.shape, 0, expected);
    ASSERT_EQ(ref->bytes.size(), expected.size());
    EXPECT_EQ(std::memcmp(ref->bytes.data(), expected.data(), expected.size()), 0) << info.name;
    std::vector<std::byte> read(std::min<uint64_t>(info.num_bytes, 7));
    const uint64_t offset = info.num_bytes - read.size();
    ASSERT_TRUE(checkpoint->Read(info, offset, read).ok());
    EXPECT_EQ(std::memcmp(read.data(), expected.data() + offset, read.size()), 0);
  }
  EXPECT_TRUE(checkpoint->CheckMaps().ok());
  EXPECT_EQ(checkpoint->Find("no.such.tensor").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(checkpoint->Contains("zzz"));
}

TEST(Checkpoint, ReadsOutsideATensorAreRefused) {
  const Folder folder;
  const auto checkpoint = folder.Open().value();
  const TensorInfo info = *checkpoint->FindInfo("norm.weight");
  std::vector<std::byte> out(8);
  EXPECT_EQ(checkpoint->Read(info, info.num_bytes - 7, out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(checkpoint->Read(info, UINT64_MAX, out).code(), StatusCode::kInvalidArgument);
}

TEST(Checkpoint, FolderWithoutConfigOrShards) {
  const TempDir empty;
  EXPECT_EQ(Checkpoint::Open(empty.path()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Checkpoint::Open(empty / "nowhere").status().code(), StatusCode::kNotFound);
  WriteText(empty / "config.json", SerializeConfig(SyntheticConfig()));
  EXPECT_EQ(Checkpoint::Open(empty.path()).status().code(), StatusCode::kNotFound);
  WriteText(empty / "config.json", "{}");
  EXPECT_EQ(Checkpoint::Open(empty.path()).status().code(), StatusCode::kDataLoss);
}

TEST(Checkpoint, OneFileOfAnotherNameIsFound) {
  SyntheticOptions options;
  options.layout = SyntheticOptions::Layout::kSingleFile;
  const Folder folder(options);
  fs::rename(folder / "model.safetensors", folder / "other.safetensors");
  EXPECT_TRUE(folder.Open().ok());
  fs::copy(folder / "other.safetensors", folder / "another.safetensors");
  ExpectRefused(folder, "several safetensors files");
}

// --- Faults between index and shards ---------------------------------------------------------------------------------------

TEST(CheckpointFault, IndexNamesAMissingShard) {
  const Folder folder;
  fs::remove(folder / "model-00003-of-00005.safetensors");
  ExpectRefused(folder, "model-00003-of-00005.safetensors", StatusCode::kNotFound);
}

TEST(CheckpointFault, IndexNamesATensorThatNoShardHas) {
  const Folder folder;
  folder.ReplaceIn(kIndex, "\"norm.weight\"", "\"a.norm.weight\"");
  ExpectRefused(folder, "a.norm.weight");
}

TEST(CheckpointFault, ShardHasATensorThatTheIndexDoesNotName) {
  const Folder folder;
  folder.ReplaceIn(kIndex, "\"norm.weight\": \"model-00004-of-00005.safetensors\",", "");
  ExpectRefused(folder, "that the index does not name");
}

TEST(CheckpointFault, IndexNamesTheWrongShard) {
  const Folder folder;
  folder.ReplaceIn(kIndex, "\"norm.weight\": \"model-00004", "\"norm.weight\": \"model-00003");
  ExpectRefused(folder, "it is in model-00004-of-00005.safetensors");
}

TEST(CheckpointFault, SameTensorInTwoShards) {
  const Folder folder(Edited([](std::vector<SyntheticTensor>& tensors) {
    SyntheticTensor copy{SpecOf(tensors, "norm.weight"), 0};
    tensors.push_back(copy);
  }));
  folder.ReplaceIn(kIndex, "\"norm.weight\": \"model-00001-of-00005.safetensors\",", "");
  ExpectRefused(folder, "two shards");
}

TEST(CheckpointFault, TotalSizeDiffers) {
  const Folder folder;
  folder.ReplaceIn(kIndex, "4006944", "4006945");
  ExpectRefused(folder, "total_size");
}

TEST(CheckpointFault, ShardNamesWithPaths) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/model-00002-of-00005.safetensors", ".."}) {
    const Folder folder;
    folder.ReplaceIn(kIndex, "\"embed.weight\": \"model-00002-of-00005.safetensors\"",
                     "\"embed.weight\": \"" + std::string(name) + "\"");
    ExpectRefused(folder, "plain file name");
  }
}

TEST(CheckpointFault, CutShard) {
  const Folder folder;
  fs::resize_file(folder / "model-00002-of-00005.safetensors",
                  fs::file_size(folder / "model-00002-of-00005.safetensors") - 1);
  ExpectRefused(folder, "the file is cut");
}

TEST(CheckpointFault, DirectoryOrFifoInPlaceOfAShard) {
  const Folder folder;
  fs::remove(folder / "model-00002-of-00005.safetensors");
  fs::create_directory(folder / "model-00002-of-00005.safetensors");
  ExpectRefused(folder, "a folder, not a file");
  fs::remove(folder / "model-00002-of-00005.safetensors");
  ASSERT_EQ(::mkfifo((folder / "model-00002-of-00005.safetensors").c_str(), 0600), 0);
  ExpectRefused(folder, "not a regular file");
}

TEST(CheckpointFault, FilesOverTheirLimitAreUnsound) {
  for (const auto& [name, bytes] :
       {std::pair("config.json", (1u << 20) + 1), std::pair(kIndex, (64u << 20) + 1)}) {
    const Folder folder;
    fs::resize_file(folder / name, bytes);
    ExpectRefused(folder, "larger than the limit");
  }
}

TEST(CheckpointFault, LinksToNothing) {
  for (const char* name : {"config.json", kIndex, "model-00002-of-00005.safetensors"}) {
    const Folder folder;
    fs::remove(folder / name);
    fs::create_symlink("nowhere", folder / name);
    ExpectRefused(folder, "link to nothing");
  }
}

TEST(Checkpoint, ReadsAConfigurationAlone) {
  const Folder folder;
  fs::remove(folder / kIndex);
  EXPECT_EQ(ReadModelConfig(folder.path()).value(), SyntheticConfig());
  fs::remove(folder / "config.json");
  EXPECT_EQ(ReadModelConfig(folder.path()).status().code(), StatusCode::kNotFound);
}

// --- Links -----------------------------------------------------------------------------------------------------------------

TEST(CheckpointLinks, InsideTheFolderTheyAreFollowed) {
  const Folder folder;
  fs::create_directory(folder / "blobs");
  fs::rename(folder / "model-00002-of-00005.safetensors", folder / "blobs/abc");
  fs::create_symlink("blobs/abc", folder / "model-00002-of-00005.safetensors");
  EXPECT_TRUE(folder.Open().ok()) << folder.Open().status().ToString();
}

TEST(CheckpointLinks, OutOfTheFolderTheyAreRefusedUnlessTheRootIsNamed) {
  const Folder folder;
  const TempDir outside;
  fs::rename(folder / "model-00002-of-00005.safetensors", outside / "blob");
  fs::create_symlink(outside / "blob", folder / "model-00002-of-00005.safetensors");
  ExpectRefused(folder, "leaves the checkpoint folder");
  OpenOptions options;
  options.allowed_root = outside.path();
  EXPECT_TRUE(Checkpoint::Open(folder.path(), options).ok());
  options.allowed_root = folder / "blobs";  // does not exist
  EXPECT_FALSE(Checkpoint::Open(folder.path(), options).ok());
  const TempDir other;
  options.allowed_root = other.path();
  EXPECT_FALSE(Checkpoint::Open(folder.path(), options).ok());
}

TEST(CheckpointLinks, ConfigAndIndexObeyTheSameRule) {
  for (const char* name : {"config.json", kIndex}) {
    const Folder folder;
    const TempDir outside;
    fs::rename(folder / name, outside / "blob");
    fs::create_symlink(outside / "blob", folder / name);
    ExpectRefused(folder, "leaves the checkpoint folder");
  }
}

TEST(CheckpointLinks, TheFolderItselfMayBeALink) {
  const Folder folder;
  const TempDir outside;
  fs::create_directory_symlink(folder.path(), outside / "link");
  EXPECT_TRUE(Checkpoint::Open(outside / "link").ok());
}

// A neighbour whose name begins like the folder's must not count as inside.
TEST(CheckpointLinks, NeighbourWithTheSamePrefixIsOutside) {
  const TempDir base;
  ASSERT_TRUE(WriteSyntheticCheckpoint(base / "model", SyntheticConfig()).ok());
  fs::create_directory(base / "model-evil");
  fs::rename(base / "model/model-00002-of-00005.safetensors", base / "model-evil/x");
  fs::create_symlink("../model-evil/x", base / "model/model-00002-of-00005.safetensors");
  EXPECT_EQ(Checkpoint::Open(base / "model").status().code(), StatusCode::kDataLoss);
}

// --- Files that change while in use ----------------------------------------------------------------------------------------

TEST(CheckpointCut, MappedShardReadsAsZerosAndIsReported) {
  const Folder folder;
  const auto checkpoint = folder.Open().value();
  const TensorRef ref = checkpoint->Find("embed.weight").value();
  ASSERT_TRUE(checkpoint->CheckMaps().ok());
  fs::resize_file(folder / "model-00002-of-00005.safetensors", 4096);
  uint64_t sum = 0;
  for (const std::byte b : ref.bytes) sum += static_cast<uint64_t>(b);  // must not end the process
  EXPECT_GT(sum, 0u);
  const Status status = checkpoint->CheckMaps();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.ToString().find("model-00002-of-00005.safetensors"), std::string::npos);
}

TEST(CheckpointCut, PositionalReadsReportIt) {
  const Folder folder;
  const auto checkpoint = folder.Open().value();
  const TensorInfo info = *checkpoint->FindInfo("embed.weight");
  fs::resize_file(folder / "model-00002-of-00005.safetensors", 4096);
  std::vector<std::byte> out(info.num_bytes);
  EXPECT_EQ(checkpoint->Read(info, 0, out).code(), StatusCode::kDataLoss);
  // Mapping after the cut: the tensor no longer lies within the file.
  EXPECT_EQ(checkpoint->Find("embed.weight").status().code(), StatusCode::kDataLoss);
}

TEST(CheckpointFault, SwappedEngramTablesAreMismatched) {
  const Folder folder(Edited([](std::vector<SyntheticTensor>& tensors) {
    for (const char* part : {"weight", "scale"}) {
      std::swap(SpecOf(tensors, std::string("layers.1.engram.embed.") + part).shape,
                SpecOf(tensors, std::string("layers.2.engram.embed.") + part).shape);
    }
  }));
  EXPECT_EQ(CheckInventory(*folder.Open().value()).mismatched.size(), 4u);
}

TEST(CheckpointDigest, DependsOnHeadersIndexAndConfigOnly) {
  const Folder folder;
  const Folder same;
  const Sha256Digest digest = folder.Open().value()->digest();
  EXPECT_EQ(same.Open().value()->digest(), digest);
  {
    std::fstream file(folder / "model-00002-of-00005.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('x');
  }
  EXPECT_EQ(folder.Open().value()->digest(), digest);  // a payload byte
  folder.ReplaceIn("config.json", "\"rope_theta\": 10000", "\"rope_theta\": 20000");
  EXPECT_NE(folder.Open().value()->digest(), digest);
  SyntheticOptions padded;
  padded.write.extra_padding = 8;
  EXPECT_NE(Folder(padded).Open().value()->digest(), digest);
}

}  // namespace
}  // namespace deepinfer
