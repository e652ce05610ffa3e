// Files that are broken, foreign or made to hurt: each is refused with the name of the field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/test_tokenizers.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer {
namespace {

using deepinfer::testing::FieldOf;
using deepinfer::testing::FromDocument;
using deepinfer::testing::SmallDocument;
using deepinfer::testing::V3Json;
using json::Array, json::Object, json::Value;
using ::testing::HasSubstr;

void ExpectRefused(const Value& document, std::string_view where, std::string_view message) {
  const auto tokenizer = FromDocument(document);
  ASSERT_FALSE(tokenizer.ok()) << where << ": " << message;
  EXPECT_EQ(tokenizer.status().where(), where);
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(message));
  EXPECT_THAT(tokenizer.status().code(),
              ::testing::AnyOf(StatusCode::kDataLoss, StatusCode::kResourceExhausted));
}

void ExpectRefusedAfter(std::string_view path, Value value, std::string_view where,
                        std::string_view message) {
  Value document = SmallDocument();
  FieldOf(document, path) = std::move(value);
  ExpectRefused(document, where, message);
}

TEST(HostileTokenizerTest, TheUnchangedDocumentIsFine) {
  const auto tokenizer = FromDocument(SmallDocument());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->vocab_size(), 260);
  EncodeOptions options;
  options.added_tokens = true;
  EXPECT_EQ((*tokenizer)->Encode("aaaaaaa<a>", options).value(), (std::vector<int32_t>{257, 256, 'a', 258}));
}

TEST(HostileTokenizerTest, OtherPipelinesAreRefused) {
  ExpectRefusedAfter("version", "2.0", "version", "must be \"1.0\"");
  ExpectRefusedAfter("version", 1, "version", "must be");
  ExpectRefusedAfter("truncation", Object{{"max_length", 512}}, "truncation", "must be null");
  ExpectRefusedAfter("padding", Object{}, "padding", "must be null");
  ExpectRefusedAfter("surprise", 1, "surprise", "unknown field");
  ExpectRefusedAfter("normalizer", Object{{"type", "NFC"}}, "normalizer.type", "must be \"Sequence\"");
  ExpectRefusedAfter("normalizer",
                     Object{{"type", "Sequence"}, {"normalizers", Array{Object{{"type", "NFC"}}}}},
                     "normalizer.normalizers", "must be an empty list");
  ExpectRefusedAfter("normalizer", Array{}, "normalizer", "must be an object");
  ExpectRefusedAfter("pre_tokenizer", nullptr, "pre_tokenizer", "must be an object");
  ExpectRefusedAfter("pre_tokenizer.type", "ByteLevel", "pre_tokenizer.type", "must be \"Sequence\"");
  ExpectRefusedAfter("pre_tokenizer.pretokenizers", Array{}, "pre_tokenizer.pretokenizers",
                     "three Split steps");
  const std::string first = "pre_tokenizer.pretokenizers[0]";
  ExpectRefusedAfter(first + ".pattern.Regex", "\\p{N}", first + ".pattern.Regex", "must be the pattern");
  ExpectRefusedAfter(first + ".pattern.Regex", "\\p{N}{1,2}", first + ".pattern.Regex",
                     "must be the pattern");
  ExpectRefusedAfter(first + ".pattern", Object{{"String", "x"}}, first + ".pattern.String", "unknown field");
  ExpectRefusedAfter(first + ".behavior", "Removed", first + ".behavior", "must be \"Isolated\"");
  ExpectRefusedAfter(first + ".invert", true, first + ".invert", "must be false");
  ExpectRefusedAfter(first + ".type", "Digits", first + ".type", "must be \"Split\"");
  const std::string last = "pre_tokenizer.pretokenizers[3]";
  ExpectRefusedAfter(last + ".add_prefix_space", true, last + ".add_prefix_space", "must be false");
  ExpectRefusedAfter(last + ".use_regex", true, last + ".use_regex", "must be false");
  ExpectRefusedAfter(last + ".use_regex", "no", last + ".use_regex", "must be true or false");
  ExpectRefusedAfter("post_processor", Object{{"type", "TemplateProcessing"}}, "post_processor.type",
                     "must be \"ByteLevel\"");
  ExpectRefusedAfter("decoder", nullptr, "decoder", "must be an object");
  ExpectRefusedAfter("decoder.type", "Metaspace", "decoder.type", "must be \"ByteLevel\"");
}

