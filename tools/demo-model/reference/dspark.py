"""DSpark draft of DeepSeek-V4.1-Flash (dspark.md sections 1 and 2): forward pass and acceptance rules.

    backbone, draft = load_with_draft(CHECKPOINT_FOLDER)
    out = backbone(ids, state)                                   # out.taps: inputs of the target layers
    rows = draft.context_rows(join_taps(cfg, out.taps), positions)   # per stage, one row per committed position
    block = draft.run(anchor, position, [r.values for r in rows])    # 5 drafts for positions position+1 ..

Same numerics policy as the backbone (parity mode). Parameter names equal the checkpoint's (`mtp.*`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import quant
from attention import Recorder, sparse_attention
from backbone import Backbone, Block, Embedding, collapse, expand
from checkpoint import load_parameters, load_token_map, read_checkpoint
from config import BackboneConfig
from numerics import Numerics, QLinear, RMSNorm


class MarkovHead(nn.Module):
    def __init__(self, vocab: int, rank: int) -> None:
        super().__init__()
        self.embed = Embedding(vocab, rank)
        self.head = QLinear(rank, vocab, "fp32")


class ConfidenceHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = QLinear(width, 1, "fp32")


@dataclass
class DraftOutput:
    """One cycle. n = block size; row i predicts the token after block row i."""

    ids: list[int]  # n drafts, each the argmax of its row unless `forced` was given
    hidden: torch.Tensor  # h, bf16 [n, D], not normalised
    base: torch.Tensor  # U, fp32 [n, V]
    markov: torch.Tensor  # H e_i, fp32 [n, V]
    logits: torch.Tensor  # L = U + H e, fp32 [n, V]
    confidence: torch.Tensor  # zeta, fp32 [n], before the sigmoid


class Draft(nn.Module):
    """`mtp.*`: the stages reuse the backbone's Block; embedding and LM head are the target's."""

    def __init__(self, cfg: BackboneConfig, backbone: Backbone) -> None:
        super().__init__()
        self.cfg, self.num = cfg, backbone.num
        self.shared = [backbone]  # not a submodule
        stage_cfg = dataclasses.replace(
            cfg, n_routed_experts=cfg.dspark_n_routed_experts, num_experts_per_tok=cfg.dspark_num_experts_per_tok
        )
        self.mtp = nn.ModuleList([Block(stage_cfg, cfg.num_hidden_layers + s) for s in range(cfg.num_nextn_predict_layers)])
        first, last, d = self.mtp[0], self.mtp[-1], cfg.hidden_size
        first.main_proj = QLinear(d * len(cfg.dspark_target_layer_ids), d, "fp8")
        first.main_norm = RMSNorm(d, cfg.rms_norm_eps)
        last.norm = RMSNorm(d, cfg.rms_norm_eps)
        last.markov_head = MarkovHead(cfg.vocab_size, cfg.dspark_markov_rank)
        last.confidence_head = ConfidenceHead(d + cfg.dspark_markov_rank)

    # -- context (section 1.5, "Context KV") --------------------------------------------------------------

    def main_hidden(self, taps: torch.Tensor) -> torch.Tensor:
        """taps bf16 [T, n_taps * D] -> m bf16 [T, D], shared by all stages."""
        return self.mtp[0].main_norm(self.mtp[0].main_proj(taps, self.num), self.num)

    def context_quantised(self, taps: torch.Tensor, positions: torch.Tensor) -> list[quant.Quantised]:
        """Ring rows of committed positions, per stage (values, codes, scales)."""
        m = self.main_hidden(taps)
        return [quant.fp8_act(s.attn.window_kv(m, s.attn.rope.tables(positions), self.num)) for s in self.mtp]

    def context_rows(self, taps: torch.Tensor, positions: torch.Tensor) -> list[torch.Tensor]:
        """The same rows as bf16 values [T, d]."""
        return [row.values.to(torch.bfloat16) for row in self.context_quantised(taps, positions)]

    # -- block (section 1.5) ------------------------------------------------------------------------------

    def block_ids(self, anchor: int) -> torch.Tensor:
        return torch.tensor([anchor] + [self.cfg.dspark_noise_token_id] * (self.cfg.dspark_block_size - 1))

    def stage(
        self, s: int, x: torch.Tensor, pre: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor, rec: Recorder
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Streams x [n, hc, D], collapse weights pre [n, hc], context rows bf16 [w, d] ascending -> (x, pre)."""
        num, stage, name = self.num, self.mtp[s], f"stage.{s}"
        attn = stage.attn
        tables = attn.rope.tables(positions)
        attn_pre, post, comb = stage.mixes(x, "attn", num)
        u = stage.attn_norm(collapse(x, pre, num), num)
        _, q = attn.query(u, tables, num)
        own = quant.fp8_act(attn.window_kv(u, tables, num)).values.to(torch.bfloat16)
        keys = torch.cat([rows, own])
        slots = torch.arange(keys.shape[0]).expand(x.shape[0], -1)  # all rows see everything: no mask in the block
        heads = sparse_attention(q, keys, slots, attn.attn_sink, self.cfg.head_dim**-0.5, num)
        y = attn.output(heads, tables, num)
        for key, value in (
            ("streams_in", x), ("pre_in", pre), ("attn.input", u), ("attn.q", q), ("attn.block_kv", own),
            ("attn.heads", heads), ("attn.output", y),
        ):  # fmt: skip
            rec.put(f"{name}.{key}", value)
        x = expand(y, x, post, comb, num)
        ffn_pre, post, comb = stage.mixes(x, "ffn", num)
        v = stage.ffn_norm(collapse(x, attn_pre, num), num)
        inner = Recorder(rec.enabled)
        z = stage.ffn(v, None, num, inner)
        for key, value in inner.items():
            rec.put(f"{name}.ffn.{key.split('.ffn.')[1]}", value)
        x = expand(z, x, post, comb, num)
        rec.put(f"{name}.streams_out", x)
        rec.put(f"{name}.pre_out", ffn_pre)
        return x, ffn_pre

    def run(
        self,
        anchor: int,
        position: int,
        context: list[torch.Tensor],
        rec: Recorder | None = None,
        forced: list[int] | None = None,
    ) -> DraftOutput:
        """Anchor token at `position`; context: per stage the rows of positions max(0, position - W) .. position - 1.

        forced: tokens to feed the Markov chain instead of the argmax (sampled drafts).
        """
        cfg, num, backbone = self.cfg, self.num, self.shared[0]
        rec = Recorder(False) if rec is None else rec
        n = cfg.dspark_block_size
        ids = self.block_ids(anchor)
        positions = torch.arange(position, position + n)
        x = num.act(backbone.embed.weight[ids]).unsqueeze(1).repeat(1, cfg.hc_mult, 1)
        pre = torch.zeros(n, cfg.hc_mult)
        pre[:, 0] = 1.0
        for s, rows in enumerate(context):
            x, pre = self.stage(s, x, pre, rows, positions, rec)
        return self.finish(collapse(x, pre, num), anchor, forced)

    def finish(self, h: torch.Tensor, anchor: int, forced: list[int] | None = None) -> DraftOutput:
        """Exit and heads (section 1.5 "Exit", 1.6): h bf16 [n, D], un-normalised."""
        num, last = self.num, self.mtp[-1]
        base = self.shared[0].head(last.norm(h, num), num)
        drafts, markov, logits, confidence, previous = [], [], [], [], anchor
        for i in range(h.shape[0]):
            e = last.markov_head.embed.weight[previous].to(torch.bfloat16)
            bias = last.markov_head.head(e.unsqueeze(0), num)[0]
            row = (base[i].to(num.hi) + bias.to(num.hi)).float()
            confidence.append(last.confidence_head.proj(torch.cat([h[i], e]).float().unsqueeze(0), num).view(()))
            previous = int(row.argmax()) if forced is None else int(forced[i])
            drafts.append(previous)
            markov.append(bias)
            logits.append(row)
        return DraftOutput(drafts, h, base, torch.stack(markov), torch.stack(logits), torch.stack(confidence))

    def block(self, anchor: int, position: int, context: list[torch.Tensor]) -> tuple[list[int], list[float]]:
        """Greedy drafts for positions position+1 .. position+n and the confidence logits."""
        out = self.run(anchor, position, context)
        return out.ids, [float(c) for c in out.confidence]


