/*
 * rseq_aarch64.h of the simulated machine: the same plain code on every processor.
 */
#include "os/linux/rseq_x86_64.h"
