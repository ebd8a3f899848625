import type { ValueType } from '@shardwise/core/spec';
import type { AttentionWork, PagedAttentionWork } from '../../program/work/attention-work.ts';
import type {
  AttentionInstruction,
  PagedInstruction,
} from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import type { CpuProgram, CpuInstruction } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';

/** The functions that compile attention. Backends that don't compute attention themselves do not load them. */
export interface AttentionPlanning {
  /**
   * If the attention rounds its weights to bf16, makes it read the bf16 values that its f32 operands were cast from.
   */
  narrow(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction;
  /** Makes attention whose keys and values lie in blocks read them as they are stored, in fewer bits than they are cast to. */
  readStored(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction;
  /** If attention's result is only cast to bf16, makes the attention store bf16. */
  narrowResult(instruction: CpuInstruction, uses: Uses, rewriter: Rewriter): CpuInstruction;
  /** The instructions, with the logarithms of sums moved behind the attention of the same queries and keys. */
  withLogSums(instructions: readonly CpuInstruction[]): readonly CpuInstruction[];
  /** Divides consecutive instructions into lists. One partition computes all instructions of a list. */
  partitionsOf(instructions: readonly CpuInstruction[]): readonly (readonly CpuInstruction[])[];
  /** The instructions, with one instruction for all gradients of an attention, if the program concatenates them. */
  gathered(
    instructions: readonly CpuInstruction[],
    program: Pick<CpuProgram, 'values' | 'outputs' | 'updates'>,
  ): readonly CpuInstruction[];
  /** The ids of the results of permutes and slices that attention reads through. */
  headViews(program: CpuProgram): ReadonlySet<number>;
  /**
   * Describes the attention of one partition. Its operands lie in memory; queries, keys and values may be views. `bf16`
   * says whether bf16 products are supported.
   */
  workOf(
    instructions: readonly AttentionInstruction[],
    values: readonly ValueType[],
    flow: Dataflow,
    bf16: boolean,
  ): AttentionWork;
  /** Describes attention whose keys and values lie in blocks. */
  pagedWorkOf(
    instruction: PagedInstruction,
    program: Pick<CpuProgram, 'values' | 'inputCount'>,
    flow: Dataflow,
  ): PagedAttentionWork;
}
