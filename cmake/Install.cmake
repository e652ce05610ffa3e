# `cmake --install`: the program, the demo model (found by the program under ../share/deepinfer), manual page and completions.
include(GNUInstallDirs)

if(TARGET deepinfer)
  install(TARGETS deepinfer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${DEEPINFER_TEST_DATA_DIR}/demo-model DESTINATION ${CMAKE_INSTALL_DATADIR}/deepinfer)
  # Written by the build from the option tables; absent when the program could not be run on the build machine.
  set(generated ${PROJECT_BINARY_DIR}/generated)
  install(FILES ${generated}/deepinfer.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${generated}/completions/deepinfer.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME deepinfer OPTIONAL)
  install(FILES ${generated}/completions/_deepinfer DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(FILES ${generated}/completions/deepinfer.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
