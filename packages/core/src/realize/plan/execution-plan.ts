import type { Backend, Executable, Instruction, Program } from '../../spec/backend.ts';
import type { Node } from '../../graph/node.ts';
import { ops } from '../../graph/ops/ops.ts';
import type { Subgraph } from '../collect/collect.ts';
import { type ComputeLimits, expand } from '../values/expand.ts';
import type { ConcatOptions, takeConcats } from '../segments/concats-in-place.ts';
import { mapMemory, type MemoryMap } from '../segments/memory-map.ts';
import { failedValues } from './failed-values.ts';
import { leafUsesOf, type LeafUses } from './leaf-uses.ts';
import type { PlanStep, Starter } from '../steps/plan-step.ts';
import type { MappedGraph } from '../steps/run-memory.ts';
import { segment, type DraftStep } from '../segments/segment.ts';
import { NotSizedError } from './not-sized-error.ts';
import type { NumberedAt, SizedGraph } from './sized-graph.ts';
import { Sources } from '../segments/sources.ts';
import {
  byteLengthOf,
  isCollective,
  isCompute,
  numberValues,
  type CollectiveValue,
  type Numbering,
  type TransferValue,
  type ValueGraph,
} from '../values/values.ts';

/** How to run one structure of graph. It is made once and runs in every step. */
export interface ExecutionPlan extends MappedGraph {
  readonly steps: readonly PlanStep[];
  readonly leafUses: LeafUses;
}

/** What makePlan needs besides the subgraph, its roots and the backend. */
export interface PlanRequest {
  /**
   * For each constant, 1 if its number has changed between two runs, so that the plan takes it as an input,
   * else 0.
   */
  readonly varying: Uint8Array;
  /** Compiles a program, or returns an executable of an equal program. */
  readonly compile: (program: Program) => Promise<Executable>;
  /** Makes the graph for all sizes. Null if the plan is only for the sizes of the subgraph. Throws NotSizedError. */
  readonly sizedGraph: ((numbered: NumberedAt) => SizedGraph) | null;
}

/** A program cannot be compiled. */
export class PlanFailure extends Error {
  readonly numbering: Numbering;
  /** The values of the program that the cause is about. */
  readonly values: readonly number[];

  constructor(numbering: Numbering, values: readonly number[], cause: unknown) {
    super('a program of a plan cannot be compiled', { cause });
    this.numbering = numbering;
    this.values = values;
  }
}

/** Throws PlanFailure if the backend refuses a program, and NotSizedError if no plan for several sizes can be made. */
export async function makePlan(
  subgraph: Subgraph,
  roots: readonly Node[],
  backend: Backend,
  { varying, compile, sizedGraph }: PlanRequest,
): Promise<ExecutionPlan> {
  const numbered = (options: Partial<Parameters<NumberedAt>[0]>): Numbering =>
    numberValues(expand(subgraph, roots, backend.limits, { varying, ...options }));
  const sized = sizedGraph?.(numbered) ?? null;
  const numbering = sized?.largest ?? numbered({});
  const { graph } = numbering;
  const sources = new Sources(graph);
  const { alignment, bufferBytes } = backend.limits;
  const varies = (value: number): boolean => sized?.varies(value) ?? false;
  const segments = segment(graph, sources, sized?.rowDependence(sources) ?? (() => []));
  const options = { alignment, sources, varies, isCompute, byteLengthOf };
  const { draft, concats } = await withoutConcats(graph, segments, options);
  const { placed, arriving, late } = placeUpdates(graph, draft, sources);
  const lateValues = late.map(({ value }) => value);
  const kept: ValueGraph =
    lateValues.length === 0 ? graph : { ...graph, roots: [...graph.roots, ...lateValues] };
  if (
    draft.some(({ kind, values }) => kind === 'start' && values.length > 1 && values.some(varies))
  ) {
    throw new NotSizedError('a message of several values has a size that varies');
  }
  const memory = mapMemory(kept, draft, {
    alignment,
    bufferBytes,
    sources,
    arriving,
    varies,
    concats,
  });
  const steps: PlanStep[] = [];
  const marks = new Marks(graph.values.length);
  const compiled = async (parts: ProgramParts): Promise<Compiled> => {
    try {
      const executable = await sized?.compile((each) => programOf(each, parts));
      if (executable !== undefined) return { executable, isSized: true };
      return { executable: await compile(programOf(graph, parts)), isSized: false };
    } catch (error) {
      if (error instanceof NotSizedError) throw error;
      throw new PlanFailure(numbering, failedValues(parts.members, error), error);
    }
  };
  for (const [index, step] of draft.entries()) {
    if (step.kind === 'compute') {
      const members = withCheapInputs(graph, step.values, sources, marks);
      const updates = placed.get(index) ?? [];
      const inputs = inputsOf(graph, members, updates, marks);
      const parts = { inputs, members, updates, compile: compiled };
      steps.push(await computeStep(memory, step, parts));
    } else if (step.kind === 'wait') steps.push(step);
    else if (step.kind === 'size') {
      const { symbol = 0, max = 0 } = sized?.symbolOf(step.rowCount) ?? {};
      steps.push({ kind: 'size', values: step.values, symbol, max });
    } else {
      const { values } = step;
      const moved = movedBy(graph, values);
      steps.push({ kind: 'start', values, moved, start: await starterOf(values, moved) });
    }
  }
  for (const { target, value } of late) steps.push({ kind: 'copy', from: value, leaf: target });
  return {
    ...numbering,
    memory,
    steps,
    leafUses: leafUsesOf(graph, memory, steps),
    shapes: sized?.shapes ?? null,
  };
}

