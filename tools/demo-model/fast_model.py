"""Fast batched training form of the backbone and the DSpark draft.

Mathematically the network of reference/backbone.py; differences are only about speed: weights of all layers are stacked,
experts are evaluated densely, documents are packed into rows (a document never sees its neighbours), and the
pieces are compiled separately so that they are shared by all layers.  Activation, KV-cache and index quantisers
are always simulated (straight-through); weight quantisers are switched on by `quant_weights`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

CUDA = torch.cuda.is_available()


def maybe_compile(fn):
    return torch.compile(fn, dynamic=False) if CUDA else fn


# ---------------------------------------------------------------------------------------------------
# Quantisers (value form, differentiable by straight-through)
# ---------------------------------------------------------------------------------------------------


def pow2_scale(amax: torch.Tensor, inverse_max: float) -> torch.Tensor:
    bits = (amax * inverse_max).view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return (exponent << 23).view(torch.float32)


def round_e4m3(x: torch.Tensor) -> torch.Tensor:
    """fp32 |x| <= 448 -> nearest E4M3 value."""
    if hasattr(torch, "float8_e4m3fn"):
        return x.to(torch.float8_e4m3fn).float()
    bits = x.abs().clamp_min(2.0**-6).view(torch.int32)
    step = ((((bits >> 23) & 0xFF) - 3) << 23).view(torch.float32)
    return torch.round(x / step) * step


def round_e2m1(x: torch.Tensor) -> torch.Tensor:
    """fp32 |x| <= 6 -> nearest E2M1 value, ties to even code."""
    a = x.abs()
    small, middle, large = torch.round(a * 2) * 0.5, torch.round(a), torch.round(a * 0.5) * 2
    return torch.sign(x) * torch.where(a < 2, small, torch.where(a < 4, middle, large))


def q_fp8(x: torch.Tensor, group: int = 32) -> torch.Tensor:
    g = x.float().unflatten(-1, (-1, group))
    scale = pow2_scale(g.abs().amax(-1, keepdim=True).clamp_min(1e-4), 1 / 448)
    return (round_e4m3((g / scale).clamp(-448, 448)) * scale).flatten(-2)


def q_fp4(x: torch.Tensor, group: int = 32) -> torch.Tensor:
    g = x.float().unflatten(-1, (-1, group))
    scale = pow2_scale(g.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-126), 1 / 6)
    return (round_e2m1((g / scale).clamp(-6, 6)) * scale).flatten(-2)


def q_main(x: torch.Tensor) -> torch.Tensor:
    g = x.float().unflatten(-1, (-1, 16))
    scale = round_e4m3((g.abs().amax(-1, keepdim=True).clamp_min(6 * 2.0**-9) / 6).clamp_max(448))
    return (round_e2m1((g / scale).clamp(-6, 6)) * scale).flatten(-2)


def q_tiles(w: torch.Tensor) -> torch.Tensor:
    """[..., out, in] with 32x32 tiles."""
    t = w.float().unflatten(-1, (-1, 32)).unflatten(-3, (-1, 32))
    scale = pow2_scale(t.abs().amax((-1, -3), keepdim=True).clamp_min(1e-4), 1 / 448)
    return (round_e4m3((t / scale).clamp(-448, 448)) * scale).flatten(-4, -3).flatten(-2)


class StraightThrough(torch.autograd.Function):
    """Master weight fp32 -> quantised working copy; gradient passes unchanged."""

    @staticmethod
    def forward(ctx, w, kind, dtype):
        q = {"fp8": q_tiles, "fp4": q_fp4, "rows": q_fp8, "bf16": lambda v: v.to(torch.bfloat16)}[kind](w)
        return q.to(dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad.float(), None, None


def ste(x: torch.Tensor, quantiser) -> torch.Tensor:
    wide = x.float()
    return (wide + (quantiser(wide) - wide).detach()).to(x.dtype)


# ---------------------------------------------------------------------------------------------------
# Sinkhorn: torch form, and a Triton form whose backward solves the fixed-point equations
# ---------------------------------------------------------------------------------------------------


def sinkhorn_torch(logits: torch.Tensor, iters: int, eps: float) -> torch.Tensor:
    c = torch.softmax(logits, dim=-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    return c


if CUDA:
    import triton
    import triton.language as tl

    @triton.jit
    def _start(x):
        x = x - tl.max(x, axis=2)[:, :, None]
        e = tl.exp(x)
        return e / tl.sum(e, axis=2)[:, :, None]

    @triton.jit
    def _sinkhorn_forward(src, dst, n, eps, PAIRS: tl.constexpr, BLOCK: tl.constexpr):
        token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, 4)
        offset = token[:, None, None] * 16 + i[None, :, None] * 4 + i[None, None, :]
        mask = offset < n * 16
        c = _start(tl.load(src + offset, mask=mask, other=0.0)) + eps
        c = c / (tl.sum(c, axis=1)[:, None, :] + eps)
        for _ in range(PAIRS):
            c = c / (tl.sum(c, axis=2)[:, :, None] + eps)
            c = c / (tl.sum(c, axis=1)[:, None, :] + eps)
        tl.store(dst + offset, c, mask=mask)

    @triton.jit
    def _sinkhorn_backward(result, grad, dst, n, PAIRS: tl.constexpr, BLOCK: tl.constexpr):
        """Implicit gradient at the fixed point: P * (G - a 1^T - 1 b^T) with zero row and column sums."""
        token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        i = tl.arange(0, 4)
        offset = token[:, None, None] * 16 + i[None, :, None] * 4 + i[None, None, :]
        mask = offset < n * 16
        p = tl.load(result + offset, mask=mask, other=0.25)
        g = tl.load(grad + offset, mask=mask, other=0.0)
        for _ in range(PAIRS):
            g = g - tl.sum(p * g, axis=2)[:, :, None] / tl.sum(p, axis=2)[:, :, None]
            g = g - tl.sum(p * g, axis=1)[:, None, :] / tl.sum(p, axis=1)[:, None, :]
        tl.store(dst + offset, p * g, mask=mask)

    class SinkhornTriton(torch.autograd.Function):
        @staticmethod
        def forward(ctx, logits, iters, eps):
            logits = logits.contiguous()
            out = torch.empty_like(logits)
            n = logits.numel() // 16
            _sinkhorn_forward[(triton.cdiv(n, 128),)](logits, out, n, eps, PAIRS=iters - 1, BLOCK=128)
            ctx.save_for_backward(out)
            ctx.pairs = iters
            return out

        @staticmethod
        def backward(ctx, grad):
            (result,) = ctx.saved_tensors
            out, grad = torch.empty_like(result), grad.contiguous()
            n = result.numel() // 16
            _sinkhorn_backward[(triton.cdiv(n, 128),)](result, grad, out, n, PAIRS=ctx.pairs, BLOCK=128)
            return out, None, None


USE_TRITON = CUDA


def sinkhorn(logits: torch.Tensor, iters: int = 20, eps: float = 1e-6) -> torch.Tensor:
    if USE_TRITON:
        return SinkhornTriton.apply(logits, iters, eps)
    return sinkhorn_torch(logits, iters, eps)


# ---------------------------------------------------------------------------------------------------
# Pieces (each compiled once per shape)
# ---------------------------------------------------------------------------------------------------


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-20) * weight).to(x.dtype)


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [..., d]; cos, sin broadcastable [..., rope/2]; last channels rotated as adjacent pairs."""
    width = 2 * cos.shape[-1]
    tail = x[..., -width:].float().unflatten(-1, (-1, 2))
    a, b = tail[..., 0], tail[..., 1]
    rotated = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)
    return torch.cat([x[..., :-width], rotated], dim=-1)


