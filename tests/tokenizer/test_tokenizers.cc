#include "tokenizer/test_tokenizers.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/pretokenizer.h"

namespace deepinfer::testing {
namespace {

const std::string kDataFolder = DEEPINFER_TEST_DATA;

std::string ReadOrDie(const std::string& path) {
  Result<std::string> text = ReadFile(path, kMaxTokenizerBytes);
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  return text.ok() ? std::move(text).value() : std::string();
}

std::shared_ptr<const Tokenizer> ParseOrDie(const std::string& text) {
  auto tokenizer = Tokenizer::FromJson(text);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

json::Value AddedEntry(int64_t id, std::string content, bool normalized, bool special) {
  json::Value entry;
  entry.Set("id", id);
  entry.Set("content", std::move(content));
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) entry.Set(flag, false);
  entry.Set("normalized", normalized);
  entry.Set("special", special);
  return entry;
}

std::string MmSpan(int number) {
  char text[64];
  std::snprintf(text, sizeof(text), "<|place_holder_mm_span_%04d|>", number);
  return text;
}

constexpr std::string_view kFrom128800[] = {"<｜fim▁hole｜>",
                                            "<｜fim▁begin｜>",
                                            "<｜fim▁end｜>",
                                            "<｜User｜>",
                                            "<｜Assistant｜>",
                                            "<|EOT|>",
                                            "<｜tool▁calls▁begin｜>",
                                            "<｜tool▁calls▁end｜>",
                                            "<｜tool▁call▁begin｜>",
                                            "<｜tool▁call▁end｜>",
                                            "<｜tool▁outputs▁begin｜>",
                                            "<｜tool▁outputs▁end｜>",
                                            "<｜tool▁output▁begin｜>",
                                            "<｜tool▁output▁end｜>",
                                            "<｜tool▁sep｜>",
                                            "<｜begin▁of▁repo▁name｜>",
                                            "<｜end▁of▁repo▁name｜>",
                                            "<｜begin▁of▁file▁name｜>",
                                            "<｜end▁of▁file▁name｜>",
                                            "<｜begin▁of▁file｜>",
                                            "<｜end▁of▁file｜>",
                                            "<think>",
                                            "</think>",
                                            "<｜place▁holder▁for▁copy｜>",
                                            "<｜place▁holder▁for▁pointer▁replace｜>",
                                            "｜DSML｜",
                                            "<｜begin▁sys｜>",
                                            "<｜end▁sys｜>",
                                            "<｜latest_reminder｜>",
                                            "<｜action｜>",
                                            "<｜query｜>",
                                            "<｜authority｜>",
                                            "<｜domain｜>",
                                            "<｜task｜>",
                                            "<｜political｜>",
                                            "<｜entity｜>",
                                            "<｜title｜>",
                                            "<｜safety｜>",
                                            "<｜answer｜>",
                                            "<｜search｜>",
                                            "<dsml:",
                                            "</dsml:",
                                            "<｜search▁begin｜>",
                                            "<｜search▁end｜>",
                                            "<｜extracted_url｜>",
                                            "<｜read_url｜>",
                                            "<｜end_of_query｜>"};
constexpr std::string_view kFrom129271[] = {"<｜/polygon｜>", "<｜polygon｜>", "<｜/point｜>", "<｜point｜>",
                                            "<｜/box｜>",     "<｜box｜>",     "<｜/ref｜>",   "<｜ref｜>"};

/// Text of an added token of the released model.
std::string ReleasedAddedText(int id) {
  if (id < 128799) return "<｜place▁holder▁no▁" + std::to_string(id - 128000) + "｜>";
  if (id == 128799) return "<｜System｜>";
  if (id < 128847) return std::string(kFrom128800[id - 128800]);
  if (id < 129262) return MmSpan(id - 128826);
  if (id == 129262) return "<｜rl_image_pad｜>";
  if (id == 129263) return "<｜rl_image_start｜>";
  if (id == 129264) return "<｜deepseek_image｜>";
  if (id < 129271) return MmSpan(id - 129265 + 436);
  if (id < 129279) return std::string(kFrom129271[id - 129271]);
  return MmSpan(442);
}

std::string MakeV41Json() {
  static_assert(std::size(kFrom128800) == 128847 - 128800);
  json::Value document = json::Parse(V3Json()).value();
  json::Value added;
  for (int id = 0; id < 3; ++id)
    added.Append(document.Find("added_tokens")->AsArray()[static_cast<size_t>(id)]);
  for (int id = 128000; id < 129280; ++id) {
    const std::string text = ReleasedAddedText(id);
    const bool placeholder = text.find("place") != std::string::npos && text.find("for") == std::string::npos;
    const bool special = placeholder || text == "<|EOT|>";
    added.Append(AddedEntry(id, text, !placeholder && text != "<｜deepseek_image｜>", special));
  }
  document.Set("added_tokens", std::move(added));
  return json::Serialize(document);
}

}  // namespace

const std::string& V3Json() {
  static const std::string text = ReadOrDie(kDataFolder + "/tokenizer/tokenizer.json");
  return text;
}

const std::string& V41Json() {
  static const std::string text = MakeV41Json();
  return text;
}

std::shared_ptr<const Tokenizer> V3Tokenizer() {
  static const auto tokenizer = ParseOrDie(V3Json());
  return tokenizer;
}

std::shared_ptr<const Tokenizer> V41Tokenizer() {
  static const auto tokenizer = ParseOrDie(V41Json());
  return tokenizer;
}

std::shared_ptr<const Tokenizer> DemoTokenizer() {
  static const auto tokenizer = ParseOrDie(ReadOrDie(kDataFolder + "/demo-model/tokenizer.json"));
  return tokenizer;
}

json::Value SmallDocument() {
  using json::Array, json::Object;
  json::Value steps;
  for (const std::string_view pattern : {kSplitNumbers, kSplitCjk, kSplitWords}) {
    steps.Append(Object{{"type", "Split"},
                        {"pattern", Object{{"Regex", pattern}}},
                        {"behavior", "Isolated"},
                        {"invert", false}});
  }
  const Object byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  steps.Append(byte_level);

  json::Value vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab.Set(SymbolsFromBytes(std::string_view(&c, 1)), byte);
  }
  vocab.Set("aa", 256);
  vocab.Set("aaaa", 257);
  return Object{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Array{AddedEntry(258, "<a>", true, false), AddedEntry(259, "<b>", false, true)}},
      {"normalizer", nullptr},
      {"pre_tokenizer", Object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", Object{{"type", "BPE"},
                       {"dropout", nullptr},
                       {"vocab", std::move(vocab)},
                       {"merges", Array{"a a", "aa aa"}}}}};
}

json::Value& FieldOf(json::Value& document, std::string_view path) {
  json::Value* value = &document;
  while (!path.empty()) {
    if (path[0] == '[') {
      const size_t close = path.find(']');
      value = &value->AsArray().at(std::stoul(std::string(path.substr(1, close - 1))));
      path.remove_prefix(close + 1);
      continue;
    }
    if (path[0] == '.') path.remove_prefix(1);
    const std::string key(path.substr(0, path.find_first_of(".[")));
    path.remove_prefix(key.size());
    auto& members = value->AsObject();
    auto it =
        std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
    value = it != members.end() ? &it->second : &value->Set(key, nullptr);
  }
  return *value;
}

Result<std::shared_ptr<const Tokenizer>> FromDocument(const json::Value& document) {
  return Tokenizer::FromJson(json::Serialize(document));
}

}  // namespace deepinfer::testing
