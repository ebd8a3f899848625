import {
  allGather,
  allReduce,
  allToAll,
  broadcast,
  concat,
  fromData,
  LayoutError,
  localChunk,
  reduce,
  reduceScatter,
  reinterpret,
  sendRecv,
  type Tensor,
} from '@shardwise/core';
import { declareAxisTypes, withoutValues } from '@shardwise/core/extend';
import type { AxisType } from '@shardwise/core/spec';

/**
 * The shape of every value in a program. A collective that changes the shape is followed by an operation that restores
 * it.
 */
export const shape = [4, 4] as const;

const axis = 'dp';

/** An input of a program. It has a type and may be trained. */
export interface Leaf {
  readonly type: AxisType;
  readonly trains: boolean;
}

export interface Step {
  readonly op: keyof typeof operations;
  /** The numbers of the values that the step reads. The leaves come first. */
  readonly reads: readonly [number, number];
}

export interface Program {
  readonly leaves: readonly Leaf[];
  readonly steps: readonly Step[];
}

type Operation = (x: Tensor, y: Tensor) => Tensor;

/** Makes a whole from a half and its negative. */
const again = (half: Tensor): Tensor => concat([half, half.neg()], 0);

export const local = {
  negate: (x) => x.neg(),
  halve: (x) => x.mul(0.5),
  'add a number': (x) => x.add(0.25),
  sine: (x) => x.sin(),
  tanh: (x) => x.tanh(),
  softmax: (x) => x.softmax(1),
  'sum and repeat': (x) => x.sum(0, { keepDim: true }).expand(shape),
  transpose: (x) => x.transpose(0, 1),
  'upper half': (x) => again(x.slice(0, 0, 2)),
  add: (x, y) => x.add(y),
  subtract: (x, y) => x.sub(y),
  multiply: (x, y) => x.mul(y),
  matmul: (x, y) => x.matmul(y).mul(0.5),
  divide: (x, y) => x.div(y.mul(y).add(1)),
  'rows of both': (x, y) => concat([x.slice(0, 0, 2), y.slice(0, 2, 4)], 0),
  'where less': (x, y) => x.lt(y).where(x, y),
  'where less, or zero': (x, y) => x.lt(0.1).where(y, 0),
} as const satisfies Readonly<Record<string, Operation>>;

export const collectives = {
  'all-reduce to replicate': (x) => allReduce(x, axis),
  'all-reduce to invariant': (x) => allReduce(x, axis, { to: 'invariant' }),
  'all-reduce mean to replicate': (x) => allReduce(x, axis, { reduce: 'avg' }),
  'all-reduce mean to invariant': (x) => allReduce(x, axis, { reduce: 'avg', to: 'invariant' }),
  'all-gather to replicate': (x) => allGather(x, axis, 0).slice(0, 2, 6),
  'all-gather to invariant': (x) => allGather(x, axis, 1, 'invariant').slice(1, 2, 6),
  'reduce-scatter': (x) => again(reduceScatter(x, axis, 0)),
  'reduce-scatter mean': (x) => again(reduceScatter(x, axis, 0, 'avg')),
  'all-to-all': (x) => allToAll(x, axis, 0, 0),
  broadcast: (x) => broadcast(x, axis, 1),
  reduce: (x) => reduce(x, axis, 1),
  'send on': (x) => sendRecv(x, axis, [1, 0]),
  'send up': (x) => sendRecv(x, axis, [1, -1]),
  'own part': (x) => again(localChunk(x, axis, 0)),
  'invariant to replicate': (x) => reinterpret(x, axis, 'invariant', 'replicate'),
  'replicate to varying': (x) => reinterpret(x, axis, 'replicate', 'varying'),
  'replicate to partial': (x) => reinterpret(x, axis, 'replicate', 'partial'),
  'varying to partial': (x) => reinterpret(x, axis, 'varying', 'partial'),
} as const satisfies Readonly<Record<string, Operation>>;

const operations = { ...local, ...collectives };

const localNames = namesOf(local);
export const collectiveNames = namesOf(collectives);

function namesOf<T extends object>(table: T): (keyof T)[] {
  const has = (name: string): name is keyof T & string => name in table;
  return Object.keys(table).filter(has);
}

/** Returns a number from 0 below `limit`. It is the same on all ranks. */
export type Draw = (limit: number) => number;

export function drawing(seed: number): Draw {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return Math.floor(((state >>> 0) / 2 ** 32) * limit);
  };
}

function pick<T>(draw: Draw, list: readonly T[]): T {
  const { [draw(list.length)]: picked } = list;
  if (picked === undefined) throw new RangeError('nothing to pick from');
  return picked;
}

const types = ['replicate', 'invariant', 'varying', 'partial'] as const satisfies AxisType[];

/** Returns the results of all steps, or null if a step is refused. */
export function build({ steps }: Program, leaves: readonly Tensor[]): readonly Tensor[] | null {
  const values = [...leaves];
  for (const step of steps) {
    const result = tryStep(step, values);
    if (result === null) return null;
    values.push(result);
  }
  return values;
}

export function runStep({ op, reads }: Step, values: readonly Tensor[]): Tensor {
  const [x, y] = reads.map((number) => values[number]);
  if (x === undefined || y === undefined) throw new RangeError('a step reads earlier values');
  return operations[op](x, y);
}

function tryStep(step: Step, values: readonly Tensor[]): Tensor | null {
  try {
    return withoutValues(() => runStep(step, values));
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

/** Makes a leaf. `declares` says whether its type is declared. */
export function makeLeaf(data: Float64Array, { type, trains }: Leaf, declares: boolean): Tensor {
  const leaf = fromData(data, shape, 'f64').requiresGrad_(trains);
  return declares ? declareAxisTypes(leaf, { [axis]: type }) : leaf;
}

/**
 * Draws random steps. Steps that are refused are left out and reported to `refused`. Later values are read more often.
 */
export function randomProgram(
  draw: Draw,
  declares: boolean,
  refused: (op: Step['op']) => void,
): Program {
  const leaves = Array.from({ length: 5 }, () => ({
    type: pick(draw, types),
    trains: draw(4) > 0,
  }));
  const values = leaves.map((leaf) => makeLeaf(new Float64Array(16), leaf, declares));
  const steps: Step[] = [];
  for (let tries = 0; tries < 24; tries++) {
    const op = draw(5) < 3 ? pick(draw, localNames) : pick(draw, collectiveNames);
    const recent = (): number =>
      values.length - 1 - Math.min(draw(values.length), draw(values.length));
    const step = { op, reads: [recent(), recent()] } as const;
    const result = tryStep(step, values);
    if (result === null) {
      refused(op);
      continue;
    }
    steps.push(step);
    values.push(result);
  }
  return { leaves, steps };
}

/** Returns the program with one collective left out or replaced. Returns null if it has no collective. */
export function mutated({ leaves, steps }: Program, draw: Draw): Program | null {
  const places = steps.flatMap(({ op }, index) => (op in collectives ? [index] : []));
  if (places.length === 0) return null;
  const place = pick(draw, places);
  const old = steps[place];
  if (old === undefined) return null;
  // 'halve' stands for a collective that was left out. It is an elementwise step, so the value keeps the type of its
  // operand.
  const op = draw(2) === 0 ? 'halve' : pick(draw, collectiveNames);
  return { leaves, steps: steps.with(place, { ...old, op }) };
}
