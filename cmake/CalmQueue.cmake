# CalmQueue: calmq, the queue server on the executor (tools/mq).
#
#   calm_mq_parts  static, what needs no socket: requests, queues, commands; what tests link
#   calmq          the program; with io_uring where liburing is there

set(calm_mq ${CMAKE_CURRENT_SOURCE_DIR}/tools/mq)
add_library(calm_mq_parts STATIC ${calm_mq}/parse.c ${calm_mq}/queue.c ${calm_mq}/jobs.c ${calm_mq}/wait.c
    ${calm_mq}/reply.c ${calm_mq}/command.c ${calm_mq}/command_queue.c ${calm_mq}/command_key.c
    ${calm_mq}/command_job.c ${calm_mq}/command_client.c ${calm_mq}/session_jobs.c ${calm_mq}/crc32c.c
    ${calm_mq}/keep_format.c)
target_include_directories(calm_mq_parts PUBLIC ${calm_mq} ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_compile_definitions(calm_mq_parts PRIVATE _GNU_SOURCE)
target_link_libraries(calm_mq_parts PRIVATE calm_warnings calm_hardening PUBLIC calmpool calm_instrument m)

find_path(CALM_URING_HEADER liburing.h)
find_library(CALM_URING_LIBRARY NAMES liburing.a uring) # the archive first: the program then runs where it is not
set(calm_mq_loop ${calm_mq}/loop_uring_absent.c)
if(CALM_URING_HEADER AND CALM_URING_LIBRARY)
    set(calm_mq_loop ${calm_mq}/loop_uring.c)
endif()
add_executable(calmq ${calm_mq}/main.c ${calm_mq}/options.c ${calm_mq}/core.c ${calm_mq}/connection.c ${calm_mq}/info.c
    ${calm_mq}/keep.c ${calm_mq}/keep_read.c ${calm_mq}/keep_write.c ${calm_mq}/listen.c ${calm_mq}/loop_epoll.c
    ${calm_mq}/signals.c ${calm_mq_loop})
target_compile_definitions(calmq PRIVATE _GNU_SOURCE)
target_link_libraries(calmq PRIVATE calm_warnings calm_hardening calm_mq_parts calmexec)
target_link_options(calmq PRIVATE -Wl,-z,now -Wl,-z,relro)
if(CALM_URING_HEADER AND CALM_URING_LIBRARY)
    target_include_directories(calmq SYSTEM PRIVATE ${CALM_URING_HEADER})
    target_link_libraries(calmq PRIVATE ${CALM_URING_LIBRARY})
endif()