def _site_in(x, pre, fn, scale, base, weight):
    """Streams [N, 4, D], collapse weights [N, 4] -> normed input, new pre, post, comb logits."""
    n = x.shape[-2]
    flat = x.flatten(-2)
    inverse = torch.rsqrt(flat.float().square().mean(-1, keepdim=True) + 1e-20)
    m = torch.matmul(flat, fn.t()).float() * inverse
    new_pre = torch.sigmoid(m[..., :n] * scale[0] + base[:n]) + 1e-6
    post = 2 * torch.sigmoid(m[..., n : 2 * n] * scale[1] + base[n : 2 * n])
    comb = (m[..., 2 * n :] * scale[2] + base[2 * n :]).unflatten(-1, (n, n))
    u = (pre.unsqueeze(-1) * x.float()).sum(-2).to(x.dtype)
    return rms(u, weight), new_pre, post, comb


def _site_out(y, x, post, comb):
    wide = x.float()
    mixed = sum(comb[..., j, :].unsqueeze(-1) * wide[..., j, :].unsqueeze(-2) for j in range(x.shape[-2]))
    return (post.unsqueeze(-1) * y.float().unsqueeze(-2) + mixed).to(x.dtype)


def _site_mid(y, x, post, comb, pre, fn, scale, base, weight):
    x = _site_out(y, x, post, comb)
    return (x,) + _site_in(x, pre, fn, scale, base, weight)


