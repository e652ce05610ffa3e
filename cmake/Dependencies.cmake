# Third-party packages, all from the distribution. Found here, at the top, so that the imported targets are visible in
# every folder. Each one is wrapped by exactly one module (scripts/check_layering.py), but for fmt.
function(deepinfer_report_missing package debian_package)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is missing (Debian package ${debian_package}). "
      "scripts/setup-debian.sh installs everything that is needed.")
  endif()
endfunction()

find_package(fmt QUIET)
deepinfer_report_missing(fmt libfmt-dev)
find_package(nlohmann_json QUIET)
deepinfer_report_missing(nlohmann_json nlohmann-json3-dev)
find_package(OpenSSL QUIET COMPONENTS Crypto)
deepinfer_report_missing(OpenSSL libssl-dev)
find_package(simdjson QUIET)
deepinfer_report_missing(simdjson libsimdjson-dev)
find_package(PkgConfig QUIET)
deepinfer_report_missing(PkgConfig pkg-config)
pkg_check_modules(pcre2 QUIET IMPORTED_TARGET libpcre2-8)
deepinfer_report_missing(pcre2 libpcre2-dev)
