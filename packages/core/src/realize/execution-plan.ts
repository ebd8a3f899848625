import type { Backend, Executable, Instruction, Program, SizedProgram } from '../spec/backend.ts';
import type { Shape } from '../spec/dtype.ts';
import { Sized, type SizeSymbol, whereUsual } from '../spec/sized.ts';
import type { Node, RowCount } from '../graph/node.ts';
import { opFacts } from '../graph/op-facts.ts';
import { sameShape } from '../shape.ts';
import { ShardwiseError } from '../spec/errors.ts';
import type { Subgraph } from './collect.ts';
import { type ComputeLimits, expand, type ExpandOptions } from './expand.ts';
import { mapMemory, type MemoryMap } from './memory-map.ts';
import { leafUsesOf, type LeafUses } from './leaf-uses.ts';
import type { PlanStep } from './plan-step.ts';
import { segment, type DraftStep } from './segment.ts';
import { type SizeRelations, sizesAt } from './size-relations.ts';
import { Sources } from './sources.ts';
import { sameData } from './plain-data.ts';
import {
  isCollective,
  isCompute,
  numberValues,
  type CollectiveValue,
  type Numbering,
  type TransferValue,
  type ValueGraph,
} from './values.ts';

/** How to run one structure of graph; made once, run at every step. */
export interface ExecutionPlan extends Numbering {
  readonly memory: MemoryMap;
  readonly steps: readonly PlanStep[];
  readonly leafUses: LeafUses;
  /** The shapes of the values of a graph with sizes that vary; null where none does: `graph` has them. */
  readonly shapes: Sized<readonly Shape[]> | null;
}

/** What a new plan is made for. */
export interface PlanRequest {
  /**
   * For each constant 1 where its number has changed between two runs, so that the plan takes it as an input,
   * else 0.
   */
  readonly varying: Uint8Array;
  /** Compiles a program, or finds it compiled. */
  readonly compile: (program: Program) => Promise<Executable>;
  /** What sizes vary, and how; null where they are those of the subgraph. */
  readonly sizing: Sizing | null;
}

/** How a plan is made for several sizes. */
export interface Sizing {
  readonly relations: SizeRelations;
  /** Numbers of rows that the run computes: their symbols come behind those of the relations. */
  readonly rowCounts: readonly RowCount[];
  /** Throws NotSizedError where the backend cannot. */
  readonly compile: (program: SizedProgram) => Promise<Executable>;
}

/** A program cannot be planned for several sizes: it takes a plan for each. */
export class NotSizedError extends Error {}

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

/** Throws PlanFailure where the backend refuses a program, and NotSizedError. */
export async function makePlan(
  subgraph: Subgraph,
  roots: readonly Node[],
  backend: Backend,
  { varying, compile, sizing }: PlanRequest,
): Promise<ExecutionPlan> {
  const numbered = (options: Pick<ExpandOptions, 'sizes' | 'rows'>): Numbering =>
    numberValues(expand(subgraph, roots, backend.limits, { varying, ...options }));
  const sized = sizing === null ? null : sizedNumbering(sizing, numbered);
  const numbering = sized?.most() ?? numbered({});
  const { graph } = numbering;
  const sources = new Sources(graph);
  const draft = segment(graph, sources, rowDependence(sizing, sized, sources));
  const { placed, arriving, late } = placeUpdates(graph, draft, sources);
  const lateValues = late.map(({ value }) => value);
  const kept: ValueGraph =
    lateValues.length === 0 ? graph : { ...graph, roots: [...graph.roots, ...lateValues] };
  const { alignment } = backend.limits;
  const { shapes, varies } = varyingShapes(sizing, sized);
  if (
    draft.some(({ kind, values }) => kind === 'start' && values.length > 1 && values.some(varies))
  ) {
    throw new NotSizedError('a message of several values has a size that varies');
  }
  const memory = mapMemory(kept, draft, { alignment, sources, arriving, varies });
  const steps: PlanStep[] = [];
  const marks = new Marks(graph.values.length);
  const compiled = async (parts: ProgramParts): Promise<Compiled> => {
    try {
      if (sizing === null || sized === null) {
        return { executable: await compile(programOf(graph, parts)), isSized: false };
      }
      const at = (sizes: readonly number[]): Program => programOf(sized.at(sizes).graph, parts);
      const symbols = symbolsOf(sizing);
      const program = Sized.of(symbols, at);
      if (program === undefined) throw new NotSizedError('a program has several structures');
      if (program.isFixed) return { executable: await compile(program.most()), isSized: false };
      const executable = await sizing.compile({ symbols, at: (sizes) => program.at(sizes) });
      return { executable, isSized: true };
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
      const symbol = (sizing?.relations.symbols.length ?? 0) + step.rowCount;
      const max = sizing?.rowCounts[step.rowCount]?.max ?? 0;
      steps.push({ kind: 'size', values: step.values, symbol, max });
    } else
      steps.push({
        kind: 'start',
        values: step.values,
        moved: movedBy(graph, step.values),
      });
  }
  for (const { target, value } of late) steps.push({ kind: 'copy', from: value, leaf: target });
  return {
    ...numbering,
    memory,
    steps,
    leafUses: leafUsesOf(graph, memory, steps),
    shapes,
  };
}

/** A number of rows that is not special. */
const usualRows = 8;

