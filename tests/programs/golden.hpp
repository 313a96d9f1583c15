#pragma once

#include <gtest/gtest.h>

#include <string>

/// Compares the output of a program with a file in golden/.
///
/// In the file, `<*>` matches any text within a line, and a line `<...>` matches any number of lines.
/// A failure shows the first difference, and writes the output to a file that can replace the golden one.
namespace golden {

/// Returns whether a text matches a pattern; a failure names the first difference.
testing::AssertionResult Matches(const std::string& pattern, const std::string& text);

/// Returns whether a text matches golden/NAME.
testing::AssertionResult MatchesFile(const std::string& name, const std::string& text);

}  // namespace golden
