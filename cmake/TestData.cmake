# Unpacks the archives of testdata/ into the build tree, once per content. Target: deepinfer_test_data.
# tests find the result under DEEPINFER_TEST_DATA_DIR: goldens/, demo-model/, demo-eval/, tokenizer/.
set(DEEPINFER_TEST_DATA_DIR ${PROJECT_BINARY_DIR}/data)
file(GLOB DEEPINFER_ARCHIVES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/testdata/*.tar.zst)
find_program(ZSTD_PROGRAM zstd REQUIRED)
set(stamps)
foreach(archive IN LISTS DEEPINFER_ARCHIVES)
  get_filename_component(stem ${archive} NAME)
  set(stamp ${DEEPINFER_TEST_DATA_DIR}/.${stem}.stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${DEEPINFER_TEST_DATA_DIR}
    COMMAND tar --use-compress-program=${ZSTD_PROGRAM} -xf ${archive} -C ${DEEPINFER_TEST_DATA_DIR}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${archive} COMMENT "Unpacking ${stem}" VERBATIM)
  list(APPEND stamps ${stamp})
endforeach()
add_custom_target(deepinfer_test_data ALL DEPENDS ${stamps})