def _qkv(x, wq_a, q_norm, wq_b, wkv, kv_norm, cos, sin, heads: int):
    """x [B, T, D] -> q [B, T, H, d], qr [B, T, r], window kv [B, T, d]."""
    xq = ste(x, q_fp8)
    both = torch.matmul(xq, torch.cat([wq_a, wkv]).t())
    qa, kv = both[..., : wq_a.shape[0]], both[..., wq_a.shape[0] :]
    qr = rms(qa, q_norm)
    q = torch.matmul(ste(qr, q_fp8), wq_b.t()).unflatten(-1, (heads, -1))
    q = rope(q, cos.unsqueeze(-2), sin.unsqueeze(-2))
    kv = ste(rope(rms(kv, kv_norm), cos, sin), q_fp8)
    return q, qr, kv


def _attn_out(o, cos, sin, wo_a, wo_b, groups: int):
    o = rope(o, cos.unsqueeze(-2), -sin.unsqueeze(-2))
    g = o.flatten(-2).unflatten(-1, (groups, -1))
    low = torch.cat([torch.matmul(g[..., i, :], w.t()) for i, w in enumerate(wo_a.chunk(groups, 0))], -1)
    return torch.matmul(ste(low, q_fp8), wo_b.t())


def _core(q, kv, main, chosen, window, sink):
    """q [B,T,H,d], kv [B,T,d], main [B,n,d], chosen bool [B,T,n], window bool [B,nb,W,2W] -> o, squared mass summed over heads.

    The square makes heads that look at few entries count in the index target, not those that average over many."""
    b, t, h, d = q.shape
    nb, w = window.shape[1], window.shape[2]
    scale = d**-0.5
    kp = F.pad(kv, (0, 0, w, 0)).unflatten(1, (nb + 1, w))
    kb = torch.cat([kp[:, :-1], kp[:, 1:]], 2).flatten(0, 1)  # [B*nb, 2W, d]
    qb = q.reshape(b * nb, w * h, d)
    sw = torch.matmul(qb, kb.transpose(-1, -2)).view(b, nb, w, h, 2 * w).float() * scale
    sw = torch.where(window.unsqueeze(3), sw, -1e30).view(b, t, h, 2 * w)
    sc = torch.matmul(q.reshape(b, t * h, d), main.transpose(-1, -2)).view(b, t, h, -1).float() * scale
    sc = torch.where(chosen.unsqueeze(2), sc, -1e30)
    top = torch.maximum(sw.amax(-1, keepdim=True), sc.amax(-1, keepdim=True)).detach()
    ew, ec = torch.exp(sw - top), torch.exp(sc - top)
    den = ew.sum(-1, keepdim=True) + ec.sum(-1, keepdim=True) + torch.exp(sink.view(1, 1, h, 1) - top)
    pw, pc = (ew / den).to(q.dtype), (ec / den).to(q.dtype)
    o = torch.matmul(pw.view(b * nb, w * h, 2 * w), kb).view(b, t, h, d)
    o = o + torch.matmul(pc.view(b, t * h, -1), main).view(b, t, h, d)
    return o, pc.detach().float().square().sum(2)


def _core_window(q, kv, window, sink):
    b, t, h, d = q.shape
    nb, w = window.shape[1], window.shape[2]
    kp = F.pad(kv, (0, 0, w, 0)).unflatten(1, (nb + 1, w))
    kb = torch.cat([kp[:, :-1], kp[:, 1:]], 2).flatten(0, 1)
    sw = torch.matmul(q.reshape(b * nb, w * h, d), kb.transpose(-1, -2)).view(b, nb, w, h, 2 * w).float() * d**-0.5
    sw = torch.where(window.unsqueeze(3), sw, -1e30).view(b, t, h, 2 * w)
    top = sw.amax(-1, keepdim=True).detach()
    ew = torch.exp(sw - top)
    den = ew.sum(-1, keepdim=True) + torch.exp(sink.view(1, 1, h, 1) - top)
    return torch.matmul((ew / den).to(q.dtype).view(b * nb, w * h, 2 * w), kb).view(b, t, h, d)


