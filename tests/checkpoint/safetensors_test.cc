// The reader against every rule, hardening and abuse case of checkpoint.md §7.
#include "checkpoint/safetensors.h"

#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "checkpoint/safetensors_writer.h"
#include "support/cpu_timer.h"
#include "temp_dir.h"

namespace deepinfer {
namespace {

using testing::TempDir;
using testing::WriteText;

Result<SafetensorsHeader> Parse(std::string_view json, uint64_t data_bytes,
                                const SafetensorsLimits& limits = {}) {
  return SafetensorsHeader::Parse(json, data_bytes, limits);
}

/// Expects a refusal whose message contains `part`.
void ExpectRefused(std::string_view json, uint64_t data_bytes, std::string_view part) {
  const auto header = Parse(json, data_bytes);
  ASSERT_FALSE(header.ok()) << json.substr(0, 200);
  EXPECT_EQ(header.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(header.status().ToString().find(part), std::string::npos) << header.status().ToString();
}

std::string LengthField(uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i));
  return out;
}

Result<SafetensorsFileHeader> ReadFileHeader(std::string_view content) {
  const TempDir dir;
  WriteText(dir / "x.safetensors", content);
  auto file = RandomAccessFile::Open(dir / "x.safetensors");
  return ReadSafetensorsHeader(*file);
}

void ExpectFileRefused(std::string_view content, std::string_view part) {
  const auto header = ReadFileHeader(content);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(header.status().ToString().find(part), std::string::npos) << header.status().ToString();
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("a":{"shape":[],"data_offsets":[24,26],"dtype":"BF16"}})";

TEST(Safetensors, ReadsAHeader) {
  const auto header = Parse(kTwo, 26);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  ASSERT_EQ(header->size(), 2u);
  const auto b = header->entry(0);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, StorageDtype::kF32);
  EXPECT_EQ((std::vector<uint64_t>(b.shape.begin(), b.shape.end())), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(b.end, 24u);
  const auto a = header->entry(*header->Find("a"));
  EXPECT_EQ(a.dtype, StorageDtype::kBf16);
  EXPECT_TRUE(a.shape.empty());
  EXPECT_FALSE(header->Find("c").has_value());
  ASSERT_EQ(header->metadata().size(), 1u);
  EXPECT_EQ(header->metadata()[0].second, "pt");
}

TEST(Safetensors, AcceptsEmptyHeadersPaddingAndWhitespace) {
  EXPECT_TRUE(Parse("{}", 0).ok());
  EXPECT_TRUE(Parse("{}      ", 0).ok());
  EXPECT_TRUE(
      Parse("{ \"a\" :\n{ \"dtype\" : \"U8\" , \"shape\" : [ 1 ] , \"data_offsets\" : [ 0 , 1 ] } } ", 1)
          .ok());
  EXPECT_TRUE(Parse(R"({"__metadata__":{}})", 0).ok());
}

TEST(Safetensors, AcceptsEmptyTensorsAnywhere) {
  const auto header = Parse(
      R"({"z":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"I8","shape":[3,0],"data_offsets":[0,0]}})",
      4);
  EXPECT_TRUE(header.ok()) << header.status().ToString();
}

TEST(Safetensors, KnowsEveryDtype) {
  const std::vector<std::pair<const char*, int>> dtypes = {
      {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
      {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  EXPECT_EQ(dtypes.size(), static_cast<size_t>(kNumStorageDtypes));
  for (const auto& [name, bits] : dtypes) {
    const std::string json = std::string(R"({"a":{"dtype":")") + name +
                             R"(","shape":[8],"data_offsets":[0,)" + std::to_string(bits) + "]}}";
    const auto header = Parse(json, static_cast<uint64_t>(bits));
    ASSERT_TRUE(header.ok()) << name << header.status().ToString();
    EXPECT_EQ(StorageDtypeName(header->entry(0).dtype), name);
    EXPECT_EQ(StorageDtypeBits(header->entry(0).dtype), bits);
  }
}

TEST(Safetensors, SubByteTensorsMustFillWholeBytes) {
  EXPECT_TRUE(Parse(R"({"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}})", 3).ok());
  ExpectRefused(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "whole bytes");
  ExpectRefused(R"({"a":{"dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2]}})", 2, "whole bytes");
}

// --- Abuse: the length field ---------------------------------------------------------------------------------------------

TEST(SafetensorsAbuse, FileShorterThanTheLengthField) {
  ExpectFileRefused("", "too short");
  ExpectFileRefused("1234567", "too short");
}

TEST(SafetensorsAbuse, HeaderLongerThanTheFile) {
  ExpectFileRefused(LengthField(100) + "{}", "longer than the file");
}

