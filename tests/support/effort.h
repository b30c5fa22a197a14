#pragma once

// How much a test tries. A law over many cases is checked on all of them; the sanitizers take ten times as long and
// look for something else, for which a few cases are enough.
namespace foretrain::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace foretrain::testing