def _compress2(x, wkv, wgate, norm):
    c = torch.matmul(x, wkv.t()).float().unflatten(1, (-1, 2))
    g = torch.matmul(x, wgate.t()).float().unflatten(1, (-1, 2))
    weight = torch.softmax(g, dim=2)
    return rms((weight * c).sum(2).to(x.dtype), norm)


def _compress1(x, wkv, norm):
    return rms(torch.matmul(x, wkv.t()), norm)


def _entries(latent, wk, k_norm, cos, sin):
    """latent [B, n, d] -> main KV, index keys (the latter do not train the latent)."""
    main = ste(rope(latent, cos, sin), q_main)
    keys = rope(rms(torch.matmul(latent.detach(), wk.t()), k_norm), cos, sin)
    return main, ste(keys, q_fp4)


def _index_scores(qr, x, wq_b, weights_proj, keys, cos, sin, heads: int):
    """Inputs detached -> scores fp32 [B, T, n]."""
    b, t, _ = qr.shape
    q = torch.matmul(ste(qr.detach(), q_fp8), wq_b.t()).unflatten(-1, (heads, -1))
    q = ste(rope(q, cos.unsqueeze(-2), sin.unsqueeze(-2)), q_fp4)
    d = q.shape[-1]
    w = torch.matmul(x.detach(), weights_proj.t()).float() * (d**-0.5 * heads**-0.5)
    dot = torch.matmul(q.reshape(b, t * heads, d), keys.transpose(-1, -2)).view(b, t, heads, -1).float()
    return (F.relu(dot) * w.unsqueeze(-1)).sum(2)


def _index_loss(scores, chosen, mass, row_weight):
    """Cross entropy between attention mass and softmax of the scores, weighted mean over rows."""
    total = mass.sum(-1, keepdim=True)
    target = mass / total.clamp_min(1e-6)
    log_q = torch.log_softmax(torch.where(chosen, scores, -1e30), dim=-1)
    ce = -(target * torch.where(chosen, log_q, 0.0)).sum(-1)
    use = torch.where(total.squeeze(-1) > 1e-4, row_weight, 0.0)
    return (ce * use).sum() / use.sum().clamp_min(1)


def _moe(x, gate, bias, w13, w2, s13, s2, k: int):
    """x [N, D]; w13 [E, 2I, D], w2 [E, D, I]; all experts are evaluated, unselected ones get weight 0."""
    e, two, dim = w13.shape
    inner = two // 2
    scores = torch.sqrt(F.softplus(torch.matmul(x.float(), gate.t())))
    biased = scores.detach() + bias
    index = torch.arange(e, device=x.device)
    a, b = biased.unsqueeze(-2), biased.unsqueeze(-1)  # a: competitor j, b: expert i
    ahead = (a > b) | ((a == b) & (index.unsqueeze(0) < index.unsqueeze(1)))
    picked = (ahead.to(torch.int32).sum(-1) < k).float()
    w = scores * picked
    w = w / (w.sum(-1, keepdim=True) + 1e-20) * 1.5
    h = torch.matmul(ste(x, q_fp8), torch.cat([w13.flatten(0, 1), s13]).t()).unflatten(-1, (e + 1, 2, inner)).float()
    g, u = h[..., 0, :].clamp(max=10.0), h[..., 1, :].clamp(-10.0, 10.0)
    w = torch.cat([w, torch.ones_like(w[..., :1])], -1)
    t = (g * torch.sigmoid(g) * u * w.unsqueeze(-1)).to(x.dtype).flatten(-2)
    out = torch.cat([w2.permute(1, 0, 2).reshape(dim, e * inner), s2], -1)
    return torch.matmul(ste(t, q_fp8), out.t()), picked.sum(0)


