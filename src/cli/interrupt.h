// Ctrl-C: the first one asks for an end after the current step, the second one ends the process at once (spec: cli.md §1).
#pragma once

#include <atomic>

namespace deepinfer::cli {

/// Installs the handlers: SIGINT and SIGTERM as above, SIGPIPE and SIGXFSZ ignored (the failed write is reported instead).
void InstallSignalHandlers();

/// True once an interrupt arrived. Engine calls poll it.
const std::atomic<bool>& StopFlag();
inline bool Interrupted() { return StopFlag().load(std::memory_order_relaxed); }

/// Forgets an interrupt that ended one answer of a conversation.
void ClearInterrupt();

}  // namespace deepinfer::cli
