import type {
  GraphPlace,
  GraphPlaces,
  Module,
  Node,
  Phase,
  PlanListener,
  ProgramPart,
} from '@shardwise/core/extend';
import type { ProfileRow, ProfileWait, Roofline } from '../run-state/rank-profile.ts';

/** Parts that take less than this are mostly the cost of starting them. */
const TINY_MS = 0.01;
/** The most rows of a profile. What takes least goes into one row. */
const MAX_ROWS = 2000;

type Amounts = { -readonly [K in keyof Omit<ProfileRow, 'module' | 'op' | 'phase'>]: number };

interface Row extends Amounts {
  readonly module: Module | undefined;
  readonly op: string;
  readonly phase: Phase;
}

interface Wait {
  readonly module: Module | undefined;
  readonly op: string;
  readonly phase: Phase;
  count: number;
  ms: number;
  bytes: number;
}

/** The places of the nodes of a run, and their rows. */
interface RunRows {
  readonly places: readonly GraphPlace[];
  readonly rows: (Row | undefined)[];
}

/** Adds up what the device of a rank does, by operation, module and phase. */
export class WorkRows implements PlanListener {
  readonly #places: GraphPlaces;
  readonly #roofline: Roofline;
  readonly #rows = new Map<Module | undefined, Map<string, Row>>();
  readonly #waits: Wait[] = [];
  /** The runs by their nodes, because a device may tell its time after the next run has begun. */
  readonly #runs = new WeakMap<readonly Node[], RunRows>();
  readonly totals = {
    computeMs: 0,
    productsMs: 0,
    betweenMs: 0,
    waitMs: 0,
    parts: 0,
    tinyParts: 0,
    tinyMs: 0,
  };

  constructor(places: GraphPlaces, roofline: Roofline) {
    this.#places = places;
    this.#roofline = roofline;
  }

  begin(nodes: readonly Node[]): void {
    const places = nodes.map((node) => this.#places.placeOf(node));
    this.#runs.set(nodes, { places, rows: nodes.map(() => undefined) });
  }

  computed(part: ProgramPart, nodes: readonly Node[], durationMs: number): void {
    const { totals } = this;
    totals.computeMs += durationMs;
    totals.parts += 1;
    if (part.flops > 0) totals.productsMs += durationMs;
    if (durationMs < TINY_MS) {
      totals.tinyParts += 1;
      totals.tinyMs += durationMs;
    }
    const { f32 = Infinity, half = Infinity, bytesPerSecond = Infinity } = this.#roofline;
    const peakMs = 1000 * ((part.flops - part.halfFlops) / f32 + part.halfFlops / half);
    const memoryMs = (1000 * part.bytes) / bytesPerSecond;
    // Operands that lie in a cache can be read faster than from memory.
    const roofMs = Math.min(Math.max(peakMs, memoryMs), durationMs);
    const run = this.#runs.get(nodes);
    if (run === undefined) return;
    for (const { node, share, flops, isFirst } of part.shares) {
      const row = (run.rows[node] ??= this.#rowOf(run.places[node] ?? nowhere, nodes[node]));
      if (isFirst) row.count += 1;
      row.ms += share * durationMs;
      row.flops += flops;
      row.bytes += share * part.bytes;
      row.peakMs += share * peakMs;
      row.memoryMs += share * memoryMs;
      row.roofMs += share * roofMs;
    }
  }

  between(durationMs: number): void {
    this.totals.betweenMs += durationMs;
  }

  waited(node: Node | undefined, byteLength: number, durationMs: number): void {
    this.totals.waitMs += durationMs;
    const { modules, phase } = node === undefined ? nowhere : this.#places.placeOf(node);
    const module = modules.at(-1);
    const op = node?.op ?? 'transfer';
    let wait = this.#waits.find(
      (each) => each.op === op && each.phase === phase && each.module === module,
    );
    if (wait === undefined)
      this.#waits.push((wait = { module, phase, op, count: 0, ms: 0, bytes: 0 }));
    wait.count += 1;
    wait.ms += durationMs;
    wait.bytes += byteLength;
  }

  /** The rows, those with most time first. `pathOf` names modules. */
  rows(pathOf: (module: Module) => string): readonly ProfileRow[] {
    const all = [...this.#rows.values()]
      .flatMap((rows) => [...rows.values()])
      .toSorted((a, b) => b.ms - a.ms)
      .map((row): ProfileRow => ({
        ...row,
        module: row.module === undefined ? '' : pathOf(row.module),
      }));
    const rest = all.slice(MAX_ROWS);
    const [first] = rest;
    if (first === undefined) return all;
    const others = rest.slice(1).reduce(addRows, { ...first, module: '', op: 'others' });
    return [...all.slice(0, MAX_ROWS), others];
  }

  waits(pathOf: (module: Module) => string): readonly ProfileWait[] {
    return this.#waits
      .map((wait) => ({ ...wait, module: wait.module === undefined ? '' : pathOf(wait.module) }))
      .toSorted((a, b) => b.ms - a.ms);
  }

  #rowOf({ modules, phase }: GraphPlace, node: Node | undefined): Row {
    const module = modules.at(-1);
    const op = node?.op ?? 'others';
    const rows = this.#rows.get(module) ?? new Map<string, Row>();
    this.#rows.set(module, rows);
    const key = `${phase} ${op}`;
    const row = rows.get(key) ?? { module, op, phase, ...nothing };
    rows.set(key, row);
    return row;
  }
}

const nowhere: GraphPlace = { modules: [], phase: 'forward' };

const nothing: Amounts = {
  count: 0,
  ms: 0,
  flops: 0,
  bytes: 0,
  peakMs: 0,
  memoryMs: 0,
  roofMs: 0,
};

/** Adds the amounts of `b` to the row `a`. */
function addRows(a: ProfileRow, b: ProfileRow): ProfileRow {
  return {
    ...a,
    count: a.count + b.count,
    ms: a.ms + b.ms,
    flops: a.flops + b.flops,
    bytes: a.bytes + b.bytes,
    peakMs: a.peakMs + b.peakMs,
    memoryMs: a.memoryMs + b.memoryMs,
    roofMs: a.roofMs + b.roofMs,
  };
}
