// Empty: its targets exist for their precompiled headers (tests/CMakeLists.txt).
