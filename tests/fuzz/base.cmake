deepinfer_fuzzer(fuzz_json SOURCES fuzz_json.cc DEPS base)
