import type { Dataflow } from '../../program/dataflow.ts';
import type { CpuInstruction } from '../../program/instruction.ts';
import type { Partition, PartitionKind, InstructionKind } from '../../program/partition.ts';

/**
 * How many instructions an instruction may overtake to join a partition. Without a limit, all instructions that are
 * ready would run at once, and a program that recomputes activations to save memory would not save any.
 */
const WINDOW_INSTRUCTIONS = 64;

/** Whether a partition of this kind takes instructions of the kind 'either'. */
const takesAny = (kind: PartitionKind): boolean => kind === 'kernel' || kind === 'onnx';

/** Positions of instructions that can run. The first one in program order is taken first. */
class ReadyList {
  readonly #positions: number[] = [];

  add(position: number): void {
    const index = this.#positions.findLastIndex((other) => other < position) + 1;
    this.#positions.splice(index, 0, position);
  }

  get first(): number {
    return this.#positions[0] ?? Infinity;
  }

  takeFirst(): void {
    this.#positions.shift();
  }
}

/**
 * Groups instructions, which are in program order, into partitions. No partition has the kind of the one before. Only
 * kernels and sessions take instructions of the kind 'either'.
 */
export function schedule(
  program: readonly CpuInstruction[],
  flow: Dataflow,
  kindOf: (instruction: CpuInstruction) => InstructionKind,
): Partition[] {
  const waits = waitsOfConversions(program, flow);
  const instructions = withLateConversions(program, flow, waits);
  const graph = dependencies(instructions, flow, waits);
  const lists = (): ReadyList => new ReadyList();
  const ready = {
    onnx: lists(),
    plain: lists(),
    kernel: lists(),
    product: lists(),
    either: lists(),
  };
  const release = (position: number): void => {
    const instruction = instructions[position];
    if (instruction !== undefined) ready[kindOf(instruction)].add(position);
  };
  graph.missing.forEach((count, position) => count === 0 && release(position));

  const done = new Set<number>();
  let frontier = 0;
  const take = (kind: PartitionKind): CpuInstruction | undefined => {
    const isOwn = !takesAny(kind) || ready[kind].first < ready.either.first;
    const list = isOwn ? ready[kind] : ready.either;
    const position = list.first;
    const instruction = instructions[position];
    if (instruction === undefined || position > frontier + WINDOW_INSTRUCTIONS) return undefined;
    list.takeFirst();
    done.add(position);
    while (done.has(frontier)) frontier++;
    for (const reader of graph.readers[position] ?? []) {
      const count = (graph.missing[reader] ?? 0) - 1;
      graph.missing[reader] = count;
      if (count === 0) release(reader);
    }
    return instruction;
  };

  const partitions: Partition[] = [];
  let kind = kindOfNext(null);
  while (frontier < instructions.length) {
    const taken: CpuInstruction[] = [];
    for (let instruction = take(kind); instruction !== undefined; instruction = take(kind))
      taken.push(instruction);
    if (taken.length > 0) partitions.push({ kind, instructions: taken });
    kind = kindOfNext(kind);
  }
  return partitions;

  /**
   * Returns the kind of the first instruction that is ready, of all kinds but `last`. An instruction of the kind
   * 'either' makes it a kernel if possible.
   */
  function kindOfNext(last: PartitionKind | null): PartitionKind {
    const others = (['kernel', 'onnx', 'plain', 'product'] as const).filter(
      (other) => other !== last,
    );
    const firstOf = (kind: PartitionKind): number =>
      Math.min(ready[kind].first, takesAny(kind) ? ready.either.first : Infinity);
    return others.reduce((best, other) => (firstOf(other) < firstOf(best) ? other : best));
  }
}

/**
 * For each position, the positions of the instructions that read its instruction, and how many instructions its
 * instruction waits for.
 */
function dependencies(
  instructions: readonly CpuInstruction[],
  flow: Dataflow,
  waits: ReadonlyMap<CpuInstruction, ReadonlySet<number>>,
): { readonly readers: readonly number[][]; readonly missing: number[] } {
  const positions = new Map(
    instructions.map((instruction, position) => [instruction.output, position]),
  );
  const readers: number[][] = instructions.map(() => []);
  const missing = instructions.map((instruction, position) => {
    const ids = waits.get(instruction) ?? flow.sources(instruction);
    const sources = [...ids].flatMap((id) => positions.get(id) ?? []);
    for (const source of sources) readers[source]?.push(position);
    return sources.length;
  });
  return { readers, missing };
}

/**
 * The instructions, with each conversion that waits directly in front of its product. Further ahead, it would wait for
 * instructions that may not overtake it.
 */
function withLateConversions(
  instructions: readonly CpuInstruction[],
  flow: Dataflow,
  waits: ReadonlyMap<CpuInstruction, ReadonlySet<number>>,
): readonly CpuInstruction[] {
  return instructions.flatMap((instruction) => {
    if (waits.has(instruction)) return [];
    const sources = [...flow.sources(instruction)].flatMap((id) => flow.producer(id) ?? []);
    return [...sources.filter((source) => waits.has(source)), instruction];
  });
}

/**
 * What conversions of inputs wait for. If only one product reads the converted input, the conversion waits for the
 * product's other operands. Otherwise nothing would hold it up, and it would run long before the product and take
 * memory all that time.
 */
function waitsOfConversions(
  instructions: readonly CpuInstruction[],
  flow: Dataflow,
): ReadonlyMap<CpuInstruction, ReadonlySet<number>> {
  const isConversion = (id: number): boolean => {
    const instruction = flow.producer(id);
    if (instruction?.op !== 'cast') return false;
    return [...flow.sources(instruction)].every((source) => flow.producer(source) === undefined);
  };
  const readers = new Map<number, CpuInstruction[]>();
  for (const instruction of instructions) {
    for (const id of flow.sources(instruction))
      readers.set(id, [...(readers.get(id) ?? []), instruction]);
  }
  const waits = new Map<CpuInstruction, ReadonlySet<number>>();
  for (const instruction of instructions) {
    const [reader, ...others] = readers.get(instruction.output) ?? [];
    if (reader?.op !== 'matmul' || others.length > 0 || !isConversion(instruction.output)) continue;
    waits.set(instruction, new Set([...flow.sources(reader)].filter((id) => !isConversion(id))));
  }
  return waits;
}
