deepinfer_fuzzer(fuzz_safetensors SOURCES fuzz_safetensors.cc DEPS base tensor checkpoint)
deepinfer_fuzzer(fuzz_config SOURCES fuzz_config.cc DEPS base tensor checkpoint)
deepinfer_fuzzer(fuzz_index SOURCES fuzz_index.cc DEPS base tensor checkpoint)
