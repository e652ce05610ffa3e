# Third-party packages, all from the distribution. Found here, at the top, so that the imported targets are visible in
# every folder. Each one is wrapped by exactly one module (scripts/check_layering.py), but for fmt.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
