/*
 * emulated.cpp: skips, on qemu's user mode, the tests whose subject it does not have, and says why.
 *
 * Linked into the tests of another processor only. They all pass on a kernel; what is left out here
 * is about the kernel below, never about the processor's instructions.
 */
#include <gtest/gtest.h>

#include <unistd.h>

#include <string>

namespace
{

struct absent {
    const char *test, *why;
    bool is_large_pages_only = false;
};

const char advice[] = "takes any advice on memory for given, and populates nothing";
const char maps[] = "holds all addresses, so the kernel's table of mappings shows its own";
const char shifted[] =
    "may place a program's addresses a page beside the kernel's, whose list says what is resident";
const char limits[] = "does not pass on a limit of address space";
const char sentence[] = "adds a sentence of its own when a signal ends a program";
const char moves[] = "cannot move pages and leave their addresses mapped";
const char copies[] = "has no process_vm_readv";
const char addresses[] = "has 4 GiB of addresses, which the heap's reservation leaves little of";
const char forks[] = "stops when the child of a program of several threads begins one itself";
const char stack[] = "does not name the stack among the mappings when pages are large";

const absent absents[] = {
    {"CheckDeathTest.AStopWritesOneSentenceAndAborts", sentence},
    {"CheckDeathTest.ASentenceThatIsTooLongIsCutAndStillStops", sentence},
    {"Create.EveryPageIsThereUnlessLazy", advice},
    {"Create.UsingAPoolFaultsNoPageIn", advice},
    {"Create.DestroyReturnsTheMapping", maps},
    {"Claim.AMappingReadsAsZeroAndIsResidentWhenPopulated", advice},
    {"Claim.TooMuchIsRefusedAndTheOutputUntouched", advice},
    {"Claim.AHugeMappingIsAlignedAndWholeAndLeavesNothingBeside", advice},
    {"Memory.AReservationIsAlignedInaccessibleAndNotResident", maps},
    {"Memory.MovedPagesTakeTheirBytesAndLeaveZeroes", moves},
    {"Memory.ARenewedRangeIsZeroAndJoinsItsNeighbours", maps},
    {"Memory.NoCallTouchesErrno", maps},
    {"Modules.EveryObjectOfTheDynamicLinkerHasItsBiasAndBuildId", copies},
    {"Modules.AFileThatOnlyLooksLikeAnImageHasNoBuildId", copies},
    {"Modules.TheListOfMappingsIsTheKernelsOwn", stack, true},
    {"RegionDeathTest.NearlyAllOfALimitIsUsableWheneverItIsSet", limits},
    {"RegionDeathTest.WithoutAddressSpaceTheStartFailsAndALaterOneWorks", limits},
    {"Registry.CachesThatAreMadeAtTheSameTimeAreAllKnownByDifferentNumbers", addresses},
    {"Thread.ManyThreadsAtOnceShareOneBudget", addresses},
    {"Thread.AChildRepairsACacheWhoseOwnerWasStoppedInsideAPopOrAPush", forks},
    {"Thread.AChildForgetsACacheWhoseOwnerWasMovingBlocksAbout", forks},
    {"Extent.TheFrontMovesUpInStepsAndTheKernelAgrees", maps},
    {"Large.HoweverOftenHugeBlocksMoveTheMappingsStayFew", moves},
    {"Stats.ResidentIsWhatTheKernelCallsResident", shifted},
    {"Extent.WhenTheStepDoesNotFitWhatIsNeededStillDoes", limits},
};

class skipper : public testing::EmptyTestEventListener
{
    void OnTestStart(const testing::TestInfo &info) override
    {
        const bool has_large_pages = sysconf(_SC_PAGESIZE) > 4096;
        std::string name = std::string(info.test_suite_name()) + "." + info.name();
        for (const absent &item : absents)
            if (name == item.test && (!item.is_large_pages_only || has_large_pages))
                GTEST_SKIP() << "the emulator " << item.why;
    }
};

/* The list of listeners takes it over. Before main, which runs the tests. */
const bool is_listening = (testing::UnitTest::GetInstance()->listeners().Append(new skipper), true);

} // namespace
