#include "checkpoint/inspect.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "checkpoint/synthetic.h"
#include "temp_dir.h"
#include "tensor/dtype.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using testing::ReadText;
using testing::Replaced;
using testing::TempDir;
using testing::WriteText;

class InspectTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(WriteSyntheticCheckpoint(dir_.path(), SyntheticConfig()).ok()); }
  std::shared_ptr<Checkpoint> Open() const { return Checkpoint::Open(dir_.path()).value(); }
  TempDir dir_;
};

TEST_F(InspectTest, SoundFolder) {
  const InspectReport report = InspectFolder(dir_.path()).value();
  EXPECT_TRUE(report.sound);
  EXPECT_EQ(report.tensors, 852u);
  EXPECT_EQ(report.bytes, 4'006'944u);
  EXPECT_EQ(report.shards, 5);
  EXPECT_EQ(report.totals.all, ExpectedTotals(SyntheticConfig()).all);
  EXPECT_EQ(report.totals.by_class, ExpectedTotals(SyntheticConfig()).by_class);
  EXPECT_EQ(report.totals.draft_experts, ExpectedTotals(SyntheticConfig()).draft_experts);
  EXPECT_EQ(report.digest.size(), 64u);
  EXPECT_TRUE(report.problems.empty());
}

TEST_F(InspectTest, UnsoundFolderIsAReport) {
  fs::remove(dir_ / "model-00003-of-00005.safetensors");
  const InspectReport report = InspectFolder(dir_.path()).value();
  EXPECT_FALSE(report.sound);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("model-00003-of-00005"), std::string::npos);
  ASSERT_TRUE(report.config.has_value());
  EXPECT_EQ(*report.config, SyntheticConfig());
  WriteText(dir_ / "config.json", "{");
  EXPECT_FALSE(InspectFolder(dir_.path()).value().config.has_value());
  fs::remove(dir_ / "config.json");
  EXPECT_EQ(InspectFolder(dir_.path()).status().code(), StatusCode::kNotFound);
}

TEST_F(InspectTest, WhatIsNoFileIsReportedWithoutBlocking) {
  const std::string shard = dir_ / "model-00002-of-00005.safetensors";
  for (const bool fifo : {true, false}) {
    fs::remove(shard);
    if (fifo) {
      ASSERT_EQ(::mkfifo(shard.c_str(), 0600), 0);
    } else {
      fs::create_directory(shard);
    }
    const auto report = InspectFolder(dir_.path());
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_FALSE(report->sound);
    ASSERT_EQ(report->problems.size(), 1u);
    EXPECT_NE(report->problems[0].find("model-00002"), std::string::npos);
    EXPECT_TRUE(report->config.has_value());
  }
  for (const char* name : {"config.json", "model.safetensors.index.json"}) {
    TempDir dir;
    ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig()).ok());
    fs::remove(dir / name);
    ASSERT_EQ(::mkfifo((dir / name).c_str(), 0600), 0);
    const auto report = InspectFolder(dir.path());
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->problems.size(), 1u);
  }
}

TEST(Glob, Matches) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<const char*, const char*>>{{"*", ""},
                                                        {"*", "abc"},
                                                        {"a*c", "abbc"},
                                                        {"a*c", "ac"},
                                                        {"?b?", "abc"},
                                                        {"layers.*.attn.w?_b.*", "layers.12.attn.wq_b.scale"},
                                                        {"**x**", "x"},
                                                        {"*aab", "aaaab"},
                                                        {"", ""}}) {
    EXPECT_TRUE(MatchesGlob(pattern, name)) << pattern << " " << name;
  }
  for (const auto& [pattern, name] : std::vector<std::pair<const char*, const char*>>{
           {"", "a"}, {"a", ""}, {"a?", "a"}, {"a*c", "abd"}, {"*.weight", "x.weights"}, {"[ab]", "a"}}) {
    EXPECT_FALSE(MatchesGlob(pattern, name)) << pattern << " " << name;
  }
  std::string many;
  for (int i = 0; i < 40; ++i) many += "a*";
  EXPECT_FALSE(MatchesGlob(many + "b", std::string(2000, 'a')));  // no exponential search
}

