# Writes device headers as C++ string literals:  cmake -D ROOT=src -D FILES="hopper/description/kernel.h ..." -D OUTPUT=x.cpp -P this
separate_arguments(FILES)
set(text "#include \"cuda/sources.h\"\n\nnamespace tilewright::cuda {\nnamespace {\nconstexpr SourceFile files[] = {\n")
foreach(name IN LISTS FILES)
  file(READ "${ROOT}/${name}" content)
  string(APPEND text "{\"${name}\", R\"header(${content})header\"},\n")
endforeach()
string(APPEND text "};\n}  // namespace\n\nstd::span<const SourceFile> device_sources() { return files; }\n\n}  // namespace tilewright::cuda\n")
file(WRITE "${OUTPUT}" "${text}")