TEST(SafetensorsAbuse, HeaderLengthNearTwoToThe64) {
  ExpectFileRefused(LengthField(UINT64_MAX) + "{}", "longer than the file");
  ExpectFileRefused(LengthField(UINT64_MAX - 7) + "{}", "longer than the file");
  ExpectFileRefused(LengthField(uint64_t{1} << 63) + "{}", "longer than the file");
}

TEST(SafetensorsAbuse, HeaderLengthZeroAndOne) {
  ExpectFileRefused(LengthField(0), "does not begin with '{'");
  ExpectFileRefused(LengthField(0) + "{}", "does not begin with '{'");
  ExpectFileRefused(LengthField(1) + "{", "expected");
  ExpectFileRefused(LengthField(1) + "}", "does not begin with '{'");
}

TEST(SafetensorsAbuse, HeaderAboveTheCap) {
  const TempDir dir;
  WriteText(dir / "x", LengthField(17 << 20));
  std::filesystem::resize_file(dir / "x", 18 << 20);
  const auto file = RandomAccessFile::Open(dir / "x");
  const auto header = ReadSafetensorsHeader(*file);
  ASSERT_FALSE(header.ok());
  EXPECT_NE(header.status().message().find("more than the limit"), std::string::npos);
}

TEST(SafetensorsAbuse, FileCutInThePayload) {
  const std::string json = R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]}})";
  ExpectFileRefused(LengthField(json.size()) + json + "123456789", "the file is cut");
  EXPECT_TRUE(ReadFileHeader(LengthField(json.size()) + json + "1234567890").ok());
  ExpectFileRefused(LengthField(json.size()) + json + "12345678901", "behind the last tensor");
}

// --- Abuse: JSON ---------------------------------------------------------------------------------------------------------

TEST(SafetensorsAbuse, NotAnObject) {
  for (const char* json : {"", "[]", " {}", "null", "\"a\"", "{", "{}}", "{} x", "{}\n", "{}\t", "{\"a\"}",
                           "{\"a\":1}", "{,}"}) {
    ExpectRefused(json, 0, "");
  }
}

TEST(SafetensorsAbuse, InvalidUtf8) {
  ExpectRefused("{\"a\xFF\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "UTF-8");
  ExpectRefused("{\"__metadata__\":{\"k\":\"\xC0\x80\"}}", 0, "UTF-8");
}

TEST(SafetensorsAbuse, LoneSurrogates) {
  ExpectRefused(R"({"__metadata__":{"k":"\ud800"}})", 0, "surrogate");
  ExpectRefused(R"({"\udc00":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "surrogate");
  EXPECT_TRUE(Parse(R"({"__metadata__":{"k":"\ud83d\ude00"}})", 0).ok());
}

TEST(SafetensorsAbuse, ControlCharactersAndNulInNames) {
  ExpectRefused(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "printable");
  ExpectRefused(R"({"a\nb":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "printable");
  ExpectRefused("{\"a\nb\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "control character");
  ExpectRefused(R"({"é":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "printable");
  ExpectRefused(R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "printable");
}

TEST(SafetensorsAbuse, NamesAbove512Bytes) {
  const auto named = [](size_t n) {
    return "{\"" + std::string(n, 'a') + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  };
  EXPECT_TRUE(Parse(named(512), 0).ok());
  ExpectRefused(named(513), 0, "too long");
}

TEST(SafetensorsAbuse, DuplicateNames) {
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2, "occurs twice");
}

TEST(SafetensorsAbuse, DuplicateNamesAfterUnescaping) {
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2, "occurs twice");
}

TEST(SafetensorsAbuse, DuplicateFieldsAndMetadata) {
  ExpectRefused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "occurs twice");
  ExpectRefused(R"({"__metadata__":{},"__metadata__":{}})", 0, "occurs twice");
  ExpectRefused(R"({"__metadata__":{"a":"1","\u0061":"2"}})", 0, "occurs twice");
}

TEST(SafetensorsAbuse, MetadataWithOtherValuesThanStrings) {
  for (const char* value : {"1", "null", "true", "{}", "[]", "1.5"}) {
    ExpectRefused(std::string(R"({"__metadata__":{"k":)") + value + "}}", 0, "");
  }
  ExpectRefused(R"({"__metadata__":"x"})", 0, "");
}

TEST(SafetensorsAbuse, DeepNesting) {
  ExpectRefused("{\"a\":" + std::string(1'000'000, '['), 0, "");
  ExpectRefused("{\"a\":" + std::string(1'000'000, '{'), 0, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "");
}

TEST(SafetensorsAbuse, MissingUnknownAndMistypedFields) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks");
  ExpectRefused(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "lacks");
  ExpectRefused(R"({"a":{}})", 0, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "unknown field");
  ExpectRefused(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1, "");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[null],"data_offsets":[0,1]}})", 1, "");
}