TEST_F(InspectTest, SelectsByGlob) {
  const auto checkpoint = Open();
  EXPECT_EQ(SelectTensors(*checkpoint, "*").size(), 852u);
  EXPECT_EQ(SelectTensors(*checkpoint, "layers.*.ffn.gate.bias").size(), 8u);
  EXPECT_TRUE(SelectTensors(*checkpoint, "nothing").empty());
}

TensorStats StatsOf(const Checkpoint& checkpoint, std::string_view name) {
  const auto stats = ComputeTensorStats(checkpoint, *checkpoint.FindInfo(name));
  EXPECT_TRUE(stats.ok()) << stats.status().ToString();
  return *stats;
}

/// The plain definition of the decoded values, element by element.
TensorStats Expected(const std::vector<float>& values) {
  TensorStats s;
  double sum = 0;
  for (const float v : values) {
    ++s.elements;
    s.min = s.elements == 1 ? v : std::min<double>(s.min, v);
    s.max = s.elements == 1 ? v : std::max<double>(s.max, v);
    sum += v;
  }
  s.mean = sum / static_cast<double>(s.elements);
  return s;
}

void ExpectSame(const TensorStats& a, const TensorStats& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_NEAR(a.mean, b.mean, 1e-9);
}

uint8_t ByteAt(const TensorRef& t, uint64_t i) { return static_cast<uint8_t>(t.bytes[i]); }

TEST_F(InspectTest, StatsOfABlockScaledWeight) {
  const auto checkpoint = Open();
  const TensorRef w = checkpoint->Find("layers.0.attn.wq_b.weight").value();
  const TensorRef s = checkpoint->Find("layers.0.attn.wq_b.scale").value();
  std::vector<float> values;
  for (uint64_t r = 0; r < w.shape[0]; ++r) {
    for (uint64_t c = 0; c < w.shape[1]; ++c) {
      values.push_back(E4m3ToFloat(ByteAt(w, r * w.shape[1] + c)) *
                       E8m0ToFloat(ByteAt(s, r / 32 * s.shape[1] + c / 32)));
    }
  }
  ExpectSame(StatsOf(*checkpoint, w.name), Expected(values));
}

TEST_F(InspectTest, StatsOfAnExpert) {
  const auto checkpoint = Open();
  const TensorRef w = checkpoint->Find("layers.0.ffn.experts.3.w2.weight").value();
  const TensorRef s = checkpoint->Find("layers.0.ffn.experts.3.w2.scale").value();
  std::vector<float> values;
  for (uint64_t r = 0; r < w.shape[0]; ++r) {
    for (uint64_t k = 0; k < 2 * w.shape[1]; ++k) {
      const uint8_t byte = ByteAt(w, r * w.shape[1] + k / 2);
      const auto code = static_cast<uint8_t>(k % 2 == 0 ? byte & 15 : byte >> 4);
      values.push_back(E2m1ToFloat(code) * E8m0ToFloat(ByteAt(s, r * s.shape[1] + k / 32)));
    }
  }
  ExpectSame(StatsOf(*checkpoint, w.name), Expected(values));
}

TEST_F(InspectTest, StatsOfAnEngramTable) {
  const auto checkpoint = Open();
  const TensorRef w = checkpoint->Find("layers.1.engram.embed.weight").value();
  const TensorRef s = checkpoint->Find("layers.1.engram.embed.scale").value();
  std::vector<float> values;
  for (uint64_t i = 0; i < w.bytes.size(); ++i)
    values.push_back(E4m3ToFloat(ByteAt(w, i)) * E8m0ToFloat(ByteAt(s, i / 32)));
  ExpectSame(StatsOf(*checkpoint, w.name), Expected(values));
}

TEST_F(InspectTest, StatsOfPlainTensors) {
  const auto checkpoint = Open();
  const TensorStats norm = StatsOf(*checkpoint, "norm.weight");
  EXPECT_EQ(norm.elements, 128u);
  EXPECT_GT(norm.min, 0.88);
  EXPECT_LT(norm.max, 1.12);
  EXPECT_NEAR(norm.mean, 1.0, 0.05);
  const TensorStats scale = StatsOf(*checkpoint, "layers.0.attn.wq_b.scale");
  EXPECT_EQ(scale.max, 8.0);
  EXPECT_EQ(scale.min, 0.125);
  EXPECT_EQ(StatsOf(*checkpoint, "layers.0.attn.attn_sink").elements, 4u);
}