/** What varies: symbols of the relations, then numbers of rows. */
export function symbolsOf({
  relations,
  rowCounts,
}: Pick<Sizing, 'relations' | 'rowCounts'>): readonly SizeSymbol[] {
  // Nothing limits the numbers that such a symbol is tried with, and small ones are special.
  const rows = rowCounts.map(({ max }) => ({ max, seen: Math.max(max, usualRows), spacing: 1 }));
  return [...relations.symbols, ...rows];
}

function sizedNumbering(
  sizing: Sizing,
  numbered: (options: Required<Pick<ExpandOptions, 'sizes' | 'rows'>>) => Numbering,
): Sized<Numbering> {
  const { relations } = sizing;
  const known = relations.symbols.length;
  const symbols = symbolsOf(sizing);
  const at = (numbers: readonly number[]): Numbering =>
    numbered({ sizes: sizesAt(relations, numbers.slice(0, known)), rows: numbers.slice(known) });
  const sized = Sized.of(
    symbols,
    whereUsual(symbols, at, ({ graph }) => graph.values),
  );
  if (sized === undefined) throw new NotSizedError('a graph has several structures');
  return sized;
}

/** For each value the numbers of rows on which it, or what it reads, depends. */
function rowDependence(
  sizing: Sizing | null,
  sized: Sized<Numbering> | null,
  sources: Sources,
): (value: number) => readonly number[] {
  if (sizing === null || sized === null || sizing.rowCounts.length === 0) return () => [];
  const base = symbolsOf(sizing).map(({ seen }) => seen);
  const valuesAt = (sizes: readonly number[]): ValueGraph['values'] => sized.at(sizes).graph.values;
  const usual = valuesAt(base);
  const known = sizing.relations.symbols.length;
  const differing = sizing.rowCounts.map((_, index) => {
    const other = valuesAt(base.with(known + index, (base[known + index] ?? 0) + 1));
    return usual.map(({ shape, params }, id) => {
      const { [id]: same } = other;
      return !sameShape(shape, same?.shape ?? []) || !sameData(params, same?.params);
    });
  });
  return (value) =>
    [...differing.keys()].filter((index) =>
      [value, ...sources.of(value)].some((id) => differing[index]?.[id] === true),
    );
}

/** The shapes of the values, and which of them vary. */
function varyingShapes(
  sizing: Sizing | null,
  sized: Sized<Numbering> | null,
): Pick<ExecutionPlan, 'shapes'> & { readonly varies: (value: number) => boolean } {
  if (sizing === null || sized === null) return { shapes: null, varies: () => false };
  const symbols = symbolsOf(sizing);
  const shapesAt = (sizes: readonly number[]): readonly Shape[] =>
    sized.at(sizes).graph.values.map(({ shape }) => shape);
  const shapes = Sized.of(symbols, shapesAt);
  if (shapes === undefined) throw new NotSizedError('a graph has several structures');
  const smallest = shapes.at(symbols.map(() => 2));
  const varying = shapes.most().map((shape, id) => !sameShape(shape, smallest[id] ?? []));
  return { shapes, varies: (value) => varying[value] === true };
}

type Update = ValueGraph['updates'][number];

/**
 * An update happens in the segment that computes its value, or when the collective arrives whose
 * result it is, unless an old value is read later.
 */
function placeUpdates(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  sources: Sources,
): { placed: Map<number, Update[]>; arriving: Map<number, number>; late: Update[] } {
  const placed = new Map<number, Update[]>();
  const arriving = new Map<number, number>();
  const late: Update[] = [];
  /** By value, the step that makes it, and the last one that reads it; -1 where none does. */
  const madeIn = new Int32Array(graph.values.length).fill(-1);
  const lastReads = new Int32Array(graph.values.length).fill(-1);
  draft.forEach((step, index) => {
    if (step.kind === 'wait') return;
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
    if (result === undefined || !isCollective(result) || roots.has(value)) return false;
    if (values.length > 1 || updatesBy.get(value) !== 1) return false;
    // A collective may write where it reads only if it works in place.
    return opFacts[result.op].worksInPlace || !sources.of(value).includes(target);
  };
  for (const update of graph.updates) {
    const { target, value } = update;
    const index = madeIn[value] ?? -1;
    const step = draft[index];
    const isReadLater = (lastReads[target] ?? -1) > index;
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

/** What of a graph is a program. */
interface ProgramParts {
  readonly inputs: readonly number[];
  /** The values that it computes, and the cheap ones that they use, in ascending order. */
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

/** The values of a program that an error is about: one where the error names the instruction, else all. */
export function failedValues(members: readonly number[], error: unknown): readonly number[] {
  const instruction = ShardwiseError.isInstance(error) ? error.fields['instruction'] : undefined;
  const value = typeof instruction === 'number' ? members[instruction] : undefined;
  return value === undefined ? members : [value];
}

/** Which values a walk has come to: one array serves all steps of a plan, one after another. */
class Marks {
  readonly #walks: Uint32Array;
  #walk = 0;

  constructor(values: number) {
    this.#walks = new Uint32Array(values);
  }

  /** Begins a walk that has come to nothing yet. */
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

/** Values of a step and the cheap ones that they use, in order. */
function withCheapInputs(
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

/** What a program of these values and updates reads that it does not compute, in the order of its use. */
function inputsOf(
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

function programOf(
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

/** The place of the first number that is not smaller. */
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

/** The program of a graph without collectives: for tests of backends and for looking at what is compiled. */
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