TEST(SafetensorsAbuse, UnknownDtype) {
  ExpectRefused(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype");
  ExpectRefused(R"({"a":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype");
  ExpectRefused(R"({"a":{"dtype":"","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype");
}

// --- Abuse: numbers, shapes, offsets ---------------------------------------------------------------------------------------

TEST(SafetensorsAbuse, OffsetsThatAreNoPlainIntegers) {
  for (const char* end : {"-1", "1.0", "1.5", "1e0", "1E0", "+1", "01", "\"1\"", "18446744073709551616"}) {
    ExpectRefused(std::string(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,)") + end + "]}}", 1, "");
  }
}

TEST(SafetensorsAbuse, OffsetsAboveTwoToThe63) {
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775808,9223372036854775809]}})", 1,
      "gap");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}})", 1,
      "whole bytes");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[2305843009213693951],"data_offsets":[0,2305843009213693951]}})", 1,
      "the file is cut");
}

TEST(SafetensorsAbuse, BeginBehindEnd) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "end before they begin");
}

TEST(SafetensorsAbuse, Gaps) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "gap");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
      3, "gap");
  ExpectRefused("{}", 1, "behind the last tensor");
}

TEST(SafetensorsAbuse, Overlaps) {
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
      3, "overlap");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
      3, "overlap");
}

TEST(SafetensorsAbuse, ManyEntriesOnOneRange) {
  std::string json = "{";
  for (int i = 0; i < 1000; ++i) {
    json += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[4096],"data_offsets":[0,4096]})";
  }
  ExpectRefused(json + "}", 4096, "overlap");
}

TEST(SafetensorsAbuse, ShapeOverflow) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                "overflows");
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
                "overflows");
  ExpectRefused(
      R"({"a":{"dtype":"U8","shape":[18446744073709551615,18446744073709551615,0],"data_offsets":[0,0]}})", 0,
      "overflows");
}

TEST(SafetensorsAbuse, ShapeAndRangeDisagree) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})", 4, "needs 3 bytes");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,2]}})", 2, "needs 1 bytes");  // a scalar
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,0]}})", 0, "needs 1 bytes");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,1]}})", 1, "needs 0 bytes");
}

TEST(SafetensorsAbuse, RankAboveEight) {
  EXPECT_TRUE(Parse(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1).ok());
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
                "too many dimensions");
}

TEST(SafetensorsAbuse, EntryAndMetadataCaps) {
  SafetensorsLimits limits;
  limits.max_tensors = 1;
  limits.max_metadata = 1;
  EXPECT_FALSE(Parse(kTwo, 26, limits).ok());
  EXPECT_FALSE(Parse(R"({"__metadata__":{"a":"","b":""}})", 0, limits).ok());
  limits.max_header_bytes = 10;
  EXPECT_FALSE(Parse(kTwo, 26, limits).ok());
}

// --- Abuse: blow-up. Each answer takes less than a second and memory stays near the size of the text. ------------------------

std::string RepeatedToSize(std::string_view prefix, const std::function<std::string(size_t)>& item,
                           size_t bytes) {
  std::string json(prefix);
  for (size_t i = 0; json.size() < bytes; ++i) json += item(i);
  json.back() = '}';  // the last comma
  return json;
}

void ExpectQuickRefusal(const std::string& json, uint64_t data_bytes, double seconds = 1.0) {
  const testing::CpuTimer timer;
  const auto header = Parse(json, data_bytes);
  const double took = timer.Seconds();
  EXPECT_FALSE(header.ok());
#ifdef NDEBUG
  EXPECT_LT(took, seconds * testing::kSanitizerFactor);
#else
  static_cast<void>(took + seconds);
#endif
}

constexpr size_t kNearlyTheCap = (size_t{16} << 20) - 100;

TEST(SafetensorsAbuse, HundredsOfThousandsOfEntriesOnOneByte) {
  ExpectQuickRefusal(RepeatedToSize(
                         "{",
                         [](size_t i) {
                           return "\"" + std::to_string(i) +
                                  R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)";
                         },
                         kNearlyTheCap),
                     1);
}

