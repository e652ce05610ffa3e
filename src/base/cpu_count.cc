#include "base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace deepinfer {
namespace {

constexpr size_t kMaxProcFileBytes = 64 << 10;

int CpusOfAffinityMask() {
  // The kernel refuses a mask shorter than its own, so machines beyond 1024 processors need a second try.
  for (size_t num_sets = 1; num_sets <= 64; num_sets *= 2) {
    std::vector<cpu_set_t> sets(num_sets);
    const size_t size_bytes = num_sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, size_bytes, sets.data()) == 0) {
      return std::max(1, CPU_COUNT_S(size_bytes, sets.data()));
    }
    if (errno != EINVAL) break;
  }
  return 1;
}

bool ReadInteger(std::string_view* text, int64_t* out) {
  while (!text->empty() && text->front() == ' ') text->remove_prefix(1);
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *out);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

int CpusFromQuota(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  const int64_t cpus = quota / period + (quota % period != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(cpus, 1 << 20));
}

void Lower(int limit, int* cpus) {
  if (limit > 0) *cpus = std::min(*cpus, limit);
}

// The limit of a group is that of its tightest ancestor.
void ApplyCgroupV2(std::string group, int* cpus) {
  while (true) {
    const Result<std::string> text = ReadFile("/sys/fs/cgroup" + group + "/cpu.max", kMaxProcFileBytes);
    if (text.ok()) Lower(CpusFromCpuMax(*text), cpus);
    if (group.empty()) return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

void ApplyCgroupV1(const std::string& group, int* cpus) {
  for (const std::string& folder : {"/sys/fs/cgroup/cpu" + group, std::string("/sys/fs/cgroup/cpu")}) {
    const Result<std::string> quota_text = ReadFile(folder + "/cpu.cfs_quota_us", kMaxProcFileBytes);
    const Result<std::string> period_text = ReadFile(folder + "/cpu.cfs_period_us", kMaxProcFileBytes);
    if (!quota_text.ok() || !period_text.ok()) continue;
    std::string_view quota_view = *quota_text;
    std::string_view period_view = *period_text;
    int64_t quota = 0;
    int64_t period = 0;
    if (ReadInteger(&quota_view, &quota) && ReadInteger(&period_view, &period)) {
      Lower(CpusFromQuota(quota, period), cpus);
    }
  }
}

bool ListsCpuController(std::string_view controllers) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == "cpu") return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

int CpusFromCpuMax(std::string_view text) {
  int64_t quota = 0;
  int64_t period = 0;
  if (!ReadInteger(&text, &quota) || !ReadInteger(&text, &period)) return 0;  // also for "max 100000"
  return CpusFromQuota(quota, period);
}

int AvailableCpus() {
  int cpus = CpusOfAffinityMask();
  const Result<std::string> groups = ReadFile("/proc/self/cgroup", kMaxProcFileBytes);
  if (!groups.ok()) return cpus;
  std::string_view rest = *groups;
  while (!rest.empty()) {  // lines of "ID:CONTROLLERS:PATH"
    const size_t newline = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(std::min(newline + 1, rest.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string group(line.substr(second + 1));
    while (!group.empty() && group.back() == '/') group.pop_back();
    if (controllers.empty()) {
      ApplyCgroupV2(std::move(group), &cpus);
    } else if (ListsCpuController(controllers)) {
      ApplyCgroupV1(group, &cpus);
    }
  }
  return cpus;
}

}  // namespace deepinfer
