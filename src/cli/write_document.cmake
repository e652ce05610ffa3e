# Runs PROGRAM with ARGUMENTS and keeps what it prints: cmake -D PROGRAM=… -D "ARGUMENTS=a;b" -D OUTPUT=… -P write_document.cmake
get_filename_component(folder ${OUTPUT} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_FILE ${OUTPUT} RESULT_VARIABLE failed)
if(failed)
  file(REMOVE ${OUTPUT})
  message(FATAL_ERROR "${PROGRAM} ${ARGUMENTS} failed: ${failed}")
endif()