/** Takes concatenations out of a draft of several steps. The code is loaded only for a program that has some. */
async function withoutConcats(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  options: ConcatOptions,
): Promise<ReturnType<typeof takeConcats>> {
  const isAlone = draft.length < 2 || !graph.values.some(({ op }) => op === 'concat');
  if (isAlone) return { draft, concats: new Map() };
  return (await import('../segments/concats-in-place.ts')).takeConcats(graph, draft, options);
}

type Update = ValueGraph['updates'][number];

/**
 * Decides where updates happen: in the segment that computes the new value (`placed`), or when the result of a
 * collective or the contents from a source arrive (`arriving`). If the old value is read later, the update is `late`:
 * it is a copy after all other steps. A collective reads its inputs until it has been waited for.
 */
function placeUpdates(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  sources: Sources,
): { placed: Map<number, Update[]>; arriving: Map<number, number>; late: Update[] } {
  const placed = new Map<number, Update[]>();
  const arriving = new Map<number, number>();
  const late: Update[] = [];
  /** By value, the step that makes it and the last step that reads it. -1 if there is none. */
  const madeIn = new Int32Array(graph.values.length).fill(-1);
  const lastReads = new Int32Array(graph.values.length).fill(-1);
  const waits: { readonly id: number; readonly input: number; readonly index: number }[] = [];
  draft.forEach((step, index) => {
    if (step.kind === 'wait') {
      for (const id of step.values)
        for (const input of graph.values[id]?.inputs ?? []) waits.push({ id, input, index });
      return;
    }
    if (step.kind === 'size') {
      for (const id of step.values) lastReads[id] = index;
      return;
    }
    for (const id of step.values) {
      madeIn[id] = index;
      for (const source of sources.of(id)) lastReads[source] = index;
    }
  });
  const roots = new Set(graph.roots);
  const updatesBy = new Map<number, number>();
  for (const { value } of graph.updates) updatesBy.set(value, (updatesBy.get(value) ?? 0) + 1);
  const mayArriveIn = ({ target, value }: Update, { values }: DraftStep): boolean => {
    const result = graph.values[value];
    if (result === undefined || roots.has(value) || updatesBy.get(value) !== 1) return false;
    // The values of one message lie side by side, so only a message of one value can arrive in a leaf.
    const arrivesAlone = isCollective(result) ? values.length === 1 : result.op === 'refresh';
    if (!arrivesAlone) return false;
    // A collective may write where it reads only if it works in place.
    return ops[result.op].worksInPlace || !sources.of(value).includes(target);
  };
  for (const update of graph.updates) {
    const { target, value } = update;
    const index = madeIn[value] ?? -1;
    const step = draft[index];
    const isReadLater =
      (lastReads[target] ?? -1) > index ||
      waits.some((wait) => wait.input === target && wait.id !== value && wait.index > index);
    if (step?.kind === 'compute' && !isReadLater) {
      const here = placed.get(index) ?? [];
      here.push(update);
      placed.set(index, here);
    } else if (step?.kind === 'start' && !isReadLater && mayArriveIn(update, step)) {
      arriving.set(value, target);
    } else late.push(update);
  }
  return { placed, arriving, late };
}

interface StepParts extends Omit<ProgramParts, 'outputs'> {
  readonly compile: (parts: ProgramParts) => Promise<Compiled>;
}

type Compiled = Pick<Extract<PlanStep, { kind: 'compute' }>, 'executable' | 'isSized'>;

/** The parts of a graph that make up a program. */
interface ProgramParts {
  readonly inputs: readonly number[];
  /** The values that the program computes, and the cheap values that they use, in ascending order. */
  readonly members: readonly number[];
  readonly outputs: readonly number[];
  readonly updates: readonly Update[];
}