TEST(HostileTokenizerTest, OtherModelsAreRefused) {
  ExpectRefusedAfter("model", 5, "model", "must be an object");
  ExpectRefusedAfter("model.type", "Unigram", "model.type", "must be \"BPE\"");
  ExpectRefusedAfter("model.dropout", 0.1, "model.dropout", "must be null");
  ExpectRefusedAfter("model.unk_token", "<unk>", "model.unk_token", "must be null");
  ExpectRefusedAfter("model.continuing_subword_prefix", "##", "model.continuing_subword_prefix",
                     "must be null");
  ExpectRefusedAfter("model.end_of_word_suffix", "</w>", "model.end_of_word_suffix", "must be null");
  ExpectRefusedAfter("model.fuse_unk", true, "model.fuse_unk", "must be false");
  ExpectRefusedAfter("model.byte_fallback", true, "model.byte_fallback", "must be false");
  ExpectRefusedAfter("model.ignore_merges", true, "model.ignore_merges", "must be false");
  ExpectRefusedAfter("model.ignore_merges", 0, "model.ignore_merges", "must be true or false");
  ExpectRefusedAfter("model.speed", 9, "model.speed", "unknown field");
  Value document = SmallDocument();
  FieldOf(document, "model.end_of_word_suffix") = "";
  FieldOf(document, "model.ignore_merges") = false;
  EXPECT_TRUE(FromDocument(document).ok());
}

TEST(HostileTokenizerTest, BrokenVocabulariesAreRefused) {
  ExpectRefusedAfter("model.vocab", Array{}, "model.vocab", "must be an object");
  ExpectRefusedAfter("model.vocab", Object{}, "model.vocab", "byte 0 has no token");
  ExpectRefusedAfter("model.vocab.aa", 257, "model.vocab", "id 257 is used by both \"aa\" and \"aaaa\"");
  ExpectRefusedAfter("model.vocab.aa", 258, "model.vocab", "id 258 of \"aa\" is outside 0 to 257");
  ExpectRefusedAfter("model.vocab.aa", int64_t{1} << 31, "model.vocab", "id 2147483648 of \"aa\" is outside");
  ExpectRefusedAfter("model.vocab.aa", UINT64_MAX, "model.vocab", "is outside");
  ExpectRefusedAfter("model.vocab.aa", -1, "model.vocab", "is no unsigned integer");
  ExpectRefusedAfter("model.vocab.aa", 2.5, "model.vocab", "is no unsigned integer");
  ExpectRefusedAfter("model.vocab.aa", "256", "model.vocab", "is no unsigned integer");
  Value document = SmallDocument();
  FieldOf(document, "model.vocab").AsObject().emplace_back("", 258);
  ExpectRefused(document, "model.vocab", "id 258 has an empty string");
  document = SmallDocument();
  FieldOf(document, "model.vocab").AsObject()[65].first = "AB";  // the token of byte 65 is gone
  ExpectRefused(document, "model.vocab", "byte 65 has no token");
}

TEST(HostileTokenizerTest, BrokenMergesAreRefused) {
  ExpectRefusedAfter("model.merges", Object{}, "model.merges", "must be a list");
  ExpectRefusedAfter("model.merges[1]", "a z", "model.merges[1]", "the merged token is not in model.vocab");
  ExpectRefusedAfter("model.merges[1]", "a aaa", "model.merges[1]",
                     "the token \"aaa\" is not in model.vocab");
  ExpectRefusedAfter("model.merges[1]", "中 a", "model.merges[1]", "is not in model.vocab");
  ExpectRefusedAfter("model.merges[1]", "a a", "model.merges[1]", "the same pair has an earlier rule");
  ExpectRefusedAfter("model.merges[1]", "a", "model.merges[1]", "must be two token strings");
  ExpectRefusedAfter("model.merges[1]", "a a a", "model.merges[1]", "must be two token strings");
  ExpectRefusedAfter("model.merges[1]", "a ", "model.merges[1]", "the token \"\" is not in model.vocab");
  ExpectRefusedAfter("model.merges[1]", "", "model.merges[1]", "must be two token strings");
  ExpectRefusedAfter("model.merges[1]", Array{"a"}, "model.merges[1]", "must be two token strings");
  ExpectRefusedAfter("model.merges[1]", Array{"a", 1}, "model.merges[1]", "must be two token strings");
  ExpectRefusedAfter("model.merges[1]", 7, "model.merges[1]", "must be two token strings");
  Value document = SmallDocument();
  FieldOf(document, "model.merges[1]") = Array{"aa", "aa"};
  EXPECT_TRUE(FromDocument(document).ok());
}