TEST_F(InspectTest, StatsCountNan) {
  TempDir dir;
  ModelConfig config = SyntheticConfig();
  ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), config).ok());
  auto checkpoint = Checkpoint::Open(dir.path()).value();
  const TensorInfo codes = *checkpoint->FindInfo("layers.1.engram.embed.weight");
  const std::string path = dir / checkpoint->shards()[static_cast<size_t>(codes.shard)].name;
  std::string content = ReadText(path);
  content[codes.file_offset + 5] = '\x7F';
  content[codes.file_offset + 70] = '\xFF';
  WriteText(path, content);
  checkpoint = Checkpoint::Open(dir.path()).value();
  EXPECT_EQ(StatsOf(*checkpoint, "layers.1.engram.embed.weight").nan, 2u);
}

TEST_F(InspectTest, StatsOfEmptyAndUnknownTensors) {
  TempDir dir;
  SyntheticOptions options;
  options.sparse = true;
  options.edit = [](std::vector<SyntheticTensor>& t) {
    t.push_back({{"x.empty", StorageDtype::kBf16, {0, 3}}, 0});
    t.push_back({{"x.int", StorageDtype::kI64, {3}}, 0});
  };
  ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig(), options).ok());
  const auto checkpoint = Checkpoint::Open(dir.path()).value();
  EXPECT_EQ(StatsOf(*checkpoint, "x.empty").elements, 0u);
  EXPECT_EQ(ComputeTensorStats(*checkpoint, *checkpoint->FindInfo("x.int")).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(InspectTest, VerifyWithoutManifestReportsDigests) {
  const VerifyReport report = VerifyFiles(*Open(), std::nullopt).value();
  ASSERT_EQ(report.files.size(), 7u);
  EXPECT_TRUE(report.sound);
  for (const VerifiedFile& file : report.files) {
    EXPECT_EQ(file.sha256, ToHex(Sha256Of(ReadText(dir_ / file.name)))) << file.name;
    EXPECT_EQ(file.bytes, fs::file_size(dir_ / file.name));
  }
}

TEST_F(InspectTest, VerifyAgainstAManifest) {
  WriteText(dir_ / "sub/extra.txt", "extra");
  std::string manifest;
  for (const char* name : {"config.json", "model-00001-of-00005.safetensors", "sub/extra.txt"}) {
    manifest += ToHex(Sha256Of(ReadText(dir_ / name))) + "  " + name + "\n";
  }
  EXPECT_TRUE(VerifyFiles(*Open(), manifest).value().sound);
  EXPECT_TRUE(
      VerifyFiles(*Open(), Replaced(manifest, "  config.json\n", " *config.json\r\n\n")).value().sound);

  manifest += std::string(64, 'a') + "  model.safetensors.index.json\n" + std::string(64, 'B') +
              "  missing\n" + std::string(64, 'c') + "  ../outside\n" + std::string(64, 'c') +
              "  /etc/passwd\n";
  const VerifyReport report = VerifyFiles(*Open(), manifest).value();
  EXPECT_FALSE(report.sound);
  ASSERT_EQ(report.files.size(), 7u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(report.files[i].ok());
  for (size_t i = 3; i < 7; ++i) EXPECT_FALSE(report.files[i].ok()) << report.files[i].name;
  EXPECT_EQ(report.files[3].problem, "the digest differs");
  EXPECT_TRUE(report.files[5].sha256.empty());
}

/// Writes `bytes` over a tensor's payload from byte `at` on.
void Overwrite(const std::string& dir, const Checkpoint& checkpoint, std::string_view name, uint64_t at,
               std::string_view bytes) {
  const TensorInfo tensor = *checkpoint.FindInfo(name);
  const std::string path = dir + "/" + checkpoint.shards()[static_cast<size_t>(tensor.shard)].name;
  std::string content = ReadText(path);
  content.replace(tensor.file_offset + at, bytes.size(), bytes);
  WriteText(path, content);
}

TEST_F(InspectTest, VerifyNamesTensorsThatHoldNoFiniteNumbers) {
  EXPECT_TRUE(VerifyFiles(*Open(), std::nullopt).value().not_finite.empty());
  const auto checkpoint = Open();
  const auto overwrite = [&](std::string_view name, uint64_t at, std::string_view bytes) {
    Overwrite(dir_.path(), *checkpoint, name, at, bytes);
  };
  overwrite("norm.weight", 2, "\xC0\x7F");                       // NaN
  overwrite("head.weight", 0, std::string_view("\x80\xFF", 2));  // -infinity
  overwrite("layers.0.attn.attn_sink", 4, std::string_view("\x00\x00\xC0\x7F", 4));
  overwrite("layers.1.engram.embed.weight", 5, "\x7F\xFF");
  overwrite("layers.0.attn.wq_b.scale", 1, "\xFF");
  overwrite("layers.0.ffn.experts.3.w2.weight", 0, "\x7F\xFF");  // packed FP4: every code is a number
  for (const bool with_manifest : {false, true}) {
    // A manifest that leaves the shards out says nothing about their codes.
    const std::string manifest = ToHex(Sha256Of(ReadText(dir_ / "config.json"))) + "  config.json\n";
    const VerifyReport report =
        VerifyFiles(*Open(), with_manifest ? std::optional(manifest) : std::nullopt).value();
    EXPECT_FALSE(report.sound);
    std::map<std::string, uint64_t> found;
    for (const NotFinite& one : report.not_finite) found[one.tensor] = one.count;
    EXPECT_EQ(found, (std::map<std::string, uint64_t>{{"norm.weight", 1},
                                                      {"head.weight", 1},
                                                      {"layers.0.attn.attn_sink", 1},
                                                      {"layers.1.engram.embed.weight", 2},
                                                      {"layers.0.attn.wq_b.scale", 1}}));
    for (const VerifiedFile& file : report.files) EXPECT_TRUE(file.ok()) << file.problem;
  }
}

// Pieces of a file end anywhere inside an element.
TEST_F(InspectTest, VerifySeesElementsThatAPieceCuts) {
  for (const uint64_t remainder : {0, 1, 2, 3}) {
    TempDir dir;
    SyntheticOptions options;
    options.write.remainder = remainder;
    options.layout = SyntheticOptions::Layout::kSingleFile;
    options.edit = [](std::vector<SyntheticTensor>& t) {
      t.push_back({{"x.big", StorageDtype::kF32, {size_t{1} << 19}}, 0});
    };
    ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig(), options).ok());
    auto checkpoint = Checkpoint::Open(dir.path()).value();
    const TensorInfo tensor = *checkpoint->FindInfo("x.big");
    // Infinity in every element that contains or touches a multiple of 1 MiB.
    uint64_t expected = 0;
    for (uint64_t piece = uint64_t{1} << 20; piece < tensor.file_offset + tensor.num_bytes;
         piece += 1 << 20) {
      if (piece <= tensor.file_offset) continue;
      const uint64_t at = (piece - tensor.file_offset - 1) / 4 * 4;
      Overwrite(dir.path(), *checkpoint, "x.big", at, std::string_view("\x00\x00\x80\x7F", 4));
      ++expected;
    }
    ASSERT_GE(expected, 1u);
    checkpoint = Checkpoint::Open(dir.path()).value();
    const VerifyReport report = VerifyFiles(*checkpoint, std::nullopt).value();
    ASSERT_EQ(report.not_finite.size(), 1u) << remainder;
    EXPECT_EQ(report.not_finite[0].count, expected) << remainder;
  }
}

TEST_F(InspectTest, VerifyRefusesWhatIsNoManifest) {
  for (const std::string& text : {std::string("x"), std::string(64, 'g') + "  a", std::string(64, 'a') + " a",
                                  std::string(64, 'a') + "  ", std::string(63, 'a') + "   a"}) {
    EXPECT_EQ(VerifyFiles(*Open(), text).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST_F(InspectTest, VerifyCanBeInterrupted) {
  uint64_t seen = 0;
  const auto stop = [&seen](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    seen = done;
    return false;
  };
  EXPECT_EQ(VerifyFiles(*Open(), std::nullopt, stop).status().code(), StatusCode::kCancelled);
  EXPECT_GT(seen, 0u);
}

// FIPS 180-4 examples.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(ToHex(Sha256Of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256Of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.Finish(), Sha256Of("abc"));
}

}  // namespace
}  // namespace deepinfer
