// Opening a folder: index rules of checkpoint.md §7 and the checkpoint-level faults of §10.
#include "checkpoint/checkpoint.h"

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
    EXPECT_TRUE(ReadEngramTokenMap(**checkpoint).value().has_value());
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
  EXPECT_FALSE(folder.Open().ok());
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

// --- Engram rows and token map -----------------------------------------------------------------------------------------------

TEST(EngramRows, ReadAndMappedRowsAreTheTensorsRows) {
  const Folder folder;
  const auto checkpoint = folder.Open().value();
  const auto reader = EngramRowReader::Open(checkpoint, 2);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ(reader->num_rows(), 834);
  EXPECT_EQ(reader->code_bytes(), 32);
  EXPECT_EQ(reader->scale_bytes(), 1);
  const TensorRef weight = checkpoint->Find("layers.2.engram.embed.weight").value();
  const TensorRef scale = checkpoint->Find("layers.2.engram.embed.scale").value();
  std::vector<std::byte> codes(32);
  std::vector<std::byte> scales(1);
  for (const int64_t row : {0, 1, 417, 833}) {
    ASSERT_TRUE(reader->Read(row, codes, scales).ok());
    EXPECT_EQ(std::memcmp(codes.data(), weight.bytes.data() + row * 32, 32), 0);
    EXPECT_EQ(scales[0], scale.bytes[static_cast<size_t>(row)]);
    const auto mapped = reader->MapRow(row).value();
    EXPECT_EQ(std::memcmp(mapped.codes.data(), codes.data(), 32), 0);
    EXPECT_EQ(mapped.scales[0], scales[0]);
  }
}

TEST(EngramRows, RowsOutOfRangeAreRefused) {
  const Folder folder;
  const auto checkpoint = folder.Open().value();
  const auto reader = EngramRowReader::Open(checkpoint, 1).value();
  std::vector<std::byte> codes(32);
  std::vector<std::byte> scales(1);
  for (const int64_t row : {int64_t{-1}, int64_t{630}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(reader.Read(row, codes, scales).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(reader.MapRow(row).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(reader.Read(0, scales, scales).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(EngramRowReader::Open(checkpoint, 3).status().code(), StatusCode::kNotFound);
}

TEST(EngramRows, SwappedTablesAreRefused) {
  const Folder folder(Edited([](std::vector<SyntheticTensor>& tensors) {
    for (const char* part : {"weight", "scale"}) {
      std::swap(SpecOf(tensors, std::string("layers.1.engram.embed.") + part).shape,
                SpecOf(tensors, std::string("layers.2.engram.embed.") + part).shape);
    }
  }));
  const auto checkpoint = folder.Open().value();
  EXPECT_EQ(CheckInventory(*checkpoint).mismatched.size(), 4u);
  EXPECT_EQ(EngramRowReader::Open(checkpoint, 1).status().code(), StatusCode::kDataLoss);
}

TEST(EngramTokenMap, IsReadAndChecked) {
  SyntheticOptions options;
  options.tokenizer = true;
  const Folder folder(options);
  const auto checkpoint = folder.Open().value();
  const auto map = ReadEngramTokenMap(*checkpoint);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  ASSERT_TRUE(map->has_value());
  EXPECT_EQ((*map)->size(), 512u);

  const std::string good = ReadText(folder / "engram_token_map.i32");
  const auto expect_refused = [&](std::string bytes, std::string_view part) {
    WriteText(folder / "engram_token_map.i32", bytes);
    const auto bad = ReadEngramTokenMap(*checkpoint);
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.status().code(), StatusCode::kDataLoss);
    EXPECT_NE(bad.status().message().find(part), std::string::npos) << bad.status().ToString();
  };
  expect_refused(good.substr(0, good.size() - 1), "one int32 per token");
  expect_refused(good + "1234", "one int32 per token");
  expect_refused("", "one int32 per token");
  std::string bad = good;
  bad[3] = '\x7F';
  expect_refused(bad, "out of range");
  bad = good;
  bad[3] = '\xFF';
  expect_refused(bad, "out of range");
  // One class fewer than the configuration says.
  expect_refused(good.substr(0, good.size() - 4) + good.substr(0, 4), "classes");
  fs::remove(folder / "engram_token_map.i32");
  EXPECT_FALSE(ReadEngramTokenMap(*checkpoint).value().has_value());
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
