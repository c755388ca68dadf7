# Writes the commit that is being built into a header, each time the program is built; the file changes only when the
# commit does. Called with SOURCE_DIR and OUTPUT.
cmake_minimum_required(VERSION 3.25)  # a script of its own: without this, old policies and their warnings hold
set(commit "")
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND git describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "// Empty outside a git checkout.\n#define TILEWRIGHT_COMMIT \"@commit@\"\n" @ONLY)
