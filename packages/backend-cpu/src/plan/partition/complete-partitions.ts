import type { Dataflow } from '../../program/dataflow.ts';
import type { CpuProgram, CpuInstruction } from '../../program/instruction.ts';
import type { Partition, CompletePartition } from '../../program/partition.ts';

/**
 * Completes partitions: adds the lazy instructions that each partition repeats, the inputs it reads from memory and the
 * outputs it leaves there.
 */
export function completePartitions(
  program: CpuProgram,
  partitions: readonly Partition[],
  flow: Dataflow,
): CompletePartition[] {
  const completed = partitions.map((partition) => withLazyInstructions(partition, flow));
  const roots = (ids: readonly number[]): (number | undefined)[] => ids.map((id) => flow.root(id));
  const read = new Set([
    ...roots(program.outputs),
    ...roots(program.updates.map(({ value }) => value)),
    ...roots(completed.flatMap(({ inputs }) => inputs)),
  ]);
  return completed.map((one, index) => {
    const made = partitions[index]?.instructions.map(({ output }) => output) ?? [];
    return { ...one, outputs: made.filter((id) => read.has(id)) };
  });
}

function withLazyInstructions(
  partition: Partition,
  flow: Dataflow,
): Omit<CompletePartition, 'outputs'> {
  const own = new Set(partition.instructions.map(({ output }) => output));
  const inputs = new Set<number>();
  const seen = new Set<number>();
  const instructions: CpuInstruction[] = [];

  function visit(id: number): void {
    if (own.has(id) || seen.has(id)) return;
    seen.add(id);
    const lazy = flow.lazy(id);
    const root = flow.root(id);
    const isView = root !== undefined && !own.has(root);
    // Sessions and plain loops take a view as an input. Kernels repeat it, because kernels that write in place must
    // know which input it reads.
    if (
      lazy === undefined ||
      (isView && (partition.kind === 'onnx' || partition.kind === 'plain'))
    ) {
      inputs.add(id);
      return;
    }
    for (const input of lazy.inputs) visit(input);
    instructions.push(lazy);
  }

  for (const instruction of partition.instructions) {
    for (const id of instruction.inputs) visit(id);
    instructions.push(instruction);
  }
  return { kind: partition.kind, inputs: [...inputs], instructions };
}
