// Does the model fit in this machine's memory: asked before any weight is read (spec: cli.md §1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer {

/// What a person should know about weights that stay in the files, with the bytes that a token reads from them; empty when everything
/// fits. Nothing is checked when `host_bytes` is unknown. Errors: kResourceExhausted with the arithmetic when the dense part does not
/// fit.
Result<std::string> CheckMemory(const ModelConfig& config, std::optional<uint64_t> host_bytes);

/// Bytes of memory that this process may use: the machine's, or less where a control group says so. Nothing when unknown.
std::optional<uint64_t> HostMemoryBytes();

}  // namespace deepinfer
