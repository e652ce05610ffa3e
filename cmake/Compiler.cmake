# Compiler settings shared by every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

find_package(Threads REQUIRED)

# Every own target links this. No contraction of a*b+c anywhere by default: rounding points are part of the
# contract (spec: model.md §3); a kernel that wants a fused multiply-add says so in its source.
add_library(deepinfer_compile_options INTERFACE)
target_compile_options(deepinfer_compile_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off -fno-math-errno)
# g++ 12 warns about code that it has itself inlined from the standard library (moves of std::variant, `"x" + std::string`,
# GCC bugs 105651 and 105329). These warnings have only false findings here; the sanitizer presets look for the true ones.
foreach(warning maybe-uninitialized restrict array-bounds stringop-overflow stringop-overread)
  target_compile_options(deepinfer_compile_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-${warning}>)
endforeach()
option(DEEPINFER_WERROR "Treat warnings as errors" OFF)
if(DEEPINFER_WERROR)
  target_compile_options(deepinfer_compile_options INTERFACE -Werror)
endif()
target_link_libraries(deepinfer_compile_options INTERFACE Threads::Threads)
if(DEEPINFER_SANITIZE)
  # -O1 -g1: the checks make -O2 builds take more than twice as long, and line numbers are all that a report needs.
  add_compile_options(-O1 -g1 -fsanitize=${DEEPINFER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DEEPINFER_SANITIZE})
endif()
if(DEEPINFER_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # the coverage that guides the fuzzers comes from every module
endif()
