"""Configuration of the demo model: every architectural feature of DeepSeek-V4.1-Flash at toy size."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "reference"))

from config import BackboneConfig  # noqa: E402
from engram import bucket_primes  # noqa: E402

ENGRAM_START = 3000


def read_token_map(directory: str | Path) -> list[int]:
    data = (Path(directory) / "engram_token_map.i32").read_bytes()
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def demo_config(token_map: list[int], noise_id: int, image_id: int) -> BackboneConfig:
    primes = bucket_primes(2, 4, 2, ENGRAM_START)
    return BackboneConfig(
        vocab_size=4096,
        hidden_size=256,
        moe_intermediate_size=128,
        num_hidden_layers=12,
        num_attention_heads=8,
        head_dim=64,
        qk_rope_head_dim=16,
        q_lora_rank=128,
        o_lora_rank=128,
        o_groups=2,
        swiglu_limit=10.0,
        rope_theta=10000,
        compress_rope_theta=160000,
        rope_factor=16,
        original_max_position_embeddings=512,
        max_position_embeddings=8192,
        n_routed_experts=8,
        num_experts_per_tok=2,
        routed_scaling_factor=1.5,
        sliding_window=64,
        compress_ratios=(0, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0),
        kv_source_layer_ids=(1, 3, 6),
        index_source_layer_ids=(1, 3, 6, 8, 10),
        index_n_heads=4,
        index_head_dim=64,
        index_topk=64,
        candidate_source_layer_id=6,
        candidate_topk_blocks=32,
        candidate_block_size=8,
        engram_layer_ids=(1, 3),
        engram_num_embeddings=tuple(sum(sum(order) for order in layer) for layer in primes),
        engram_max_ngram_size=4,
        engram_vocab_size=ENGRAM_START,
        engram_n_heads=2,
        engram_head_dim=32,
        engram_compressed_vocab_size=max(token_map) + 1,
        num_nextn_predict_layers=3,
        dspark_block_size=5,
        dspark_noise_token_id=noise_id,
        dspark_target_layer_ids=(9, 10, 11),
        dspark_markov_rank=64,
        dspark_n_routed_experts=4,
        dspark_num_experts_per_tok=2,
        image_token_id=image_id,
    )
