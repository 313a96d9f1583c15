#pragma once

#include <gtest/gtest.h>

#include <string>

/// Compares what a program prints with a file in golden/.
///
/// In the file `<*>` stands for anything within a line, and a line of `<...>` for any number of lines. A
/// difference is shown by the first line that differs, and the whole output is left in a file that can become
/// the golden one.
namespace golden {

/// Whether a text is as a pattern has it; else says where it differs first.
testing::AssertionResult Matches(const std::string& pattern, const std::string& text);

/// Whether a text is as golden/NAME has it.
testing::AssertionResult MatchesFile(const std::string& name, const std::string& text);

}  // namespace golden
