#include "checkpoint/engram_constants.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/synthetic.h"

namespace deepinfer {
namespace {

EngramConstants Constants(const ModelConfig& config) { return ComputeEngramConstants(config).value(); }

TEST(EngramConstants, ReleasedPrimesAreThePublishedOnes) {
  const EngramConstants constants = Constants(ReleasedConfig());
  ASSERT_EQ(constants.layers.size(), 2u);
  const std::vector<int64_t> layer1 = {16000057, 16000079, 16000081, 16000097, 16000121, 16000129,
                                       16000133, 16000183, 16000189, 16000207, 16000211, 16000253,
                                       16000277, 16000289, 16000307, 16000321, 16000339, 16000381,
                                       16000393, 16000399, 16000403, 16000409, 16000447, 16000463};
  const std::vector<int64_t> layer14 = {16000477, 16000487, 16000499, 16000507, 16000511, 16000573,
                                        16000609, 16000627, 16000667, 16000669, 16000693, 16000697,
                                        16000711, 16000729, 16000759, 16000769, 16000781, 16000799,
                                        16000813, 16000819, 16000841, 16000877, 16000879, 16000889};
  EXPECT_EQ(constants.layers[0].layer_id, 1);
  EXPECT_EQ(constants.layers[0].primes, layer1);
  EXPECT_EQ(constants.layers[1].layer_id, 14);
  EXPECT_EQ(constants.layers[1].primes, layer14);
  EXPECT_EQ(constants.layers[0].num_rows, 384006168);
  EXPECT_EQ(constants.layers[1].num_rows, 384016682);
  EXPECT_EQ(constants.prime(1, 3, 7), 16000769);
}

TEST(EngramConstants, ReleasedMultipliersAreThePublishedOnes) {
  const EngramConstants constants = Constants(ReleasedConfig());
  EXPECT_EQ(constants.layers[0].multipliers,
            (std::vector<int64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(constants.layers[1].multipliers,
            (std::vector<int64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
}

TEST(EngramConstants, OffsetsAreRunningSums) {
  for (const EngramLayerConstants& layer : Constants(ReleasedConfig()).layers) {
    int64_t sum = 0;
    for (size_t c = 0; c < layer.primes.size(); ++c) {
      EXPECT_EQ(layer.offsets[c], sum);
      sum += layer.primes[c];
    }
    EXPECT_EQ(sum, layer.num_rows);
  }
}

// Rows of the prompt `0 671 6102 294 8760 344` at position 5 (checkpoint.md §9.4), from its compressed ids.
TEST(EngramConstants, GoldenRowsFollow) {
  const EngramConstants constants = Constants(ReleasedConfig());
  const std::vector<int64_t> ids = {242, 7208, 251, 5095};
  const std::vector<std::vector<int64_t>> expected = {
      {8434518,   28335418,  33056762,  54845833,  79590735,  82522014,  107990915, 114522034,
       130425857, 150965795, 160866148, 176873966, 204352630, 218104334, 238747352, 249482421,
       265625474, 283863772, 292296123, 304668435, 328974802, 341520388, 359388308, 379106837},
      {15511642,  19799350,  44525188,  61239392,  69665586,  94157954,  98489139,  126054713,
       139053356, 149796646, 167594211, 189386395, 202012761, 221347336, 228940866, 253372258,
       257015096, 287916013, 294274728, 315314213, 323264185, 338209388, 366614273, 380659356}};
  for (size_t l = 0; l < 2; ++l) {
    const EngramLayerConstants& layer = constants.layers[l];
    int64_t hash = ids[0] * layer.multipliers[0];
    std::vector<int64_t> rows;
    for (size_t s = 1; s < 4; ++s) {
      hash ^= ids[s] * layer.multipliers[s];
      for (size_t head = 0; head < 8; ++head) {
        const size_t column = (s - 1) * 8 + head;
        rows.push_back(hash % layer.primes[column] + layer.offsets[column]);
      }
    }
    EXPECT_EQ(rows, expected[l]);
  }
}

TEST(EngramConstants, TinyConfigurations) {
  ModelConfig tiny = ReleasedConfig();  // the TINY of model.md §15
  tiny.engram_layer_ids = {1, 3};
  tiny.engram_n_heads = 2;
  tiny.engram_vocab_size = 100;
  tiny.engram_compressed_vocab_size = 256;
  const EngramConstants constants = Constants(tiny);
  EXPECT_EQ(constants.layers[0].primes, (std::vector<int64_t>{101, 103, 107, 109, 113, 127}));
  EXPECT_EQ(constants.layers[1].primes, (std::vector<int64_t>{131, 137, 139, 149, 151, 157}));
  EXPECT_EQ(constants.layers[0].multipliers, (std::vector<int64_t>{29662608052400909, 1873410163432121,
                                                                   13919202536988139, 28638879857136817}));
  EXPECT_EQ(constants.layers[1].multipliers, (std::vector<int64_t>{10655090275895937, 31608505986136395,
                                                                   4210609209496719, 27210409204648803}));

  const EngramConstants synthetic = Constants(SyntheticConfig());
  EXPECT_EQ(synthetic.layers[0].primes, (std::vector<int64_t>{97, 101, 103, 107, 109, 113}));
  EXPECT_EQ(synthetic.layers[1].primes, (std::vector<int64_t>{127, 131, 137, 139, 149, 151}));
}

// Independent of the running search: every order restarts and skips what is used.
TEST(EngramConstants, EqualsTheRuleByTrialDivision) {
  ModelConfig config = ReleasedConfig();
  config.engram_vocab_size = 50;
  config.engram_n_heads = 3;
  config.engram_max_ngram_size = 5;
  std::vector<int64_t> used;
  for (const EngramLayerConstants& layer : Constants(config).layers) {
    size_t column = 0;
    for (int order = 2; order <= config.engram_max_ngram_size; ++order) {
      int64_t candidate = config.engram_vocab_size - 1;
      for (int head = 0; head < config.engram_n_heads; ++head) {
        const auto is_free_prime = [&used](int64_t n) {
          for (int64_t d = 2; d * d <= n; ++d) {
            if (n % d == 0) return false;
          }
          return std::find(used.begin(), used.end(), n) == used.end();
        };
        do ++candidate;
        while (!is_free_prime(candidate));
        used.push_back(candidate);
        EXPECT_EQ(layer.primes[column++], candidate);
      }
    }
  }
}

TEST(EngramConstants, HashesNeverOverflow) {
  for (const ModelConfig& config : {ReleasedConfig(), SyntheticConfig()}) {
    for (const EngramLayerConstants& layer : Constants(config).layers) {
      for (const int64_t m : layer.multipliers) {
        EXPECT_EQ(m & 1, 1);
        int64_t product = 0;
        EXPECT_FALSE(__builtin_mul_overflow(m, config.engram_compressed_vocab_size - 1, &product));
      }
    }
  }
}

TEST(EngramConstants, RefusesWhatIsOutOfRange) {
  ModelConfig config = ReleasedConfig();
  config.engram_max_ngram_size = 100;
  EXPECT_EQ(ComputeEngramConstants(config).status().code(), StatusCode::kDataLoss);
  config = ReleasedConfig();
  config.engram_vocab_size = int64_t{1} << 62;
  EXPECT_EQ(ComputeEngramConstants(config).status().where(), "engram_vocab_size");
  config = ReleasedConfig();
  config.engram_compressed_vocab_size = 0;
  EXPECT_FALSE(ComputeEngramConstants(config).ok());
}

// numpy.random.PCG64(10007).random_raw(3) and default_rng(2**40 + 5).integers(0, 2**50, size=2), NumPy 2.4.6.
TEST(NumpyPcg64, EqualsNumpy) {
  NumpyPcg64 generator(10007);
  EXPECT_EQ(generator.Next(), 15187255322829266483u);
  EXPECT_EQ(generator.Next(), 959186003677246517u);
  EXPECT_EQ(generator.Next(), 7126631698937927467u);
  NumpyPcg64 bounded((uint64_t{1} << 40) + 5);
  EXPECT_EQ(bounded.NextBounded(uint64_t{1} << 50), 5336156868223u);
  EXPECT_EQ(bounded.NextBounded(uint64_t{1} << 50), 419492946627781u);
}

TEST(NumpyPcg64, BoundedDrawsStayBelow) {
  NumpyPcg64 generator(10007);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(generator.NextBounded(uint64_t{3} << 40), uint64_t{3} << 40);
}

}  // namespace
}  // namespace deepinfer
