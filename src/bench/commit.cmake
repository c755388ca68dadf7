# Writes the commit that is being built into a header, each time the program is built, and the trees from which results
# follow; the file changes only when they do. Called with SOURCE_DIR and OUTPUT.
cmake_minimum_required(VERSION 3.25)  # a script of its own: without this, old policies and their warnings hold
set(folders src include python cmake)  # as in tests/lint/test_record.py, which compares them with the newest commit's

function(git result)
  execute_process(COMMAND git ${ARGN} WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE text
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(commit "")
set(trees "")
if(EXISTS ${SOURCE_DIR}/.git)
  git(commit rev-parse --short=10 HEAD)
  # Other files, records for one, may differ from the commit's.
  git(changed status --porcelain --untracked-files=no -- ${folders} CMakeLists.txt)
  if(NOT changed STREQUAL "")
    string(APPEND commit -dirty)
  else()
    foreach(folder ${folders})
      git(tree rev-parse --short=10 HEAD:${folder})
      list(APPEND trees "${tree}")
    endforeach()
    list(JOIN trees " " trees)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"// Empty outside a git checkout; trees are empty where files differ from the commit's.
#define TILEWRIGHT_COMMIT \"@commit@\"
#define TILEWRIGHT_TREES \"@trees@\"
" @ONLY)