def join_taps(cfg: BackboneConfig, taps: dict[int, torch.Tensor]) -> torch.Tensor:
    """{layer: [T, D]} -> [T, n_taps * D], target layers in ascending order."""
    return torch.cat([taps[layer] for layer in sorted(cfg.dspark_target_layer_ids)], dim=-1)


def load_with_draft(path: str | Path, num: Numerics | None = None) -> tuple[Backbone, Draft]:
    """Backbone and draft of a checkpoint directory; every stored text tensor must be consumed."""
    path = Path(path)
    cfg = BackboneConfig.load(path)
    tensors = read_checkpoint(path)
    backbone = Backbone(cfg, load_token_map(path / "engram_token_map.i32"), num)
    left = load_parameters(backbone, tensors)
    draft = Draft(cfg, backbone)
    unused = load_parameters(draft, {n: tensors[n] for n in left})
    unused = {n for n in unused if not n.startswith(("vision.", "aligner.", "image_"))}
    if unused:
        raise ValueError(f"unexpected tensors {sorted(unused)[:5]}")
    return backbone.requires_grad_(False).eval(), draft.requires_grad_(False).eval()


# ---------------------------------------------------------------------------------------------------
# Acceptance (sections 2.2 - 2.5). Probabilities fp64 [rows, V]; row i of p follows draft i (row 0: the anchor).
# ---------------------------------------------------------------------------------------------------


