/*
 * rseq_aarch64.h for models: the same sequences; the machine's instructions play no part.
 */
#include "os/linux/rseq_x86_64.h"