TEST(HostileTokenizerTest, BrokenAddedTokensAreRefused) {
  ExpectRefusedAfter("added_tokens", Object{}, "added_tokens", "must be a list");
  ExpectRefusedAfter("added_tokens[0]", "x", "added_tokens[0]", "must be an object");
  ExpectRefusedAfter("added_tokens[1].id", 258, "added_tokens[1].id", "must be 259, not 258");
  ExpectRefusedAfter("added_tokens[1].id", 261, "added_tokens[1].id", "must be 259, not 261");
  ExpectRefusedAfter("added_tokens[1].id", -1, "added_tokens[1].id", "must be an integer from 0");
  ExpectRefusedAfter("added_tokens[1].id", int64_t{1} << 31, "added_tokens[1].id",
                     "must be an integer from 0");
  ExpectRefusedAfter("added_tokens[1].id", "259", "added_tokens[1].id", "must be an integer from 0");
  ExpectRefusedAfter("added_tokens[1].content", "<a>", "added_tokens[1].content", "stands twice");
  ExpectRefusedAfter("added_tokens[1].content", "", "added_tokens[1].content",
                     "must be a string that is not empty");
  ExpectRefusedAfter("added_tokens[1].content", 5, "added_tokens[1].content",
                     "must be a string that is not empty");
  ExpectRefusedAfter("added_tokens[1].content", std::string(1025, 'x'), "added_tokens[1].content",
                     "longer than 1024");
  ExpectRefusedAfter("added_tokens[1].content", "aa", "added_tokens[1].id", "must be 256, not 259");
  ExpectRefusedAfter("added_tokens[1].lstrip", true, "added_tokens[1].lstrip", "must be false");
  ExpectRefusedAfter("added_tokens[1].single_word", true, "added_tokens[1].single_word", "must be false");
  ExpectRefusedAfter("added_tokens[1].rstrip", nullptr, "added_tokens[1].rstrip", "must be true or false");
  ExpectRefusedAfter("added_tokens[1].colour", 1, "added_tokens[1].colour", "unknown field");
  Value document = SmallDocument();
  FieldOf(document, "added_tokens[0].content") = "aa";
  FieldOf(document, "added_tokens[0].id") = 256;
  FieldOf(document, "added_tokens[1].id") = 258;
  EXPECT_TRUE(FromDocument(document).ok());  // an entry of the vocabulary may be an added token, too
  FieldOf(document, "added_tokens[0].content") = "Ġ";
  FieldOf(document, "added_tokens[0].id") = 32;
  ExpectRefused(document, "added_tokens[0].content", "means other bytes");
}

TEST(HostileTokenizerTest, MissingFieldsAreNamed) {
  for (const char* field : {"version", "pre_tokenizer", "decoder", "model", "added_tokens"}) {
    Value document = SmallDocument();
    std::erase_if(document.AsObject(), [&](const auto& member) { return member.first == field; });
    ExpectRefused(document, field, "the field is missing");
  }
  for (const char* field : {"type", "vocab", "merges"}) {
    Value document = SmallDocument();
    std::erase_if(FieldOf(document, "model").AsObject(),
                  [&](const auto& member) { return member.first == field; });
    ExpectRefused(document, std::string("model.") + field, "the field is missing");
  }
}

TEST(HostileTokenizerTest, TextsThatAreNoDocumentAreRefused) {
  const std::string nested = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string("\xFF\xFE"),
        nested, "{\"model\":" + nested + "}", std::string("{\"version\":\"1.0\",\"version\":\"1.0\"}")}) {
    const auto tokenizer = Tokenizer::FromJson(text);
    EXPECT_FALSE(tokenizer.ok());
  }
}

TEST(HostileTokenizerTest, CutFilesAreRefused) {
  const std::string& text = V3Json();
  for (size_t size = 0; size < text.size(); size += text.size() / 7) {
    EXPECT_FALSE(Tokenizer::FromJson(std::string_view(text).substr(0, size)).ok());
  }
  const std::string small = json::Serialize(SmallDocument());
  for (size_t size = 0; size < small.size(); ++size) {
    ASSERT_FALSE(Tokenizer::FromJson(std::string_view(small).substr(0, size)).ok()) << size;
  }
}

TEST(HostileTokenizerTest, HugeListsAreRefusedOrBounded) {
  // Added tokens of more text than any real file.
  Value document = SmallDocument();
  Array& added = FieldOf(document, "added_tokens").AsArray();
  for (int i = 0; i < 1100; ++i) {
    Value entry = added[0];
    entry.Set("content", std::to_string(i) + std::string(1000, 'x'));
    entry.Set("id", 260 + i);
    added.push_back(entry);
  }
  ExpectRefused(document, "added_tokens", "together exceed 1048576 bytes");
  // More values than any real file.
  std::string text = "[0";
  for (size_t i = 0; i < kMaxTokenizerValues; ++i) text += ",0";
  EXPECT_FALSE(Tokenizer::FromJson(text + "]").ok());
  // A token of a megabyte is legal; nothing about it is quadratic.
  document = SmallDocument();
  FieldOf(document, "model.vocab").AsObject().emplace_back(std::string(1 << 20, 'a'), 258);
  FieldOf(document, "added_tokens[0].id") = 259;
  FieldOf(document, "added_tokens[1].id") = 260;
  EXPECT_TRUE(FromDocument(document).ok());
}

}  // namespace
}  // namespace deepinfer
