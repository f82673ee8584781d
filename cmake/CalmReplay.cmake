# CalmReplay: what `calm record` and `calm replay` start.
#
#   calm_record_library  libcalm_record.so, preloaded before an allocator: writes down its calls
#   calm_record          starts the program and reads what that library writes
#   calm_replay          repeats the calls; it is given its allocator as any program is

if(NOT CALM_HAS_GLIBC) # `calm` puts libraries under programs of glibc only
    return()
endif()

set(calm_record_dir ${CMAKE_CURRENT_SOURCE_DIR}/tools/record)
set(calm_replay_dir ${CMAKE_CURRENT_SOURCE_DIR}/tools/replay)

add_library(calm_record_library SHARED ${calm_record_dir}/recorder.c)
set_target_properties(calm_record_library PROPERTIES OUTPUT_NAME calm_record)
target_link_libraries(calm_record_library PRIVATE calm_warnings calm_hardening ${CMAKE_DL_LIBS})
target_link_options(calm_record_library PRIVATE -Wl,-z,now -Wl,-z,relro)
target_compile_options(calm_record_library PRIVATE -fno-builtin -fexceptions)

add_executable(calm_record ${calm_record_dir}/collector.c ${calm_record_dir}/session.c ${calm_record_dir}/sites.c
    ${calm_record_dir}/areas.c ${calm_record_dir}/blocks.c ${calm_record_dir}/encode.c ${calm_record_dir}/codec.c)
target_link_libraries(calm_record PRIVATE calm_warnings calm_hardening)

add_executable(calm_replay ${calm_replay_dir}/main.c ${calm_replay_dir}/run.c ${calm_replay_dir}/decode.c
    ${calm_replay_dir}/stubs.c ${calm_record_dir}/areas.c ${calm_record_dir}/codec.c)
target_link_libraries(calm_replay PRIVATE calm_warnings calm_hardening Threads::Threads)
target_compile_options(calm_replay PRIVATE -fno-builtin)
