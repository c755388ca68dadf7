/* Included before everything. glibc 2.38 gives strtol and similar functions new names for C23's binary literals; a
   program built with them does not start on Debian 12 (glibc 2.36). This keeps the old names. Source: glibc's
   features.h. */
#if defined(__linux__)
#include <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
#endif
