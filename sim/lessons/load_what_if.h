#pragma once

#include "sim/lessons/lesson.h"

namespace foretrain {

// The `what_if` of a lesson; `base` is the lesson's, null if it has none. nullopt if anything is wrong.
std::optional<WhatIf> read_what_if(const config::Node& node, const config::Node* base, const DataFolder& data,
                                   Diagnostics& diagnostics);

}  // namespace foretrain
