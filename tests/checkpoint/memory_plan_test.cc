// The memory plan against the published arithmetic: deepinfer.md §4.9, serving.md §1.2 and §3.2, model.md §11.
#include "checkpoint/memory_plan.h"

#include <functional>

#include <gtest/gtest.h>

#include "checkpoint/synthetic.h"

namespace deepinfer {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

PlanRequest H200(int gpus, EngramPlacement engram) {
  PlanRequest request;
  request.num_devices = gpus;
  request.device_bytes = *ParseDeviceMemory("h200");
  request.engram = engram;
  return request;
}

MemoryPlan Plan(const PlanRequest& request, const ModelConfig& config = ReleasedConfig()) {
  auto plan = PlanMemory(config, request);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return std::move(plan).value();
}

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / kGib; }

TEST(MemoryPlan, StateSizesOfTheReleasedModel) {
  const ModelConfig config = ReleasedConfig();
  EXPECT_EQ(KvBytesPerToken(config), 890);
  EXPECT_EQ(KvBlockBytes(config), 113'920);
  EXPECT_EQ(KvBlockBytes(config), 890 * kKvBlockTokens);
  // 43 rings of 140 rows of 528 bytes (3.03 MiB) and three tails of 16 rows of 4,096 bytes (0.19 MiB).
  EXPECT_EQ(SequenceStateBytes(config, true), 43 * 140 * 528 + 3 * 16 * 4096);
  EXPECT_EQ(SequenceStateBytes(config, false), 40 * 140 * 528 + 3 * 16 * 4096);
}

TEST(MemoryPlan, PartsOfSmallModelsArePaddedTo128Bytes) {
  ModelConfig tiny = SyntheticConfig();
  tiny.kv_source_layer_ids = {2};
  // Ratio 2, 64 entries of 32 + 4 + 16 + 1 bytes; the last part has 64 bytes and takes 128.
  EXPECT_EQ(KvBlockBytes(tiny), 64 * 32 + 64 * 4 + 64 * 16 + 128);
}

TEST(MemoryPlan, VerdictsOfOneTwoFourAndEightH200) {
  struct Row {
    int gpus;
    bool device, host, disk;
  };
  for (const Row& row : {Row{1, false, false, false}, Row{2, false, false, false}, Row{4, false, true, true},
                         Row{8, true, true, true}}) {
    EXPECT_EQ(Plan(H200(row.gpus, EngramPlacement::kDevice)).fits, row.device) << row.gpus;
    EXPECT_EQ(Plan(H200(row.gpus, EngramPlacement::kHost)).fits, row.host) << row.gpus;
    EXPECT_EQ(Plan(H200(row.gpus, EngramPlacement::kDisk)).fits, row.disk) << row.gpus;
  }
}

TEST(MemoryPlan, WeightsPerDeviceInGib) {
  struct Row {
    int gpus;
    double device, elsewhere;
  };
  for (const Row& row :
       {Row{1, 475.2, 286.4}, Row{2, 243.0, 148.6}, Row{4, 126.9, 79.7}, Row{8, 68.8, 45.2}}) {
    const PlanRow device = Plan(H200(row.gpus, EngramPlacement::kDevice)).devices.front();
    EXPECT_NEAR(Gib(device.weights + device.engram), row.device, 0.05) << row.gpus;
    EXPECT_NEAR(Gib(Plan(H200(row.gpus, EngramPlacement::kHost)).devices.front().weights), row.elsewhere,
                0.05)
        << row.gpus;
    EXPECT_NEAR(Gib(device.total), 140.40, 0.005);
    EXPECT_NEAR(Gib(device.usable), 126.36, 0.005);
  }
  const PlanRow four = Plan(H200(4, EngramPlacement::kHost)).devices.front();
  EXPECT_NEAR(Gib(four.usable - four.weights), 46.7, 0.05);
  const PlanRow eight = Plan(H200(8, EngramPlacement::kDevice)).devices.front();
  EXPECT_NEAR(Gib(eight.usable - eight.weights - eight.engram), 57.6, 0.05);
  const PlanRow tight = Plan(H200(4, EngramPlacement::kDevice)).devices.front();
  EXPECT_NEAR(Gib(tight.weights + tight.engram - tight.usable), 0.5, 0.1);
  EXPECT_NEAR(Gib(Plan(H200(4, EngramPlacement::kHost)).host.engram), 188.8, 0.05);
  EXPECT_NEAR(Gib(Plan(H200(1, EngramPlacement::kDevice)).devices.front().weights), 10.74 + 275.67, 0.02);
}

TEST(MemoryPlan, AutoTakesTheFirstPlacementThatFits) {
  EXPECT_EQ(Plan(H200(8, EngramPlacement::kAuto)).engram, EngramPlacement::kDevice);
  EXPECT_EQ(Plan(H200(8, EngramPlacement::kAuto)).verdict, "fits");
  PlanRequest four = H200(4, EngramPlacement::kAuto);
  EXPECT_EQ(Plan(four).engram, EngramPlacement::kHost);
  EXPECT_EQ(Plan(four).verdict, "fits with Engram in host memory");
  four.host_bytes = uint64_t{128} << 30;
  const MemoryPlan disk = Plan(four);
  EXPECT_EQ(disk.engram, EngramPlacement::kDisk);
  EXPECT_EQ(disk.verdict, "fits with Engram on disk");
  EXPECT_TRUE(disk.fits);
  const MemoryPlan two = Plan(H200(2, EngramPlacement::kAuto));
  EXPECT_EQ(two.verdict, "does not fit");
  EXPECT_NE(two.reason.find("148."), std::string::npos) << two.reason;
  EXPECT_NE(two.reason.find("more than 126.36 GiB usable"), std::string::npos) << two.reason;
  EXPECT_EQ(two.max_sequences_at.at(8192), 0);
}

TEST(MemoryPlan, HostMemoryIsCheckedWhenGiven) {
  PlanRequest request = H200(4, EngramPlacement::kHost);
  request.host_bytes = uint64_t{200} << 30;  // 180 usable, 188.8 needed
  const MemoryPlan plan = Plan(request);
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.max_sequences_at.at(8192), 0);
  request.host_bytes = uint64_t{256} << 30;
  EXPECT_TRUE(Plan(request).fits);
}

