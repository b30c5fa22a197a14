#pragma once

#include <string>
#include <vector>

#include "sim/report/terminal.h"
#include "sim/scenario/scenario.h"

namespace foretrain::report {

// Whether plans are part of what was understood, or what an answer looked for.
enum class Plans { shown, looked_for };

// The cases as they were understood, with a heading; what all of them share once. Empty without cases.
std::string understood(const std::vector<const Case*>& cases, Plans plans, const Terminal& terminal);

// What is said about a case.
struct Said {
  std::string of;
  std::vector<Message> sentences;
};

// Sentences under a heading. Those that several cases share are printed once, with the cases they are about unless that
// is all of them. Empty if nothing is said.
std::string sentences(const Message& title, const std::vector<Said>& all, const Terminal& terminal);

// What was filled in on the user's behalf.
std::string assumed(const std::vector<const Case*>& cases, const Terminal& terminal);

// Both at the end of an answer, each after an empty line.
std::string as_understood(const std::vector<const Case*>& cases, Plans plans, const Terminal& terminal);

}  // namespace foretrain::report
