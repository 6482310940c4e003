# Writes OUT: VERSION, and the digest of the sources in the folders DIRS of ROOT, so that engines in the cache are
# those of this program and of no other version of it.
set(all "")
foreach(dir ${DIRS})
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${dir}/*.cpp ${ROOT}/${dir}/*.h
       ${ROOT}/${dir}/*.proto ${ROOT}/${dir}/*.comp ${ROOT}/${dir}/*.glsl)
  list(FILTER files EXCLUDE REGEX "^csrc/(cli|tokenizer)/")  # vkexec's own: no engine depends on it
  list(SORT files)
  foreach(f ${files})
    file(SHA256 ${ROOT}/${f} digest)
    string(APPEND all "${f} ${digest}\n")
  endforeach()
endforeach()
string(SHA256 digest "${all}")
file(WRITE ${OUT} "#include \"csrc/version.h\"\n\nnamespace tv {\n\n")
file(APPEND ${OUT} "const char* const kBuilderVersion = \"${VERSION}\";\n")
file(APPEND ${OUT} "const char* const kSourceDigest =\n    \"${digest}\";\n\n}  // namespace tv\n")
