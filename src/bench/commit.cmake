# Writes the commit that is being built into a header, each time the program is built, and the trees from which results
# follow; the file changes only when they do. Called with SOURCE_DIR and OUTPUT.
cmake_minimum_required(VERSION 3.25)  # a script of its own: without this, old policies and their warnings hold
set(commit "")
set(trees "")
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND git describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Ten digits each, in the order of tests/lint/test_record.py, which compares them with those of the newest commit.
  if(NOT commit MATCHES "-dirty$")
    foreach(folder src include python cmake)
      execute_process(COMMAND git rev-parse --short=10 HEAD:${folder} WORKING_DIRECTORY ${SOURCE_DIR}
                      OUTPUT_VARIABLE tree OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      string(APPEND trees " ${tree}")
    endforeach()
    string(STRIP "${trees}" trees)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"// Empty outside a git checkout; trees are empty where files differ from the commit's.
#define TILEWRIGHT_COMMIT \"@commit@\"
#define TILEWRIGHT_TREES \"@trees@\"
" @ONLY)