TEST(MemoryPlan, MaxSequencesIsTheEdge) {
  for (const int64_t context : {8192, 131072}) {
    PlanRequest request = H200(8, EngramPlacement::kDevice);
    request.context = context;
    const int64_t most = Plan(request).max_sequences_at.at(context);
    EXPECT_GT(most, 0);
    request.sequences = most;
    EXPECT_TRUE(Plan(request).fits) << context;
    request.sequences = most + 8;
    EXPECT_FALSE(Plan(request).fits) << context;
  }
}

TEST(MemoryPlan, WithoutDraftItsWeightsAndWindowsStayOut) {
  PlanRequest request = H200(8, EngramPlacement::kDevice);
  const MemoryPlan with = Plan(request);
  request.draft = 0;
  const MemoryPlan without = Plan(request);
  EXPECT_EQ(with.devices[0].weights - without.devices[0].weights,
            7'932'874'632 - 7'219'445'760 + 7'219'445'760 / 8);
  EXPECT_EQ(with.per_sequence_bytes - without.per_sequence_bytes, 3 * 140 * 528);
  EXPECT_EQ(with.bytes, without.bytes);
  EXPECT_LT(without.devices[0].workspace, with.devices[0].workspace);
}

TEST(MemoryPlan, UnevenExpertsGoToTheFullestDevice) {
  const MemoryPlan plan = Plan(H200(7, EngramPlacement::kDevice));
  // ceil(384 / 7) = 55 backbone and ceil(128 / 7) = 19 draft experts.
  const uint64_t expert = 18'800'640;
  EXPECT_EQ(plan.devices[0].weights, 11'530'714'440 + 40 * 55 * expert + 3 * 19 * expert);
}

TEST(MemoryPlan, ProcessorsOnly) {
  PlanRequest request;
  request.host_bytes = uint64_t{1} << 40;
  EXPECT_EQ(Plan(request).verdict, "fits");
  EXPECT_TRUE(Plan(request).devices.empty());
  request.host_bytes = uint64_t{400} << 30;
  EXPECT_EQ(Plan(request).verdict, "fits with Engram on disk");
  request.host_bytes = uint64_t{64} << 30;
  const MemoryPlan mapped = Plan(request);
  EXPECT_TRUE(mapped.mapped_weights);
  EXPECT_EQ(mapped.verdict, "fits with routed experts and Engram memory-mapped");
  EXPECT_NEAR(Gib(mapped.host.weights), 10.74, 0.01);
  request.host_bytes = uint64_t{8} << 30;
  EXPECT_EQ(Plan(request).verdict, "does not fit");
}

TEST(MemoryPlan, SmallModelFitsAnywhere) {
  PlanRequest request;
  request.context = 4096;
  request.host_bytes = uint64_t{2} << 30;
  const MemoryPlan plan = Plan(request, SyntheticConfig());
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.bytes, 4'006'944u);
  EXPECT_EQ(plan.max_sequences_at.count(8192), 0u);  // beyond the model's context limit
  EXPECT_GT(plan.max_sequences_at.at(4096), 0);
}

TEST(MemoryPlan, RequestsOutOfRangeAreRefused) {
  const auto where = [](std::function<void(PlanRequest&)> change) {
    PlanRequest request = H200(8, EngramPlacement::kAuto);
    change(request);
    return PlanMemory(ReleasedConfig(), request).status().where();
  };
  EXPECT_EQ(where([](PlanRequest& r) { r.num_devices = -1; }), "gpus");
  EXPECT_EQ(where([](PlanRequest& r) { r.num_devices = 1 << 30; }), "gpus");
  EXPECT_EQ(where([](PlanRequest& r) { r.device_bytes = 0; }), "gpu");
  EXPECT_EQ(where([](PlanRequest& r) { r.device_bytes = UINT64_MAX; }), "gpu");
  EXPECT_EQ(where([](PlanRequest& r) { r.host_bytes = 0; }), "host-memory");
  EXPECT_EQ(where([](PlanRequest& r) { r.utilisation = 0; }), "utilisation");
  EXPECT_EQ(where([](PlanRequest& r) { r.utilisation = 1.01; }), "utilisation");
  EXPECT_EQ(where([](PlanRequest& r) { r.context = 0; }), "context");
  EXPECT_EQ(where([](PlanRequest& r) { r.context = 1048577; }), "context");
  EXPECT_EQ(where([](PlanRequest& r) { r.sequences = 0; }), "sequences");
  EXPECT_EQ(where([](PlanRequest& r) { r.draft = 6; }), "draft");
}

TEST(MemoryPlan, LargestRequestsDoNotWrapAround) {
  PlanRequest request = H200(1, EngramPlacement::kDisk);
  request.sequences = 10'000'000;
  request.context = 1048576;
  const MemoryPlan plan = Plan(request);
  EXPECT_FALSE(plan.fits);
  EXPECT_LT(plan.devices[0].free(), 0);
}

TEST(MemoryPlan, DeviceMemoryByNameAndNumber) {
  EXPECT_EQ(ParseDeviceMemory("h200").value(), uint64_t{143'771} << 20);
  EXPECT_EQ(ParseDeviceMemory("80GiB").value(), uint64_t{80} << 30);
  EXPECT_EQ(ParseDeviceMemory("80GB").value(), 80'000'000'000u);
  EXPECT_EQ(ParseDeviceMemory("1048576").value(), 1'048'576u);
  for (const char* bad :
       {"", "h300", "-1", "0", "12XB", "99999999999999999999", "999999999999GiB", "1.5GiB"}) {
    EXPECT_EQ(ParseDeviceMemory(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(MemoryPlan, PlacementNames) {
  for (const char* name : {"auto", "device", "host", "disk"})
    EXPECT_EQ(EngramPlacementName(ParseEngramPlacement(name).value()), name);
  EXPECT_FALSE(ParseEngramPlacement("gpu").ok());
}

}  // namespace
}  // namespace deepinfer
