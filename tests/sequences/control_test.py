"""Shows that the tests of sequences can fail: sequences with one mistake each are refused, by the right sentence.

    control_test.py COMPILER OBJDUMP FOLDER [EMULATOR...]
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NO_HANDOVER = "does not hand it to the kernel"
NO_LAST_STORE = "it does not end with a store"
NO_WAY_ON = "after an abort it does not go on outside of itself"

# What descriptors.py has to say of a library, for both machines: text, replacement, a part of the sentence.
SHAPE = [
    (".long 0, 0", ".long 0, 1", "version or flags are not 0"),
    ("2f - 1f", "0", "a sequence of 0 bytes"),
    ("2f - 1f", "2f - 1f + 1", "lie no whole instructions"),
]
SHAPE_X86 = SHAPE + [
    ("2f - 1f, calm_rseq_aborted", "2f - 1f, 1f", "the abort address lies inside the sequence"),
    (".pushsection __rseq_failure,", ".pushsection .text.unlikely,", "is not in section __rseq_failure"),
    ("2f - 1f, calm_rseq_aborted", "2f - 1f, calm_rseq_aborted - 4", "no signature before the abort address"),
    ("0x53053053", "0x53053054", "no signature before the abort address"),
    ("leaq 9b", "leaq 2f", NO_HANDOVER),
    ("movq %%r11, 8(%[area])", "movq %%r11, 16(%[area])", NO_HANDOVER),
    ("movl 24(%[area])", "movl 4(%[area])", "does not begin by asking for the core"),
    ("movq %[block], (%[base], %[word])", "xchgq %[block], (%[base], %[word])", "xchg"),
    ("ja %l[failed]", "ja 1b", "that does not leave it"),
    (".quad %l[failed]", ".quad 1f", NO_WAY_ON),
    ("jmp *32(%r11)", "jmp *24(%r11)", NO_WAY_ON),
    ("movq %[desired], (%[slots], %[word])", "movq (%[slots], %[word]), %[word]", NO_LAST_STORE),
]
SHAPE_AARCH64 = SHAPE + [
    ("2f - 1f, 4f", "2f - 1f, 1f", "the abort address lies inside the sequence"),
    ("2f - 1f, 4f", "2f - 1f, 4f - 4", "no signature before the abort address"),
    ("2f - 1f", "4f - 1f", NO_LAST_STORE),
    ("0xd428bc00", "0xd428bc20", "no signature before the abort address"),
    (":lo12:9b", ":lo12:4f", NO_HANDOVER),
    ("str %[word], [%[area], #8]", "str %[word], [%[area], #16]", NO_HANDOVER),
    ("ldr %w[word], [%[area], #24]", "ldr %w[word], [%[area], #4]", "does not begin by asking for the core"),
    ("ldr %[base], [%[slots], %[word]]", "ldaxr %[base], [%[slots]]", "ldaxr"),
    ("b.hi 4f", "b.hi 1b", "that does not leave it"),
    ("b %l[failed]", "b 1b", NO_WAY_ON),
]

# What aborts.c has to say when it runs.
WORK_X86 = [
    ("movl 8(%[base], %[offset]), %k[word]", "movl 12(%[base], %[offset]), %k[word]", "step 0: pushed 0"),
    ("ja %l[failed]", "jae %l[failed]", "pushed 0 onto 23"),
    ("cmpl 12(", "cmpl 8(", "step 0: pushed 0"),
    ("subl $8", "subl $16", "step 1: top"),
    ("return NULL;", "return slots;", "not (nil)"),
    ("word / sizeof(struct rseq_slot)", "word / 32", "not swapped"),
    ("return true;", "return false;", "pushed 0 onto 0"),
    ("jne %l[failed]", "je %l[failed]", "swapped what was not there"),
    ("return -1;", "return 0;", "swapped what was not there"),
    ("return false;", "return true;", "pushed 1 onto 24"),
]
WORK_AARCH64 = [
    ("ldr %w[word], [%[entry], #8]", "ldr %w[word], [%[entry], #12]", "step 1: popped"),
    ("b.hi 4f", "b.hs 4f", "pushed 0 onto 23"),
    ("ldp %w[word], %w[limit], [%[entry], #8]", "ldp %w[limit], %w[word], [%[entry], #8]", "step 0: pushed 0"),
    ("sub %w[word], %w[word], #8", "sub %w[word], %w[word], #16", "step 1: top"),
    ("return NULL;", "return slots;", "not (nil)"),
    ("word / sizeof(struct rseq_slot)", "word / 32", "not swapped"),
    ("return true;", "return false;", "pushed 0 onto 0"),
    ("b.ne 4f", "b.eq 4f", "swapped what was not there"),
    ("return -1;", "return 0;", "swapped what was not there"),
    ("return false;", "return true;", "pushed 1 onto 24"),
]
# The top is stored before the block, too.
EARLY_X86 = ("movq %[block], (%[base], %[word])",
             "movl %k[word], 8(%[base], %[offset])\\n\\tmovq %[block], (%[base], %[word])")
EARLY_AARCH64 = ("str %[block], [%[base], %[word]]",
                 "str %w[word], [%[entry], #8]\\n\\tstr %[block], [%[base], %[word]]")
for early, shape, work in ((EARLY_X86, SHAPE_X86, WORK_X86), (EARLY_AARCH64, SHAPE_AARCH64, WORK_AARCH64)):
    shape.append((*early, "3 stores"))
    work.append((*early, "operation 1 at the load or store of the block: changed 1"))

MACHINES = {"x86_64": ("rseq_x86_64.h", SHAPE_X86, WORK_X86),
            "aarch64": ("rseq_aarch64.h", SHAPE_AARCH64, WORK_AARCH64)}


class Control:
    def __init__(self, compiler, objdump, folder, emulator):
        self.compiler, self.objdump, self.folder, self.emulator = compiler, objdump, folder, emulator
        machine = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True).stdout
        self.header, self.shape, self.work = MACHINES[machine.split("-")[0]]
        with open(os.path.join(ROOT, "src", "os", "linux", self.header)) as file:
            self.original = file.read()

    def compiled(self, source, *flags):
        product = os.path.join(self.folder, "changed")
        subprocess.run([self.compiler, "-std=gnu17", "-O2", "-fno-builtin", "-DCALM_CHECKS=1", *flags,
                        *("-I" + folder for folder in (self.folder, os.path.join(ROOT, "src"))),
                        os.path.join(HERE, source), "-o", product], check=True)
        return product

    def shape_of(self):
        library = self.compiled("sequences.c", "-shared", "-fPIC")
        return subprocess.run([sys.executable, os.path.join(HERE, "descriptors.py"), library, self.objdump,
                               "pop", "push", "swap"], stdout=subprocess.PIPE, text=True)

    def work_of(self):
        program = self.compiled("aborts.c")
        return subprocess.run([*self.emulator, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=60)

    def failures(self):
        """A sentence for each mistake that is not refused by the right sentence."""
        for judge, mistakes in ((self.shape_of, self.shape), (self.work_of, self.work)):
            for text, replacement, words in [("", "", ""), *mistakes]:
                if text not in self.original:
                    yield "%s no longer has the text %r" % (self.header, text)
                    continue
                os.makedirs(os.path.join(self.folder, "os", "linux"), exist_ok=True)
                with open(os.path.join(self.folder, "os", "linux", self.header), "w") as file:
                    file.write(self.original.replace(text, replacement))
                done = judge()
                if words not in done.stdout or (done.returncode == 0) != (text == ""):
                    yield "%r as %r: not refused because %r:\n%s" % (text, replacement, words, done.stdout)


def main():
    compiler, objdump, folder, *emulator = sys.argv[1:]
    control = Control(compiler, objdump, folder, emulator)
    failures = list(control.failures())
    for sentence in failures:
        print(sentence)
    print("%d mistakes, %d not refused" % (len(control.shape) + len(control.work), len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
