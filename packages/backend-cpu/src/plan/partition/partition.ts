import type { Dataflow } from '../../program/dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import { schedule } from './schedule.ts';
import { elementCount } from '@shardwise/core/base';
import { type CpuProgram, type CpuInstruction, valueAt } from '../../program/instruction.ts';
import { instructionKinds } from './instruction-kinds.ts';
import type { Partition } from '../../program/partition.ts';

/**
 * Cuts a program into few partitions. Each product of ours and each loop in JavaScript is a partition of its own, so
 * that its memory is free again as soon as the partitions that read it have run. Instructions that only feed updates
 * come last, when nothing else reads the old contents any more, so that kernels may write in place.
 */
export function partitionProgram(
  program: CpuProgram,
  flow: Dataflow,
  support: KernelSupport,
): Partition[] {
  const instructions = program.instructions.filter(
    (instruction) => flow.lazy(instruction.output) === undefined,
  );
  const last = updateCone(program, instructions, flow, support);
  const kinds = instructionKinds(instructions, program.values, flow, support);
  const partitions = schedule(
    instructions.filter((instruction) => !last.has(instruction)),
    flow,
    (instruction) => kinds.get(instruction) ?? 'either',
  ).flatMap((partition, index, all) =>
    isAlone(partition)
      ? support
          .partitionsOf(beforeLoops(partition.instructions, all[index + 1], program, flow, support))
          .map((own) => ({ ...partition, instructions: own }))
      : [partition],
  );
  if (last.size === 0) return partitions;
  return [
    ...partitions,
    { kind: 'kernel', instructions: instructions.filter((instruction) => last.has(instruction)) },
  ];
}

const isAlone = ({ kind }: Partition): boolean => kind === 'product' || kind === 'plain';

/**
 * Moves the product that the next partition's loops read first to the end of consecutive products, so that the loops
 * become its epilogue. In a layer's backward pass, the gradient of the input therefore comes behind the gradient of the
 * weights.
 */
function beforeLoops(
  instructions: readonly CpuInstruction[],
  next: Partition | undefined,
  { values }: CpuProgram,
  flow: Dataflow,
  support: KernelSupport,
): readonly CpuInstruction[] {
  const loop = next?.kind === 'kernel' ? next.instructions : [];
  const readFirst = loop
    .filter((instruction) => support.fuses(instruction, values))
    .flatMap((instruction) =>
      [...flow.sources(instruction)].filter(
        (id) => elementCount(valueAt(values, id).shape) === elementCount(instruction.shape),
      ),
    )
    .flatMap((id) => instructions.filter(({ op, output }) => op === 'matmul' && output === id));
  const [last] = readFirst;
  if (last === undefined) return instructions;
  const isRead = instructions.some((instruction) => flow.sources(instruction).has(last.output));
  return isRead
    ? instructions
    : [...instructions.filter((instruction) => instruction !== last), last];
}

/** Elementwise instructions whose results end in updates and nowhere else. */
function updateCone(
  program: CpuProgram,
  instructions: readonly CpuInstruction[],
  flow: Dataflow,
  support: KernelSupport,
): ReadonlySet<CpuInstruction> {
  const updateValues = new Set(program.updates.map(({ value }) => value));
  const readElsewhere = new Set<number>();
  const outputRoots = program.outputs.map((id) => flow.root(id));
  for (const id of outputRoots)
    if (id !== undefined && !updateValues.has(id)) readElsewhere.add(id);
  const cone = new Set<CpuInstruction>();
  const feeds = new Set(updateValues);
  for (const instruction of instructions.toReversed()) {
    const id = instruction.output;
    const belongs =
      feeds.has(id) && !readElsewhere.has(id) && support.fuses(instruction, program.values);
    if (belongs) cone.add(instruction);
    for (const source of flow.sources(instruction)) (belongs ? feeds : readElsewhere).add(source);
  }
  return cone;
}
