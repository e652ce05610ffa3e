#include "cli/line_editor.h"

#include <gtest/gtest.h>

namespace deepinfer::cli {
namespace {

TEST(EditBuffer, MovesByCharactersNotBytes) {
  EditBuffer buffer;
  buffer.Insert("aé｜b");
  buffer.Left();
  buffer.Left();
  EXPECT_EQ(buffer.cursor(), 3u);  // behind a and é
  buffer.Backspace();
  EXPECT_EQ(buffer.text(), "a｜b");
  buffer.Delete();
  EXPECT_EQ(buffer.text(), "ab");
  buffer.Right();
  buffer.Right();  // at the end already
  EXPECT_EQ(buffer.cursor(), 2u);
}

TEST(EditBuffer, Words) {
  EditBuffer buffer;
  buffer.Set("one two  three");
  buffer.WordLeft();
  EXPECT_EQ(buffer.cursor(), 9u);
  buffer.DeleteWord();
  EXPECT_EQ(buffer.text(), "one three");
  buffer.Home();
  buffer.WordRight();
  EXPECT_EQ(buffer.cursor(), 3u);
  buffer.DeleteToEnd();
  EXPECT_EQ(buffer.text(), "one");
  buffer.DeleteToBegin();
  EXPECT_EQ(buffer.text(), "");
  buffer.Backspace();
  buffer.Delete();
  buffer.WordLeft();
  EXPECT_EQ(buffer.text(), "");
}

}  // namespace
}  // namespace deepinfer::cli