def _engram(x, e, wkv, q_weight, k_weight):
    """x [N, 4, D], looked-up rows e [N, columns*width]."""
    n, dim = x.shape[-2:]
    kv = torch.matmul(ste(e, q_fp8), wkv.t()).float()
    key, value = kv[..., : n * dim].unflatten(-1, (n, dim)), kv[..., n * dim :]
    h = x.float()
    inverse = torch.rsqrt(h.square().mean(-1) + 1e-20) * torch.rsqrt(key.square().mean(-1) + 1e-20)
    dot = (h * (q_weight * k_weight) * key).sum(-1) * inverse * dim**-0.5
    gate = torch.sigmoid(torch.copysign(dot.abs().clamp_min(1e-6).sqrt(), dot))
    return (h + gate.unsqueeze(-1) * value.unsqueeze(-2)).to(x.dtype)


def _final(x, pre, norm, head):
    u = (pre.unsqueeze(-1) * x.float()).sum(-2).to(x.dtype)
    return torch.matmul(rms(u, norm), head.t())


def _lm_loss(logits, targets, weights):
    """logits [N, V] -> weighted mean loss and argmax hits."""
    wide = logits.float()
    ce = torch.logsumexp(wide, -1) - wide.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (ce * weights).sum() / weights.sum().clamp_min(1)


site_in, site_out, site_mid = maybe_compile(_site_in), maybe_compile(_site_out), maybe_compile(_site_mid)
qkv, attn_out, core, core_window = maybe_compile(_qkv), maybe_compile(_attn_out), maybe_compile(_core), maybe_compile(_core_window)
compress2, compress1, entries = maybe_compile(_compress2), maybe_compile(_compress1), maybe_compile(_entries)
index_scores, index_loss = maybe_compile(_index_scores), maybe_compile(_index_loss)
moe, engram_mix, final = maybe_compile(_moe), maybe_compile(_engram), maybe_compile(_final)
lm_loss = maybe_compile(_lm_loss)


# ---------------------------------------------------------------------------------------------------
# Parameters
# ---------------------------------------------------------------------------------------------------

FP8 = {"wq_a", "wq_b", "wkv", "wo_a", "wo_b", "s13", "s2", "index_wq_b", "engram_wkv", "main_proj"}
FP4 = {"w13", "w2"}
ROWS = {"engram_embed_0", "engram_embed_1"}
BF16_LINEAR = {"index_wk", "index_weights", "comp_wkv", "comp_wgate", "markov_embed", "markov_head"}
MATRIX = FP8 | FP4 | {"index_wk", "comp_wkv", "comp_wgate"}  # trained by Muon


def kind_of(name: str) -> str:
    if name in FP8:
        return "fp8"
    if name in FP4:
        return "fp4"
    if name in ROWS:
        return "rows"
    return "plain"


def make_parameters(cfg, seed: int) -> dict[str, torch.Tensor]:
    """Stacked fp32 master weights of the backbone."""
    g = torch.Generator().manual_seed(seed)
    d, h, hd = cfg.hidden_size, cfg.num_attention_heads, cfg.head_dim
    layers, e, inner, n = cfg.num_hidden_layers, cfg.n_routed_experts, cfg.moe_intermediate_size, cfg.hc_mult
    n_kv, n_index, n_pool = len(cfg.kv_source_layer_ids), len(cfg.index_source_layer_ids), sum(cfg.ratio(s) > 1 for s in cfg.kv_source_layer_ids)

    def normal(*shape, gain=1.0):
        return torch.randn(*shape, generator=g) * gain * shape[-1] ** -0.5

    p = block_parameters(cfg, layers, e, normal)
    p["index_wq_b"] = normal(n_index, cfg.index_n_heads * cfg.index_head_dim, cfg.q_lora_rank)
    p["index_weights"] = normal(n_index, cfg.index_n_heads, d) + 0.02
    p["index_wk"] = normal(n_kv, cfg.index_head_dim, hd)
    p["index_k_norm"] = torch.ones(n_kv, cfg.index_head_dim)
    p["comp_wkv"] = normal(n_kv, hd, d)
    p["comp_wgate"] = normal(n_pool, hd, d, gain=0.5)
    p["comp_norm"] = torch.ones(n_kv, hd)
    for i, rows in enumerate(cfg.engram_num_embeddings):
        p[f"engram_embed_{i}"] = torch.randn(rows, cfg.engram_head_dim, generator=g) * 0.3
    p["engram_wkv"] = normal(len(cfg.engram_layer_ids), d * (n + 1), cfg.engram_columns * cfg.engram_head_dim)
    p["engram_q"] = torch.ones(len(cfg.engram_layer_ids), n, d)
    p["engram_k"] = torch.ones(len(cfg.engram_layer_ids), n, d)
    p["embed"] = torch.randn(cfg.vocab_size, d, generator=g) * 0.5
    p["head"] = torch.randn(cfg.vocab_size, d, generator=g) * 0.02
    p["norm"] = torch.ones(d)
    return p


