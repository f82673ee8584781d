# CalmWheel: what the Python wheel holds beside bindings/python/calmalloc. The folder of the package becomes a small
# image of this tree, so that tools/calm finds its things there as it does here; what it starts lies ready in lib/.
# Wheels hold no links: the library is one file.
set(calm_wheel calmalloc)
install(FILES $<TARGET_FILE:calmalloc> DESTINATION ${calm_wheel}/lib RENAME libcalmalloc.so COMPONENT python)
install(FILES $<TARGET_FILE:calm_sizes> $<TARGET_FILE:calm_record_library> DESTINATION ${calm_wheel}/lib
    COMPONENT python)
install(PROGRAMS $<TARGET_FILE:calm_launch> $<TARGET_FILE:calm_simulator> $<TARGET_FILE:calm_pool_measure>
    $<TARGET_FILE:calmq> $<TARGET_FILE:calm_record> $<TARGET_FILE:calm_replay> DESTINATION ${calm_wheel}/lib
    COMPONENT python)
install(DIRECTORY tools/calm DESTINATION ${calm_wheel}/tools COMPONENT python
    PATTERN __pycache__ EXCLUDE)
install(DIRECTORY include/ DESTINATION ${calm_wheel}/include COMPONENT python)
install(FILES src/front/options.def DESTINATION ${calm_wheel}/src/front COMPONENT python)
