// Runs `fill` of every compiled Highway target; used where HWY_ONCE holds.
#pragma once

#include <hwy/detect_targets.h>

// `DEEPINFER_FILL_TARGETS(target, table)` calls N_<TARGET>::Fill(table) of the one whose bit is `target` and returns true.
#if HWY_TARGETS & HWY_AVX3
#define DEEPINFER_FILL_AVX3(target, table) \
  if ((target) == HWY_AVX3) return N_AVX3::Fill(table), true;
#else
#define DEEPINFER_FILL_AVX3(target, table)
#endif
#if HWY_TARGETS & HWY_AVX2
#define DEEPINFER_FILL_AVX2(target, table) \
  if ((target) == HWY_AVX2) return N_AVX2::Fill(table), true;
#else
#define DEEPINFER_FILL_AVX2(target, table)
#endif
#if HWY_TARGETS & HWY_SSE4
#define DEEPINFER_FILL_SSE4(target, table) \
  if ((target) == HWY_SSE4) return N_SSE4::Fill(table), true;
#else
#define DEEPINFER_FILL_SSE4(target, table)
#endif
#if HWY_TARGETS & HWY_NEON
#define DEEPINFER_FILL_NEON(target, table) \
  if ((target) == HWY_NEON) return N_NEON::Fill(table), true;
#else
#define DEEPINFER_FILL_NEON(target, table)
#endif
#if HWY_TARGETS & HWY_EMU128
#define DEEPINFER_FILL_EMU128(target, table) \
  if ((target) == HWY_EMU128) return N_EMU128::Fill(table), true;
#else
#define DEEPINFER_FILL_EMU128(target, table)
#endif
#if HWY_TARGETS & HWY_SCALAR
#define DEEPINFER_FILL_SCALAR(target, table) \
  if ((target) == HWY_SCALAR) return N_SCALAR::Fill(table), true;
#else
#define DEEPINFER_FILL_SCALAR(target, table)
#endif

#define DEEPINFER_FILL_TARGETS(target, table) \
  DEEPINFER_FILL_AVX3(target, table)          \
  DEEPINFER_FILL_AVX2(target, table)          \
  DEEPINFER_FILL_SSE4(target, table)          \
  DEEPINFER_FILL_NEON(target, table)          \
  DEEPINFER_FILL_EMU128(target, table)        \
  DEEPINFER_FILL_SCALAR(target, table)        \
  return false
