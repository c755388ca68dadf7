// The functions of fmt that every other file only declares (option TILEWRIGHT_FMT_ONCE): -fkeep-inline-functions emits
// them, whichever version of fmt it is.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