def draw(weights: torch.Tensor, u: float) -> int:
    """Inverse CDF in ascending id order: smallest v with weight > 0 and running sum > u * total (fp64)."""
    weights = weights.double()
    running = torch.cumsum(weights, 0)
    above = torch.nonzero((running > u * running[-1]) & (weights > 0))
    return int(above[0]) if len(above) else int(torch.nonzero(weights > 0)[-1])


def accept_greedy(target: list[int], drafts: list[int]) -> tuple[int, int]:
    """target[i]: argmax of row i (len(drafts) + 1 of them) -> accepted count a, token emitted after them."""
    a = 0
    while a < len(drafts) and drafts[a] == target[a]:
        a += 1
    return a, target[a]


def accept_ratio(
    p: torch.Tensor, q: torch.Tensor, drafts: list[int], uniforms: list[float], final: float
) -> tuple[int, int]:
    """Rule R. p [l+1, V], q [l, V], one uniform per draft, `final` for the correction or bonus token."""
    p, q = p.double(), q.double()
    for i, x in enumerate(drafts):
        if uniforms[i] * float(q[i, x]) < float(p[i, x]):
            continue
        residual = (p[i] - q[i]).clamp_min(0)
        return i, draw(residual if float(residual.sum()) > 1e-8 else p[i], final)
    return len(drafts), draw(p[len(drafts)], final)


def accept_match(p: torch.Tensor, drafts: list[int], uniforms: list[float]) -> tuple[int, int]:
    """Rule M: one draw per row from p; accept while the draft equals the drawn token."""
    for i, x in enumerate(drafts):
        y = draw(p[i], uniforms[i])
        if y != x:
            return i, y
    return len(drafts), draw(p[len(drafts)], uniforms[len(drafts)])


def accept_coupled(log_p: torch.Tensor, drafts: list[int], gumbel: torch.Tensor) -> tuple[int, int]:
    """Rule C: gumbel [l+1, V] is the noise of each row's position; the same values produced the drafts."""
    return accept_greedy([int(row.argmax()) for row in log_p.double() + gumbel.double()], drafts)
