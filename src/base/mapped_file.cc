// The SIGBUS guard of MappedFile. A read of a page that the file no longer has raises SIGBUS; the handler finds the map by
// its address in a fixed table (no locks, no allocation: both are forbidden there) and puts a page of zeros in the place.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <new>

#include "base/file.h"
#include "base/os.h"

namespace deepinfer {
namespace {

constexpr int kMaxMaps = 4096;
constexpr int kNoSlot = -1;

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<bool> damaged{false};
  std::atomic<uintptr_t> begin{0};  // 0: not in use; set last and cleared first, so that `end` belongs to it
  std::atomic<uintptr_t> end{0};
  int fd = -1;  // kept open to notice a cut inside the last page, which raises no signal
};

Slot g_slots[kMaxMaps];
struct sigaction g_previous_action;
uintptr_t g_page_bytes = 4096;

bool Contains(const Slot& slot, uintptr_t address) {
  const uintptr_t begin = slot.begin.load();
  return begin != 0 && address >= begin && address < slot.end.load() && slot.begin.load() == begin;
}

// Marks every entry that claims the address: that of a map just released may still name addresses already given out again.
bool Repair(uintptr_t address) {
  bool ours = false;
  for (const Slot& slot : g_slots) ours = ours || Contains(slot, address);
  if (!ours) return false;
  // The bare system call: mmap() is not among the functions a signal handler may call, and sanitizers replace it.
  const uintptr_t page = address & ~(g_page_bytes - 1);
  if (::syscall(SYS_mmap, page, g_page_bytes, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
      -1)
    return false;
  for (Slot& slot : g_slots) {
    if (Contains(slot, address)) slot.damaged.store(true);
  }
  return true;
}

// A fault that is not ours goes to whoever was there before, or ends the process as it would have without us.
void PassOn(int signal_number, siginfo_t* info, void* context) {
  if ((g_previous_action.sa_flags & SA_SIGINFO) != 0) {
    g_previous_action.sa_sigaction(signal_number, info, context);
    return;
  }
  const bool sent_by_process = info->si_code <= 0;
  if (g_previous_action.sa_handler == SIG_IGN && sent_by_process) return;
  if (g_previous_action.sa_handler == SIG_DFL || g_previous_action.sa_handler == SIG_IGN) {
    ::signal(signal_number, SIG_DFL);
    if (sent_by_process) ::raise(signal_number);  // a fault repeats by itself
    return;
  }
  g_previous_action.sa_handler(signal_number);
}

void OnSigbus(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const bool fault = info->si_code > 0;
  if (!fault || !Repair(reinterpret_cast<uintptr_t>(info->si_addr))) PassOn(signal_number, info, context);
  errno = saved_errno;
}

void InstallHandlerOnce() {
  static const bool installed = [] {
    g_page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    // Read first: a fault may arrive as soon as the handler is in place.
    ::sigaction(SIGBUS, nullptr, &g_previous_action);
    struct sigaction action = {};
    action.sa_sigaction = OnSigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

int TakeSlot() {
  for (int i = 0; i < kMaxMaps; ++i) {
    bool expected = false;
    if (g_slots[i].taken.compare_exchange_strong(expected, true)) return i;
  }
  return kNoSlot;
}

void FreeSlot(int index) {
  if (index == kNoSlot) return;
  Slot& slot = g_slots[index];
  slot.begin.store(0);
  if (slot.fd >= 0) ::close(slot.fd);
  slot.fd = -1;
  slot.taken.store(false);
}

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::Map(const std::string& path) {
  uint64_t size = 0;
  DEEPINFER_ASSIGN_OR_RETURN(FileDescriptor fd, OpenRegularFile(path, &size));
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile(nullptr, 0, kNoSlot, path));
  if (size > static_cast<uint64_t>(PTRDIFF_MAX))
    return ResourceExhausted("the file is too large to map", path);
  InstallHandlerOnce();
  const int index = TakeSlot();
  if (index == kNoSlot) return ResourceExhausted("too many files are mapped", path);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    FreeSlot(index);
    return SystemError(error, "map the file", path);
  }
  Slot& slot = g_slots[index];
  slot.fd = fd.Release();
  slot.damaged.store(false);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  slot.end.store(begin + size);
  slot.begin.store(begin);
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size, index, path));
}

MappedFile::~MappedFile() {
  if (slot_ == kNoSlot) return;
  // The table entry must outlive the map: a slot without a map is harmless, a map without a slot is not guarded.
  ::munmap(const_cast<std::byte*>(data_), size_);
  FreeSlot(slot_);
}

Status MappedFile::Check() const {
  if (slot_ == kNoSlot) return OkStatus();
  const Slot& slot = g_slots[slot_];
  struct stat info;
  const bool cut = ::fstat(slot.fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < size_;
  if (!cut && !slot.damaged.load()) return OkStatus();
  return DataLoss("the file was cut or could not be read while in use", path_);
}

}  // namespace deepinfer
