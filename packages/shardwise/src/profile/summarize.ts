import type { ProfileRow, ProfileWait, RankProfile, Roofline } from '../run-state/rank-profile.ts';

/** The kinds of time that make up a step, in the order in which they are shown. */
export const stepParts: readonly (readonly [StepPart, string])[] = [
  ['computeMs', 'kernels'],
  ['betweenMs', 'between kernels'],
  ['waitMs', 'waiting for ranks'],
  ['dataMs', 'data'],
  ['graphMs', 'graph'],
  ['compileMs', 'compiling'],
  ['hostMs', 'host'],
];

export type StepPart =
  | 'computeMs'
  | 'betweenMs'
  | 'waitMs'
  | 'dataMs'
  | 'graphMs'
  | 'compileMs'
  | 'hostMs';

/** What bounds an operation: products at the peak, the bandwidth of memory, or neither, if no peak is known. */
export type Limit = 'compute' | 'memory' | 'unknown';

/** One step of a profile: means over its steps and ranks. Its rows and waits have the amounts of one step, too. */
export interface ProfileSummary {
  readonly from: number;
  readonly to: number;
  readonly steps: number;
  /** The profiles of the ranks, by rank. */
  readonly ranks: readonly RankProfile[];
  readonly stepMs: number;
  readonly productsMs: number;
  readonly times: Readonly<Record<StepPart, number>>;
  readonly parts: number;
  readonly tinyParts: number;
  readonly rows: readonly ProfileRow[];
  readonly waits: readonly ProfileWait[];
  readonly roofline: Roofline;
  /** Model FLOPs utilization by the products of forward and backward passes. Undefined without a peak. */
  readonly mfu: number | undefined;
}

/** Summarizes the profiles of the ranks of the same steps. There must be one or more. */
export function summarizeProfile(profiles: readonly RankProfile[]): ProfileSummary {
  const ranks = profiles.toSorted((a, b) => a.rank - b.rank);
  const [first] = ranks;
  if (first === undefined) throw new RangeError('a profile of no rank');
  const count = ranks.reduce((sum, { steps }) => sum + steps, 0);
  const mean = (pick: (profile: RankProfile) => number): number =>
    ranks.reduce((sum, profile) => sum + pick(profile), 0) / count;
  const rows = joined(
    ranks.flatMap((profile) => profile.rows),
    ({ module, phase, op }) => `${module} ${phase} ${op}`,
    1 / count,
  );
  const waits = new Map<string, ProfileWait>();
  for (const wait of ranks.flatMap((profile) => profile.waits)) {
    const key = `${wait.module} ${wait.phase} ${wait.op}`;
    const { ms, bytes, count: times } = waits.get(key) ?? { ms: 0, bytes: 0, count: 0 };
    waits.set(key, {
      ...wait,
      ms: ms + wait.ms / count,
      bytes: bytes + wait.bytes / count,
      count: times + wait.count / count,
    });
  }
  const stepMs = mean((profile) => profile.stepMs);
  const isPeakKnown = first.roofline.f32 !== undefined;
  const ofModel = rows.filter(({ phase }) => phase !== 'recomputation');
  return {
    from: first.from,
    to: first.to,
    steps: first.steps,
    ranks,
    stepMs,
    productsMs: mean((profile) => profile.productsMs),
    times: {
      computeMs: mean((profile) => profile.computeMs),
      betweenMs: mean((profile) => profile.betweenMs),
      waitMs: mean((profile) => profile.waitMs),
      dataMs: mean((profile) => profile.dataMs),
      graphMs: mean((profile) => profile.graphMs),
      compileMs: mean((profile) => profile.compileMs),
      hostMs: mean((profile) => profile.hostMs),
    },
    parts: mean((profile) => profile.parts),
    tinyParts: mean((profile) => profile.tinyParts),
    rows,
    waits: [...waits.values()].toSorted((a, b) => b.ms - a.ms),
    roofline: first.roofline,
    mfu: isPeakKnown ? sumOf(ofModel, 'peakMs') / stepMs : undefined,
  };
}

