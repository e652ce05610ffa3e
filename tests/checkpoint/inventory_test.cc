// The inventory formulas against the published figures (checkpoint.md §4, §6, §10) and the faults of §10's negative corpus.
#include "checkpoint/inventory.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "checkpoint/synthetic.h"
#include "temp_dir.h"

namespace deepinfer {
namespace {

using testing::TempDir;

TEST(Inventory, ReleasedModel) {
  const InventoryTotals t = ExpectedTotals(ReleasedConfig());
  EXPECT_EQ(t.all, (ClassTotal{96'085, 510'286'023'000}));
  EXPECT_EQ(t.of(WeightClass::kLayers), (ClassTotal{1'251, 7'199'083'968}));
  EXPECT_EQ(t.of(WeightClass::kRoutedExperts), (ClassTotal{92'160, 288'777'830'400}));
  EXPECT_EQ(t.of(WeightClass::kEngramTables), (ClassTotal{4, 202'758'032'400}));
  EXPECT_EQ(t.of(WeightClass::kEmbed), (ClassTotal{1, 1'323'827'200}));
  EXPECT_EQ(t.of(WeightClass::kHead), (ClassTotal{2, 1'323'837'440}));
  EXPECT_EQ(t.of(WeightClass::kVision), (ClassTotal{266, 970'536'960}));
  EXPECT_EQ(t.of(WeightClass::kDraft), (ClassTotal{2'401, 7'932'874'632}));
  EXPECT_EQ(t.draft_experts.bytes, 7'219'445'760u);
}

TEST(Inventory, ReleasedElementsByDtype) {
  const InventoryTotals t = ExpectedTotals(ReleasedConfig());
  EXPECT_EQ(t.of(StorageDtype::kBf16).bytes / 2, 1'976'441'856u);
  EXPECT_EQ(t.of(StorageDtype::kF32).bytes / 4, 42'307'282u);
  EXPECT_EQ(t.of(StorageDtype::kF8E4M3).bytes, 204'015'223'296u);
  EXPECT_EQ(t.of(StorageDtype::kI8).bytes * 2, 557'171'343'360u);
  EXPECT_EQ(t.of(StorageDtype::kF8E8M0).bytes, 23'563'015'184u);
}

TEST(Inventory, ReleasedShardsOfTheLayers) {
  std::map<std::string, ClassTotal> shards;  // layer without engram.*, as in checkpoint.md §2
  ForEachExpectedTensor(ReleasedConfig(), [&](const ExpectedTensor& t) {
    if (t.name.find(".engram.") != std::string_view::npos) {
      shards["engram " + std::string(t.name.substr(0, t.name.find(".engram.")))].bytes += t.num_bytes();
      return;
    }
    const std::string_view rest = t.name.substr(t.name.find('.') + 1);
    ClassTotal& total = shards[std::string(t.name.substr(0, t.name.find('.') + 1)) +
                               std::string(rest.substr(0, rest.find('.')))];
    ++total.tensors;
    total.bytes += t.num_bytes();
  });
  EXPECT_EQ(shards["layers.0"], (ClassTotal{2'334, 7'389'500'888}));
  EXPECT_EQ(shards["layers.39"], (ClassTotal{2'334, 7'389'500'888}));
  for (const char* layer : {"layers.2", "layers.8", "layers.14"})
    EXPECT_EQ(shards[layer], (ClassTotal{2'342, 7'405'694'680})) << layer;
  EXPECT_EQ(shards["layers.20"], (ClassTotal{2'341, 7'400'451'800}));
  for (const char* layer : {"layers.24", "layers.28", "layers.32", "layers.36"})
    EXPECT_EQ(shards[layer], (ClassTotal{2'337, 7'395'076'568})) << layer;
  EXPECT_EQ(shards["mtp.0"], (ClassTotal{801, 2'652'643'800}));
  EXPECT_EQ(shards["mtp.1"], (ClassTotal{798, 2'573'913'560}));
  EXPECT_EQ(shards["mtp.2"], (ClassTotal{802, 2'706'317'272}));
  EXPECT_EQ(shards["engram layers.1"].bytes, 101'535'150'272u);
  EXPECT_EQ(shards["engram layers.14"].bytes, 101'537'925'968u);
}

TEST(Inventory, SyntheticModel) {
  const InventoryTotals t = ExpectedTotals(SyntheticConfig());
  EXPECT_EQ(t.all, (ClassTotal{852, 4'006'944}));
  EXPECT_EQ(t.of(StorageDtype::kBf16), (ClassTotal{105, 750'272}));
  EXPECT_EQ(t.of(StorageDtype::kF32), (ClassTotal{99, 1'084'504}));
  EXPECT_EQ(t.of(StorageDtype::kF8E4M3), (ClassTotal{96, 1'177'344}));
  EXPECT_EQ(t.of(StorageDtype::kF8E8M0), (ClassTotal{324, 60'936}));
  EXPECT_EQ(t.of(StorageDtype::kI8), (ClassTotal{228, 933'888}));
}

TEST(Inventory, NamesAreUniqueAndClassifiedAlike) {
  std::set<std::string> names;
  ForEachExpectedTensor(ReleasedConfig(), [&](const ExpectedTensor& t) {
    EXPECT_TRUE(names.emplace(t.name).second) << t.name;
    EXPECT_EQ(ClassifyTensor(t.name), t.weight_class) << t.name;
  });
  for (const char* name :
       {"layers.1.engram.embed.scale", "layers.20.attn.compressor.norm.weight",
        "layers.36.attn.indexer.wq_b.scale", "mtp.2.confidence_head.proj.weight", "mtp.0.main_proj.scale",
        "image_newline", "aligner.w2.bias", "vision.blocks.31.mlp.w2.weight",
        "layers.39.ffn.experts.383.w3.scale", "mtp.1.ffn.gate.bias_vl"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const char* name : {"layers.20.attn.compressor.wgate.weight", "layers.24.attn.indexer.wk.weight",
                           "mtp.1.main_norm.weight", "mtp.0.norm.weight", "layers.2.engram.q_weight",
                           "mtp.0.ffn.experts.128.w1.weight"}) {
    EXPECT_FALSE(names.contains(name)) << name;
  }
}

TEST(Inventory, OneStageDraftHasAllPartsInStageZero) {
  ModelConfig config = SyntheticConfig();
  config.num_nextn_predict_layers = 1;
  config.compress_ratios.resize(9);
  std::set<std::string> names;
  ForEachExpectedTensor(config, [&](const ExpectedTensor& t) { names.emplace(t.name); });
  for (const char* name : {"mtp.0.main_proj.weight", "mtp.0.main_norm.weight", "mtp.0.norm.weight",
                           "mtp.0.markov_head.embed.weight", "mtp.0.markov_head.head.weight",
                           "mtp.0.confidence_head.proj.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Inventory, RaggedOutputsRoundTheScaleRowsUp) {
  ModelConfig config = SyntheticConfig();
  config.o_groups = 2;
  config.o_lora_rank = 48;  // 96 rows; with one group of 33 they would be ragged
  config.index_n_heads = 3;
  ASSERT_TRUE(Validate(config).ok());
  ForEachExpectedTensor(config, [&](const ExpectedTensor& t) {
    if (t.name == "layers.0.attn.wo_a.scale") {
      EXPECT_EQ(t.shape[0], 3u);
    }
  });
}

// --- Faults ------------------------------------------------------------------------------------------------------------------

InventoryReport ReportOf(std::function<void(std::vector<SyntheticTensor>&)> edit,
                         const InventoryOptions& inventory = {}) {
  const TempDir dir;
  SyntheticOptions options;
  options.sparse = true;
  options.edit = std::move(edit);
  EXPECT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig(), options).ok());
  const auto checkpoint = Checkpoint::Open(dir.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  return CheckInventory(**checkpoint, inventory);
}

void Remove(std::vector<SyntheticTensor>& tensors, std::string_view name) {
  std::erase_if(tensors, [name](const SyntheticTensor& t) { return t.spec.name == name; });
}

TensorSpec& SpecOf(std::vector<SyntheticTensor>& tensors, std::string_view name) {
  for (SyntheticTensor& t : tensors) {
    if (t.spec.name == name) return t.spec;
  }
  throw std::runtime_error("no tensor " + std::string(name));
}

void ExpectMismatch(const InventoryReport& report, std::string_view name, std::string_view expected,
                    std::string_view found) {
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.unexpected.empty());
  ASSERT_EQ(report.mismatched.size(), 1u);
  EXPECT_EQ(report.mismatched[0].name, name);
  EXPECT_EQ(report.mismatched[0].expected, expected);
  EXPECT_EQ(report.mismatched[0].found, found);
  EXPECT_EQ(report.ToStatus().code(), StatusCode::kDataLoss);
}

TEST(InventoryFault, None) {
  const InventoryReport report = ReportOf(nullptr);
  EXPECT_TRUE(report.sound());
  EXPECT_TRUE(report.ToStatus().ok());
}

TEST(InventoryFault, MissingScale) {
  const InventoryReport report = ReportOf([](auto& t) { Remove(t, "layers.3.attn.wq_a.scale"); });
  EXPECT_EQ(report.missing, std::vector<std::string>{"layers.3.attn.wq_a.scale"});
  EXPECT_FALSE(report.sound());
}

TEST(InventoryFault, ScaleOfThe128BlockShape) {
  ExpectMismatch(ReportOf([](auto& t) { SpecOf(t, "layers.0.attn.wq_b.scale").shape = {2, 1}; }),
                 "layers.0.attn.wq_b.scale", "F8_E8M0 [8, 2]", "F8_E8M0 [2, 1]");
}

TEST(InventoryFault, ExpertScaleTiledLikeADenseOne) {
  ExpectMismatch(ReportOf([](auto& t) { SpecOf(t, "layers.0.ffn.experts.1.w2.scale").shape = {4, 2}; }),
                 "layers.0.ffn.experts.1.w2.scale", "F8_E8M0 [128, 2]", "F8_E8M0 [4, 2]");
}

TEST(InventoryFault, ExpertOfUnpackedWidth) {
  ExpectMismatch(ReportOf([](auto& t) { SpecOf(t, "layers.5.ffn.experts.7.w1.weight").shape = {64, 128}; }),
                 "layers.5.ffn.experts.7.w1.weight", "I8 [64, 64]", "I8 [64, 128]");
}

TEST(InventoryFault, SwappedEngramTables) {
  const InventoryReport report = ReportOf([](auto& t) {
    std::swap(SpecOf(t, "layers.1.engram.embed.weight").shape,
              SpecOf(t, "layers.2.engram.embed.weight").shape);
    std::swap(SpecOf(t, "layers.1.engram.embed.scale").shape, SpecOf(t, "layers.2.engram.embed.scale").shape);
  });
  EXPECT_EQ(report.mismatched.size(), 4u);
}

TEST(InventoryFault, VisionBiasMissing) {
  const InventoryReport report = ReportOf([](auto& t) { Remove(t, "layers.4.ffn.gate.bias_vl"); });
  EXPECT_EQ(report.missing, std::vector<std::string>{"layers.4.ffn.gate.bias_vl"});
}

TEST(InventoryFault, WrongDtype) {
  ExpectMismatch(
      ReportOf([](auto& t) { SpecOf(t, "layers.2.attn.compressor.wkv.weight").dtype = StorageDtype::kF32; }),
      "layers.2.attn.compressor.wkv.weight", "BF16 [64, 128]", "F32 [64, 128]");
}

TEST(InventoryFault, TransposedWeight) {
  ExpectMismatch(ReportOf([](auto& t) { SpecOf(t, "layers.2.attn.wq_a.weight").shape = {128, 64}; }),
                 "layers.2.attn.wq_a.weight", "F8_E4M3 [64, 128]", "F8_E4M3 [128, 64]");
}

TEST(InventoryFault, EverythingIsListedAtOnce) {
  const InventoryReport report = ReportOf([](auto& t) {
    Remove(t, "norm.weight");
    Remove(t, "layers.0.attn.attn_sink");
    SpecOf(t, "head.weight").name = "lm_head.weight";
    SpecOf(t, "embed.weight").shape = {511, 128};
    t.push_back({{"layers.8.attn_norm.weight", StorageDtype::kBf16, {128}}, 0});
  });
  EXPECT_EQ(report.missing,
            (std::vector<std::string>{"head.weight", "layers.0.attn.attn_sink", "norm.weight"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"layers.8.attn_norm.weight", "lm_head.weight"}));
  ASSERT_EQ(report.mismatched.size(), 1u);
  const std::string text = report.ToStatus().ToString();
  for (const char* part :
       {"3 tensors missing", "2 unexpected", "1 of another dtype", "lm_head.weight", "BF16 [511, 128]"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(InventoryFault, DraftAndVisionAreOptionalByFeature) {
  const auto without = [](std::string_view prefix) {
    return [prefix](std::vector<SyntheticTensor>& t) {
      std::erase_if(t, [prefix](const SyntheticTensor& s) { return s.spec.name.starts_with(prefix); });
    };
  };
  EXPECT_FALSE(ReportOf(without("mtp.")).sound());
  EXPECT_TRUE(ReportOf(without("mtp."), {.draft = false}).sound());
  EXPECT_FALSE(ReportOf(without("vision.")).sound());
  EXPECT_TRUE(ReportOf(without("vision."), {.vision = false}).sound());
  const auto extra = [](std::vector<SyntheticTensor>& t) {
    t.push_back({{"mtp.7.x", StorageDtype::kBf16, {1}}, 0});
  };
  EXPECT_EQ(ReportOf(extra).unexpected, std::vector<std::string>{"mtp.7.x"});
  EXPECT_TRUE(ReportOf(extra, {.draft = false}).sound());
}

TEST(InventoryFault, U8ContainersNeedTheOption) {
  const auto edit = [](std::vector<SyntheticTensor>& tensors) {
    for (SyntheticTensor& t : tensors) {
      if (t.spec.dtype == StorageDtype::kI8 || t.spec.dtype == StorageDtype::kF8E8M0)
        t.spec.dtype = StorageDtype::kU8;
    }
  };
  EXPECT_EQ(ReportOf(edit).mismatched.size(), 228u + 324u);
  EXPECT_TRUE(ReportOf(edit, {.accept_u8 = true}).sound());
  EXPECT_FALSE(
      ReportOf([](auto& t) { SpecOf(t, "norm.weight").dtype = StorageDtype::kU8; }, {.accept_u8 = true})
          .sound());
}

// A config that asks for hundreds of thousands of tensors beside a small folder must not fill memory.
TEST(InventoryFault, HostileConfigBesideASmallFolder) {
  const TempDir dir;
  ModelConfig config = SyntheticConfig();
  config.num_hidden_layers = 40;
  config.n_routed_experts = 4000;
  config.compress_ratios.assign(43, 0);
  std::fill(config.compress_ratios.begin() + 2, config.compress_ratios.begin() + 4, 2);
  std::fill(config.compress_ratios.begin() + 4, config.compress_ratios.begin() + 40, 1);
  ASSERT_TRUE(Validate(config).ok()) << Validate(config).ToString();
  SyntheticOptions options;
  options.sparse = true;
  ASSERT_TRUE(WriteSyntheticCheckpoint(dir.path(), SyntheticConfig(), options).ok());
  testing::WriteText(dir / "config.json", SerializeConfig(config));
  const InventoryReport report = CheckInventory(**Checkpoint::Open(dir.path()));
  EXPECT_EQ(report.missing.size(), 200'000u);
}

}  // namespace
}  // namespace deepinfer
