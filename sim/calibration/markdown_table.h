#pragma once

#include <string>
#include <vector>

namespace foretrain {

// A table of Markdown, with an empty line behind it. Columns of figures are set to the right; every row has as many
// cells as the header.
std::string markdown_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

}  // namespace foretrain
