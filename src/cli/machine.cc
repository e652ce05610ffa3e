#include "cli/machine.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cpu_count.h"
#include "base/thread_pool.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

std::string Trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  return begin == std::string::npos ? std::string()
                                    : text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// "key : value" of a line, in /proc style.
bool SplitLine(const std::string& line, std::string* key, std::string* value) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return false;
  *key = Trim(line.substr(0, colon));
  *value = Trim(line.substr(colon + 1));
  return true;
}

uint64_t KilobytesOf(const std::string& value) {
  std::istringstream in(value);
  uint64_t number = 0;
  in >> number;
  return number * 1024;
}

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

ProcessorInfo LookAtProcessor() {
  static constexpr std::array<std::string_view, 13> kUseful = {
      "sse4_2",      "avx2",        "fma",         "f16c",        "avx512f",  "avx512bw", "avx512vl",
      "avx512_vnni", "avx512_bf16", "avx512_vbmi", "avx512_fp16", "amx_bf16", "asimd"};
  ProcessorInfo info;
  info.available = AvailableCpus();
  info.present = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  std::ifstream in("/proc/cpuinfo");
  std::string line, key, value;
  while (std::getline(in, line) && (info.model.empty() || info.features.empty())) {
    if (!SplitLine(line, &key, &value)) continue;
    if (key == "model name" && info.model.empty()) info.model = value;
    if (key != "flags" && key != "Features") continue;
    const std::string padded = " " + value + " ";
    for (const std::string_view feature : kUseful) {
      if (padded.find(" " + std::string(feature) + " ") != std::string::npos)
        info.features.emplace_back(feature);
    }
  }
  return info;
}

MemoryInfo LookAtMemory() {
  MemoryInfo info;
  std::ifstream in("/proc/meminfo");
  std::string line, key, value;
  while (std::getline(in, line)) {
    if (!SplitLine(line, &key, &value)) continue;
    if (key == "MemTotal") info.total = KilobytesOf(value);
    if (key == "MemAvailable") info.available = KilobytesOf(value);
    if (key == "HugePages_Total") info.huge_pages_total = KilobytesOf(value) / 1024;
    if (key == "HugePages_Free") info.huge_pages_free = KilobytesOf(value) / 1024;
    if (key == "Hugepagesize") info.huge_page_bytes = KilobytesOf(value);
  }
  const std::string modes = FirstLine("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = modes.find('['), close = modes.find(']');
  if (open != std::string::npos && close != std::string::npos)
    info.transparent_huge_pages = modes.substr(open + 1, close - open - 1);
  return info;
}

std::vector<LimitInfo> LookAtLimits() {
  struct Limit {
    const char* name;
    int resource;
  };
  static constexpr std::array<Limit, 3> kLimits = {
      {{"open files", RLIMIT_NOFILE}, {"address space", RLIMIT_AS}, {"locked memory", RLIMIT_MEMLOCK}}};
  std::vector<LimitInfo> out;
  for (const Limit& limit : kLimits) {
    rlimit value{};
    if (::getrlimit(static_cast<__rlimit_resource>(limit.resource), &value) != 0) continue;
    out.push_back(
        {.name = limit.name, .value = value.rlim_cur, .unlimited = value.rlim_cur == RLIM_INFINITY});
  }
  return out;
}

GpuReport LookAtGpus() {
  GpuReport report;
  report.driver = FirstLine("/proc/driver/nvidia/version");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream in(entry.path() / "information");
    GpuInfo gpu;
    gpu.bus = entry.path().filename().string();
    std::string line, key, value;
    while (std::getline(in, line)) {
      if (SplitLine(line, &key, &value) && key == "Model") gpu.name = value;
    }
    report.gpus.push_back(std::move(gpu));
  }
  std::sort(report.gpus.begin(), report.gpus.end(),
            [](const GpuInfo& a, const GpuInfo& b) { return a.bus < b.bus; });
  return report;
}

double MeasureReadBandwidth(uint64_t bytes, int threads, int rounds) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory);
  const auto count = static_cast<int64_t>(bytes / sizeof(uint64_t));
  ThreadPool pool(threads);
  constexpr int64_t kGrain = int64_t{1} << 17;
  // Written first, so that every page is real.
  pool.ParallelFor(count, kGrain, [words](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) words[i] = static_cast<uint64_t>(i);
  });
  std::vector<uint64_t> sums(static_cast<size_t>(pool.num_threads()) * 16);
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(count, kGrain, [words, &sums](int64_t begin, int64_t end, int thread) {
      // Eight independent sums, so that additions do not wait for each other.
      std::array<uint64_t, 8> lanes{};
      int64_t i = begin;
      for (; i + 8 <= end; i += 8) {
        for (int64_t lane = 0; lane < 8; ++lane) lanes[static_cast<size_t>(lane)] += words[i + lane];
      }
      for (; i < end; ++i) lanes[0] += words[i];
      for (const uint64_t lane : lanes) sums[static_cast<size_t>(thread) * 16] += lane;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  ::munmap(memory, bytes);
  // The sums are looked at, so that no compiler leaves the reading out.
  uint64_t sum = 0;
  for (const uint64_t one : sums) sum += one;
  return sum == 0 ? 0 : best;
}

}  // namespace deepinfer::cli
