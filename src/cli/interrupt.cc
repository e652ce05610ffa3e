#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace deepinfer::cli {
namespace {

constexpr int kInterruptedExit = 130;
std::atomic<bool> g_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "the signal handler may use it");

void OnInterrupt(int) {
  if (g_stop.exchange(true)) ::_exit(kInterruptedExit);
}

}  // namespace

void InstallSignalHandlers() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  ::sigemptyset(&action.sa_mask);
  // No SA_RESTART: a blocking read of a terminal or pipe must return.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

const std::atomic<bool>& StopFlag() { return g_stop; }

void ClearInterrupt() { g_stop.store(false); }

}  // namespace deepinfer::cli
