import type { Dataflow } from '../../program/dataflow.ts';
import type { Step } from '../../program/instruction.ts';
import type { Piece, PieceKind, StepKind } from '../../program/partition.ts';

/**
 * How many steps a step may overtake to join a piece. Without a limit, all steps that are ready would run at once, and
 * a program that recomputes activations to save memory would not save any.
 */
const windowSteps = 64;

/** Whether a piece of this kind takes steps of the kind 'either'. */
const takesAny = (kind: PieceKind): boolean => kind === 'kernel' || kind === 'onnx';

/** Positions of steps that can run. The first one in program order is taken first. */
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
 * Groups steps, which are in program order, into pieces. No piece has the kind of the one before. Only kernels and
 * sessions take steps of the kind 'either'.
 */
export function schedule(
  program: readonly Step[],
  flow: Dataflow,
  kindOf: (step: Step) => StepKind,
): Piece[] {
  const waits = waitsOfConversions(program, flow);
  const steps = withLateConversions(program, flow, waits);
  const graph = dependencies(steps, flow, waits);
  const lists = (): ReadyList => new ReadyList();
  const ready = {
    onnx: lists(),
    plain: lists(),
    kernel: lists(),
    product: lists(),
    either: lists(),
  };
  const release = (position: number): void => {
    const step = steps[position];
    if (step !== undefined) ready[kindOf(step)].add(position);
  };
  graph.missing.forEach((count, position) => count === 0 && release(position));

  const done = new Set<number>();
  let frontier = 0;
  const take = (kind: PieceKind): Step | undefined => {
    const isOwn = !takesAny(kind) || ready[kind].first < ready.either.first;
    const list = isOwn ? ready[kind] : ready.either;
    const position = list.first;
    const step = steps[position];
    if (step === undefined || position > frontier + windowSteps) return undefined;
    list.takeFirst();
    done.add(position);
    while (done.has(frontier)) frontier++;
    for (const reader of graph.readers[position] ?? []) {
      const count = (graph.missing[reader] ?? 0) - 1;
      graph.missing[reader] = count;
      if (count === 0) release(reader);
    }
    return step;
  };

  const pieces: Piece[] = [];
  let kind = kindOfNext(null);
  while (frontier < steps.length) {
    const taken: Step[] = [];
    for (let step = take(kind); step !== undefined; step = take(kind)) taken.push(step);
    if (taken.length > 0) pieces.push({ kind, steps: taken });
    kind = kindOfNext(kind);
  }
  return pieces;

  /**
   * Returns the kind of the first step that is ready, of all kinds but `last`. A step of the kind 'either' makes it a
   * kernel if possible.
   */
  function kindOfNext(last: PieceKind | null): PieceKind {
    const others = (['kernel', 'onnx', 'plain', 'product'] as const).filter(
      (other) => other !== last,
    );
    const firstOf = (kind: PieceKind): number =>
      Math.min(ready[kind].first, takesAny(kind) ? ready.either.first : Infinity);
    return others.reduce((best, other) => (firstOf(other) < firstOf(best) ? other : best));
  }
}

/** For each position, the positions of the steps that read its step, and how many steps its step waits for. */
function dependencies(
  steps: readonly Step[],
  flow: Dataflow,
  waits: ReadonlyMap<Step, ReadonlySet<number>>,
): { readonly readers: readonly number[][]; readonly missing: number[] } {
  const positions = new Map(steps.map((step, position) => [step.output, position]));
  const readers: number[][] = steps.map(() => []);
  const missing = steps.map((step, position) => {
    const ids = waits.get(step) ?? flow.sources(step);
    const sources = [...ids].flatMap((id) => positions.get(id) ?? []);
    for (const source of sources) readers[source]?.push(position);
    return sources.length;
  });
  return { readers, missing };
}

/**
 * The steps, with each conversion that waits directly in front of its product. Further ahead, it would wait for steps
 * that may not overtake it.
 */
function withLateConversions(
  steps: readonly Step[],
  flow: Dataflow,
  waits: ReadonlyMap<Step, ReadonlySet<number>>,
): readonly Step[] {
  return steps.flatMap((step) => {
    if (waits.has(step)) return [];
    const sources = [...flow.sources(step)].flatMap((id) => flow.producer(id) ?? []);
    return [...sources.filter((source) => waits.has(source)), step];
  });
}

/**
 * What conversions of inputs wait for. If only one product reads the converted input, the conversion waits for the
 * product's other operands. Otherwise nothing would hold it up, and it would run long before the product and take
 * memory all that time.
 */
function waitsOfConversions(
  steps: readonly Step[],
  flow: Dataflow,
): ReadonlyMap<Step, ReadonlySet<number>> {
  const isConversion = (id: number): boolean => {
    const step = flow.producer(id);
    if (step?.op !== 'cast') return false;
    return [...flow.sources(step)].every((source) => flow.producer(source) === undefined);
  };
  const readers = new Map<number, Step[]>();
  for (const step of steps) {
    for (const id of flow.sources(step)) readers.set(id, [...(readers.get(id) ?? []), step]);
  }
  const waits = new Map<Step, ReadonlySet<number>>();
  for (const step of steps) {
    const [reader, ...others] = readers.get(step.output) ?? [];
    if (reader?.op !== 'matmul' || others.length > 0 || !isConversion(step.output)) continue;
    waits.set(step, new Set([...flow.sources(reader)].filter((id) => !isConversion(id))));
  }
  return waits;
}
