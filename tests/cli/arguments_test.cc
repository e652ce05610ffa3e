#include "cli/arguments.h"

#include <gtest/gtest.h>

#include "cli/batch_request.h"

namespace deepinfer::cli {
namespace {

CommandSpec Spec() {
  CommandSpec spec;
  spec.name = "test";
  spec.max_positionals = 1;
  spec.groups = {
      {.title = "All",
       .options = {{.name = "--number",
                    .short_name = "-n",
                    .kind = ValueKind::kInteger,
                    .value = "N",
                    .min = 1,
                    .max = 9},
                   {.name = "--real",
                    .kind = ValueKind::kReal,
                    .value = "X",
                    .min = 0,
                    .max = 1,
                    .min_excluded = true},
                   {.name = "--seed", .kind = ValueKind::kUnsigned, .value = "N"},
                   {.name = "--text", .kind = ValueKind::kText, .value = "TEXT", .repeated = true},
                   {.name = "--choice", .kind = ValueKind::kChoice, .value = "A", .choices = {"on", "off"}},
                   {.name = "--maybe", .kind = ValueKind::kText, .value = "GLOB", .optional_value = true},
                   {.name = "--flag"}}}};
  return spec;
}

Result<Arguments> Parse(const std::vector<std::string>& args) { return ParseArguments(Spec(), args); }

TEST(Arguments, ReadsEveryKind) {
  const Result<Arguments> args =
      Parse({"--number=3", "--real", "0.5", "--seed", "18446744073709551615", "--text", "-a", "--text",
             "[b,c]", "--choice", "off", "--maybe", "operand", "--flag"});
  ASSERT_TRUE(args.ok()) << args.status().ToString();
  EXPECT_EQ(args->Integer("--number", 0), 3);
  EXPECT_EQ(args->Real("--real", 0), 0.5);
  EXPECT_EQ(args->Unsigned("--seed", 0), UINT64_MAX);
  EXPECT_EQ(args->All("--text"), (std::vector<std::string>{"-a", "[b,c]"}));
  EXPECT_EQ(args->Text("--choice"), "off");
  EXPECT_EQ(args->Text("--maybe"), "*");
  EXPECT_TRUE(args->Has("--flag"));
  EXPECT_EQ(args->positionals(), std::vector<std::string>{"operand"});
  EXPECT_EQ(Parse({"-n", "4"})->Integer("--number", 0), 4);
  EXPECT_EQ(Parse({})->Integer("--number", 7), 7);
}

TEST(Arguments, DashesAfterTheEndOfOptions) {
  EXPECT_EQ(Parse({"--flag", "--", "--number"})->positionals(), std::vector<std::string>{"--number"});
  EXPECT_EQ(Parse({"-"})->positionals(), std::vector<std::string>{"-"});
}

TEST(Arguments, RefusesWithTheOptionAndItsRange) {
  struct Case {
    std::vector<std::string> args;
    std::string part;
  };
  for (const Case& c : std::vector<Case>{{{"--number", "0"}, "an integer from 1 to 9"},
                                         {{"--number", "10"}, "from 1 to 9"},
                                         {{"--number", "3.0"}, "--number"},
                                         {{"--number", "99999999999999999999"}, "--number"},
                                         {{"--real", "0"}, "(0, 1]"},
                                         {{"--real", "nan"}, "--real"},
                                         {{"--real", "inf"}, "--real"},
                                         {{"--real", "0.5x"}, "--real"},
                                         {{"--seed", "-1"}, "--seed"},
                                         {{"--choice", "of"}, "one of on, off"},
                                         {{"--number"}, "needs a value"},
                                         {{"--flag=1"}, "--flag"},
                                         {{"--nmber", "3"}, "unknown option --nmber"},
                                         {{"-x"}, "unknown option -x"},
                                         {{"a", "b"}, "one argument"}}) {
    const Result<Arguments> args = Parse(c.args);
    ASSERT_FALSE(args.ok()) << c.args.front();
    EXPECT_EQ(args.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(args.status().message().find(c.part), std::string::npos) << args.status().message();
  }
  EXPECT_EQ(Parse({"--nmber", "3"}).status().hint(), "--number");
}

TEST(Arguments, Ids) {
  EXPECT_EQ(*ParseIds("0,17, 4085\n", "ids"), (std::vector<int32_t>{0, 17, 4085}));
  EXPECT_TRUE(ParseIds("", "ids")->empty());
  for (const char* bad : {"x", "1,-2", "2147483648", "1.5", "0x10"})
    EXPECT_FALSE(ParseIds(bad, "ids").ok()) << bad;
}

TEST(LineIdentity, SeedsAndIdsDependOnInputAndLineAndSeedsFitEveryJsonReader) {
  const Sha256Digest a = Sha256Of("a"), b = Sha256Of("b");
  EXPECT_EQ((LineIdentity{a, 0}.Seed()), (LineIdentity{a, 0}.Seed()));
  EXPECT_NE((LineIdentity{a, 0}.Seed()), (LineIdentity{a, 1}.Seed()));
  EXPECT_NE((LineIdentity{a, 0}.Seed()), (LineIdentity{b, 0}.Seed()));
  EXPECT_LT((LineIdentity{a, 0}.Seed()), uint64_t{1} << 53);
  EXPECT_EQ((LineIdentity{a, 0}.Id("x")), (LineIdentity{a, 0}.Id("x")));
  EXPECT_NE((LineIdentity{a, 0}.Id("x")), (LineIdentity{a, 1}.Id("x")));
  EXPECT_NE((LineIdentity{a, 0}.Id("x")), (LineIdentity{b, 0}.Id("x")));
  EXPECT_NE((LineIdentity{a, 0}.Id("x")), (LineIdentity{a, 0}.Id("y")));
  EXPECT_EQ((LineIdentity{a, 0}.Id("x")).size(), 32U);
}

}  // namespace
}  // namespace deepinfer::cli
