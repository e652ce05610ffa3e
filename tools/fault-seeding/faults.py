"""Deliberate faults of the model and the reference kernels, and the test that must fail under each.

An edit is (file below src/, text that occurs exactly once whatever its white space, replacement). `test` is PROGRAM:FILTER with a GoogleTest filter.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    name: str
    meaning: str
    edits: tuple
    test: str


REFERENCE = "kernels/reference/"
GOLDEN = "model_golden_test:All/Golden.EveryTensor/tiny_reference"


def operations(test):
    return f"model_numbers_test:*.{test}/reference"


def numbers(test):
    return f"model_numbers_test:*.{test}"


def structure(test):
    return f"model_structure_test:*.{test}/reference"


def chunking(test):
    return f"model_chunking_test:*.{test}/reference"


def prefill(test):
    return f"model_prefill_test:*.{test}/reference"


def sequence(test):
    return f"model_sequence_test:*.{test}/reference"


def one(name, meaning, file, old, new, test):
    return Fault(name, meaning, ((file, old, new),), test)


FAULTS = [
    # Hyper-connections.
    one("mixing-matrix-transposed", "comb[k][j] for comb[j][k]", REFERENCE + "hyper_connections.cc",
        "mixed += comb[j * n + k] *", "mixed += comb[k * n + j] *",
        operations("Invariant18_FirstIndexOfCombIsTheSource")),
    one("sinkhorn-ends-with-rows", "the last normalisation runs over rows", REFERENCE + "hyper_connections.cc",
        "    for (int64_t j = 0; j < n; ++j) divide_by_sum(j * n, 1);\n    for (int64_t k = 0; k < n; ++k) divide_by_sum(k, n);",
        "    for (int64_t k = 0; k < n; ++k) divide_by_sum(k, n);\n    for (int64_t j = 0; j < n; ++j) divide_by_sum(j * n, 1);",
        operations("Invariant06_ColumnsOfTheMixingMatrixSumToOne")),
    one("ffn-collapsed-by-its-own-site", "V4's hyper-connections: no delay between the sites", "model/forward_pass.cc",
        "  Collapse(b_.pre.data(), b_.collapsed.data(), rows_);\n  HcMixes(weights.hc_ffn);",
        "  HcMixes(weights.hc_ffn);\n  Collapse(b_.pre.data(), b_.collapsed.data(), rows_);",
        structure("Invariant18_SublayersTakeTheWeightsOfTheOneBefore")),
    one("norm-eps", "1e-6 in place of the configured 1e-20", "model/forward_pass.cc",
        ".eps = static_cast<float>(config_.rms_norm_eps), .y = y});", ".eps = 1e-6f, .y = y});", GOLDEN),

    # Number formats and products.
    one("nibble-order", "even element in the high nibble", "tensor/quantize.cc",
        "static_cast<uint8_t>(low | (high << 4))", "static_cast<uint8_t>(high | (low << 4))",
        numbers("Invariant02_EvenElementInTheLowNibble")),
    one("weight-nibble-order", "the same when weights are expanded", REFERENCE + "dot.cc",
        "i % 2 == 0 ? packed[i / 2] & 15", "i % 2 == 1 ? packed[i / 2] & 15",
        operations("Invariant03_Fp4SmallIntegersAreExact")),
    one("scale-of-the-wrong-group", "FP8 tile scale of another 32 inputs", REFERENCE + "dot.cc",
        "w.scales[o / kQuantGroup * scale_columns + k / kQuantGroup]", "w.scales[o / kQuantGroup * scale_columns + k / kQuantGroup / 2]",
        operations("Invariant03_SmallIntegersAreExact")),
    one("weight-scale-of-the-neighbouring-row", "FP4 scale byte of another output", REFERENCE + "dot.cc",
        "w.scales[o * (w.in_features / kQuantGroup) + k / kQuantGroup]",
        "w.scales[(o ^ 1) * (w.in_features / kQuantGroup) + k / kQuantGroup]",
        operations("Invariant03_Fp4SmallIntegersAreExact")),
    one("window-scale-of-the-neighbouring-slot", "scale byte of another ring row", REFERENCE + "state_rows.h",
        "window.scales + slot * groups, dim, out);", "window.scales + (slot + 1) % window.capacity * groups, dim, out);",
        chunking("Invariant11_StepByStepIsPrefill")),
    one("main-scale-rounded-up", "power-of-two scale for the main KV", "tensor/quantize.cc",
        "FloatToE4m3(GroupMax(x, kMainKvGroup, kFloor) / kE2m1Max)",
        "FloatToE4m3(Pow2Scale(GroupMax(x, kMainKvGroup, kFloor), 1.0f / kE2m1Max))",
        numbers("Invariant01_GoldenScales")),
    one("output-groups-swapped", "wo_a reads the heads of another group", REFERENCE + "linear.cc",
        "p.x + g * p.weight.in_features,", "p.x + (p.groups - 1 - g) * p.weight.in_features,",
        operations("Invariant03_GroupsReadTheirOwnInputs")),

    # Rotation.
    one("window-keys-unrotated", "no rotary embedding of the window KV", "model/forward_attention.cc",
        "  Rope(kv, 1, d, b_.cos[kind].data() + from * freqs, b_.sin[kind].data() + from * freqs, count, false);\n",
        "  static_cast<void>(kind * freqs);\n", GOLDEN),
    one("output-not-rotated-back", "inverse rotation missing", "model/forward_attention.cc",
        "  Rope(out, heads, d, cos, sin, rows_, true);\n", "", GOLDEN),
    one("index-key-from-rotated-latent", "the latent is rotated before the index key is made", "model/forward_attention.cc",
        "  Linear(b_.latent.data(), indexer.wk, b_.index_keys.data(), groups);\n",
        "  std::memcpy(b_.entry_rows.data(), b_.latent.data(), static_cast<size_t>(groups * config_.head_dim) * sizeof(Bf16));\n"
        "  Rope(b_.entry_rows.data(), 1, config_.head_dim, b_.entry_cos.data(), b_.entry_sin.data(), groups, false);\n"
        "  Linear(b_.entry_rows.data(), indexer.wk, b_.index_keys.data(), groups);\n", GOLDEN),
    one("entry-at-its-last-token", "entries rotated at the end of their group", "model/forward_attention.cc",
        "static_cast<int32_t>(group * ratio);", "static_cast<int32_t>(group * ratio + ratio - 1);", GOLDEN),
    one("yarn-everywhere", "compressed base and YaRN on ratio-0 layers", "model/rope.cc",
        "  if (!compressed) return PlainFrequencies(config.qk_rope_head_dim, config.rope_theta);\n",
        "  static_cast<void>(compressed);\n", numbers("Invariant05_YarnRampAndFrequencies")),

    # Attention.
    one("window-one-too-long", "W keys back instead of W - 1", REFERENCE + "attention.cc",
        "position - p.window + 1);", "position - p.window);",
        structure("Invariant13_EveryLayerReadsTheListOfItsIndexSource")),
    one("sink-scaled", "the sink logit takes the softmax scale", REFERENCE + "attention.cc",
        "std::exp(sink[h] - max_[head])", "std::exp(sink[h] * scale_ - max_[head])",
        operations("Invariant17_TheSinkIsALogitOfItsOwnAndNotScaled")),
    one("sink-missing", "nothing added to the denominator", REFERENCE + "attention.cc",
        "std::exp(sink[h] - max_[head])", "0 * sink[h]",
        operations("Invariant17_TheSinkIsALogitOfItsOwnAndNotScaled")),
    one("probabilities-not-rounded", "P kept exact in the product with the values", REFERENCE + "attention.cc",
        "const double rounded = ToDouble(ToBf16(p));", "const double rounded = p;",
        operations("Invariant17_ProbabilitiesAreRoundedForTheProductOnly")),

    # Compressed entries and selection.
    one("visibility-off-by-one", "the group that ends at the row itself is not seen", "model/forward_selection.cc",
        "b_.visible[t] = (b_.positions[t] + 1) / plan.ratio;", "b_.visible[t] = b_.positions[t] / plan.ratio;",
        structure("Invariant14_FewVisibleEntriesAreAllSelected")),
    one("top-k-ties", "ties go to the higher entry", REFERENCE + "indexer.cc",
        "return x != y ? x > y : a < b;", "return x != y ? x > y : a > b;",
        operations("Invariant16_TiesGoToTheLowerEntryAndBlock")),
    one("newest-block-not-pinned", "the newest block has to win its place", REFERENCE + "indexer.cc",
        "    if (p.visible[t] > 0) best[static_cast<size_t>((p.visible[t] - 1) / p.candidate_block)] = -kMinusInfinity;\n", "",
        structure("Invariant16_TheNewestBlockIsInEveryPool")),
    one("candidates-ignored", "Reindex layers choose among all entries", "model/layer_plan.cc",
        "entry.uses_candidates = config.is_index_source(layer) && candidates >= 0 && layer > candidates;",
        "entry.uses_candidates = false;", structure("Invariant16_TheNewestBlockIsInEveryPool")),
    one("index-scores-unrounded", "the dot of the index score is not rounded to bf16", REFERENCE + "indexer.cc",
        "std::max(ToDouble(ToBf16(dot)), 0.0)", "std::max(dot, 0.0)", GOLDEN),
    one("stale-tail", "the tokens of an open group are not kept", "model/forward_attention.cc",
        "b_.latent.data(), groups);\n  CommitTails();\n", "b_.latent.data(), groups);\n",
        chunking("Invariant10_ChunkedPrefillIsOneShotPrefill")),
    one("list-of-dropped-rows", "lists do not move with the rows that stay", "model/forward_pass.cc",
        "    MoveRows(b_.topk.data(), config_.index_topk, from, to, count);\n", "",
        prefill("Invariant21_ExactHaloIsFullForTheLastTokenAndAllRings")),

    # Mixture of experts.
    one("router-ties", "ties go to the higher expert", REFERENCE + "moe.cc",
        "return scores[a] + bias[a] > scores[b] + bias[b]; });",
        "const float x = scores[a] + bias[a], y = scores[b] + bias[b]; return x != y ? x > y : a > b; });",
        operations("Invariant07_TiesGoToTheLowerExpert")),
    one("image-bias-ignored", "image rows take the bias of text", REFERENCE + "moe.cc",
        "? p.bias_vl : p.bias;", "? p.bias : p.bias;", operations("Invariant07_ImageRowsTakeTheirOwnBias")),
    one("bias-in-the-weights", "routing weights from biased scores", REFERENCE + "moe.cc",
        "double weight = scores[expert];", "double weight = scores[expert] + bias[expert];",
        operations("Invariant07_WeightsComeFromTheScoresAndSumToTheScale")),
    one("gate-and-up-swapped", "w1 for w3 and w3 for w1", REFERENCE + "moe.cc",
        "Project(ctx, x, rows, expert.w1);\n  const std::vector<Bf16> up = Project(ctx, x, rows, expert.w3);",
        "Project(ctx, x, rows, expert.w3);\n  const std::vector<Bf16> up = Project(ctx, x, rows, expert.w1);",
        operations("Invariant07_ExpertsFollowTheFormula")),
    Fault("routing-weight-after-down", "the routing weight multiplies the expert's output",
          ((REFERENCE + "moe.cc", "weights == nullptr ? hidden : hidden * weights[row]", "weights == nullptr ? hidden : hidden"),
           (REFERENCE + "moe.cc", "sum[i] += ToDouble(y[static_cast<size_t>(row * p.hidden + i)]);",
            "sum[i] += batch.weights[static_cast<size_t>(row)] * ToDouble(y[static_cast<size_t>(row * p.hidden + i)]);")),
          operations("Invariant07_ExpertsFollowTheFormula")),
    one("clamp-missing", "the gate is not clamped", REFERENCE + "moe.cc",
        "        g = std::min(g, limit);  // clamped from above only\n", "", operations("Invariant07_ExpertsFollowTheFormula")),
    one("gate-clamped-from-below", "the gate is clamped on both sides", REFERENCE + "moe.cc",
        "g = std::min(g, limit);", "g = std::clamp(g, -limit, limit);", operations("Invariant07_ExpertsFollowTheFormula")),
    one("shared-expert-missing", "routed experts only", REFERENCE + "moe.cc",
        "ToBf16(total[at] + ToDouble(shared[at]))", "ToBf16(total[at])", operations("Invariant07_ExpertsFollowTheFormula")),

    # Engram.
    one("image-blocks-one-token", "look-backs go on behind an image", "model/engram_hash.cc",
        "blocked = blocked || at < 0", "blocked = at < 0", numbers("Invariant08_ImagesBlockLongerLooks")),
    one("multiplier-order", "multipliers from the farthest token on", "model/engram_hash.cc",
        "layer.multipliers[static_cast<size_t>(distance)]", "layer.multipliers[static_cast<size_t>(max_ngram_size - 1 - distance)]",
        numbers("Invariant08_PublishedRows")),
    Fault("engram-on-images", "image rows get a gate",
          ((REFERENCE + "engram.cc", "const double gate = is_image ? 0.0 :", "const double gate ="),
           (REFERENCE + "engram.cc", "if (is_image) continue;", "")),
          structure("Invariant19_ImagePositionsKeepTheirBits")),

    # Prefill modes, batches and state.
    one("halo-one-row-short", "every window of the halo lacks its first row", "model/layer_plan.cc",
        "from(window_ + (num_layers - 1 - layer) * (window_ - 1));", "from(window_ + (num_layers - 1 - layer) * (window_ - 1) - 1);",
        prefill("Invariant21_ExactHaloIsFullForTheLastTokenAndAllRings")),
    one("replay-window-not-truncated", "replayed rows attend ring slots that were never written", "model/forward_attention.cc",
        "    if (window_begin_[c] > sequence.window_end_[static_cast<size_t>(layer)]) view.first = window_begin_[c];\n", "",
        prefill("Invariant21_ReplayedRowsSeeNothingBeforeTheCut")),
    one("write-floor-ignored", "a replay rewrites the entries of its prefix", "model/forward_attention.cc",
        "std::max(chunks_[c].sequence->write_floor_, int64_t{active_[c].first}) / ratio", "int64_t{active_[c].first} / ratio",
        prefill("Invariant22_ReplayLeavesTheCachedEntriesAlone")),
    one("image-rows-of-another-chunk", "image rows are looked up at the begin of the pass", "model/forward_pass.cc",
        "images ? b_.given_row.data() + a.begin : nullptr", "images ? b_.given_row.data() : nullptr",
        chunking("Invariant12_ASequenceDoesNotSeeItsBatch")),
    one("logits-of-the-first-row", "the last row's logits come from the first", "model/forward_pass.cc",
        "(a.begin + a.rows() - count) * hidden;", "a.begin * hidden;", chunking("Invariant12_TheLastRowIsThatOfAllRows")),
    one("ring-of-one-window", "ring slots by position mod window", "model/state_layout.cc",
        "layout.ring_capacity = config.sliding_window + kMaxRollback;", "layout.ring_capacity = config.sliding_window;",
        sequence("Invariant23_DroppedRowsLeaveNoTrace")),
    one("window-end-not-rolled-back", "rings forget nothing", "model/sequence.cc",
        "  for (int32_t& end : window_end_) end = std::min(end, static_cast<int32_t>(length()));\n", "",
        sequence("Invariant23_DroppedRowsLeaveNoTrace")),
    one("rollback-without-limit", "rollbacks add up beyond what the rings hold", "model/sequence.cc",
        "std::max(prompt, furthest_ - kMaxRollback)", "std::max(prompt, length() - kMaxRollback)",
        sequence("TwoRollbacksDropNoMoreThanOne")),
    one("rollback-into-a-prefix", "rows of an adopted prefix can be dropped", "model/sequence.cc",
        "std::max(sealed_, write_floor_);", "sealed_;", sequence("AnAdoptedPrefixIsAPromptToRollback")),
    one("no-copy-on-write", "a clone writes into shared blocks", "model/sequence.cc",
        "blocks_[block].use_count() == 1", "blocks_[block] != nullptr", sequence("ClonesNeverTouchTheirOrigin")),
    one("tail-not-cloned", "a clone loses the open group", "model/sequence.cc",
        "copy->tails_, Copy(tails_)", "copy->tails_, AlignedBuffer::Allocate(tails_.size())",
        sequence("ClonesNeverTouchTheirOrigin")),
    one("counter-misses-the-window", "attention slots counted without the window's first row", "model/forward_attention.cc",
        "std::min<int64_t>(position - first + 1, config_.sliding_window)", "std::min<int64_t>(position - first, config_.sliding_window)",
        "model_prefill_test:OperationCount.TinyRunsCountWhatTheFormulaSays"),
]