TEST(SafetensorsAbuse, HundredsOfThousandsOfEqualNames) {
  ExpectQuickRefusal(
      RepeatedToSize(
          "{", [](size_t) { return std::string(R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"); },
          kNearlyTheCap),
      0);
}

TEST(SafetensorsAbuse, LongEqualPrefixes) {
  ExpectQuickRefusal(RepeatedToSize(
                         "{",
                         [](size_t i) {
                           return "\"" + std::string(500, 'x') + std::to_string(i % 30000) +
                                  R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
                         },
                         kNearlyTheCap),
                     0);
}

TEST(SafetensorsAbuse, MillionsOfMetadataKeys) {
  const std::string json =
      RepeatedToSize(
          R"({"__metadata__":{)", [](size_t i) { return "\"" + std::to_string(i) + "\":\"\","; },
          kNearlyTheCap) +
      "}";
  ExpectQuickRefusal(json, 0);
}

TEST(Safetensors, MemoryStaysBelowTheTextForAFullHeader) {
  const std::string json = RepeatedToSize(
      "{",
      [](size_t i) {
        return "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
               std::to_string(i) + "," + std::to_string(i + 1) + "]},";
      },
      kNearlyTheCap);
  const uint64_t count = static_cast<uint64_t>(std::count(json.begin(), json.end(), ':') / 4);
  const auto header = Parse(json, count);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->size(), count);
  EXPECT_LT(header->memory_bytes(), 2 * json.size());
}

// --- Files ---------------------------------------------------------------------------------------------------------------

TEST(Safetensors, RoundTripThroughTheWriter) {
  const TempDir dir;
  const std::vector<TensorSpec> specs = {{"b.weight", StorageDtype::kF8E4M3, {3, 5}},
                                         {"a", StorageDtype::kF32, {}},
                                         {"empty", StorageDtype::kBf16, {0, 4}},
                                         {"c \"quoted\"", StorageDtype::kBf16, {7}}};
  for (const uint64_t remainder : {0, 1, 3, 7}) {
    SafetensorsWriteOptions options;
    options.metadata = {{"format", "pt"}};
    options.remainder = remainder;
    options.extra_padding = 17 * remainder;
    auto writer = SafetensorsWriter::Create(dir / "x", specs, options);
    ASSERT_TRUE(writer.ok());
    std::vector<std::byte> payload(15 + 4 + 14);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i);
    ASSERT_TRUE(writer->Append(std::span(payload).first(10)).ok());
    EXPECT_EQ(writer->Append(std::vector<std::byte>(100)).code(), StatusCode::kInvalidArgument);
    ASSERT_TRUE(writer->Append(std::span(payload).subspan(10)).ok());
    ASSERT_TRUE(writer->Finish().ok());

    const auto file = RandomAccessFile::Open(dir / "x");
    const auto read = ReadSafetensorsHeader(*file);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->data_start % 8, remainder);
    ASSERT_EQ(read->header.size(), specs.size());
    for (const TensorSpec& spec : specs) {
      const auto entry = read->header.entry(*read->header.Find(spec.name));
      EXPECT_EQ(entry.dtype, spec.dtype);
      EXPECT_EQ(std::vector<uint64_t>(entry.shape.begin(), entry.shape.end()), spec.shape);
    }
    std::byte byte;
    ASSERT_TRUE(file->ReadAt(read->data_start + 15, std::span(&byte, 1)).ok());
    EXPECT_EQ(byte, std::byte{15});
  }
}

TEST(SafetensorsWriter, RefusesAnIncompletePayloadAndOverflow) {
  const TempDir dir;
  auto writer = SafetensorsWriter::Create(dir / "x", std::vector<TensorSpec>{{"a", StorageDtype::kU8, {4}}});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->Finish().code(), StatusCode::kInvalidArgument);
  const std::vector<TensorSpec> huge = {{"a", StorageDtype::kF64, {UINT64_MAX}}};
  EXPECT_EQ(SafetensorsWriter::Create(dir / "y", huge).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SafetensorsWriter::Create(dir / "no/such/folder", {}).status().code(), StatusCode::kIo);
}

TEST(Safetensors, RandomHeadersSurviveRandomDamage) {
  std::mt19937_64 random(7);
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 40; ++i) {
    TensorSpec spec{"layers." + std::to_string(i) + ".x", static_cast<StorageDtype>(4 + random() % 10), {}};
    for (uint64_t r = random() % 4; r > 0; --r) spec.shape.push_back(random() % 5);
    specs.push_back(spec);
  }
  uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += spec.num_bytes();
  const std::string good = BuildSafetensorsHeader(specs).substr(8);
  ASSERT_TRUE(Parse(good, bytes).ok());
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (uint64_t k = 1 + random() % 3; k > 0; --k)
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    accepted += Parse(bad, bytes).ok()
                    ? 1
                    : 0;  // a changed name is still sound; anything else must be refused, never crash
  }
  EXPECT_LT(accepted, 3000 / 2);
}

}  // namespace
}  // namespace deepinfer