async function computeStep(
  memory: MemoryMap,
  step: DraftStep,
  { inputs, members, updates, compile }: StepParts,
): Promise<PlanStep> {
  const outputs = step.values.filter((id) => memory.places[id] !== undefined);
  return {
    kind: 'compute',
    name: `${members.length} ops`,
    ...(await compile({ inputs, members, outputs, updates })),
    values: members,
    inputs,
    outputs,
    updates: updates.length > 0,
  };
}

/** The values that a walk has visited. One array serves the walks of all steps of a plan, one after another. */
export class Marks {
  readonly #walks: Uint32Array;
  #walk = 0;

  constructor(values: number) {
    this.#walks = new Uint32Array(values);
  }

  /** Begins a new walk, which has visited nothing yet. */
  clear(): void {
    this.#walk++;
  }

  /** Marks a value, and says whether it was not marked before. */
  add(id: number): boolean {
    const isNew = this.#walks[id] !== this.#walk;
    this.#walks[id] = this.#walk;
    return isNew;
  }
}

/** The values of a step and the cheap values that they use, in ascending order. */
export function withCheapInputs(
  graph: ValueGraph,
  values: readonly number[],
  sources: Sources,
  marks: Marks,
): number[] {
  const members = [...values];
  marks.clear();
  for (const id of values) marks.add(id);
  for (let next = 0; next < members.length; next++) {
    for (const input of graph.values[members[next] ?? -1]?.inputs ?? []) {
      if (sources.isCheap(input) && marks.add(input)) members.push(input);
    }
  }
  return members.sort((a, b) => a - b);
}

/** The values that a program of these members and updates reads but does not compute, in the order of their use. */
export function inputsOf(
  graph: ValueGraph,
  members: readonly number[],
  updates: readonly Update[],
  marks: Marks,
): number[] {
  const inputs: number[] = [];
  marks.clear();
  for (const id of members) marks.add(id);
  for (const id of members) {
    for (const input of graph.values[id]?.inputs ?? []) if (marks.add(input)) inputs.push(input);
  }
  for (const { target } of updates) if (marks.add(target)) inputs.push(target);
  return inputs;
}

export function programOf(
  graph: ValueGraph,
  { inputs, members, outputs, updates }: ProgramParts,
): Program {
  const inputNumbers = new Map(inputs.map((id, index) => [id, index]));
  const numberOf = (id: number): number => {
    const number = inputNumbers.get(id);
    if (number !== undefined) return number;
    const member = placeInSorted(members, id);
    if (members[member] !== id) throw new RangeError(`value ${id} is not in the segment`);
    return inputs.length + member;
  };
  return {
    inputs: inputs.map((id) => {
      const value = graph.values[id];
      if (value === undefined) throw new RangeError(`no value ${id}`);
      return { shape: value.shape, dtype: value.dtype };
    }),
    instructions: members.map((id): Instruction => {
      const value = graph.values[id];
      if (value === undefined || !isCompute(value))
        throw new RangeError(`value ${id} does not compute`);
      return { ...value, inputs: value.inputs.map(numberOf) };
    }),
    outputs: outputs.map(numberOf),
    updates: updates.map(({ target, value }) => ({
      target: numberOf(target),
      value: numberOf(value),
    })),
  };
}

/** The index of the first of the sorted numbers that is not smaller than `number`. */
function placeInSorted(numbers: readonly number[], number: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] ?? 0) < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

function movedBy(graph: ValueGraph, values: readonly number[]): CollectiveValue | TransferValue {
  const value = graph.values[values[0] ?? -1];
  if (value === undefined || value.op === 'input' || isCompute(value))
    throw new RangeError('a collective or a transfer is expected');
  return value;
}

/**
 * Loads the code that starts a collective or a transfer. It is loaded on demand because programs of one rank have no
 * collectives, and most programs have no transfers.
 */
async function starterOf(
  values: readonly number[],
  moved: CollectiveValue | TransferValue,
): Promise<Starter> {
  if (isCollective(moved)) {
    const { startCollective } = await import('../steps/start-collective.ts');
    return (run, start) => startCollective(run, values, moved, start);
  }
  const { startTransfer } = await import('../steps/start-transfer.ts');
  return (run, start) => startTransfer(run, values, moved, start);
}

/** The program of a graph without collectives. It is for tests of backends and for inspecting what is compiled. */
export function programFor(
  subgraph: Subgraph,
  roots: readonly Node[],
  limits: ComputeLimits,
): Program {
  const { graph } = numberValues(expand(subgraph, roots, limits));
  const inputs = graph.values.slice(0, graph.leafCount).map((_, id) => id);
  const members = graph.values.map((_, id) => id).slice(graph.leafCount);
  const outputs = [...new Set(graph.roots)];
  const { updates } = graph;
  return programOf(graph, { inputs, members, outputs, updates });
}
