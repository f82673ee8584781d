# CalmSimulator: the dispatch policies as a library, and the simulated executor that `calm sim` starts.
#
#   calm_policies   static, of src/exec: the same objects for the simulator and for whoever dispatches for real
#   calm_simulation static, tools/sim but its command line: what tests link
#   calm_simulator  the program

file(GLOB calm_sources_policies CONFIGURE_DEPENDS ${calm_src}/exec/*.c)
list(FILTER calm_sources_policies EXCLUDE REGEX "/(${calm_executor_files})\\.c$")
calm_objects(calm_policy_objects ${CALM_CHECKS} ${calm_sources_policies})
add_library(calm_policies STATIC $<TARGET_OBJECTS:calm_policy_objects>)
calm_interface(calm_policies ${CALM_CHECKS})
target_link_libraries(calm_policies PUBLIC $<BUILD_INTERFACE:calm_instrument>)
set_target_properties(calm_policies PROPERTIES LINKER_LANGUAGE C)

set(calm_sim ${CMAKE_CURRENT_SOURCE_DIR}/tools/sim)
file(GLOB calm_sources_simulation CONFIGURE_DEPENDS ${calm_sim}/*.c)
list(REMOVE_ITEM calm_sources_simulation ${calm_sim}/main.c ${calm_sim}/options.c)
add_library(calm_simulation STATIC ${calm_sources_simulation})
target_include_directories(calm_simulation PUBLIC ${calm_sim} ${calm_src})
target_compile_definitions(calm_simulation PUBLIC CALM_CHECKS=${CALM_CHECKS})
target_link_libraries(calm_simulation PRIVATE calm_warnings PUBLIC calm_policies calm_instrument m)

add_executable(calm_simulator ${calm_sim}/main.c ${calm_sim}/options.c)
target_link_libraries(calm_simulator PRIVATE calm_warnings calm_simulation)

# What calls of a pool take on this machine: `calm pool measure`.
add_executable(calm_pool_measure ${CMAKE_CURRENT_SOURCE_DIR}/tools/pool/measure.c)
target_link_libraries(calm_pool_measure PRIVATE calm_warnings calmpool)

# The real executor under the simulator's traffic: bench/dispatch/agree.py compares the two.
add_executable(calm_exec_real ${CMAKE_CURRENT_SOURCE_DIR}/tools/exec/real.c
    ${CMAKE_CURRENT_SOURCE_DIR}/tools/exec/keeper.c)
target_link_libraries(calm_exec_real PRIVATE calm_warnings calmexec calm_simulation Threads::Threads)

# ns a decision, and from a submission to its start: docs/dispatch.md.
add_executable(calm_exec_cost ${CMAKE_CURRENT_SOURCE_DIR}/tools/exec/cost.c
    ${CMAKE_CURRENT_SOURCE_DIR}/tools/exec/keeper.c)
target_link_libraries(calm_exec_cost PRIVATE calm_warnings calmexec calm_simulation Threads::Threads)