/** `step 10`, or `steps 10 to 12`. */
export function stepsText({ from, to }: Pick<RankProfile, 'from' | 'to'>): string {
  return from === to ? `step ${from}` : `steps ${from} to ${to}`;
}

/** Adds up rows of equal keys, with a factor. Those with most time come first. */
function joined(
  rows: readonly ProfileRow[],
  keyOf: (row: ProfileRow) => string,
  factor = 1,
): readonly ProfileRow[] {
  return Array.from(Map.groupBy(rows, keyOf).values(), ([first, ...others]) => {
    if (first === undefined) throw new RangeError('a group without rows');
    const all = [first, ...others];
    const sum = (key: Amount): number => factor * sumOf(all, key);
    return {
      ...first,
      count: sum('count'),
      ms: sum('ms'),
      flops: sum('flops'),
      bytes: sum('bytes'),
      peakMs: sum('peakMs'),
      memoryMs: sum('memoryMs'),
      roofMs: sum('roofMs'),
    };
  }).toSorted((a, b) => b.ms - a.ms);
}

type Amount = 'count' | 'ms' | 'flops' | 'bytes' | 'peakMs' | 'memoryMs' | 'roofMs';

export function sumOf(rows: readonly ProfileRow[], key: Amount): number {
  return rows.reduce((sum, row) => sum + row[key], 0);
}

/** The rows of a profile by operation and phase, over all modules. */
export function operations(rows: readonly ProfileRow[]): readonly ProfileRow[] {
  const everywhere = rows.map((row) => ({ ...row, module: '' }));
  return joined(everywhere, ({ op, phase }) => `${op} ${phase}`).filter(({ ms }) => ms > 0);
}

/** What bounds a row at most. */
export function limitOf({ peakMs, memoryMs }: Pick<ProfileRow, 'peakMs' | 'memoryMs'>): Limit {
  if (peakMs === 0 && memoryMs === 0) return 'unknown';
  return peakMs > memoryMs ? 'compute' : 'memory';
}

/** A module with all that lies below it, or an operation in it. */
export interface ModuleNode {
  readonly name: string;
  /** The whole path. '' for the root. */
  readonly path: string;
  readonly ms: number;
  readonly rows: readonly ProfileRow[];
  readonly children: readonly ModuleNode[];
}

/** The name of what is done outside of modules. */
const outsideName = '(outside of modules)';

/** Returns the tree of the modules of rows. `ms` and `rows` of a module include those below it. */
export function moduleTree(rows: readonly ProfileRow[]): ModuleNode {
  return nodeAt('step', '', rows, 0);
}

function nodeAt(
  name: string,
  path: string,
  rows: readonly ProfileRow[],
  depth: number,
): ModuleNode {
  const segments = (row: ProfileRow): readonly string[] =>
    row.module === '' ? [outsideName] : row.module.split('.');
  const below = Map.groupBy(
    rows.filter((row) => segments(row).length > depth),
    (row) => segments(row)[depth] ?? '',
  );
  return {
    name,
    path,
    ms: sumOf(rows, 'ms'),
    rows,
    children: Array.from(below, ([child, own]) =>
      nodeAt(child, path === '' ? child : `${path}.${child}`, own, depth + 1),
    ).toSorted(inOrder),
  };
}

/** Layers of a list stand in their order, and others by their time. */
function inOrder(a: ModuleNode, b: ModuleNode): number {
  const [first, second] = [Number(a.name), Number(b.name)];
  return Number.isNaN(first) || Number.isNaN(second) ? b.ms - a.ms : first - second;
}

/** All nodes of a tree but its root, those with most time first. */
export function modulesOf(tree: ModuleNode): readonly ModuleNode[] {
  const all = (node: ModuleNode): readonly ModuleNode[] => [node, ...node.children.flatMap(all)];
  return tree.children.flatMap(all).toSorted((a, b) => b.ms - a.ms);
}