def block_parameters(cfg, layers: int, experts: int, normal) -> dict[str, torch.Tensor]:
    """Tensors that every block has (backbone layers and draft stages)."""
    d, h, hd, inner, n = cfg.hidden_size, cfg.num_attention_heads, cfg.head_dim, cfg.moe_intermediate_size, cfg.hc_mult
    p = {
        "wq_a": normal(layers, cfg.q_lora_rank, d),
        "wq_b": normal(layers, h * hd, cfg.q_lora_rank),
        "wkv": normal(layers, hd, d),
        "wo_a": normal(layers, cfg.o_groups * cfg.o_lora_rank, h * hd // cfg.o_groups),
        "wo_b": normal(layers, d, cfg.o_groups * cfg.o_lora_rank, gain=0.3),
        "w13": normal(layers, experts, 2 * inner, d),
        "w2": normal(layers, experts, d, inner, gain=0.3),
        "s13": normal(layers, 2 * inner, d),
        "s2": normal(layers, d, inner, gain=0.3),
        "gate": normal(layers, experts, d),
        "gate_bias": torch.zeros(layers, experts),
        "attn_norm": torch.ones(layers, d),
        "ffn_norm": torch.ones(layers, d),
        "q_norm": torch.ones(layers, cfg.q_lora_rank),
        "kv_norm": torch.ones(layers, hd),
        "attn_sink": torch.zeros(layers, h),
    }
    for site in ("attn", "ffn"):
        p[f"hc_{site}_fn"] = normal(layers, n * (n + 2), n * d, gain=0.5)
        base = torch.zeros(layers, n * (n + 2))
        for layer in range(layers):
            lead = (2 * layer + (site == "ffn")) % n
            base[layer, :n] = -1.5
            base[layer, lead] = 1.0
            base[layer, 2 * n :] = 3.0 * torch.eye(n).flatten()
        p[f"hc_{site}_base"] = base
        p[f"hc_{site}_scale"] = torch.full((layers, 3), 0.3)
    return p


NO_GRAD = {"gate_bias"}


def working_copies(params: dict[str, torch.Tensor], dtype: torch.dtype, quant_weights: bool) -> dict[str, object]:
    """Master -> per-layer working weights (lists where the master is stacked)."""
    out: dict[str, object] = {}
    for name, value in params.items():
        kind = kind_of(name)
        if kind != "plain":
            w = StraightThrough.apply(value, kind, dtype) if quant_weights else value.to(dtype)
        elif name in BF16_LINEAR or name in ("embed", "head", "hc_attn_fn", "hc_ffn_fn"):
            w = value.to(dtype)
        else:
            w = value
        stacked = name not in ("embed", "head", "norm", "engram_embed_0", "engram_embed_1", "main_proj", "main_norm",
                               "draft_norm", "markov_embed", "markov_head", "confidence")
        out[name] = list(w.unbind(0)) if stacked else w
    return out


# ---------------------------------------------------------------------------------------------------
# Forward
# ---------------------------------------------------------------------------------------------------


def rope_frequencies(cfg, compressed: bool) -> torch.Tensor:
    from numerics import Rope

    yarn = (cfg.rope_factor, cfg.original_max_position_embeddings, cfg.beta_fast, cfg.beta_slow) if compressed else None
    return Rope(cfg.qk_rope_head_dim, cfg.compress_rope_theta if compressed else cfg.rope_theta, yarn).freqs


class FastModel:
    """Static information and the forward pass; parameters are passed in as working copies."""

    def __init__(self, cfg, token_map: list[int], device: str, dtype: torch.dtype) -> None:
        from engram import EngramHash

        self.cfg, self.device, self.dtype = cfg, device, dtype
        self.hash = EngramHash.build(cfg.engram_layer_ids, cfg.engram_max_ngram_size, cfg.engram_n_heads, cfg.engram_vocab_size,
                                     cfg.engram_compressed_vocab_size, torch.tensor(token_map), cfg.engram_pad_token_id)
        self.map = self.hash.token_map.to(device)
        self.mult, self.primes, self.offsets = (t.to(device) for t in (self.hash.multipliers, self.hash.primes, self.hash.offsets))
        self.freqs = [rope_frequencies(cfg, c).to(device) for c in (False, True)]
        self.tables: dict[tuple[int, int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def rope_table(self, compressed: int, length: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        key = (compressed, length, step)
        if key not in self.tables:
            angle = (step * torch.arange(length, device=self.device, dtype=torch.float32)).unsqueeze(-1) * self.freqs[compressed]
            self.tables[key] = (torch.cos(angle.double()).float(), torch.sin(angle.double()).float())
        return self.tables[key]

    def engram_rows(self, ids: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """ids [B, T], document start per position -> rows [B, T, layers, columns]."""
        compressed = self.map[ids]
        position = torch.arange(ids.shape[1], device=ids.device)
        tokens = [compressed]
        for shift in range(1, self.mult.shape[1]):
            shifted = F.pad(compressed, (shift, 0))[:, : ids.shape[1]]
            tokens.append(torch.where(position - shift >= start, shifted, torch.full_like(shifted, self.hash.pad)))
        rolling = tokens[0].unsqueeze(-1) * self.mult[:, 0]
        columns = []
        for shift in range(1, self.mult.shape[1]):
            rolling = rolling ^ (tokens[shift].unsqueeze(-1) * self.mult[:, shift])
            columns.append(rolling.unsqueeze(-1) % self.primes[:, shift - 1])
        return torch.cat(columns, -1) + self.offsets

    def window_mask(self, low: torch.Tensor) -> torch.Tensor:
        """low [B, T]: first visible position of the window (before the width limit) -> bool [B, nb, W, 2W]."""
        w = self.cfg.sliding_window
        b, t = low.shape
        nb = t // w
        query = torch.arange(t, device=low.device).view(1, nb, w, 1)
        key = (torch.arange(nb, device=low.device) * w - w).view(1, nb, 1, 1) + torch.arange(2 * w, device=low.device)
        return (key <= query) & (key > query - w) & (key >= low.view(b, nb, w, 1)) & (key >= 0)

    def reachable(self, start: torch.Tensor, ratio: int) -> torch.Tensor:
        b, t = start.shape
        entry = torch.arange(t // ratio, device=start.device)
        position = torch.arange(t, device=start.device).view(1, t, 1)
        return (entry < (position + 1) // ratio) & (entry * ratio >= start.unsqueeze(-1))

    def select(self, scores, reach, layer: int, pool):
        """Top-k list as a mask; the candidate source also returns its pool."""
        cfg = self.cfg
        s = scores.detach().masked_fill(~reach, float("-inf"))
        new_pool = pool
        if layer == cfg.candidate_source_layer_id:
            block = cfg.candidate_block_size
            best = s.unflatten(-1, (-1, block)).amax(-1)
            position = torch.arange(s.shape[1], device=s.device)
            best.scatter_(-1, (position // block).view(1, -1, 1).expand(s.shape[0], -1, 1), float("inf"))
            k = min(cfg.candidate_topk_blocks, best.shape[-1])
            top = best.topk(k, dim=-1, sorted=False)
            keep = torch.zeros_like(best, dtype=torch.bool).scatter_(-1, top.indices, top.values > float("-inf"))
            new_pool = keep.repeat_interleave(block, dim=-1)
        elif cfg.uses_candidates(layer):
            s = s.masked_fill(~pool, float("-inf"))
        top = s.topk(min(cfg.index_topk, s.shape[-1]), dim=-1, sorted=False)
        chosen = torch.zeros_like(reach).scatter_(-1, top.indices, top.values > float("-inf"))
        return chosen, new_pool

    def forward(self, w: dict, batch: dict, sparse: bool, want_index: bool = True, want_taps: bool = False) -> dict:
        """batch: ids [B, T], start [B, T], replay [B, T] (decoder window start)."""
        cfg = self.cfg
        ids, start = batch["ids"], batch["start"]
        b, t = ids.shape
        n = b * t
        rows = self.engram_rows(ids, start)
        windows = [self.window_mask(start), self.window_mask(batch["replay"])]
        reach = {r: self.reachable(start, r) for r in (1, 2)}
        row_weight = batch["weight"].float() * batch["valid"]  # answers count most
        x = F.embedding(ids, w["embed"]).view(n, 1, -1).expand(-1, cfg.hc_mult, -1).contiguous()
        pre = torch.zeros(n, cfg.hc_mult, device=x.device)
        pre[:, 0] = 1.0
        counts, index_losses, taps = [], [], []
        main = keys = chosen = pool = scores = mass = None
        group: list = []  # of one index source: (scores, chosen), then the masses of the layers that use its list
        candidate_group: list = []  # of the candidate source: the same, with all layers that are bound to its pool

        def close_group(members: list):
            if members and want_index:
                s, c = members[0]
                index_losses.append(index_loss(s, c, sum(members[1:]), row_weight))
            members.clear()

        for l in range(cfg.num_hidden_layers):
            ratio = cfg.ratio(l)
            if l in cfg.engram_layer_ids:
                i = cfg.engram_layer_ids.index(l)
                looked = F.embedding(rows[:, :, i], w[f"engram_embed_{i}"]).reshape(n, -1)
                x = engram_mix(x, looked, w["engram_wkv"][i], w["engram_q"][i], w["engram_k"][i])
            if want_taps and l in cfg.dspark_target_layer_ids:
                taps.append(x.float().mean(1).to(x.dtype).view(b, t, -1))
            xn, a_pre, post, comb = site_in(x, pre, w["hc_attn_fn"][l], w["hc_attn_scale"][l], w["hc_attn_base"][l], w["attn_norm"][l])
            comb = sinkhorn(comb, cfg.hc_sinkhorn_iters, cfg.hc_eps)
            xb = xn.view(b, t, -1)
            cos, sin = self.rope_table(int(ratio > 0), t, 1)
            q, qr, kv = qkv(xb, w["wq_a"][l], w["q_norm"][l], w["wq_b"][l], w["wkv"][l], w["kv_norm"][l], cos, sin, cfg.num_attention_heads)
            window = windows[l >= cfg.decoder_start]
            if ratio:
                if cfg.is_kv_source(l):
                    i = cfg.kv_source_layer_ids.index(l)
                    if ratio == 2:
                        latent = compress2(xb, w["comp_wkv"][i], w["comp_wgate"][i], w["comp_norm"][i])
                    else:
                        latent = compress1(xb, w["comp_wkv"][i], w["comp_norm"][i])
                    ecos, esin = self.rope_table(1, t // ratio, ratio)
                    main, keys = entries(latent, w["index_wk"][i], w["index_k_norm"][i], ecos, esin)
                if cfg.is_index_source(l):
                    close_group(group)
                    i = cfg.index_source_layer_ids.index(l)
                    chosen = reach[ratio]
                    if sparse or want_index:
                        scores = index_scores(qr, xb, w["index_wq_b"][i], w["index_weights"][i], keys, cos, sin, cfg.index_n_heads)
                    if sparse:
                        chosen, pool = self.select(scores, reach[ratio], l, pool)
                    members = candidate_group if l == cfg.candidate_source_layer_id else group
                    members.append((scores, chosen))
                o, mass = core(q, kv, main, chosen, window, w["attn_sink"][l])
                if group:
                    group.append(mass)
                if candidate_group:
                    candidate_group.append(mass)
            else:
                o = core_window(q, kv, window, w["attn_sink"][l])
            y = attn_out(o, cos, sin, w["wo_a"][l], w["wo_b"][l], cfg.o_groups).reshape(n, -1)
            x, xn, f_pre, post, comb = site_mid(y, x, post, comb, a_pre, w["hc_ffn_fn"][l], w["hc_ffn_scale"][l], w["hc_ffn_base"][l], w["ffn_norm"][l])
            comb = sinkhorn(comb, cfg.hc_sinkhorn_iters, cfg.hc_eps)
            z, count = moe(xn, w["gate"][l], w["gate_bias"][l], w["w13"][l], w["w2"][l], w["s13"][l], w["s2"][l], cfg.num_experts_per_tok)
            counts.append(count.detach())
            x, pre = site_out(z, x, post, comb), f_pre
        close_group(group)
        close_group(candidate_group)
        logits = final(x, pre, w["norm"], w["head"])
        return {"logits": logits, "index_losses": index_losses, "counts": counts, "taps": torch.cat(taps, -1) if taps else None}
