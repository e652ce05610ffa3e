// Golden unit vectors of what the model module computes itself: rotary frequencies and Engram rows.
#include <gtest/gtest.h>

#include "checkpoint/engram_constants.h"
#include "model/engram_hash.h"
#include "model/golden_observer.h"
#include "model/model_fixture.h"
#include "model/rope.h"
#include "support/golden_file.h"

namespace deepinfer::testing {
namespace {

TEST(GoldenUnit, RopeFrequencies) {
  const GoldenFile& file = GoldenFile::Shared("tiny_goldens");
  const TestModel tiny = TestModel::Load("goldens/tiny", "reference", 1, 8);
  const ModelConfig& c = tiny.backbone->config();
  ExpectGolden(file, "unit.rope.plain.freqs", model::LayerFrequencies(c, false));
  ExpectGolden(file, "unit.rope.yarn.freqs", model::LayerFrequencies(c, true));
  ExpectGolden(file, "unit.rope.released_plain.freqs", model::LayerFrequencies(ReleasedConfig(), false));
  ExpectGolden(file, "unit.rope.released_yarn.freqs", model::LayerFrequencies(ReleasedConfig(), true));
}

TEST(GoldenUnit, EngramRows) {
  const GoldenFile& file = GoldenFile::Shared("tiny_goldens");
  const Result<EngramConstants> constants = ComputeEngramConstants(ReleasedConfig());
  ASSERT_TRUE(constants.ok());
  const std::span<const int32_t> compressed = file.Ints("unit.engram.compressed");
  for (const auto& [name, dead] :
       {std::pair("unit.engram.rows", false), std::pair("unit.engram.rows_dead2", true)}) {
    std::vector<int32_t> ids(compressed.begin(), compressed.end());
    if (dead) ids[2] = model::kDeadToken;
    std::vector<int32_t> rows;
    for (size_t p = 0; p < ids.size(); ++p) {
      for (const EngramLayerConstants& layer : constants->layers) {
        int64_t out[24];
        model::EngramRows(layer, 8, 4, ids, static_cast<int64_t>(p), 2, out);
        rows.insert(rows.end(), out, out + 24);
      }
    }
    ExpectGolden(file, name, rows);
  }
  file.MarkCompared("unit.engram.compressed");
}

}  // namespace
}  // namespace deepinfer::testing
